//! An HDFS where nothing fails: listing, planning, reading, and files that are replaced.

use penstock_gateway::config::HdfsConfig;
use penstock_gateway::dataset::inspect::Inspection;
use penstock_gateway::plan::Order;
use penstock_proto::{Code, Remainder, Shuffle};
use penstock_tests::data::{self, Shape};
use penstock_tests::hdfs::Bed;

use crate::served::{LARGE, LONG, SMALL_BLOCKS, Served, assert_whole, config, dataset, put, refusal};

const SMALL: Shape = Shape { files: 3, rows_per_file: 50, row_group: 20, payload: None };

/// One column of 24 MB in one piece, which is read as several ranges side by side.
const WIDE: Shape = Shape { files: 1, rows_per_file: 6000, row_group: 6000, payload: Some(4096) };

#[tokio::test(flavor = "multi_thread")]
async fn datasets_are_listed_planned_and_read() {
    let Some(mut bed) = Bed::start(SMALL_BLOCKS) else { return };
    let hdfs = config(bed.conf(), &[]);
    put(&mut bed, LARGE, "/data/large");
    put(&mut bed, WIDE, "/data/wide");
    put(&mut bed, SMALL, "/data/small/day=1");
    put(&mut bed, SMALL, "/data/small/_temporary");

    let name = |path: &str| format!("{}{path}", bed.uri());
    // The same rows whatever names them, through the default file system too.
    for (uri, rows) in [
        (name("/data/small"), SMALL.rows()),
        (name("//data//small/"), SMALL.rows()),
        (name("/data/small/day=*/part-0000[01].parquet"), 100),
        (name("/data/*/*/*.parquet"), SMALL.rows()),
        (name("/data/small/day=1/part-00002.parquet"), 50),
        ("hdfs:///data/l*".to_owned(), LARGE.rows()),
    ] {
        let snapshot = dataset(&uri, &hdfs).snapshot().await.unwrap();
        assert_eq!(snapshot.rows(), rows as u64, "{uri}");
    }

    let large = dataset(&name("/data/large"), &hdfs);
    let order = Order {
        batch_size: 100,
        lanes: None,
        shuffle: Shuffle::Rows,
        shuffle_bytes: 4 << 20,
        seed: 0,
        remainder: Remainder::Drop,
    };
    let snapshot = large.snapshot().await.unwrap();
    let inspection = Inspection::new(large.location(), &snapshot, order, None).unwrap();
    assert_eq!((inspection.files, inspection.row_groups, inspection.steps), (12, 48, 120));
    assert_eq!(snapshot.files[0].to_string(), name("/data/large/part-00000.parquet"));

    for (path, shape, world) in
        [("/data/large", LARGE, 1), ("/data/large", LARGE, 3), ("/data/wide", WIDE, 2)]
    {
        let served = Served::new(&name(path), hdfs.clone()).await;
        assert_whole(&served.epoch(world).await.unwrap(), shape);
        served.end().await;
    }

    for (path, said) in [
        ("/data/nothing", "there is no hdfs://"),
        ("/data/small/z*", "no Parquet file in hdfs://"),
        ("/data/small/day=1/part[", "is not a readable pattern"),
    ] {
        let error = refusal(&dataset(&name(path), &hdfs), LONG).await;
        assert!(error.message.contains(said) && error.message.contains(path), "{}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_makes_another_snapshot() {
    let Some(mut bed) = Bed::start(&[]) else { return };
    put(&mut bed, SMALL, "/data");
    let uri = format!("{}/data", bed.uri());
    let hdfs = config(bed.conf(), &[]);
    let dataset = dataset(&uri, &hdfs);
    let first = dataset.snapshot().await.unwrap();
    assert_eq!(first.id, dataset.snapshot().await.unwrap().id);

    // The same bytes, written again.
    put(&mut bed, SMALL, "/data");
    let second = dataset.snapshot().await.unwrap();
    assert_ne!(first.id, second.id);

    // Who comes with the first snapshot is told, and gets no bytes of the second.
    let (old, store) =
        (&first.files[0].meta, &crate::served::dataset(&uri, &hdfs).snapshot().await.unwrap().files[0].store);
    let demand = object_store::GetOptions { if_match: old.e_tag.clone(), ..Default::default() };
    let got = store.get_opts(&old.location, demand).await.unwrap().bytes().await;
    assert!(matches!(got, Err(object_store::Error::Precondition { .. })), "{got:?}");

    // The bed's own user may read everything; another may not.
    bed.command("owner nobody 000 /data/part-00000.parquet");
    let stranger = HdfsConfig { user: Some("stranger".to_owned()), ..hdfs };
    let error = refusal(&crate::served::dataset(&uri, &stranger), LONG).await;
    assert_eq!(error.code, Code::BadFile, "{}", error.message);
    assert!(error.message.contains("part-00000.parquet may not be read"), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_thousand_files_are_one_dataset() {
    let Some(mut bed) = Bed::start(&["--datanodes", "1", "-D", "dfs.replication=1"]) else { return };
    let many = Shape { files: 12_000, rows_per_file: 2, row_group: 2, payload: None };
    let local = bed.scratch().join("rows");
    data::write(&local, many);
    bed.put(&local, "/data");
    let served = Served::new(&format!("{}/data", bed.uri()), config(bed.conf(), &[])).await;
    assert_whole(&served.epoch(4).await.unwrap(), many);
    served.end().await;
}
