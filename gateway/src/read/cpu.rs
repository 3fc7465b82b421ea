//! The CPU pool: where decoding, gathering and encoding run, so that the async threads only wait.
//!
//! In: a closure. Out: its result, awaited. The promise: a closure that panics is an error here and
//! nowhere else, for a corrupt file may drive a decoder to one. It knows nothing of what it runs.

use std::any::Any;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};

/// A thread a core, which sleep while there is nothing to do: a pool that spins before it sleeps takes the time from the
/// threads that bring its next job.
static POOL: LazyLock<Runtime> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, usize::from);
    let pool =
        Builder::new_current_thread().max_blocking_threads(threads).thread_name("penstock-cpu").build();
    pool.expect("a runtime without I/O asks for nothing of the system")
});

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
    POOL.spawn_blocking(job).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => Panicked::of(panic.as_ref()),
        Err(error) => Panicked(error.to_string()),
    })
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
