//! NameNodes that fail over, fall silent, refuse or are gone.

use std::time::Duration;

use penstock_gateway::config::HdfsConfig;
use penstock_proto::Code;
use penstock_tests::data::Shape;
use penstock_tests::hdfs::Bed;

use crate::proxy::Proxy;
use crate::served::{LONG, SMALL_BLOCKS, Served, assert_whole, config, dataset, next, put, refusal, rest};

/// More files than a gateway keeps open: it must ask for their blocks until the end of an epoch.
const MANY: Shape = Shape { files: 700, rows_per_file: 10, row_group: 10, payload: Some(4096) };

/// A dead NameNode is reported before this.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_or_refusing_namenode_is_reported_soon() {
    let Some(mut bed) = Bed::start(SMALL_BLOCKS) else { return };
    put(&mut bed, MANY, "/data");
    let proxy = Proxy::to(bed.namenodes()[0]).await;
    let uri = format!("hdfs://{}/data", proxy.address);
    let hdfs = config(bed.conf(), &[]);
    let known = dataset(&uri, &hdfs);
    known.snapshot().await.unwrap();
    let served = Served::new(&uri, hdfs.clone()).await;

    // Silence, for who knew it and for who comes new.
    proxy.freeze();
    for dataset in [known, dataset(&uri, &hdfs)] {
        let error = refusal(&dataset, SOON).await;
        assert_eq!(error.code, Code::StoreUnavailable);
        let message = error.message;
        assert!(message.contains("no NameNode of") && message.contains("silent for"), "{message}");
        assert!(message.contains(&proxy.address.to_string()) && message.contains("check that"), "{message}");
    }
    let thaw = async || {
        proxy.is_waited_for().await;
        proxy.thaw();
    };
    // A feed is asked for before anyone answers again, and then it is whole.
    proxy.freeze();
    let feed = async { rest(served.rank(0, 1).await?).await };
    let (ids, ()) = tokio::join!(feed, thaw());
    assert_whole(&ids.unwrap(), MANY);

    // Mid-epoch silence is waited out.
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    proxy.freeze();
    let (after, ()) = tokio::join!(rest(stream), thaw());
    ids.extend(after.unwrap());
    assert_whole(&ids, MANY);
    served.end().await;

    let address = proxy.address;
    drop(proxy);
    let error = refusal(&dataset(&uri, &hdfs), SOON).await;
    assert_eq!(error.code, Code::StoreUnavailable);
    assert!(error.message.contains(&format!("{address}: ")), "{}", error.message);
    assert!(error.message.to_lowercase().contains("refused"), "{}", error.message);
    let started = Served::start(&uri, hdfs).await;
    assert!(started.is_err(), "a gateway does not start on what it cannot read");
}

/// Both NameNodes of a pair, each behind a proxy.
async fn behind_proxies(bed: &Bed) -> (HdfsConfig, [Proxy; 2]) {
    let names = bed.namenodes();
    let proxies = [Proxy::to(names[0]).await, Proxy::to(names[1]).await];
    let addresses = proxies.each_ref().map(|proxy| proxy.address.to_string());
    let options = [
        ("dfs.namenode.rpc-address.ns1.nn1", addresses[0].as_str()),
        ("dfs.namenode.rpc-address.ns1.nn2", addresses[1].as_str()),
    ];
    (config(bed.conf(), &options), proxies)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_takes_the_active_namenode_away_the_other_goes_on() {
    let Some(mut bed) = Bed::start(&[&["--ha"], SMALL_BLOCKS].concat()) else { return };
    put(&mut bed, MANY, "/data");
    let (hdfs, proxies) = behind_proxies(&bed).await;
    let uri = format!("{}/data", bed.uri());
    let from_the_start = dataset(&uri, &hdfs);
    from_the_start.snapshot().await.unwrap();

    // Handed over in good order, mid-epoch.
    let served = Served::new(&uri, hdfs.clone()).await;
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    bed.command("failover");
    ids.extend(rest(stream).await.unwrap());
    assert_whole(&ids, MANY);

    // The second falls silent and the first takes over.
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    proxies[1].freeze();
    bed.command("failover");
    ids.extend(rest(stream).await.unwrap());
    assert_whole(&ids, MANY);
    assert_eq!(from_the_start.snapshot().await.unwrap().rows(), MANY.rows() as u64);

    // The first is gone, and the second speaks again.
    let mut stream = served.rank(0, 1).await.unwrap();
    let mut ids = next(&mut stream).await;
    proxies[1].thaw();
    bed.command("stop-namenode");
    ids.extend(rest(stream).await.unwrap());
    assert_whole(&ids, MANY);
    assert_whole(&served.epoch(2).await.unwrap(), MANY);

    // Neither is left: both are named, with what each did.
    proxies[1].freeze();
    let error = refusal(&from_the_start, LONG).await;
    assert_eq!(error.code, Code::StoreUnavailable);
    for said in ["hdfs://ns1", "silent for", &proxies[0].address.to_string(), &proxies[1].address.to_string()]
    {
        assert!(error.message.contains(said), "{} says {said}", error.message);
    }
    drop(proxies);
    let error = refusal(&from_the_start, SOON).await;
    assert!(error.message.to_lowercase().matches("refused").count() == 2, "{}", error.message);
    served.end().await;
}
