//! What a graph or a script says about its feed, completed by the process that runs it.
//!
//! *In:* the request JSON, a socket or `env:NAME`, and the environment. *Out:* the request with rank
//! and world size, and the socket's path. *Promise:* what is said is never overruled; a graph traced
//! on one machine works on another, because only the running process's environment counts.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::failure::{Failure, Kind};

const RANK: &str = "PENSTOCK_RANK";
const WORLD_SIZE: &str = "PENSTOCK_WORLD_SIZE";

/// A feed that can be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) socket: PathBuf,
    pub(crate) rank: u32,
    pub(crate) json: String,
}

impl Request {
    /// Completes `json` from `env`, the environment of this process.
    pub(crate) fn complete(
        json: &str,
        socket: &str,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Request, Failure> {
        let wrong = |what: String| Failure::new(Kind::Argument, what);
        let mut request: Value = serde_json::from_str(json)
            .map_err(|error| wrong(format!("the feed's request is not JSON: {error}")))?;
        let name = request.get("name").and_then(Value::as_str).unwrap_or("feed").to_owned();
        let feed = request
            .get_mut("feed")
            .and_then(Value::as_object_mut)
            .ok_or_else(|| wrong("the feed's request has no object \"feed\"".into()))?;
        for (field, variable, default) in [("rank", RANK, 0_u32), ("world_size", WORLD_SIZE, 1)] {
            if feed.get(field).is_none_or(Value::is_null) {
                feed.insert(field.into(), json!(number(variable, default, &env)?));
            }
        }
        // A rank that is no number is the sidecar's to refuse.
        let rank = feed.get("rank").and_then(Value::as_u64).and_then(|rank| rank.try_into().ok());
        let rank = rank.unwrap_or_default();
        let socket = match socket.strip_prefix("env:") {
            None => socket.into(),
            Some(variable) => env(variable).filter(|value| !value.is_empty()).map(PathBuf::from).ok_or_else(|| {
                wrong(format!(
                    "feed '{name}': {variable} is not set in this process; start the script with `penstock run`, or give penstock.feed a source"
                ))
            })?,
        };
        Ok(Request { name, socket, rank, json: request.to_string() })
    }
}

fn number(variable: &str, default: u32, env: impl Fn(&str) -> Option<String>) -> Result<u32, Failure> {
    let Some(value) = env(variable) else { return Ok(default) };
    value.parse().map_err(|_| {
        Failure::new(Kind::Argument, format!("{variable} is '{value}', which is not a whole number"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(json: &str, socket: &str, env: &[(&str, &str)]) -> Result<Request, Failure> {
        Request::complete(json, socket, |name| {
            env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string())
        })
    }

    #[test]
    fn rank_and_world_come_from_the_running_process_unless_said() {
        let launched =
            [("PENSTOCK_RANK", "3"), ("PENSTOCK_WORLD_SIZE", "4"), ("PENSTOCK_SIDECAR", "/run/w3.sock")];
        let feed = |request: Request| serde_json::from_str::<Value>(&request.json).unwrap()["feed"].clone();
        let request =
            complete(r#"{"name":"train","feed":{"dataset":"d"}}"#, "env:PENSTOCK_SIDECAR", &launched)
                .unwrap();
        assert_eq!((request.name.as_str(), request.socket.to_str()), ("train", Some("/run/w3.sock")));
        assert_eq!(request.rank, 3);
        assert_eq!(feed(request), json!({"dataset": "d", "rank": 3, "world_size": 4}));
        let request = complete(r#"{"feed":{"rank":0,"world_size":1}}"#, "/s.sock", &launched).unwrap();
        assert_eq!(feed(request), json!({"rank": 0, "world_size": 1}));
        let request = complete(r#"{"feed":{"rank":null}}"#, "/s.sock", &[]).unwrap();
        assert_eq!(feed(request), json!({"rank": 0, "world_size": 1}));
    }

    #[test]
    fn what_cannot_be_completed_says_what_to_do() {
        let check = |json: &str, env: &[(&str, &str)], text: &str| {
            let failure = complete(json, "env:PENSTOCK_SIDECAR", env).unwrap_err();
            assert!(failure.message.contains(text), "{failure}");
        };
        check(
            r#"{"feed":{}}"#,
            &[],
            "PENSTOCK_SIDECAR is not set in this process; start the script with `penstock run`",
        );
        check(r#"{"feed":{}}"#, &[("PENSTOCK_RANK", "first")], "PENSTOCK_RANK is 'first'");
        check("{", &[], "is not JSON");
        check("{}", &[], "no object \"feed\"");
    }
}
