//! DataNodes that die or fall silent, and replicas that rot.

use penstock_proto::Code;
use penstock_tests::hdfs::Bed;

use crate::served::{LARGE, SMALL_BLOCKS, Served, assert_whole, config, dataset, next, put, rest};

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_lives_as_long_as_one_replica_does() {
    let Some(mut bed) = Bed::start(SMALL_BLOCKS) else { return };
    put(&mut bed, LARGE, "/data");
    // Only a second attempt gets past a DataNode that is silent for longer than a read may take.
    let overtaking =
        [("dfs.client.hedged.read.threshold.millis", "200"), ("dfs.client.socket-timeout", "600000")];
    let hdfs = config(bed.conf(), &overtaking);
    let served = Served::new(&format!("{}/data", bed.uri()), hdfs).await;

    // Reads that a DataNode took and never answers are overtaken.
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    bed.command("freeze-reads 2");
    ids.extend(rest(stream).await.unwrap());
    bed.command("thaw");
    assert_whole(&ids, LARGE);

    // One DataNode dies mid-epoch, then another.
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    bed.command("kill-datanode 0");
    ids.extend(next(&mut stream).await);
    bed.command("kill-datanode 0");
    ids.extend(rest(stream).await.unwrap());
    bed.command("start-datanodes");
    assert_whole(&ids, LARGE);

    // Two of three replicas rot.
    bed.command("corrupt /data/part-00003.parquet 1");
    assert_whole(&served.epoch(2).await.unwrap(), LARGE);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_without_replicas_ends_in_words_and_goes_on_when_they_are_back() {
    let Some(mut bed) = Bed::start(SMALL_BLOCKS) else { return };
    put(&mut bed, LARGE, "/data");
    let uri = format!("{}/data", bed.uri());
    let served = Served::new(&uri, config(bed.conf(), &[])).await;

    let mut stream = served.rank(0, 1).await.unwrap();
    next(&mut stream).await;
    for _ in 0..3 {
        bed.command("kill-datanode 0");
    }
    let error = rest(stream).await.unwrap_err();
    assert_eq!(error.code, Code::StoreUnavailable, "{}", error.message);
    for said in ["no DataNode gave bytes", "/data/part-", "hdfs fsck", "attempts"] {
        assert!(error.message.contains(said), "{}", error.message);
    }
    bed.command("start-datanodes");
    assert_whole(&served.epoch(2).await.unwrap(), LARGE);
    served.end().await;

    // Every replica of one file rots: it alone is to blame.
    bed.command("corrupt /data/part-00005.parquet 0");
    let rotten = dataset(&format!("{uri}/part-00005.parquet"), &config(bed.conf(), &[]));
    let error = crate::served::refusal(&rotten, crate::served::LONG).await;
    assert_eq!(error.code, Code::StoreUnavailable);
    assert!(error.message.contains("part-00005.parquet"), "{}", error.message);
    assert_eq!(
        dataset(&format!("{uri}/part-0000[0-4]*"), &config(bed.conf(), &[])).snapshot().await.unwrap().rows(),
        5000
    );
}
