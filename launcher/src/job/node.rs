//! YAML as it was written: its texts, and the lines they stand on.
//!
//! In: text. Out: one tree a document. The promise: a text stays what it was (`0.10` is no number yet), a key that
//! stands twice is refused, and an alias shares what it names, so that no file grows in memory.

use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

/// A value and the line that it begins on.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// What is written as nothing, `~` or `null`.
    Null,
    Text {
        text: String,
        /// In quotes: no number and no `true`, whatever it looks like.
        quoted: bool,
    },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Rc<Node>,
}

/// The documents of `text`. The error is one line.
pub(super) fn documents(text: &str) -> Result<Vec<Rc<Node>>, String> {
    let mut builder = Builder { events: Parser::new_from_str(text), anchors: HashMap::new() };
    let mut found = Vec::new();
    while let Some((event, span)) = builder.next()? {
        if !matches!(
            event,
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd
        ) {
            found.push(builder.node(event, span)?);
        }
    }
    Ok(found)
}

struct Builder<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Rc<Node>>,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, String> {
        let broken = |error: ScanError| format!("line {}: {}", error.marker().line(), error.info());
        self.events.next().transpose().map_err(broken)
    }

    /// The event after one that cannot be the last.
    fn within(&mut self) -> Result<(Event<'a>, Span), String> {
        self.next()?.ok_or_else(|| "it ends in the middle of a value".to_owned())
    }

    /// The parser bounds how deep this goes.
    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Rc<Node>, String> {
        let line = span.start.line();
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).cloned();
                return named.ok_or_else(|| format!("line {line}: an alias names what it is part of"));
            }
            Event::Scalar(text, style, anchor, _) => {
                let quoted = style != ScalarStyle::Plain;
                let is_null = !quoted && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                (anchor, if is_null { Value::Null } else { Value::Text { text: text.into_owned(), quoted } })
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list()?),
            Event::MappingStart(_, anchor, _) => (anchor, self.map()?),
            other => return Err(format!("line {line}: {other:?} is not understood here")),
        };
        let node = Rc::new(Node { line, value });
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    fn list(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            match self.within()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Value, String> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.within()?;
            let line = span.start.line();
            let key = match event {
                Event::MappingEnd => break,
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(format!("line {line}: a key is a text")),
            };
            let (event, span) = self.within()?;
            let node = self.node(event, span)?;
            match &node.value {
                Value::Map(below) if key == "<<" => merged.extend(below.iter().cloned()),
                _ if entries.iter().any(|entry| entry.key == key) => {
                    return Err(format!("line {line}: {key} is there twice"));
                }
                _ => entries.push(Entry { key, line, node }),
            }
        }
        for entry in merged {
            if !entries.iter().any(|own| own.key == entry.key) {
                entries.push(entry);
            }
        }
        Ok(Value::Map(entries))
    }
}

impl Node {
    /// How a refusal calls it.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Text { text, .. } => format!("{text:?}"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// The value of a key, where this is a map and has it.
    pub(super) fn get(&self, key: &str) -> Option<&Rc<Node>> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match documents(text) {
            Ok(documents) => documents.iter().map(|node| show(node)).collect::<Vec<_>>().join(" --- "),
            Err(refusal) => refusal,
        };
        assert_eq!(shown, expected);
    }

    fn show(node: &Node) -> String {
        match &node.value {
            Value::Null => "-".to_owned(),
            Value::Text { text, quoted: true } => format!("'{text}'"),
            Value::Text { text, quoted: false } => text.clone(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(|item| show(item)).collect::<Vec<_>>().join(" "))
            }
            Value::Map(entries) => {
                let shown =
                    entries.iter().map(|entry| format!("{}@{}:{}", entry.key, entry.line, show(&entry.node)));
                format!("{{{}}}", shown.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn texts_stay_and_lines_are_told() {
        check("a: 0.10\nb: [x, '1', ~]\n\nc:\n  d: |\n    e\n", "{a@1:0.10 b@2:[x '1' -] c@4:{d@5:'e\n'}}");
        check("a: 1\n---\nb: 2\n", "{a@1:1} --- {b@3:2}");
        check("", "");
    }

    #[test]
    fn what_is_named_is_shared_and_merged() {
        check(
            "a: &x {k: 1, l: 2}\nb: *x\nc: {<<: *x, l: 3}\n",
            "{a@1:{k@1:1 l@1:2} b@2:{k@1:1 l@1:2} c@3:{l@3:3 k@1:1}}",
        );
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_line() {
        check("a: 1\nb: 2\na: 3", "line 3: a is there twice");
        assert!(documents("a: 1\nb: [").unwrap_err().starts_with("line "), "{:?}", documents("a: 1\nb: ["));
        assert!(documents("a: &x [*x]").is_err());
        assert!(documents(&"[".repeat(100_000)).is_err());
    }
}
