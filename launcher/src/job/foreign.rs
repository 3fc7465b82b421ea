//! Jobs in the words of other systems.
//!
//! In: the text of a job file, or another launcher's command line. Out: a draft. The promise: pure; what has no meaning
//! here is named in a note, and what cannot be read is refused in one line.

use std::path::{Path, PathBuf};

use super::node::{self, Node};
use super::{Draft, JobError, file};

mod flags;
mod submarine;
mod tfjob;
mod tony;
mod xlearning;

/// Who else starts jobs by a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Tony,
    Submarine,
    XLearning,
}

impl Tool {
    pub const NAMES: [&str; 3] = ["tony", "submarine", "xlearning"];

    /// In any case; Hbox is what XLearning is called now.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "tony" => Some(Self::Tony),
            "submarine" => Some(Self::Submarine),
            "xlearning" | "hbox" => Some(Self::XLearning),
            _ => None,
        }
    }

    /// The draft of its command line, the tool's own name in front or not.
    pub(super) fn draft(self, words: &[String]) -> Result<Draft, JobError> {
        let (name, draft) = match self {
            Self::Tony => ("tony", tony::from_flags(words)),
            Self::Submarine => ("submarine", submarine::from_flags(words)),
            Self::XLearning => ("xlearning", xlearning::from_flags(words)),
        };
        draft.map_err(|reason| JobError::Foreign { tool: name, reason })
    }
}

/// The draft of a file in any format that is known, and the files of variables that it names.
pub(super) fn parse_file(text: &str, base: &Path) -> Result<(Draft, Vec<PathBuf>), String> {
    if text.trim_start().starts_with('<') {
        return Ok((tony::from_xml(text)?, Vec::new()));
    }
    let documents = node::documents(text)?;
    let of_kubernetes =
        |node: &&std::rc::Rc<Node>| node.get("kind").is_some() && node.get("apiVersion").is_some();
    if documents.iter().any(|node| of_kubernetes(&node)) {
        return Ok((tfjob::from_documents(&documents)?, Vec::new()));
    }
    match documents.as_slice() {
        [] => Ok(Default::default()),
        [own] => file::draft(own, base),
        [_, second, ..] => {
            Err(format!("line {}: a job file is one document, and another begins here", second.line))
        }
    }
}

/// What is named and means nothing here, gathered for one note.
#[derive(Debug)]
struct Ignored {
    names: Vec<String>,
    because: &'static str,
}

impl Ignored {
    fn new(because: &'static str) -> Self {
        Self { names: Vec::new(), because }
    }

    fn add(&mut self, name: impl Into<String>) {
        let name = name.into();
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    fn note(self) -> Option<String> {
        let verb = if self.names.len() == 1 { "has" } else { "have" };
        (!self.names.is_empty())
            .then(|| format!("ignored: {}, which {verb} {}", self.names.join(", "), self.because))
    }
}

#[cfg(test)]
use shared::{check_flags, shown};

#[cfg(test)]
mod shared {
    use std::fmt::Write as _;

    use super::*;
    use crate::job::Job;

    /// The job of a draft in a few lines, or the one line that refuses it.
    pub(super) fn shown(draft: Draft) -> String {
        let notes = draft.notes.clone();
        let job = match Job::resolve(draft) {
            Ok(job) => job,
            Err(refusal) => return refusal.to_string(),
        };
        let Job { name, num_workers, num_ps, chief, evaluator, tensorboard, logdir, env, .. } = &job;
        let mut shown = format!(
            "{name}: workers {num_workers}, ps {num_ps}, chief {chief}, evaluator {evaluator}, tensorboard {tensorboard}, logdir {logdir:?}, env {env:?}\n"
        );
        for (role, own) in &job.roles {
            let (program, args) = job.command(*role);
            writeln!(shown, "{}: {program:?} {args:?} {:?}", role.name(), own.resources).unwrap();
        }
        notes.iter().for_each(|note| writeln!(shown, "{note}").unwrap());
        shown
    }

    pub(super) fn check_flags(tool: Tool, line: &[&str], expected: &str) {
        let words: Vec<_> = line.iter().map(|word| (*word).to_owned()).collect();
        let shown = match tool.draft(&words) {
            Ok(draft) => shown(draft),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(shown, expected);
    }
}
