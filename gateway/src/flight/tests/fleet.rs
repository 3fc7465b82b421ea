//! Two gateways, one of which owns lanes of the other's streams, and a line between them that may break.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::FlightData;
use penstock_proto::{FeedRequest, Rank};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::resolve::Resolved;
use super::*;

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(120);

/// A way to a gateway that counts what comes back, and breaks when that is too much.
struct Line {
    address: SocketAddr,
    /// Bytes that came back, over all connections.
    came: Arc<AtomicU64>,
}

impl Line {
    /// Every connection breaks after so many bytes.
    async fn to(address: SocketAddr, most: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let line = Self { address: listener.local_addr().unwrap(), came: Arc::default() };
        let came = Arc::clone(&line.came);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let came = Arc::clone(&came);
                tokio::spawn(async move {
                    let far = TcpStream::connect(address).await.unwrap();
                    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) =
                        (near.into_split(), far.into_split());
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_near, &mut to_far) => {}
                        () = carry(&mut from_far, &mut to_near, most, &came) => {}
                    }
                });
            }
        });
        line
    }
}

async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    most: u64,
    came: &AtomicU64,
) {
    let mut left = most;
    let mut buffer = vec![0; 4096];
    while left > 0 {
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Ok(read @ 1..) = from.read(&mut buffer[..room]).await else { return };
        came.fetch_add(read as u64, Ordering::SeqCst);
        left -= read as u64;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

fn stage() -> Stage {
    let mut stage = Stage::new(&[700, 1, 1_300], 90);
    stage.config.fleet_patience = LONG;
    // Small enough for lanes to be sent in several messages.
    stage.config.part_bytes = 4 << 10;
    stage
}

/// A gateway that pulls from `owner`.
async fn composer(stage: &Stage, owner: SocketAddr) -> Client {
    let mut config = stage.config.clone();
    config.fleet = vec![owner.to_string()];
    Client::connect(Gateway::start(config, &stage.drain).await.unwrap().address.unwrap()).await
}

async fn owner(stage: &Stage) -> SocketAddr {
    Gateway::start(stage.config.clone(), &stage.drain).await.unwrap().address.unwrap()
}

/// Feeds of every order, with more lanes than ranks and fewer, from the beginning and not.
fn feeds() -> Vec<String> {
    let mut feeds = Vec::new();
    for (shuffle, lanes) in [("none", 1), ("blocks", 6), ("rows", 1), ("rows", 7)] {
        for remainder in ["drop", "pad", "keep"] {
            for (world, start) in [(1, 0), (3, 17), (9, 40)] {
                feeds.push(format!(
                    r#"{{"dataset":"d","batch_size":48,"shuffle":"{shuffle}","remainder":"{remainder}","seed":5,
                        "shuffle_bytes":9000,"lanes":{lanes},"world_size":{world},"start_step":{start}}}"#
                ));
            }
        }
    }
    feeds
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_of_another_gateway_are_the_same_rows() {
    let stage = stage();
    let owner = owner(&stage).await;
    let line = Line::to(owner, u64::MAX).await;
    let (mut alone, mut fed) = (Client::connect(owner).await, composer(&stage, line.address).await);
    for feed in feeds() {
        assert_eq!(fed.epoch(&feed).await, alone.epoch(&feed).await, "{feed}");
    }
    let filtered = r#"{"dataset":"d","batch_size":40,"shuffle":"rows","lanes":5,"filter":"id % 3 = 1",
                       "select":["id","upper(text) AS text"],"world_size":2}"#;
    assert_eq!(fed.epoch(filtered).await, alone.epoch(filtered).await);
    assert!(line.came.load(Ordering::SeqCst) > 100_000, "nothing was pulled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_breaks_anywhere_breaks_no_stream() {
    let stage = stage();
    let owner = owner(&stage).await;
    let mut alone = Client::connect(owner).await;
    // Steps of one message of the owner's, and of several.
    let feeds = [(48, 1, "blocks"), (48, 9, "rows"), (600, 1, "blocks"), (600, 2, "rows")].map(|(batch, world, shuffle)| {
        format!(
            r#"{{"dataset":"d","batch_size":{batch},"shuffle":"{shuffle}","remainder":"pad","seed":5,"shuffle_bytes":9000,
                "lanes":7,"world_size":{world}}}"#
        )
    });
    for most in [0, 700, 6_000, 11_000, 15_000, 19_000, 24_000, 30_000, 45_000] {
        let line = Line::to(owner, most).await;
        // One for every feed, for an owner that failed is left alone for a while.
        for feed in &feeds {
            let mut fed = composer(&stage, line.address).await;
            assert_eq!(fed.epoch(feed).await, alone.epoch(feed).await, "{most} {feed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_never_answers_is_done_without() {
    let mut stage = stage();
    let mut alone = stage.client().await;
    stage.config.fleet_patience = Duration::from_millis(20);
    // Connections are taken by the kernel; nobody ever reads from them.
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut fed = composer(&stage, frozen.local_addr().unwrap()).await;
    // Nobody listens there.
    let mut single = composer(&stage, "127.0.0.1:1".parse().unwrap()).await;
    for feed in feeds().iter().step_by(5) {
        let expected = alone.epoch(feed).await;
        assert_eq!(fed.epoch(feed).await, expected, "{feed}");
        assert_eq!(single.epoch(feed).await, expected, "{feed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_a_full_gateway_and_one_that_leaves_are_done_without() {
    let stage = stage();
    let mut alone = stage.client().await;
    let feed =
        r#"{"dataset":"d","batch_size":48,"shuffle":"rows","lanes":7,"shuffle_bytes":9000,"world_size":2}"#;
    let expected = alone.epoch(feed).await;
    for change in [
        |config: &mut Config| config.ticket_key = TicketKey::generate(),
        |config: &mut Config| config.memory_bytes = 1 << 10,
        |config: &mut Config| config.datasets[0].0 = "another".to_owned(),
    ] {
        let mut config = stage.config.clone();
        change(&mut config);
        let owner = Gateway::start(config, &stage.drain).await.unwrap().address.unwrap();
        assert_eq!(composer(&stage, owner).await.epoch(feed).await, expected);
    }

    // It leaves, and lends nothing more.
    let drain = Drain::new();
    let leaver = Gateway::start(stage.config.clone(), &drain).await.unwrap().address.unwrap();
    let mut fed = composer(&stage, leaver).await;
    let info = fed.feed(feed).await.unwrap();
    let mut ranks = Vec::new();
    for endpoint in info.endpoint {
        let reading = fed.read(endpoint.ticket.unwrap());
        drain.begin();
        ranks.push(steps(&reading.await.unwrap(), expected.1.steps));
    }
    assert_eq!(ranks, expected.0);
    drain.finished(LONG).await.unwrap();
}

/// Bytes that a stream of a whole feed leases.
pub(super) async fn leased(stage: &Stage, feed: &str) -> u64 {
    let stores = Stores::new(stage.config.hdfs.clone());
    let budget = Budget::new(1 << 20);
    let footers = FooterMemory::new(&budget, LONG);
    let catalog = Catalog::open(&stage.config.datasets, &stores, &footers, |_| {}).await.unwrap();
    let snapshot = catalog.snapshot("d", None).await.unwrap();
    let shared = Shared::new(&budget, 0, None);
    let plans = Plans::new(Counter::new(budget, LONG, None), shared);
    let request = FeedRequest::parse(feed.as_bytes()).unwrap();
    let planned = plans.plan(&snapshot, &request.feed).await.unwrap();
    let resolved = Resolved { request, planned };
    resolved.need(&resolved.partition(Rank::ZERO).unwrap(), stage.config.part_bytes).bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lent_is_taken_back_for_a_stream_of_ones_own() {
    let mut stage = Stage::new(&[60_000, 60_000], 5_000);
    stage.config.part_bytes = 16 << 10;
    stage.config.fleet_patience = LONG;
    stage.config.patience = LONG;
    let feed = r#"{"dataset":"d","batch_size":1000,"shuffle":"blocks","lanes":8}"#;
    let mut config = stage.config.clone();
    // Room for two streams of the owner's own, if nothing is lent: three to five of the eight lanes are its own, and
    // they are lent until less than twice as much is free, so that beside them there is room for one.
    config.memory_bytes = leased(&stage, feed).await * 23 / 10;
    let owner = Gateway::start(config, &stage.drain).await.unwrap().address.unwrap();
    let mut fed = composer(&stage, owner).await;
    let info = fed.feed(feed).await.unwrap();
    let told = FeedInfo::from_json(&info.app_metadata).unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let open = async |client: Client| {
        let mut client = client;
        let mut stream = client.0.do_get(ticket.clone()).await.unwrap().into_inner();
        // The schema and the first rows.
        for _ in 0..2 {
            assert!(stream.message().await.unwrap().is_some());
        }
        (client, stream)
    };
    // Readers that stop there; what they pull stays lent.
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(open(fed.reconnected().await).await);
    }
    for _ in 0..2 {
        held.push(open(Client::connect(owner).await).await);
    }
    // Those who borrowed go on alone.
    let (_, first) = &mut held[0];
    let rest: Vec<FlightData> = first.try_collect().await.unwrap();
    let last = Note::from_json(&rest.last().unwrap().app_metadata).unwrap();
    assert_eq!(last, Note::End { steps: told.steps });
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_join_and_leave_a_list_are_known_and_change_no_stream() {
    let mut stage = stage();
    let list = stage.dir.path().join("fleet.list");
    std::fs::write(&list, "").unwrap();
    stage.config.fleet = vec![format!("file:{}", list.display())];
    stage.config.fleet_interval = Duration::from_millis(1);
    let (mut clients, mut addresses) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let address = owner(&stage).await;
        clients.push(Client::connect(address).await);
        addresses.push(address.to_string());
    }
    let feed =
        r#"{"dataset":"d","batch_size":48,"shuffle":"rows","lanes":9,"shuffle_bytes":9000,"world_size":3}"#;
    let expected = clients[0].epoch(feed).await;
    for members in [1, 2, 3, 2] {
        std::fs::write(&list, addresses[..members].join("\n")).unwrap();
        for client in &mut clients[..members] {
            loop {
                let locations = client.feed(feed).await.unwrap().endpoint[0].location.len();
                if locations == members {
                    break;
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(client.epoch(feed).await, expected, "{members}");
        }
    }
}
