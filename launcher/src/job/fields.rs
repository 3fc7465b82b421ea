//! The keys of a map, each in the shape that it must have.
//!
//! In: a node. Out: values. The promise: `numWorkers`, `num_workers` and `num-workers` are one key; what has another
//! shape is refused with its line, in one line.

use std::collections::BTreeMap;
use std::time::Duration;

use super::nearest::{did_you_mean, plain};
use super::node::{Entry, Node, Value};
use super::parse_duration;

/// A map whose keys are known.
pub(super) struct Fields<'a> {
    found: Vec<(&'static str, &'a Entry)>,
    /// The others, as they are written.
    pub(super) strange: Vec<&'a Entry>,
}

impl<'a> Fields<'a> {
    /// All that is there; what is not `known` is set apart.
    pub(super) fn sorted(node: &'a Node, known: &[&'static str]) -> Result<Self, String> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => return Err(format!("line {}: {} is no map of keys and values", node.line, node.shown())),
        };
        let mut fields = Self { found: Vec::new(), strange: Vec::new() };
        for entry in entries {
            let word = plain(&entry.key);
            match known.iter().find(|known| plain(known) == word) {
                None => fields.strange.push(entry),
                Some(name) if fields.found.iter().any(|(found, _)| found == name) => {
                    return Err(format!("line {}: {name} is there twice, here as {}", entry.line, entry.key));
                }
                Some(name) => fields.found.push((name, entry)),
            }
        }
        Ok(fields)
    }

    /// The same, where a key that is not known is an error: a misspelt option that does nothing costs a night of
    /// training.
    pub(super) fn only(node: &'a Node, known: &[&'static str], whose: &str) -> Result<Self, String> {
        let fields = Self::sorted(node, known)?;
        match fields.strange.first() {
            None => Ok(fields),
            Some(Entry { key, line, .. }) => {
                let meant = did_you_mean(key, known.iter().copied());
                Err(format!("line {line}: {whose} has no key {key:?}{meant}"))
            }
        }
    }

    fn entry(&self, name: &str) -> Option<&'a Entry> {
        let entry = self.found.iter().find(|(found, _)| *found == name)?.1;
        (!matches!(entry.node.value, Value::Null)).then_some(entry)
    }

    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        self.entry(name).map(|entry| &*entry.node)
    }

    /// What `read` makes of a text, or that it is no `shape`.
    fn read<T>(
        &self,
        name: &str,
        shape: &str,
        read: impl Fn(&str, bool) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(entry) = self.entry(name) else { return Ok(None) };
        let wrong = || {
            format!("line {}: {} is {}, which is no {shape}", entry.node.line, entry.key, entry.node.shown())
        };
        let value = match &entry.node.value {
            Value::Text { text, quoted } => read(text, *quoted),
            _ => None,
        };
        value.map(Some).ok_or_else(wrong)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.read(name, "text", |text, _| Some(text.to_owned()))
    }

    pub(super) fn count(&self, name: &str) -> Result<Option<u32>, String> {
        self.read(name, "whole number", |text, _| text.parse().ok())
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        self.read(name, "true or false", |text, quoted| match text.to_ascii_lowercase().as_str() {
            _ if quoted => None,
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        })
    }

    pub(super) fn length(&self, name: &str) -> Result<Option<Duration>, String> {
        self.read(name, "length of time: write e.g. 500ms, 10s, 5m or 1h", |text, _| {
            parse_duration(text).ok()
        })
    }

    /// What `of` makes of a text; its error is one sentence.
    pub(super) fn parsed<T, E: std::fmt::Display>(
        &self,
        name: &str,
        of: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let line = self.node(name).map_or(0, |node| node.line);
        of(&text).map(Some).map_err(|error| format!("line {line}: {error}"))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(entry) = self.entry(name) else { return Ok(None) };
        let wrong = |node: &Node| {
            format!("line {}: {} holds {}, where a list of texts belongs", node.line, entry.key, node.shown())
        };
        let Value::List(items) = &entry.node.value else { return Err(wrong(&entry.node)) };
        items
            .iter()
            .map(|item| item.text().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Name → text. A name without a value has the empty text.
    pub(super) fn map(&self, name: &str) -> Result<BTreeMap<String, String>, String> {
        let Some(entry) = self.entry(name) else { return Ok(BTreeMap::new()) };
        let wrong = |node: &Node| {
            format!("line {}: {} holds {}, where names and texts belong", node.line, entry.key, node.shown())
        };
        let Value::Map(entries) = &entry.node.value else { return Err(wrong(&entry.node)) };
        let text = |entry: &Entry| match &entry.node.value {
            Value::Null => Ok((entry.key.clone(), String::new())),
            Value::Text { text, .. } => Ok((entry.key.clone(), text.clone())),
            _ => Err(wrong(&entry.node)),
        };
        entries.iter().map(text).collect()
    }

    /// Name → node, of a map that must be one.
    pub(super) fn entries(&self, name: &str) -> Result<&'a [Entry], String> {
        match self.entry(name) {
            None => Ok(&[]),
            Some(entry) => match &entry.node.value {
                Value::Map(entries) => Ok(entries),
                _ => Err(format!(
                    "line {}: {} is {}, where a map belongs",
                    entry.node.line,
                    entry.key,
                    entry.node.shown()
                )),
            },
        }
    }
}
