//! A store that behaves as S3 does, moto's: listing, planning, reading, files that are replaced, who may not.

use futures::TryStreamExt as _;
use penstock_gateway::config::CloudConfig;
use penstock_proto::Code;
use penstock_tests::data::Shape;
use penstock_tests::moto::Moto;

use crate::served::{LARGE, Served, assert_whole, config, dataset, refusal, rest};

const PLENTY: Shape = Shape { files: 4, rows_per_file: 500, row_group: 125, payload: Some(4096) };
const SMALL: Shape = Shape { files: 3, rows_per_file: 50, row_group: 20, payload: None };

#[tokio::test(flavor = "multi_thread")]
async fn datasets_are_listed_planned_and_read() {
    let Some(mut moto) = Moto::start() else { return };
    moto.command("bucket lake");
    moto.put(PLENTY, "s3://lake/data/plenty");
    moto.put(SMALL, "s3://lake/data/small/day=1");
    moto.put(SMALL, "s3://lake/data/small/_temporary");
    let cloud = config(&moto.endpoint, &[]);

    // The same rows whatever names them.
    for (uri, rows) in [
        ("s3://lake/data/small", SMALL.rows()),
        ("s3a://lake/data/small/", SMALL.rows()),
        ("s3://lake/data/small/day=*/part-0000[01].parquet", 100),
        ("s3://lake/data/*/*/*.parquet", SMALL.rows()),
        ("s3://lake/data/small/day=1/part-00002.parquet", 50),
        ("s3://lake/data/p*", PLENTY.rows()),
    ] {
        assert_eq!(dataset(uri, &cloud).snapshot().await.unwrap().rows(), rows as u64, "{uri}");
    }
    // All of a bucket, whose files have different columns: those that all have are one dataset.
    let all = dataset("s3://lake", &cloud).snapshot().await.unwrap();
    assert_eq!(all.rows(), (PLENTY.rows() + SMALL.rows()) as u64);
    let names: Vec<_> = all.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "x"], "one has a payload");
    let snapshot = dataset("s3://lake/data/plenty", &cloud).snapshot().await.unwrap();
    assert_eq!(snapshot.files[0].to_string(), "s3://lake/data/plenty/part-00000.parquet");

    for world in [1, 3] {
        let served = Served::new("s3://lake/data/plenty", cloud.clone()).await;
        assert_whole(&served.epoch(world).await.unwrap(), PLENTY);
        served.end().await;
    }

    for (uri, said) in [
        ("s3://lake/data/nothing", "no Parquet file in s3://lake/data/nothing"),
        ("s3://lake/data/small/z*", "no Parquet file in s3://lake/data/small/z*"),
        ("s3://lake/data/small/day=1/part[", "is not a readable pattern"),
        ("s3://absent/data", "there is no bucket s3://absent"),
    ] {
        let error = refusal(uri, &cloud).await;
        assert!(error.message.contains(said), "{}", error.message);
        assert!(!error.code.may_retry(), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_makes_another_snapshot() {
    let Some(mut moto) = Moto::start() else { return };
    moto.command("bucket lake");
    // Twice what may lie in windows, sockets and ahead of one lane while its reader waits.
    let shape = Shape { files: 2 * LARGE.files, ..LARGE };
    moto.put(shape, "s3://lake/data");
    let cloud = config(&moto.endpoint, &[]);
    let dataset = dataset("s3://lake/data", &cloud);
    let first = dataset.snapshot().await.unwrap();
    assert_eq!(first.id, dataset.snapshot().await.unwrap().id);

    // A reader that is under way is told, and gets no row of the new files.
    let served = Served::in_one_lane("s3://lake/data", cloud.clone()).await;
    let mut stream = served.rank(0, 1).await.unwrap();
    assert!(stream.try_next().await.unwrap().is_some());
    moto.put(Shape { rows_per_file: 999, ..shape }, "s3://lake/data");
    let error = rest(stream).await.unwrap_err();
    assert_eq!(error.code, Code::SnapshotGone, "{}", error.message);
    served.end().await;

    let second = dataset.snapshot().await.unwrap();
    assert_ne!(first.id, second.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_is_told_what_to_do() {
    let Some(mut moto) = Moto::start() else { return };
    moto.command("bucket lake");
    moto.put(SMALL, "s3://lake/data");
    let keys: Vec<String> = moto.command("user u").split(' ').map(str::to_owned).collect();
    let as_user = || {
        let [id, secret] = keys.as_slice() else { panic!("two keys: {keys:?}") };
        config(
            &moto.endpoint,
            &[("aws_access_key_id", id.as_str()), ("aws_secret_access_key", secret.as_str())],
        )
    };
    let cloud = as_user();
    moto.command("allow u s3:ListBucket arn:aws:s3:::other");
    moto.command("guard");
    let error = refusal("s3://lake/data", &cloud).await;
    assert!(error.message.contains("may not be read (status 403, AccessDenied"), "{}", error.message);
    assert!(
        error.message.contains("AWS_ACCESS_KEY_ID") && !error.message.contains(&keys[1]),
        "{}",
        error.message
    );
    assert_eq!(error.code, Code::BadFile);

    let stranger = config(&moto.endpoint, &[("aws_access_key_id", "AKIAUNKNOWNUNKNOWN00")]);
    let error = refusal("s3://lake/data", &stranger).await;
    assert!(error.message.contains("s3://lake does not accept the credentials"), "{}", error.message);
    assert!(error.message.contains("InvalidAccessKeyId"), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_endpoint_come_from_variables_or_from_a_profile() {
    let Some(mut moto) = Moto::start() else { return };
    moto.command("bucket lake");
    moto.put(SMALL, "s3://lake/data");
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(".aws").join(name), text).unwrap();
    write("credentials", "[lab]\naws_access_key_id = a\naws_secret_access_key = s\n");
    write(
        "config",
        &format!("[profile lab]\nendpoint_url = {}\n[profile corp]\nsso_session = c\n", moto.endpoint),
    );
    let environment = |variables: &[(&str, &str)]| {
        let home = [("HOME", home.path().to_str().unwrap())];
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = home.iter().chain(variables).map(owned).collect();
        CloudConfig { environment, ..CloudConfig::default() }
    };
    let variables = [
        ("AWS_ENDPOINT_URL_S3", moto.endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_SESSION_TOKEN", "t"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ];
    for said in [&variables[..], &[("AWS_PROFILE", "lab")]] {
        let snapshot = dataset("s3://lake/data", &environment(said)).snapshot().await.unwrap();
        assert_eq!(snapshot.rows(), SMALL.rows() as u64);
    }
}
