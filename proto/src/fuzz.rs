//! Foreign bytes for what this crate reads.

use std::time::{Duration, SystemTime};

use penstock_fuzz::fuzz;
use prost::Message as _;

use crate::delivery::{Report, Standing};
use crate::{FeedCommand, FeedInfo, FeedRequest, Note, OrderRules, Pull, SnapshotId, Ticket, TicketKey};

const MIXTURE: &str = r#"{"mixture":[{"dataset":"web","weight":7},{"dataset":"books","weight":0.3}],"exhausted":"all","lanes":2}"#;
const JSON: &str = r#"{"dataset":"d","select":["a + 1 AS b"],"filter":" a > 3 ","batch_size":8,"world_size":2,"rank":1,"shuffle":"rows","seed":7,"epoch":2,"start_step":3,"remainder":"pad","lanes":4,"shuffle_bytes":1000,"delivery":"static","snapshot":"ab"}"#;

fn words(error: impl std::fmt::Display) -> String {
    // What is quoted of the input is new every time.
    let text = error.to_string();
    text.split(['"', '`']).step_by(2).collect()
}

#[test]
fn fuzz_descriptors() {
    let seeds = [JSON, MIXTURE, r#"{"dataset":"d"}"#];
    let parsed = seeds.map(|json| FeedRequest::parse(json.as_bytes()).unwrap().to_command().encode_to_vec());
    let seeds: Vec<_> = seeds.map(|json| json.as_bytes().to_vec()).into_iter().chain(parsed).collect();
    fuzz("descriptors", &seeds, |bytes| match FeedRequest::parse(bytes) {
        Ok(request) => {
            let again = FeedRequest::parse(&request.to_command().encode_to_vec()).unwrap();
            assert_eq!(again, request, "a feed is the same however it is said");
            format!("{:?} {:?}", request.feed.shuffle, request.feed.remainder)
        }
        Err(error) => words(error),
    });
}

#[test]
fn fuzz_tickets() {
    let key = TicketKey::from_secret(b"one secret of at least thirty-two bytes");
    let now = SystemTime::now();
    let request = FeedRequest::parse(JSON.as_bytes()).unwrap();
    let ticket = Ticket {
        request,
        expires_at: now + Duration::from_secs(60),
        counts: Some("12ab".to_owned()),
        pull: Some(Pull { lanes: vec![1, 3], part_bytes: 4096 }),
    };
    let sealed = key.seal(&ticket);
    fuzz("tickets", std::slice::from_ref(&sealed), |bytes| match key.open(bytes, now) {
        Ok(_) => {
            assert_eq!(bytes, sealed, "only what was sealed opens");
            "opened".to_owned()
        }
        Err(error) => words(error),
    });
}

#[test]
fn fuzz_what_a_ticket_holds() {
    let commands = [JSON, MIXTURE].map(|json| FeedRequest::parse(json.as_bytes()).unwrap().to_command());
    fuzz("commands", &commands.map(|command| command.encode_to_vec()), |bytes| {
        let Ok(command) = FeedCommand::decode(bytes) else { return "no command".to_owned() };
        FeedRequest::resolve(&command).map_or_else(words, |_| "a feed".to_owned())
    });
}

#[test]
fn fuzz_notes() {
    let info = FeedInfo {
        snapshot: SnapshotId::new("ab"),
        steps: 9,
        rows: 80,
        dropped: 8,
        lanes: 4,
        order_rules: OrderRules::DROP_BY_EPOCH,
        mixture: vec![],
        vocabularies: std::collections::BTreeMap::new(),
        nulls: std::collections::BTreeMap::new(),
        warnings: vec![],
    };
    let seeds = [
        Note::Part { epoch: 1, step: 2, part: 0, parts: 3 }.to_json(),
        Note::End { steps: 9 }.to_json(),
        Note::Moved { step: 4 }.to_json(),
        info.to_json(),
    ];
    fuzz("notes", &seeds, |bytes| {
        if let Ok(note) = Note::from_json(bytes) {
            assert_eq!(Note::from_json(&note.to_json()).unwrap(), note);
        }
        let info = FeedInfo::from_json(bytes).map(|_| ());
        let report = serde_json::from_slice::<Report>(bytes).map(|_| ());
        let standing = serde_json::from_slice::<Standing>(bytes).map(|_| ());
        let note = Note::from_json(bytes).map(|_| ()).map_err(words);
        format!("{note:?} {} {} {}", info.is_ok(), report.is_ok(), standing.is_ok())
    });
}
