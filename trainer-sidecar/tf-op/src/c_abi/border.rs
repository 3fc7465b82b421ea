//! Crossing to C and back: pointers checked for null, texts copied, panics and failures kept for
//! [`super::penstock_error`].

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::catch_unwind;

use crate::failure::{Failure, Kind};

thread_local! {
    static LAST: RefCell<(CString, CString)> = RefCell::default();
}

/// Runs a body, remembers how it failed, returns its number.
pub(super) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let failed = || Failure::new(Kind::Fault, "penstock failed inside; its message is on standard error");
    let outcome = catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|_| Err(failed()));
    let Err(failure) = outcome else { return 0 };
    LAST.with_borrow_mut(|last| *last = (c_string(&failure.message), c_string(&failure.code)));
    failure.kind as i32
}

pub(super) fn last_message() -> *const c_char {
    LAST.with_borrow(|(message, _)| message.as_ptr())
}

pub(super) fn last_code() -> *const c_char {
    LAST.with_borrow(|(_, code)| code.as_ptr())
}

/// A caller's text.
///
/// # Safety
/// Null or a C string that outlives the call.
pub(super) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::new(Kind::Argument, "a text is null"));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::new(Kind::Argument, "a text is not UTF-8"))
}

/// A caller's object or place to write to.
///
/// # Safety
/// Null, or valid and not used by anybody else during the call.
pub(super) unsafe fn at<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::new(Kind::Argument, "a pointer is null"))
}

/// A text given to the caller, who gives it back.
pub(super) struct Text;

impl Text {
    pub(super) fn give(text: &str) -> *mut c_char {
        c_string(text).into_raw()
    }

    /// # Safety
    /// Null, or from `give`, once.
    pub(super) unsafe fn take_back(given: *mut c_char) {
        if !given.is_null() {
            // SAFETY: the caller's promise.
            drop(unsafe { CString::from_raw(given) });
        }
    }
}

fn c_string(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    CString::new(bytes).expect("zeros were taken out")
}
