//! Work that would hold up a thread of the network's.

use penstock_proto::{Code, Error};

/// Does `work` on a thread for such.
///
/// # Errors
/// Those of the work, or that it panicked.
pub(crate) async fn on_cpu<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let span = tracing::Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(work)).await;
    done.map_err(|error| Error::chain(Code::Internal, &error))?
}
