//! Another launcher's command line, read without knowing all of its flags.

/// A flag and its value, one where it had none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flag {
    /// As it is written, dashes and all.
    pub(super) written: String,
    /// Without dashes in front, `_` as `-`, in lower case.
    pub(super) name: String,
    pub(super) value: Option<String>,
}

/// Flags whose value is a command or a part of one, which may begin with a dash.
const COMMANDS: [&str; 4] = ["launch-cmd", "worker-launch-cmd", "ps-launch-cmd", "task-params"];

/// What stands in front of the first flag is the tool's own name. A word behind a flag is its value, and so are further
/// words, joined by blanks, unless they begin with a dash.
pub(super) fn read(words: &[String]) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for word in words {
        let awaited =
            flags.last().is_some_and(|flag| flag.value.is_none() && COMMANDS.contains(&flag.name.as_str()));
        let is_flag = !awaited && word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err();
        if is_flag {
            let (written, value) = match word.split_once('=') {
                Some((written, value)) => (written, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let name = written.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
            flags.push(Flag { written: written.to_owned(), name, value });
        } else if let Some(flag) = flags.last_mut() {
            flag.value = Some(match flag.value.take() {
                None => word.clone(),
                Some(before) => format!("{before} {word}"),
            });
        }
    }
    flags
}

impl Flag {
    pub(super) fn text(&self) -> Result<String, String> {
        self.value.clone().ok_or_else(|| format!("{} says nothing: a value belongs behind it", self.written))
    }

    pub(super) fn count(&self) -> Result<u32, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("{} {text:?} is no whole number", self.written))
    }

    /// A bare flag says yes.
    pub(super) fn flag(&self) -> Result<bool, String> {
        match self.value.as_deref().unwrap_or("true") {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("{} {other:?} is neither true nor false", self.written)),
        }
    }

    /// `NAME=VALUE`.
    pub(super) fn pair(&self) -> Result<(String, String), String> {
        let text = self.text()?;
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| format!("{} {text:?} is no NAME=VALUE", self.written))?;
        Ok((name.to_owned(), value.to_owned()))
    }

    /// An error that names the flag.
    pub(super) fn blame(&self, reason: impl std::fmt::Display) -> String {
        format!("{}: {reason}", self.written)
    }
}
