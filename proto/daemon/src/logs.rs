//! Structured logs on standard error, so that standard output stays for what a script reads.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The log filter could not be read, or logging was set up before.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error(
        "the log filter \"{filter}\" is not readable: write e.g. \"info\" or \"penstock_gateway=debug,info\""
    )]
    Filter { filter: String, source: tracing_subscriber::filter::ParseError },
    #[error("logging is set up already")]
    Twice,
}

/// Sets up logging for the process. `filter` has the syntax of tracing's `EnvFilter`.
pub fn init(format: Format, filter: &str) -> Result<(), LogsError> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogsError::Filter { filter: filter.to_owned(), source })?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        Format::Text => logs.try_init(),
        Format::Json => logs.json().flatten_event(true).try_init(),
    }
    .map_err(|_| LogsError::Twice)
}
