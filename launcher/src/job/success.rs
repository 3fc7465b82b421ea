//! When a job has succeeded.

/// Whose success is the job's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SuccessPolicy {
    /// All workers', and the chief's; the chief's alone where it coordinates the workers.
    #[default]
    AllWorkers,
    /// The chief's, or worker 0's where there is none.
    Chief,
}

impl SuccessPolicy {
    /// In any case; `AllWorkers` is TFJob's spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        match super::nearest::plain(name).as_str() {
            "allworkers" => Some(Self::AllWorkers),
            "chief" => Some(Self::Chief),
            _ => None,
        }
    }
}
