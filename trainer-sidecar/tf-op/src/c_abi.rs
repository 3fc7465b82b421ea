//! The plain C ABI, for Python's ctypes and for anybody without TensorFlow.
//!
//! *In:* C strings, numbers, places to write to. *Out:* 0, or a number of [`Kind`] with a text that
//! [`penstock_error`] returns in the same thread. *Promise:* no panic leaves; a pointer that was given
//! out is valid until the object it belongs to is freed. Functions and structs only grow: a changed
//! meaning changes [`penstock_abi_version`].
#![expect(unsafe_code, reason = "the callers are in C: strings and places come as pointers")]

mod border;

use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;
use std::time::Duration;

use penstock_ring::{Access, Batch, Consumer, MAX_DIMS};

use self::border::{Text, at, guarded, last_code, last_message, text};
use crate::failure::{Failure, Kind};
use crate::registry::TOTAL;
use crate::request::Request;
use crate::{ops, registry};

/// A batch handed out; free it with [`penstock_batch_free`].
#[repr(C)]
pub struct PenstockBatch {
    /// The batch, opaque.
    pub batch: *mut c_void,
    /// Its pass over the dataset.
    pub epoch: u64,
    /// Its step in the epoch.
    pub step: u64,
    /// Its rows.
    pub rows: u64,
    /// Its columns.
    pub columns: u64,
}

/// One column; the pointers are valid until the batch is freed.
#[repr(C)]
pub struct PenstockColumn {
    /// Type: 1 bool, 2–5 int8–int64, 6–9 uint8–uint64, 10 float16, 11 bfloat16, 12 float32,
    /// 13 float64, 14 string (UTF-8), 15 bytes.
    pub dtype: u32,
    /// How many of `dims` count.
    pub ndim: u32,
    /// Rows first.
    pub dims: [u64; MAX_DIMS],
    /// The elements, read-only.
    pub data: *const u8,
    /// Their bytes.
    pub bytes: u64,
    /// Elements + 1 offsets into `data` for string and bytes, else null.
    pub offsets: *const i64,
}

/// What this process has done and holds.
#[repr(C)]
pub struct PenstockStats {
    /// Feeds that are open.
    pub feeds: u64,
    /// Batches of theirs that are held.
    pub held: u64,
    /// Batches received so far.
    pub batches: u64,
    /// Tensors made over shared memory so far.
    pub shared: u64,
    /// Tensors of numbers that were copied so far.
    pub copied: u64,
}

/// Changes when a function or a struct changes its meaning.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_abi_version() -> u32 {
    1
}

/// The text of this thread's last failure, until its next call.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_error() -> *const c_char {
    last_message()
}

/// The sidecar's code of this thread's last failure, or an empty text.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_error_code() -> *const c_char {
    last_code()
}

/// Registers the TensorFlow ops if that has not happened.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_register_ops() -> i32 {
    guarded(ops::register)
}

/// Opens a feed at the sidecar of `socket` (a path or `env:NAME`), in milliseconds at most.
///
/// # Safety
/// C strings, and a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_open(
    socket: *const c_char,
    request: *const c_char,
    group: *const c_char,
    milliseconds: u64,
    handle: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let socket = unsafe { text(socket) }?;
        // SAFETY: the caller's promise.
        let request = unsafe { text(request) }?;
        // SAFETY: the caller's promise.
        let group = unsafe { text(group) }?;
        let request = Request::complete(request, socket, |name| std::env::var(name).ok())?;
        let opened = registry::open(&request, group, Access::Read, Duration::from_millis(milliseconds))?;
        // SAFETY: the caller's promise.
        *unsafe { at(handle) }? = opened;
        Ok(())
    })
}

/// Describes a feed without opening it; free the text with [`penstock_text_free`].
///
/// # Safety
/// C strings, and a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_describe(
    socket: *const c_char,
    request: *const c_char,
    milliseconds: u64,
    description: *mut *mut c_char,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let socket = unsafe { text(socket) }?;
        // SAFETY: the caller's promise.
        let request = unsafe { text(request) }?;
        let request = Request::complete(request, socket, |name| std::env::var(name).ok())?;
        let described =
            Consumer::describe(&request.socket, &request.json, Duration::from_millis(milliseconds))
                .map_err(|error| Failure::open(&request.name, &error))?;
        // SAFETY: the caller's promise.
        *unsafe { at(description) }? = Text::give(&described);
        Ok(())
    })
}

/// The description of an open feed; free the text with [`penstock_text_free`].
///
/// # Safety
/// A place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_description(handle: u64, description: *mut *mut c_char) -> i32 {
    guarded(|| {
        let feed = registry::get(handle)?;
        // SAFETY: the caller's promise.
        *unsafe { at(description) }? = Text::give(feed.consumer.description());
        Ok(())
    })
}

/// Frees a text that was given.
///
/// # Safety
/// A text of this library, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_text_free(given: *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe { Text::take_back(given) };
}

/// Waits up to `milliseconds` for the next batch.
///
/// # Safety
/// A place for a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_next(handle: u64, milliseconds: u64, out: *mut PenstockBatch) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { at(out) }?;
        let batch = Box::new(registry::get(handle)?.next(Duration::from_millis(milliseconds))?);
        let (epoch, step, rows, columns) =
            (batch.epoch(), batch.step(), batch.rows(), batch.columns() as u64);
        *out = PenstockBatch { batch: Box::into_raw(batch).cast(), epoch, step, rows, columns };
        Ok(())
    })
}

/// Slots of a feed's ring, and how many of them this process holds.
///
/// # Safety
/// Places for two numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_slots(handle: u64, slots: *mut u64, held: *mut u64) -> i32 {
    guarded(|| {
        let feed = registry::get(handle)?;
        // SAFETY: the caller's promise.
        *unsafe { at(slots) }? = feed.consumer.slots() as u64;
        // SAFETY: the caller's promise.
        *unsafe { at(held) }? = feed.consumer.held() as u64;
        Ok(())
    })
}

/// Column `i` of a batch.
///
/// # Safety
/// A batch that is not freed, and a place for a column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_column(batch: *mut c_void, i: u64, out: *mut PenstockColumn) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let batch = unsafe { batch.cast::<Batch>().as_ref() };
        let batch = batch.ok_or_else(|| Failure::new(Kind::Argument, "a pointer is null"))?;
        // SAFETY: the caller's promise.
        let out = unsafe { at(out) }?;
        if i >= batch.columns() as u64 {
            return Err(Failure::new(
                Kind::Argument,
                format!("the batch has {} columns, no column {i}", batch.columns()),
            ));
        }
        let view = batch.column(i as usize);
        let mut dims = [0; MAX_DIMS];
        dims[..view.dims.len()].copy_from_slice(view.dims);
        *out = PenstockColumn {
            dtype: view.dtype as u32,
            ndim: view.dims.len() as u32,
            dims,
            data: view.data.as_ptr(),
            bytes: view.data.len() as u64,
            offsets: view.offsets.map_or(std::ptr::null(), <[i64]>::as_ptr),
        };
        Ok(())
    })
}

/// Gives a batch back; its columns are gone with it.
///
/// # Safety
/// A batch of [`penstock_next`], once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_batch_free(batch: *mut c_void) -> i32 {
    guarded(|| {
        if !batch.is_null() {
            // SAFETY: made by `penstock_next`, freed once by the caller's promise.
            drop(unsafe { Box::from_raw(batch.cast::<Batch>()) });
        }
        Ok(())
    })
}

/// Tells the sidecar that the effect of this step is safe.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_acknowledge(handle: u64, epoch: u64, step: u64) -> i32 {
    guarded(|| registry::get(handle)?.acknowledge(epoch, step))
}

/// Ends every pending and later call of the feeds opened with this group.
///
/// # Safety
/// A C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_cancel(group: *const c_char) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        registry::cancel(unsafe { text(group) }?);
        Ok(())
    })
}

/// Closes a feed; a closed one may be closed again.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_close(handle: u64) -> i32 {
    guarded(|| {
        registry::close(handle);
        Ok(())
    })
}

/// Counts of this process.
///
/// # Safety
/// A place for the counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_stats(out: *mut PenstockStats) -> i32 {
    guarded(|| {
        let (feeds, held) = registry::open_feeds();
        // SAFETY: the caller's promise.
        *unsafe { at(out) }? = PenstockStats {
            feeds: feeds as u64,
            held: held as u64,
            batches: TOTAL.batches.load(Ordering::Relaxed),
            shared: TOTAL.shared.load(Ordering::Relaxed),
            copied: TOTAL.copied.load(Ordering::Relaxed),
        };
        Ok(())
    })
}

#[cfg(test)]
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "a test is one C caller, whose calls are one story")]
mod tests;
