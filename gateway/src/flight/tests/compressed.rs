//! Streams whose bodies are compressed because the feed says so.

use super::*;

const FILES: [i64; 2] = [3000, 2000];

/// All batches of a feed, and the bytes that their bodies took on the way.
async fn fed(client: &mut Client, compression: &str) -> (Batches, usize) {
    let info = client.feed(&format!(r#"{{"dataset":"d","shuffle":"rows"{compression}}}"#)).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let raw = client.0.do_get(ticket.clone()).await.unwrap().into_inner();
    let messages: Vec<_> = raw.try_collect().await.unwrap();
    let bytes = messages.iter().map(|message| message.data_body.len()).sum();
    (client.read(ticket).await.unwrap(), bytes)
}

#[tokio::test]
async fn a_stock_client_reads_what_it_asked_to_be_compressed() {
    let stage = Stage::new(&FILES, 700);
    let mut client = stage.client().await;
    let (expected, plain) = fed(&mut client, "").await;
    for codec in ["lz4", "zstd"] {
        let (batches, bytes) = fed(&mut client, &format!(r#","compression":"{codec}""#)).await;
        assert_eq!(batches, expected);
        assert!(bytes < plain / 2, "{codec}: {bytes} of {plain}");
    }
    let error = client.feed(r#"{"dataset":"d","compression":"gzip"}"#).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidFeed);
    assert!(
        error.message.contains(r#"compression "gzip" is unknown: use "lz4", "zstd""#),
        "{}",
        error.message
    );
}
