//! A whole sidecar between a scripted gateway and the ring's own consumer.

use std::path::PathBuf;
use std::time::Duration;

use penstock_daemon::Drain;
use penstock_ring::{Batch, Consumer, NextError, OpenError};
use serde_json::{Value, json};

use crate::fake::{Fake, Fault, deadlines};
use crate::{Config, Sidecar};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

struct Bed {
    path: PathBuf,
    drain: Drain,
    _dir: tempfile::TempDir,
}

impl Bed {
    async fn new(fake: &Fake, memory: u64) -> Self {
        Self::of(fake, Config { memory, ..Config::new("") }).await
    }

    async fn of(fake: &Fake, config: Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run").join("s.sock");
        let drain = Drain::new();
        let gateways = vec![fake.serve().await.to_string()];
        let config = Config { listen: path.clone(), gateways, deadlines: deadlines(), ..config };
        Sidecar::start(config, &drain).unwrap();
        Self { path, drain, _dir: dir }
    }

    /// Runs a trainer on a thread of its own, as it would in its process.
    async fn trainer<T: Send + 'static>(&self, work: impl FnOnce(PathBuf) -> T + Send + 'static) -> T {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || work(path)).await.unwrap()
    }

    async fn open(&self, request: Value) -> Result<Consumer, OpenError> {
        self.trainer(move |path| Consumer::open(&path, &request.to_string(), LONG)).await
    }

    async fn refusal(&self, request: Value) -> String {
        match self.open(request).await {
            Ok(_) => panic!("opened"),
            Err(error) => error.to_string(),
        }
    }
}

/// One rank that wants 4 rows a step.
fn request(more: &Value) -> Value {
    let mut request = json!({"version": 1, "feed": {"dataset": "d", "batch_size": 4}});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

fn ids(batch: &Batch) -> Vec<i64> {
    let bytes = batch.column(0).data;
    bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn texts(batch: &Batch) -> Vec<String> {
    let column = batch.column(1);
    let bounds = column.offsets.unwrap().windows(2);
    bounds.map(|b| String::from_utf8(column.data[b[0] as usize..b[1] as usize].to_vec()).unwrap()).collect()
}

/// Reads to the end, one batch at a time.
fn read(consumer: &Consumer) -> Result<Vec<(u64, u64, Vec<i64>)>, NextError> {
    let mut read = Vec::new();
    while let Some(batch) = consumer.next(LONG)? {
        let ids = ids(&batch);
        assert_eq!(texts(&batch), ids.iter().map(|id| format!("row {id}")).collect::<Vec<_>>());
        read.push((batch.epoch(), batch.step(), ids));
    }
    Ok(read)
}

#[tokio::test(flavor = "multi_thread")]
async fn epochs_follow_one_another_from_the_cursor_to_the_last() {
    // The second epoch's stream breaks in the middle, which the trainer does not see.
    let fake = Fake::new(6, 2, 2).scripted(vec![(99, Fault::Silence), (3, Fault::Break)]);
    let bed = Bed::new(&fake, 64 << 20).await;
    let mut asked = request(&json!({"epochs": 4}));
    asked["feed"]["epoch"] = json!(1);
    asked["feed"]["start_step"] = json!(4);
    let consumer = bed.open(asked).await.unwrap();
    let description: Value = serde_json::from_str(consumer.description()).unwrap();
    assert_eq!(description["columns"][1], json!({"name": "text", "dtype": "string", "shape": []}));
    assert_eq!(description["steps_per_epoch"], 6);
    assert_eq!(description["start"], json!({"epoch": 1, "step": 4}));
    let read = bed.trainer(move |_| read(&consumer)).await.unwrap();
    let steps =
        (4..6).map(|step| (1, step)).chain((2..4).flat_map(|epoch| (0..6).map(move |step| (epoch, step))));
    let expected: Vec<_> = steps.map(|(epoch, step)| (epoch, step, fake.ids(step))).collect();
    assert_eq!(read, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_take_turns_from_the_first_step_through_all_epochs() {
    let fake = Fake::new(5, 2, 2);
    let bed = Bed::new(&fake, 64 << 20).await;
    let mut read_by = Vec::new();
    for index in 0..3 {
        let mut asked = request(&json!({"epochs": 3, "share": {"index": index, "count": 3}}));
        asked["feed"]["start_step"] = json!(2);
        let consumer = bed.open(asked).await.unwrap();
        read_by.push(bed.trainer(move |_| read(&consumer)).await.unwrap().into_iter());
    }
    let steps = (2..15).map(|nth| (nth / 5, nth % 5));
    for ((epoch, step), index) in steps.zip((0..3).cycle()) {
        assert_eq!(read_by[index].next(), Some((epoch, step, fake.ids(step))), "of share {index}");
    }
    assert!(read_by.iter_mut().all(|read| read.next().is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_feed_goes_on_until_its_trainer_leaves() {
    let fake = Fake::new(2, 1, 4);
    let bed = Bed::new(&fake, 64 << 20).await;
    let consumer = bed.open(request(&json!({"epochs": null}))).await.unwrap();
    bed.trainer(move |_| {
        for epoch in 0..20 {
            for step in 0..2 {
                let batch = consumer.next(LONG).unwrap().unwrap();
                assert_eq!((batch.epoch(), batch.step()), (epoch, step));
            }
        }
    })
    .await;
    bed.drain.begin();
    bed.drain.finished(LONG).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_small_dataset_a_few_epochs_are_read_ahead() {
    let (fake, other) = (Fake::new(1, 1, 4), Fake::new(1, 1, 4));
    let bed = Bed::new(&fake, 64 << 20).await;
    let consumer = bed.open(request(&json!({"epochs": null}))).await.unwrap();
    // Meanwhile it has time for as many more.
    let gateways = json!([other.serve().await.to_string()]);
    let second = bed.open(request(&json!({"epochs": 100, "gateways": gateways}))).await.unwrap();
    assert_eq!(bed.trainer(move |_| read(&second)).await.unwrap().len(), 100);
    let ahead = fake.opened.lock().unwrap().len();
    assert!(ahead <= 40, "eight in slots, four in the queue, those on their way, and some to spare: {ahead}");
    let batches = bed
        .trainer(move |_| (0..40).map(|_| consumer.next(LONG).unwrap().unwrap().epoch()).collect::<Vec<_>>());
    assert_eq!(batches.await, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_on_the_way_fails_the_feed_unless_something_is_said_about_it() {
    let fake = Fake::new(3, 1, 4).with_null(5);
    let bed = Bed::new(&fake, 64 << 20).await;
    let silent = bed.open(request(&json!({}))).await.unwrap();
    let filled = bed.open(request(&json!({"nulls": {"id": -1}}))).await.unwrap();
    bed.trainer(move |_| {
        assert_eq!(silent.next(LONG).unwrap().unwrap().step(), 0);
        let failure = silent.next(LONG).map(drop).unwrap_err().to_string();
        assert!(failure.contains("column \"id\" holds 1 nulls at epoch 0, step 1"), "{failure}");
        drop(filled.next(LONG));
        assert_eq!(ids(&filled.next(LONG).unwrap().unwrap()), [4, -1, 6, 7]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_is_described_without_being_started() {
    let fake = Fake::new(3, 1, 4);
    let bed = Bed::new(&fake, 64 << 20).await;
    let asked = request(&json!({"nulls": {"*": "mask"}}));
    let described =
        bed.trainer(move |path| Consumer::describe(&path, &asked.to_string(), LONG)).await.unwrap();
    let description: Value = serde_json::from_str(&described).unwrap();
    let names: Vec<_> =
        description["columns"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["id", "id_valid", "text"]);
    assert_eq!(description["rows_per_step"], 4);
    assert!(fake.opened.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_said_in_one_line() {
    let fake = Fake::new(3, 1, 4);
    let bed = Bed::new(&fake, 1 << 20).await;
    let mut unknown = request(&json!({}));
    unknown["feed"]["dataset"] = json!("e");
    for (asked, said) in [
        (unknown, "this gateway serves \"d\""),
        (request(&json!({"epoch": 1})), "unknown field `epoch`"),
        (
            request(&json!({"nulls": {"nobody": 0}})),
            "it has \"id\", \"text\"; name none that columns or select leave out",
        ),
        (
            request(&json!({"nulls": {"texd": 0}})),
            "nulls names column \"texd\", which the feed does not have: did you mean \"text\"?",
        ),
        (
            request(&json!({"memory": 4096})),
            "the feed may have 4096 bytes and needs 73728 at least, for a step of this rank takes 4096 and another is on its way meanwhile: \
             give it at least 73728 with memory=",
        ),
        (
            request(&json!({"gateways": ["grpc://127.0.0.1:1"], "memory": 1 << 20})),
            "no gateway served the feed",
        ),
    ] {
        let refusal = bed.refusal(asked).await;
        assert!(refusal.contains(said), "{refusal}");
        assert!(!refusal.contains('\n'), "{refusal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_on_the_way_comes_after_what_came_before() {
    let fake = Fake::new(3, 1, 4).scripted(vec![(2, Fault::Refuse(penstock_proto::Code::BadFile))]);
    let bed = Bed::new(&fake, 64 << 20).await;
    let consumer = bed.open(request(&json!({}))).await.unwrap();
    bed.trainer(move |_| {
        assert_eq!(consumer.next(LONG).unwrap().unwrap().step(), 0);
        assert_eq!(consumer.next(LONG).unwrap().unwrap().step(), 1);
        match consumer.next(LONG) {
            Err(NextError::Failed { code, message }) => {
                assert_eq!((code.as_str(), message.as_str()), ("BadFile", "as the script says"));
            }
            other => panic!("{:?}", other.map(|batch| batch.map(|batch| batch.step()))),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_its_slot_has_memory_of_its_own() {
    // Texts grow with the ids: the first step says little about the last.
    let fake = Fake::new(3, 1, 4).growing();
    let bed = Bed::new(&fake, 64 << 20).await;
    let consumer = bed.open(request(&json!({}))).await.unwrap();
    bed.trainer(move |_| {
        for step in 0..3 {
            let batch = consumer.next(LONG).unwrap().unwrap();
            assert_eq!(ids(&batch), (step * 4..step * 4 + 4).collect::<Vec<_>>());
            let lengths: Vec<_> = texts(&batch).iter().map(|text| text.len() as i64).collect();
            assert_eq!(lengths, ids(&batch).iter().map(|id| id * id * 1000).collect::<Vec<_>>());
        }
        assert!(consumer.next(LONG).unwrap().is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_feed_may_have_bounds_it_and_what_is_free_is_enough() {
    let fake = Fake::new(3, 1, 4);
    let bed = Bed::new(&fake, 4 << 20).await;
    // More than the sidecar has, and then more than it has left.
    let first = bed.open(request(&json!({"memory": 3 << 20}))).await.unwrap();
    let second = bed.open(request(&json!({"memory": 1_u64 << 40}))).await.unwrap();
    for consumer in [first, second] {
        assert_eq!(bed.trainer(move |_| read(&consumer)).await.unwrap().len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_are_too_large_for_the_memory_may_have_more() {
    // The one step takes 140,000 bytes.
    let fake = Fake::new(1, 1, 8).growing();
    let small = |most_memory| Config { memory: 256 << 10, most_memory, ..Config::new("") };
    let bed = Bed::of(&fake, small(0)).await;
    let refusal = bed.refusal(request(&json!({"feed": {"dataset": "d", "batch_size": 8}}))).await;
    assert!(refusal.contains("PENSTOCK_SIDECAR_MEMORY in the environment"), "{refusal}");
    let bed = Bed::of(&fake, small(4 << 20)).await;
    let consumer = bed.open(request(&json!({"feed": {"dataset": "d", "batch_size": 8}}))).await.unwrap();
    assert_eq!(consumer.slots(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trainer_that_leaves_takes_everything_with_it() {
    let fake = Fake::new(100, 1, 4);
    let bed = Bed::new(&fake, 1 << 20).await;
    let all = || request(&json!({"memory": 1 << 20}));
    let consumer = bed.open(all()).await.unwrap();
    let held = bed.trainer(move |_| (consumer.next(LONG).unwrap(), consumer)).await;
    // The whole memory is one feed's: another one must wait, and waits in vain.
    assert!(bed.refusal(all()).await.contains("feeds hold 1048576"));
    drop(held);
    // Its leaving is seen a moment later; a feed that waits for memory gets it.
    let consumer = bed.open(all()).await.unwrap();
    drop(consumer);
    bed.drain.begin();
    bed.drain.finished(LONG).await.unwrap();
    assert!(!bed.path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_is_stopped_says_so() {
    let fake = Fake::new(100, 1, 4);
    let bed = Bed::new(&fake, 1 << 20).await;
    let consumer = bed.open(request(&json!({}))).await.unwrap();
    bed.drain.begin();
    let failure = bed
        .trainer(move |_| {
            loop {
                match consumer.next(LONG) {
                    Ok(batch) => assert!(batch.is_some()),
                    Err(error) => return error,
                }
            }
        })
        .await;
    assert!(matches!(failure, NextError::Failed { ref code, .. } if code == "Draining"), "{failure}");
    bed.drain.finished(LONG).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let bed = Bed::new(&Fake::new(1, 1, 1), 1 << 20).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bed.path), 0o600);
    assert_eq!(mode(bed.path.parent().unwrap()), 0o700);
}
