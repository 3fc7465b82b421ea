//! Stories of what was decoded before.

use super::*;

const FEEDS: [&str; 5] = [
    r#"{"dataset":"d","batch_size":48,"remainder":"keep""#,
    r#"{"dataset":"d","batch_size":48,"remainder":"keep","shuffle":"blocks","lanes":3,"seed":5"#,
    r#"{"dataset":"d","batch_size":48,"remainder":"pad","shuffle":"rows","lanes":2,"shuffle_bytes":9000"#,
    r#"{"dataset":"d","batch_size":24,"remainder":"keep","shuffle":"rows","filter":"id % 3 = 1","shuffle_bytes":9000"#,
    r#"{"dataset":"d","batch_size":24,"remainder":"keep","shuffle":"blocks","lanes":2,"select":["id","CONCATENATED AS text"]"#,
];

/// How a feed is read: by so many ranks, from a step on, in an epoch.
const READINGS: [&str; 4] = [
    r#","world_size":1"#,
    r#","world_size":5"#,
    r#","world_size":2,"start_step":7"#,
    r#","world_size":3,"epoch":4"#,
];

fn feeds() -> impl Iterator<Item = String> {
    let feed = |feed: &&str| feed.replace("CONCATENATED", "concat(text, '')");
    FEEDS.iter().map(feed).collect::<Vec<_>>().into_iter()
}

/// Moves the files of the stage out of sight, or back.
fn hide(stage: &Stage, hidden: bool) {
    for file in ["000", "001", "002"] {
        let seen = stage.dir.path().join(format!("{file}.parquet"));
        let unseen = seen.with_extension("hidden");
        let (from, to) = if hidden { (seen, unseen) } else { (unseen, seen) };
        std::fs::rename(from, to).unwrap();
    }
}

/// What all ranks get, with all there is to know to ask for it again.
async fn infos(client: &mut Client) -> Vec<FlightInfo> {
    let mut infos = Vec::new();
    for feed in feeds() {
        for reading in READINGS {
            infos.push(client.feed(&format!("{feed}{reading}}}")).await.unwrap());
        }
    }
    infos
}

/// Reads all endpoints, all at once.
async fn read_all(client: &Client, info: &FlightInfo) -> Vec<Batches> {
    try_all(client, info).await.unwrap()
}

async fn try_all(client: &Client, info: &FlightInfo) -> Result<Vec<Batches>, Error> {
    let reading: Vec<_> = info
        .endpoint
        .iter()
        .map(|endpoint| {
            let (mut client, ticket) = (client.clone(), endpoint.ticket.clone().unwrap());
            tokio::spawn(async move { client.read(ticket).await })
        })
        .collect();
    let mut ranks = Vec::new();
    for rank in reading {
        ranks.push(rank.await.unwrap()?);
    }
    Ok(ranks)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decoded_is_fed_without_its_files_and_is_the_same() {
    let mut stage = Stage::new(&[700, 1, 1_300], 90);
    stage.config.cache_bytes = Some(0);
    let mut plain = stage.client().await;
    let known = infos(&mut plain).await;
    let mut expected = Vec::new();
    for info in &known {
        expected.push(read_all(&plain, info).await);
    }

    stage.config.cache_bytes = None;
    let mut client = stage.client().await;
    let infos = infos(&mut client).await;
    for of_feed in infos.chunks(READINGS.len()) {
        read_all(&client, &of_feed[0]).await;
    }
    for file in ["000", "001", "002"] {
        std::fs::remove_file(stage.dir.path().join(format!("{file}.parquet"))).unwrap();
    }
    for (info, expected) in infos.iter().zip(&expected) {
        assert!(read_all(&client, info).await == *expected, "{info:?}");
    }
    // Without a cache the files are missed.
    let error = plain.read(known[0].endpoint[0].ticket.clone().unwrap()).await.unwrap_err();
    assert_eq!(error.code, Code::SnapshotGone, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_disk_is_fed_without_its_files_and_is_the_same() {
    let mut stage = Stage::new(&[700, 1, 1_300], 90);
    stage.config.cache_bytes = Some(0);
    let mut plain = stage.client().await;
    let mut expected = Vec::new();
    for info in infos(&mut plain).await {
        expected.push(read_all(&plain, &info).await);
    }

    let directory = stage.dir.path().join("cache");
    stage.config.cache_disk = Some(DiskConfig { directory: directory.clone(), bytes: 64 << 20 });
    let mut client = stage.client().await;
    let infos = infos(&mut client).await;
    for (of_feed, expected) in infos.chunks(READINGS.len()).zip(expected.chunks(READINGS.len())) {
        // What is still on its way to the disk, or found no room to wait in, is there after a few more times.
        loop {
            read_all(&client, &of_feed[0]).await;
            hide(&stage, true);
            let found = try_all(&client, &of_feed[0]).await;
            hide(&stage, false);
            if found.is_ok() {
                break;
            }
        }
        hide(&stage, true);
        for (info, expected) in of_feed.iter().zip(expected) {
            assert!(read_all(&client, info).await == *expected, "{info:?}");
        }
        hide(&stage, false);
    }
    assert_eq!(directory.read_dir().unwrap().count(), 0, "nothing is seen of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_is_done_without() {
    let mut stage = Stage::new(&[700, 1, 1_300], 90);
    let directory = stage.dir.path().join("000.parquet");
    stage.config.cache_disk = Some(DiskConfig { directory, bytes: 64 << 20 });
    let mut client = stage.client().await;
    for info in infos(&mut client).await {
        read_all(&client, &info).await;
    }
}
