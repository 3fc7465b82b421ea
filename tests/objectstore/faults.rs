//! A store that fails: right rows where they can come, otherwise one line in bounded time.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use penstock_gateway::config::CloudConfig;
use penstock_proto::{Code, Error};
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use tokio::task;

use crate::reader::LONG;
use crate::served::{LARGE, Served, WIDE, assert_whole, config, dataset, refusal};
use crate::store::{Answer, Asked, Sort, Store};

const SMALL: Shape = Shape { files: 2, rows_per_file: 50, row_group: 50, payload: None };
const URI: &str = "s3://lake/data";

/// A store with rows of a shape.
async fn store(
    shape: Shape,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> (Store, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    data::write(&directory.path().join("data"), shape);
    (Store::new(directory.path(), answer).await, directory)
}

/// All rows come, though the store fails so.
async fn all_rows_come(
    shape: Shape,
    options: &[(&str, &str)],
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> (Store, tempfile::TempDir) {
    let (store, directory) = store(shape, answer).await;
    let served = Served::new(URI, config(&store.endpoint(), options)).await;
    assert_whole(&served.epoch(2).await.unwrap(), shape);
    served.end().await;
    (store, directory)
}

/// What is said of a store that does nothing but fail so.
async fn said_of(sort: Sort, answer: Answer) -> Error {
    let always = move |asked: &Asked| if asked.sort == sort { answer } else { Answer::Right };
    let (store, _directory) = store(SMALL, always).await;
    refusal(URI, &config(&store.endpoint(), &[("retry_timeout", "8s")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_fails_once() {
    const FAULTS: [Answer; 4] = [
        Answer::Refusal(500, "InternalError", None),
        Answer::Cut(100_000),
        Answer::OtherRange,
        Answer::Refusal(503, "SlowDown", None),
    ];
    // Each once, so that nothing fails too often in a row.
    let failed = Mutex::new(BTreeSet::new());
    let failing = move |asked: &Asked| match failed.lock().unwrap().insert((asked.sort, asked.range.end)) {
        true => FAULTS[asked.number % FAULTS.len()],
        false => Answer::Right,
    };
    all_rows_come(LARGE, &[], failing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_is_gone_on_with_where_it_ended() {
    // The first request of the column breaks after 2 MiB, or falls silent.
    for broken in [Answer::Cut(2 << 20), Answer::Silence(2 << 20)] {
        let is_first =
            |asked: &Asked| asked.range.start < 1 << 20 && asked.range.end - asked.range.start >= 8 << 20;
        let once = move |asked: &Asked| {
            if asked.sort == Sort::Get && is_first(asked) { broken } else { Answer::Right }
        };
        let (store, _directory) = all_rows_come(WIDE, &[("read_timeout", "2s")], once).await;
        let gets = store.seen(Sort::Get);
        let first = gets.iter().find(|asked| is_first(asked)).unwrap();
        let mut rests = gets.iter().filter(|asked| asked.range.end == first.range.end && !is_first(asked));
        let rest = rests.next().unwrap_or_else(|| panic!("the rest is not asked for: {gets:?}"));
        // What lies in buffers of the kernel may be lost with the connection.
        assert!(rest.range.start <= first.range.start + (2 << 20), "{rest:?} after {first:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_left_alone_as_long_as_it_asks() {
    let busy = |asked: &Asked| match (asked.sort, asked.number) {
        (Sort::List, 0) => Answer::Refusal(503, "SlowDown", Some(("retry-after", "2"))),
        _ => Answer::Right,
    };
    let (store, _directory) = store(SMALL, busy).await;
    dataset(URI, &config(&store.endpoint(), &[])).snapshot().await.unwrap();
    let lists = store.seen(Sort::List);
    assert!(lists[1].at - lists[0].at >= Duration::from_secs(2), "{lists:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_asks_to_slow_down_is_asked_less_at_once_and_then_more_again() {
    let is_busy = Arc::new(AtomicBool::new(false));
    let busy = Arc::clone(&is_busy);
    let (store, _directory) = store(LARGE, move |asked| match asked.sort {
        Sort::Get if busy.load(Ordering::SeqCst) => Answer::Refusal(503, "SlowDown", None),
        _ => Answer::Right,
    })
    .await;
    let endpoint = format!("aws_endpoint={}", store.endpoint());
    let settings = ["--store-option", &endpoint, "--store-option", "aws_skip_signature=true", "--cache", "0"];
    let serving = ["--dataset", "d=s3://lake/data", "--admin", "127.0.0.1:0"];
    // The store answers meanwhile.
    let gateway = task::block_in_place(|| Daemon::gateway(&[&settings[..], &serving].concat()));
    let limit = || task::block_in_place(|| gateway.metric("penstock_gateway_store_limit")).unwrap();
    let at_first = limit();
    assert!(at_first >= 16.0, "{at_first}");

    is_busy.store(true, Ordering::SeqCst);
    let location = gateway.address.clone();
    let reading = tokio::spawn(async move { Served::elsewhere(&location).epoch(2).await });
    let began = Instant::now();
    while limit() > 1.0 {
        assert!(began.elapsed() < LONG, "{} at once", limit());
        task::yield_now().await;
    }
    is_busy.store(false, Ordering::SeqCst);
    assert_whole(&reading.await.unwrap().unwrap(), LARGE);
    let at_last = limit();
    assert!(at_last >= 4.0, "a round of successes is one more: {at_last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_does_not_come_is_overtaken() {
    // Without a second request nothing would come before the stall deadline, which is that of the test.
    let once = |asked: &Asked| match (asked.sort, asked.number) {
        (Sort::Get, 3) => Answer::Silence(0),
        _ => Answer::Right,
    };
    let (store, _directory) = all_rows_come(LARGE, &[("read_timeout", "10m")], once).await;
    let gets = store.seen(Sort::Get);
    let again = gets.iter().filter(|asked| asked.range == gets[3].range).count();
    assert!(again >= 2, "{gets:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_lasts_ends_in_one_line() {
    let cases = [
        (
            Sort::Get,
            Answer::Refusal(500, "InternalError", None),
            Code::StoreUnavailable,
            "status 500, InternalError",
        ),
        (Sort::List, Answer::Refusal(503, "SlowDown", None), Code::StoreUnavailable, "status 503, SlowDown"),
        (
            Sort::List,
            Answer::Refusal(429, "", Some(("retry-after", "600"))),
            Code::StoreUnavailable,
            "status 429",
        ),
        (Sort::Get, Answer::Cut(10), Code::StoreUnavailable, "times in"),
        (Sort::Get, Answer::OtherRange, Code::StoreUnavailable, "got"),
        (Sort::Get, Answer::Whole, Code::StoreUnavailable, "non-partial"),
        (Sort::Get, Answer::OtherVersion, Code::SnapshotGone, "is not what was listed"),
    ];
    let check = async |(sort, answer, code, said)| {
        let error = said_of(sort, answer).await;
        assert!(error.message.contains(said), "{answer:?}: {}", error.message);
        assert!(error.message.contains(URI) && error.message.lines().count() == 1, "{}", error.message);
        assert_eq!(error.code, code, "{}", error.message);
    };
    futures::future::join_all(cases.map(check)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_trickles_is_given_up() {
    for sort in [Sort::List, Sort::Get] {
        let trickling = move |asked: &Asked| if asked.sort == sort { Answer::Trickle } else { Answer::Right };
        let (store, _directory) = store(SMALL, trickling).await;
        let error = refusal(URI, &config(&store.endpoint(), &[("retry_timeout", "1s")])).await;
        assert!(error.message.contains("comes too slowly"), "{}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_what_to_do() {
    let refused = |status, code| Answer::Refusal(status, code, None);
    for (answer, said) in [
        (
            refused(403, "AccessDenied"),
            "may not be read (status 403, AccessDenied: In other words): see that AWS_",
        ),
        (refused(403, "SignatureDoesNotMatch"), "does not accept the credentials"),
        (refused(400, "ExpiredToken"), "the credentials for s3://lake have expired"),
        (refused(404, "NoSuchBucket"), "there is no bucket s3://lake"),
        (
            Answer::Refusal(301, "PermanentRedirect", Some(("x-amz-bucket-region", "eu-west-3"))),
            "s3://lake lies in eu-west-3: set AWS_REGION",
        ),
    ] {
        let began = Instant::now();
        let (store, _directory) = store(SMALL, move |_| answer).await;
        let error = refusal(URI, &config(&store.endpoint(), &[])).await;
        assert!(error.message.contains(said), "{}", error.message);
        assert!(!error.message.contains("secret"), "{}", error.message);
        // A question that cannot be answered otherwise is put once to HEAD, once for the words, once to a listing.
        let asked = [Sort::Head, Sort::Get, Sort::List].map(|sort| store.seen(sort).len());
        assert!(asked.iter().all(|&asked| asked <= 1), "{asked:?} in {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_read_below_a_directory_need_not_ask_for_the_directory() {
    let (store, _directory) = store(SMALL, |asked| match asked.sort {
        Sort::Head => Answer::Refusal(403, "AccessDenied", None),
        Sort::Get if asked.range == (0..1) => Answer::Refusal(403, "AccessDenied", None),
        _ => Answer::Right,
    })
    .await;
    let snapshot = dataset(URI, &config(&store.endpoint(), &[])).snapshot().await.unwrap();
    assert_eq!(snapshot.rows(), SMALL.rows() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_credentials_is_told_where_they_are_looked_for() {
    // Where a machine would have some, there are none.
    let (store, _directory) = store(SMALL, |_| Answer::Refusal(404, "", None)).await;
    let endpoint = store.endpoint();
    let options = [("aws_endpoint", endpoint.as_str()), ("aws_metadata_endpoint", endpoint.as_str())];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let error = refusal(URI, &CloudConfig { options, ..CloudConfig::default() }).await;
    assert!(error.message.contains("there are no credentials for s3://lake"), "{}", error.message);
    assert!(error.message.contains("AWS_PROFILE"), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_prove_who_it_is_is_not_asked() {
    let (store, _directory) = store(SMALL, |_| Answer::Right).await;
    let endpoint = store.endpoint().replacen("http://", "https://", 1);
    let error = refusal(URI, &config(&endpoint, &[])).await;
    assert!(error.message.contains("s3://lake does not prove who it is"), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_of_google_and_azure_are_read_alike() {
    let (store, _directory) = store(LARGE, |_| Answer::Right).await;
    let endpoint = store.endpoint();
    for (uri, options) in [
        (
            "gs://lake/data",
            [("google_base_url", endpoint.as_str()), ("google_skip_signature", "true")].as_slice(),
        ),
        (
            "az://lake/data",
            &[
                ("azure_endpoint", endpoint.as_str()),
                ("azure_storage_account_name", "a"),
                ("azure_storage_account_key", "c2VjcmV0"),
            ],
        ),
    ] {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let cloud = CloudConfig { options: options.iter().map(owned).collect(), ..CloudConfig::default() };
        let served = Served::new(uri, cloud.clone()).await;
        assert_whole(&served.epoch(2).await.unwrap(), LARGE);
        served.end().await;
        let by_pattern = dataset(&format!("{uri}/part-0000[0-2]*"), &cloud).snapshot().await.unwrap();
        assert_eq!(by_pattern.files.len(), 3, "{uri}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_thousand_files_are_one_dataset() {
    // More than the pages of a listing hold.
    let many = Shape { files: 3000, rows_per_file: 2, row_group: 2, payload: None };
    let (store, _directory) = all_rows_come(many, &[], |_| Answer::Right).await;
    assert!(store.seen(Sort::List).len() >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_binary_takes_settings_and_counts() {
    let once = |asked: &Asked| match (asked.sort, asked.number) {
        (Sort::List, 0) => Answer::Refusal(503, "SlowDown", None),
        _ => Answer::Right,
    };
    let (store, _directory) = store(SMALL, once).await;
    let endpoint = format!("aws_endpoint={}", store.endpoint());
    let metrics = task::spawn_blocking(move || {
        let settings = ["--store-option", &endpoint, "--store-option", "aws_skip_signature=true"];
        let serving = ["--dataset", "d=s3://lake/data", "--admin", "127.0.0.1:0"];
        let gateway = Daemon::gateway(&[settings, serving].concat());
        let admin = gateway.admin.as_deref().unwrap().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(admin).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let metrics = metrics.await.unwrap();
    let asked = [Sort::Head, Sort::List, Sort::Get].map(|sort| store.seen(sort).len()).iter().sum::<usize>();
    for (name, least) in [("requests", asked), ("throttled", 1), ("retries", 1), ("bytes", 1)] {
        let line = format!("penstock_gateway_store_{name}_total{{store=\"s3://lake\"}} ");
        let count = metrics.lines().find_map(|said| said.strip_prefix(&line)?.parse::<usize>().ok());
        assert!(count.is_some_and(|count| count >= least), "{line}{least} in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_server_gives_files_that_are_named() {
    let directory = tempfile::tempdir().unwrap();
    data::write(&directory.path().join("data"), SMALL);
    let web = CloudConfig::default();
    let stores =
        [Store::new(directory.path(), |_| Answer::Right).await, Store::without_tags(directory.path()).await];
    for store in &stores {
        let file = |number: usize| format!("{}/data/part-0000{number}.parquet", store.endpoint());
        let one = dataset(&file(1), &web).snapshot().await.unwrap();
        assert_eq!(one.rows(), 50);
        let served = Served::new(&format!("{} {}", file(0), file(1)), web.clone()).await;
        assert_whole(&served.epoch(1).await.unwrap(), SMALL);
        served.end().await;

        let error = refusal(&format!("{} {}", file(0), file(7)), &web).await;
        assert!(error.message.contains("part-00007.parquet: check the path"), "{}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_server_that_cannot_do_it_is_told_from_one_that_can() {
    let (no_listing, _directory) = store(SMALL, |asked| match asked.sort {
        Sort::Head => Answer::Refusal(404, "", None),
        _ => Answer::Refusal(405, "", None),
    })
    .await;
    let error = refusal(&format!("{}/data", no_listing.endpoint()), &CloudConfig::default()).await;
    assert!(error.message.contains("cannot be listed, this web server does not do it"), "{}", error.message);

    let (no_ranges, _directory) = store(SMALL, |_| Answer::Whole).await;
    let file = format!("{}/data/part-00000.parquet", no_ranges.endpoint());
    let error = refusal(&file, &CloudConfig::default()).await;
    assert!(error.message.contains("does not give ranges of a file"), "{}", error.message);
    assert_eq!(error.code, Code::Unsupported);
}
