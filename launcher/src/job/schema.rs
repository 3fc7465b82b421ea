//! The job file's schema, for editors, and a first file.
//!
//! In: the table of keys. Out: JSON Schema. The promise: every key in all of its spellings, and no other.

use serde_json::{Map, Value, json};

use super::keys::{KEYS, Key, Kind, RESOURCE_KEYS, ROLE_KEYS};
use crate::topology::RestartPolicy;

/// What `penstock init` writes.
pub const TEMPLATE: &str = include_str!("template.yaml");

/// The schema of a job file.
pub fn schema() -> Value {
    let mut schema = object(KEYS);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "A job of penstock run".into();
    schema
}

/// A map with these keys; `camelCase` is offered, the other spellings are accepted.
fn object(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut patterns = Map::new();
    for key in keys {
        let mut value = shape(key.kind);
        value["description"] = key.says.into();
        let words = words(key.name);
        if words.len() > 1 {
            patterns.insert(format!("^{}$", words.join("[-_]")), value.clone());
        }
        properties.insert(key.name.to_owned(), value);
    }
    let mut object = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !patterns.is_empty() {
        object["patternProperties"] = patterns.into();
    }
    object
}

fn shape(kind: Kind) -> Value {
    // What looks like a number to YAML is a text to us.
    let text = json!({"type": ["string", "number", "boolean"]});
    let texts = json!({"type": "array", "items": text});
    let policies = json!({"enum": RestartPolicy::NAMES});
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Count => json!({"type": "integer", "minimum": 0}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Length => json!({"type": ["string", "integer"], "pattern": "^[0-9]+ *(ms|s|m|h)?$"}),
        Kind::Memory => json!({"type": "string", "pattern": "^[0-9.]+ *[KMGTkmgt]?i?[Bb]?$"}),
        Kind::Choice(names) => json!({"enum": names}),
        Kind::Ports => json!({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}}),
        Kind::Texts => texts,
        Kind::TextOrTexts => json!({"anyOf": [{"type": "string"}, texts]}),
        Kind::Map => {
            json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}})
        }
        Kind::Policies => json!({"type": "object", "additionalProperties": policies}),
        Kind::Roles => json!({"type": "object", "additionalProperties": object(ROLE_KEYS)}),
        Kind::Resources => object(RESOURCE_KEYS),
    }
}

/// `numWorkers` → `num`, `workers`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            words.push(String::new());
        }
        words.last_mut().expect("there is a first word").push(c.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Draft, foreign};

    /// The committed file; `UPDATE_SCHEMA=1 cargo test` writes it.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/job.schema.json");

    #[test]
    fn the_file_for_editors_is_the_tables() {
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(FILE, &text).unwrap();
        }
        let written = std::fs::read_to_string(FILE).unwrap();
        assert!(
            written == text,
            "job.schema.json is not what the table says: run this test with UPDATE_SCHEMA=1"
        );
    }

    /// A value of the right shape that is nobody's default.
    fn sample(kind: Kind) -> String {
        match kind {
            Kind::Text => "x".to_owned(),
            Kind::Count => "7".to_owned(),
            Kind::Flag => "true".to_owned(),
            Kind::Length => "7s".to_owned(),
            Kind::Memory => "7G".to_owned(),
            Kind::Choice(names) => names[0].to_owned(),
            Kind::Texts | Kind::TextOrTexts => "[x]".to_owned(),
            Kind::Ports => "[7]".to_owned(),
            Kind::Map => "{x: y}".to_owned(),
            Kind::Policies => "{worker: Never}".to_owned(),
            Kind::Roles => "{worker: {replicas: 7}}".to_owned(),
            Kind::Resources => "{gpus: 7}".to_owned(),
        }
    }

    fn check_read(text: &str) {
        let (draft, env_files) = foreign::parse_file(text, std::path::Path::new("")).unwrap();
        assert!(draft != Draft::default() || !env_files.is_empty(), "{text} says nothing");
    }

    #[test]
    fn every_key_of_the_tables_is_read() {
        for key in KEYS {
            check_read(&format!("{}: {}", key.name, sample(key.kind)));
            check_read(&format!("{}: {}", words(key.name).join("_"), sample(key.kind)));
        }
        let empty = foreign::parse_file("roles: {worker: {}}", std::path::Path::new("")).unwrap();
        for key in ROLE_KEYS {
            let text = format!("roles: {{worker: {{{}: {}}}}}", key.name, sample(key.kind));
            assert_ne!(foreign::parse_file(&text, std::path::Path::new("")).unwrap(), empty, "{text}");
        }
        for key in RESOURCE_KEYS {
            let text = format!("roles: {{worker: {{resources: {{{}: {}}}}}}}", key.name, sample(key.kind));
            assert_ne!(foreign::parse_file(&text, std::path::Path::new("")).unwrap(), empty, "{text}");
        }
    }

    #[test]
    fn the_first_file_is_a_job_and_so_is_what_its_comments_say() {
        let resolve = |text: &str| {
            let (draft, _) = foreign::parse_file(text, std::path::Path::new("")).unwrap();
            crate::job::Job::resolve(draft).unwrap()
        };
        assert_eq!(resolve(TEMPLATE).num_workers, 1);
        let all: Vec<_> = TEMPLATE.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line)).collect();
        let job = resolve(&all.join("\n"));
        assert_eq!((job.num_ps, job.inputs.len(), job.roles.len()), (1, 1, 2));
    }
}
