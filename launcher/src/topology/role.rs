//! What a task is to the others.
//!
//! In: names. Out: TensorFlow's own task types, TensorBoard, and whatever else a job calls its tasks. The promise: a
//! name fits into file names, variables and host names.

use std::fmt;

/// Longer than anybody's.
const NAME_BYTES: usize = 24;

/// TensorFlow's task types, TensorBoard, which watches, and the job's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Coordinates, or trains with the workers where there is no parameter server.
    Chief,
    /// Trains; worker 0 acts as chief where there is none.
    Worker,
    /// Keeps the model's variables for the workers.
    Ps,
    /// Evaluates checkpoints beside the workers.
    Evaluator,
    /// Serves the training in a way of its own, such as a dispatcher of `tf.data` service.
    Other(RoleName),
    /// Shows events; its end decides nothing.
    TensorBoard,
}

/// The name of a role that TensorFlow does not know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleName {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Role {
    /// Names that mean more than their task's variables.
    pub const KNOWN: [&str; 6] = ["chief", "master", "worker", "ps", "evaluator", "tensorboard"];

    /// The role of this name, `master` being what TensorFlow 1 called its chief. A name that is not known is a role of
    /// the job's own, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        Some(match lower.as_str() {
            "chief" | "master" => Self::Chief,
            "worker" => Self::Worker,
            "ps" => Self::Ps,
            "evaluator" => Self::Evaluator,
            "tensorboard" => Self::TensorBoard,
            other => Self::Other(RoleName::new(other)?),
        })
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Chief => "chief",
            Self::Worker => "worker",
            Self::Ps => "ps",
            Self::Evaluator => "evaluator",
            Self::TensorBoard => "tensorboard",
            Self::Other(name) => name.as_str(),
        }
    }

    /// An evaluator in the cluster spec makes the others wait for it at start, for ever.
    pub fn in_cluster(self) -> bool {
        matches!(self, Self::Chief | Self::Worker | Self::Ps)
    }

    /// Whether others may want to reach its tasks.
    pub fn has_address(self) -> bool {
        self.in_cluster() || matches!(self, Self::Other(_))
    }

    /// Whether TensorFlow knows tasks of this type.
    pub fn is_tensorflows(self) -> bool {
        self.in_cluster() || self == Self::Evaluator
    }

    /// Whether a failure of this role's tasks is the job's.
    pub fn is_tracked(self) -> bool {
        self != Self::TensorBoard
    }
}

impl RoleName {
    /// A lower-case letter first, then those, digits, `-` and `_`, 24 at most.
    pub fn new(name: &str) -> Option<Self> {
        let good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        let starts_well = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if !starts_well || name.len() > NAME_BYTES || !name.bytes().all(good) {
            return None;
        }
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Self { bytes, length: name.len() })
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("a role's name is made of ASCII")
    }
}

impl fmt::Debug for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_back() {
        for name in ["chief", "worker", "ps", "evaluator", "tensorboard", "data-worker_2"] {
            assert_eq!(Role::from_name(&name.to_uppercase()).unwrap().name(), name);
        }
        assert_eq!(Role::from_name("Master"), Some(Role::Chief));
        for bad in ["", "2nd", "-", "a b", "a/b", "ä", "a-name-of-twenty-five-byte"] {
            assert_eq!(Role::from_name(bad), None, "{bad}");
        }
    }
}
