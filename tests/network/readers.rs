//! Readers whose machine vanishes, and one that stands still: what a gateway holds for them.

use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightDescriptor, Ticket};
use futures::TryStreamExt as _;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::{Daemon, penstock_bin};
use penstock_tests::trainer::are_all;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tonic::transport::Endpoint;

use crate::machines::{Machine, in_own_network, until, window_probes};

/// Far more than lies in sockets.
const SHAPE: Shape = Shape { files: 4, rows_per_file: 2500, row_group: 50, payload: Some(8192) };
/// HTTP/2 leaves all of it to TCP.
const WINDOW: u32 = 1 << 30;

/// A gateway here, and a machine for its reader.
struct Site {
    machine: Machine,
    gateway: Daemon,
    _dir: TempDir,
}

/// A stock client on a machine of its own. It takes a batch and stands still: nobody reads its socket.
struct Reader {
    thread: JoinHandle<Option<Vec<i64>>>,
    go_on: mpsc::Sender<()>,
    leave: oneshot::Sender<()>,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        data::write(&dir.path().join("data"), SHAPE);
        let machine = Machine::new(1);
        let gateway = Daemon::spawn(
            Command::new(penstock_bin())
                .args(["gateway", "--listen", &format!("{}:0", machine.near_address())])
                .args(["--dataset", &format!("d={}", dir.path().join("data").display())])
                .args(["--memory", "64MiB", "--reader-timeout", "4s", "--admin", "127.0.0.1:0"])
                .args(["--exit-with", &std::process::id().to_string()]),
        );
        Self { machine, gateway, _dir: dir }
    }

    /// A reader that stands still after its first batch.
    fn reader(&self) -> Reader {
        let (entry, address) = (self.machine.entry(), self.gateway.address.replacen("grpc", "http", 1));
        let (stands, standing) = mpsc::channel();
        let (go_on, told) = mpsc::channel();
        let (leave, left) = oneshot::channel();
        let thread = thread::spawn(move || {
            entry.enter();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (stream, mut batches) = runtime.block_on(async {
                let mut stream = open(address).await;
                let first = stream.try_next().await.unwrap().unwrap();
                (stream, vec![first])
            });
            stands.send(()).unwrap();
            told.recv().ok()?;
            runtime.block_on(async {
                tokio::select! {
                    rest = async { stream.try_collect::<Vec<_>>().await.unwrap() } => batches.extend(rest),
                    _ = left => return None,
                }
                let ids = batches.iter().map(|batch| batch["id"].as_primitive::<Int64Type>());
                Some(ids.flat_map(|ids| ids.values().to_vec()).collect())
            })
        });
        standing.recv().unwrap();
        Reader { thread, go_on, leave }
    }

    fn holds_nothing(&self) -> bool {
        let held = |what| self.gateway.metric(what).unwrap();
        held("penstock_gateway_streams") == 0.0 && held("penstock_gateway_budget_bytes") == 0.0
    }
}

async fn open(address: String) -> FlightRecordBatchStream {
    let endpoint = Endpoint::from_shared(address).unwrap();
    let endpoint = endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let mut client = FlightServiceClient::new(endpoint.connect().await.unwrap());
    let whole = FlightDescriptor::new_path(vec!["d".to_owned()]);
    let info = client.get_flight_info(whole).await.unwrap().into_inner();
    let ticket: Ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = client.do_get(ticket).await.unwrap().into_inner();
    FlightRecordBatchStream::new_from_flight_data(stream.map_err(Into::into))
}

#[test]
fn a_reader_whose_machine_vanishes_amid_a_stream_holds_nothing_any_more() {
    in_own_network(|| {
        let site = Site::new();
        let machine = &site.machine;
        // The stream goes on for longer than it takes to vanish.
        machine.narrow();
        let reader = site.reader();
        reader.go_on.send(()).unwrap();
        assert!(!site.holds_nothing());
        let before = machine.sent_again();
        machine.silence();
        until("a segment without an answer", || machine.sent_again() > before);
        until("the end of its stream", || site.holds_nothing());
        drop(reader.leave);
        assert_eq!(reader.thread.join().unwrap(), None);
    });
}

#[test]
fn a_reader_that_takes_nothing_is_waited_for() {
    in_own_network(|| {
        let site = Site::new();
        let reader = site.reader();
        // They come at 0.2 s, 0.6 s, 1.4 s and so on: the last at 12.6 s.
        until("a window that is shut for long", || window_probes() >= 6);
        reader.go_on.send(()).unwrap();
        assert!(are_all(&reader.thread.join().unwrap().unwrap(), SHAPE.rows()));
    });
}

#[test]
fn a_reader_that_takes_nothing_and_vanishes_holds_nothing_any_more() {
    in_own_network(|| {
        let site = Site::new();
        let reader = site.reader();
        until("a window that is shut", || window_probes() > 0);
        assert!(!site.holds_nothing());
        site.machine.silence();
        until("the end of its stream", || site.holds_nothing());
        drop(reader.go_on);
        assert_eq!(reader.thread.join().unwrap(), None);
    });
}
