//! The flags by which scripts of TensorFlow 1 learn who they are.

/// A set of flags; they go behind the script's own arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArgStyle {
    #[default]
    None,
    /// `--job_name=worker --task_index=0 --ps_hosts=HOST:PORT,… --worker_hosts=HOST:PORT,…`
    Tf1,
    /// The same with dashes: `--job-name=worker …`.
    Tf1Dashes,
    /// `--job-name=worker --task-index=0 --ps-host=HOST --port=PORT --worker-host HOST …`: worker N listens on
    /// PORT + 1 + N.
    PsHost,
}

impl ArgStyle {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "none" => Self::None,
            "tf1" => Self::Tf1,
            "tf1-dashes" => Self::Tf1Dashes,
            "ps-host" => Self::PsHost,
            _ => return None,
        })
    }
}
