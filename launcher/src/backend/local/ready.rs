//! What processes say once they are ready, found among the lines of their output.

/// A line that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A daemon serves at this address, `grpc://HOST:PORT` or `unix:PATH`.
    Listening(String),
    /// A daemon is not ready yet, and says how far it is.
    Reading(String),
    /// A daemon's metrics are below this URL.
    Admin(String),
    /// TensorBoard shows its page here.
    Board(String),
}

/// Which lines of a process are waited for.
pub(super) type Wanted = fn(&str) -> Option<Said>;

/// The ready lines of gateway and sidecar.
pub(super) fn of_daemon(line: &str) -> Option<Said> {
    if let Some(address) = line.strip_prefix("listening on ") {
        return Some(Said::Listening(address.trim().to_owned()));
    }
    if line.starts_with("reading ") {
        return Some(Said::Reading(line.trim().to_owned()));
    }
    line.strip_prefix("admin on ").map(|url| Said::Admin(url.trim().to_owned()))
}

/// `TensorBoard 2.21.0 at http://localhost:6006/ (Press CTRL+C to quit)`
pub(super) fn of_tensorboard(line: &str) -> Option<Said> {
    let (_, address) = line.strip_prefix("TensorBoard ")?.split_once(" at ")?;
    let url = address.split_whitespace().next()?;
    url.starts_with("http").then(|| Said::Board(url.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_lines_are_told_from_logs() {
        assert_eq!(
            of_daemon("listening on grpc://127.0.0.1:5005"),
            Some(Said::Listening("grpc://127.0.0.1:5005".into()))
        );
        assert_eq!(
            of_daemon("admin on http://127.0.0.1:80"),
            Some(Said::Admin("http://127.0.0.1:80".into()))
        );
        assert_eq!(
            of_daemon("reading train: 5 of 10 files"),
            Some(Said::Reading("reading train: 5 of 10 files".into()))
        );
        assert_eq!(of_daemon("2026-01-01 INFO listening on grpc://x"), None);
        assert_eq!(
            of_tensorboard("TensorBoard 2.20.0 at http://localhost:6006/ (Press CTRL+C to quit)"),
            Some(Said::Board("http://localhost:6006/".into()))
        );
        assert_eq!(of_tensorboard("Serving TensorBoard on localhost"), None);
    }
}
