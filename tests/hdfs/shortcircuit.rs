//! DataNodes on the gateway's own machine, which lend it the files of their blocks.

use penstock_tests::hdfs::Bed;

use crate::served::{LARGE, SMALL_BLOCKS, Served, assert_whole, config, next, put, rest};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_this_machine_is_read_past_the_network() {
    let Some(mut bed) = Bed::start(&[SMALL_BLOCKS, &["--short-circuit"]].concat()) else { return };
    put(&mut bed, LARGE, "/data");
    let uri = format!("{}/data", bed.uri());
    let served = Served::new(&uri, config(bed.conf(), &bed.short_circuit())).await;

    bed.command("refuse-reads");
    assert_whole(&served.epoch(2).await.unwrap(), LARGE);
    bed.command("accept-reads");

    // DataNodes die, one after the other.
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    bed.command("kill-datanode 0");
    ids.extend(rest(stream).await.unwrap());
    assert_whole(&ids, LARGE);
    bed.command("kill-datanode 0");
    bed.command("start-datanodes");
    assert_whole(&served.epoch(1).await.unwrap(), LARGE);

    // Two of three replicas rot: the third is found. Whoever has it must not die any more.
    bed.command("corrupt /data/part-00003.parquet 1");
    assert_whole(&served.epoch(2).await.unwrap(), LARGE);
    served.end().await;

    // Where no DataNode lends, the network does as well.
    let nowhere =
        [("dfs.client.read.shortcircuit", "true"), ("dfs.domain.socket.path", "/nonexistent/node._PORT")];
    let served = Served::new(&uri, config(bed.conf(), &nowhere)).await;
    assert_whole(&served.epoch(1).await.unwrap(), LARGE);
    served.end().await;
}
