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
