//! Texts that are fed as codes.

use arrow::array::Int32Array;
use arrow::datatypes::Int32Type;

use super::*;

const CODED: &str = r#"{"dataset":"d","batch_size":16,"shuffle":"rows","codes":["text"],"remainder":"keep"}"#;

/// What the text of an id is, by the rule of [`write`].
fn text_of(id: i64) -> String {
    "x".repeat((id % 10) as usize * 7)
}

async fn coded(client: &mut Client, json: &str) -> (BTreeMap<i64, i32>, Vec<String>) {
    let info = client.feed(json).await.unwrap();
    let mut told = FeedInfo::from_json(&info.app_metadata).unwrap();
    let mut codes = BTreeMap::new();
    for endpoint in info.endpoint {
        for (_, batch) in client.read(endpoint.ticket.unwrap()).await.unwrap() {
            let ids = batch["id"].as_primitive::<Int64Type>().values();
            let found: &Int32Array = batch["text"].as_primitive::<Int32Type>();
            codes.extend(ids.iter().copied().zip(found.values().iter().copied()));
        }
    }
    (codes, told.vocabularies.remove("text").unwrap())
}

#[tokio::test]
async fn codes_stand_for_the_texts_of_the_rows_in_every_gateway() {
    let stage = Stage::new(&[37, 100, 3], 16);
    let mut client = stage.client().await;
    let (codes, vocabulary) = coded(&mut client, CODED).await;
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), (0..140).collect::<Vec<_>>());
    for (id, code) in &codes {
        assert_eq!(vocabulary[*code as usize], text_of(*id));
    }
    assert!(vocabulary.is_sorted() && vocabulary.len() == 10);
    // Another gateway of the same files, and another order.
    let mut other = stage.client().await;
    let blocks = CODED.replace("rows", "blocks").replace("16", "9");
    assert_eq!(coded(&mut other, &blocks).await, (codes, vocabulary));
    // Texts of the same column are fed beside, from what is cached of neither.
    let plain = client.feed(r#"{"dataset":"d","columns":["text"],"batch_size":20}"#).await.unwrap();
    let batches = client.read(plain.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert_eq!(batches[0].1["text"].as_string::<i32>().value(3), text_of(3));
}

#[tokio::test]
async fn many_who_ask_for_codes_at_once_cause_one_pass() {
    let stage = Stage::new(&[200], 20);
    let client = stage.client().await;
    let asked = (0..8).map(|rank| {
        let mut client = client.clone();
        async move {
            let json = format!(r#"{{"dataset":"d","batch_size":16,"seed":{rank},"codes":["text"]}}"#);
            coded(&mut client, &json).await.1
        }
    });
    let vocabularies = futures::future::join_all(asked).await;
    assert!(vocabularies.iter().all(|vocabulary| *vocabulary == vocabularies[0]));
}
