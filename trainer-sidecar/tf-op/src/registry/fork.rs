//! Forks of the trainer, as torch makes them for the workers of a loader.
//!
//! *In:* the C library's word that a thread is about to fork. *Promise:* no other thread holds the table at that
//! moment. A child has but the thread that forked, so a table that another one held would be held for ever.
#![expect(unsafe_code, reason = "the C library tells of forks, and calls back")]

use std::cell::RefCell;
use std::sync::{MutexGuard, Once};

use super::{Table, lock};

thread_local! {
    /// Held from before a fork until after it, in either process, by the thread that forks.
    static HELD: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

/// Holds the table over every fork from now on.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the functions do not unwind, and the C library forgets them when this library is unloaded.
        let _out_of_memory = unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(release)) };
    });
}

extern "C" fn hold() {
    let _ending = HELD.try_with(|held| held.replace(Some(lock())));
}

extern "C" fn release() {
    let _ending = HELD.try_with(|held| held.replace(None));
}
