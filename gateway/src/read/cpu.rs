//! The CPU pool: where decoding, gathering and encoding run, so that the async threads only wait.
//!
//! In: a closure. Out: its result, awaited. The promise: a closure that panics is an error here and
//! nowhere else, for a corrupt file may drive a decoder to one. It knows nothing of what it runs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

/// A job fell over; the text is the panic's.
#[derive(Debug, thiserror::Error)]
#[error("a computation failed unexpectedly: {0}")]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    /// What a caught panic says.
    pub(crate) fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self(text.unwrap_or("no reason given").to_owned())
    }
}

/// Runs a job on the pool. If the caller stops waiting, the job still ends and its result is dropped.
pub(crate) async fn run<T, F>(job: F) -> Result<T, Panicked>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (done, result) = oneshot::channel();
    rayon::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(job)).map_err(|panic| Panicked::of(panic.as_ref()));
        // A caller that stopped waiting wants no result.
        let _unwanted = done.send(outcome);
    });
    result.await.unwrap_or_else(|_| Err(Panicked("the pool dropped the job".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_one_who_waits() {
        let error = run(|| -> u8 { panic!("page {} is odd", 7) }).await.unwrap_err();
        assert!(error.to_string().contains("page 7 is odd"));
        assert_eq!(run(|| 1).await.unwrap(), 1);
    }
}
