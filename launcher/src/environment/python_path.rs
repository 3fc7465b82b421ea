//! Where a task's Python looks for modules first.
//!
//! In: what the launcher inherited. Out: what the task gets. The promise: directories that a person put there stay; the
//! packages of another interpreter, which this one would import and fail on, do not.

use std::path::{Component, Path, PathBuf};

/// Whether the task's Python is another than the one that the launcher's environment is made for.
pub(super) fn is_chosen(python: &Path) -> bool {
    python.components().count() > 1
}

/// The entries of `path` that are of use to `python`.
pub(super) fn cleaned(path: &str, python: &Path) -> Vec<PathBuf> {
    let prefix = python.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    std::env::split_paths(path)
        .filter(|entry| !entry.as_os_str().is_empty())
        .filter(|entry| !is_chosen(python) || entry.starts_with(prefix) || !is_an_interpreters(entry))
        .collect()
}

/// `…/lib/pythonX.Y`, and what lies in it.
fn is_an_interpreters(entry: &Path) -> bool {
    let names: Vec<_> = entry
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    names.windows(2).any(|pair| matches!(pair[0], "lib" | "lib64") && is_versioned(pair[1]))
}

fn is_versioned(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_another_interpreter_are_left_out() {
        let path =
            "/home/me/src:/a/lib/python3.11/site-packages::/b/lib/python3.9/site-packages:/a/lib/python.d";
        let kept = |python: &str| {
            let kept: Vec<_> =
                cleaned(path, Path::new(python)).iter().map(|entry| entry.display().to_string()).collect();
            kept.join(":")
        };
        assert_eq!(kept("/b/bin/python"), "/home/me/src:/b/lib/python3.9/site-packages:/a/lib/python.d");
        assert_eq!(kept("python3"), path.replace("::", ":"), "it is the environment's own");
    }
}
