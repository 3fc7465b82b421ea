//! What a task runs.

use std::fmt;
use std::path::{Path, PathBuf};

/// The module of the Python package that calls a function with arguments and a context.
const MAP_FUN: &str = "penstock.map_fun";

/// A program, without its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A file that the interpreter runs.
    Script(PathBuf),
    /// The same found by name: `python -m MODULE`.
    Module(String),
    /// Run as it is; without a `/` it is looked up in `PATH`.
    Command(PathBuf),
}

impl Program {
    /// What a shell makes of a text: the program, and its arguments.
    pub fn shell(text: &str) -> (Self, Vec<String>) {
        (Self::Command("sh".into()), vec!["-c".to_owned(), text.to_owned()])
    }

    /// A command line as its words, run as it is; none if there is no word.
    pub fn words(mut words: Vec<String>) -> Option<(Self, Vec<String>)> {
        if words.is_empty() {
            return None;
        }
        let program = words.remove(0);
        Some((Self::Command(program.into()), words))
    }

    /// The same written for another machine: where it calls a Python, the job's own is meant.
    pub(super) fn foreign_words(words: Vec<String>) -> Option<(Self, Vec<String>)> {
        let is_python = |word: &str| {
            let name = word.rsplit('/').next().unwrap_or(word);
            name.strip_prefix("python")
                .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
        };
        let mut rest = words.iter();
        let called = rest.next().is_some_and(|word| is_python(word));
        // Output is never buffered here.
        let mut rest = rest.skip_while(|word| *word == "-u");
        let (first, second) = (rest.next(), rest.next());
        let program = match (called, first.map(String::as_str), second) {
            (true, Some("-m"), Some(module)) => Self::Module(module.clone()),
            (true, Some(script), _) if !script.starts_with('-') => {
                let args = second.into_iter().chain(rest).cloned().collect();
                return Some((Self::Script(script.into()), args));
            }
            _ => return Self::words(words),
        };
        Some((program, rest.cloned().collect()))
    }

    /// `python` is the interpreter, `map_fun` the function of a script that is called in place of running it; the
    /// program to start, and its first arguments.
    pub fn command_line(&self, python: &Path, map_fun: Option<&str>) -> (PathBuf, Vec<String>) {
        if let (Self::Script(path), Some(function)) = (self, map_fun) {
            let script = path.display().to_string();
            let args = ["-m", MAP_FUN, &script, function].map(str::to_owned);
            return (python.to_owned(), args.to_vec());
        }
        match self {
            Self::Script(path) => (python.to_owned(), vec![path.display().to_string()]),
            Self::Module(name) => (python.to_owned(), vec!["-m".to_owned(), name.clone()]),
            Self::Command(program) => (program.clone(), Vec::new()),
        }
    }
}

/// As the report shows it.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(path) | Self::Command(path) => path.display().fmt(f),
            Self::Module(name) => write!(f, "-m {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_of_another_machine_is_the_jobs_own() {
        let check = |line: &str, expected: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            let (program, args) = Program::foreign_words(words).unwrap();
            assert_eq!(format!("{program:?} {}", args.join(" ")), expected);
        };
        check("/usr/bin/python3.8 -u a.py --x 1", "Script(\"a.py\") --x 1");
        check("python -m pkg.train --x", "Module(\"pkg.train\") --x");
        check("python -c pass", "Command(\"python\") -c pass");
        check("pythonic a.py", "Command(\"pythonic\") a.py");
        check("sh -c true", "Command(\"sh\") -c true");
        assert_eq!(Program::foreign_words(Vec::new()), None);
    }
}
