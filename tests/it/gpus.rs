//! A sidecar beside GPUs: the driver's library and the machine's two NUMA nodes are played.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use penstock_launcher::report::FeedRecord;
use penstock_launcher::report::metrics::Metrics;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use serde_json::json;

use crate::sidecar_bed::{LONG, open};

const SHAPE: Shape = Shape { files: 1, rows_per_file: 100, row_group: 100, payload: None };

/// The library that stands beside this file.
fn driver(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/nvml.c");
    let library = dir.join("libnvml.so");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(status.unwrap().success());
    library
}

/// A sysfs in which the second GPU hangs on a node of one processor.
fn sysfs(dir: &Path, cpu: &str) -> PathBuf {
    let sys = dir.join("sys");
    for (file, text) in [
        ("devices/system/node/online", "0-1\n"),
        ("devices/system/node/node1/cpulist", cpu),
        ("bus/pci/devices/0000:3b:00.0/numa_node", "1\n"),
    ] {
        let path = sys.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    sys
}

/// The processors that each thread of a process may use.
fn processors(pid: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok());
    let list = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    };
    status.map(list).collect()
}

#[test]
fn a_sidecar_stays_beside_its_gpu_and_tells_how_busy_it_is() {
    let dir = tempfile::tempdir().unwrap();
    data::write(&dir.path().join("data"), SHAPE);
    let dataset = format!("d={}", dir.path().join("data").display());
    let gateway = Daemon::gateway(&["--dataset", &dataset]);
    let allowed = processors("self").remove(0);
    let cpu = allowed.rsplit([',', '-']).next().unwrap();
    let (socket, driver, sys) = (dir.path().join("sidecar.sock"), driver(dir.path()), sysfs(dir.path(), cpu));
    let sidecar = Daemon::start(&[
        "sidecar",
        "--listen",
        socket.to_str().unwrap(),
        "--gateway",
        &gateway.address,
        "--gpu",
        "GPU-1",
        "--nvml",
        driver.to_str().unwrap(),
        "--sysfs",
        sys.to_str().unwrap(),
        "--admin",
        "127.0.0.1:0",
    ]);

    let consumer = open(&socket, &json!({"dataset": "d", "batch_size": 5}), 1);
    let _step = consumer.next(LONG).unwrap().unwrap();
    let began = Instant::now();
    let busy = loop {
        let feeds = FeedRecord::all(&Metrics::parse(&sidecar.metrics()));
        match feeds.first().and_then(|feed| feed.gpus_busy) {
            Some(busy) => break busy,
            None => assert!(began.elapsed() < LONG, "{feeds:?}"),
        }
    };
    assert!((busy - 0.07).abs() < 1e-9, "the chosen one alone: {busy}");
    assert_eq!(sidecar.metric("penstock_sidecar_gpu_busy_ratio"), Some(0.07));
    let used = processors(&sidecar.pid().to_string());
    assert!(!used.is_empty() && used.iter().all(|list| list == cpu), "{used:?} instead of {cpu}");
}
