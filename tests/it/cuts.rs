//! Connections between gateways and a sidecar that are cut at every kind of frame, either way: a trainer does not
//! notice.

use std::path::Path;

use penstock_daemon::Drain;
use penstock_gateway::{Config, Gateway};
use penstock_proto::TicketKey;
use penstock_tests::data::{self, Shape};
use penstock_tests::trainer::feed_ranks;
use serde_json::json;
use tokio::runtime::Handle;

use crate::cutter::{Cut, Cutter, Frame, From, How};
use crate::sidecar_bed::{Bed, LONG, are_all, global, ids_of};

const HOWS: [How; 3] = [How::Closed { is_whole: false }, How::Closed { is_whole: true }, How::Reset];

/// The connection that a feed asks on, and the one that it is streamed on.
const ASKED: usize = 0;
const STREAMED: usize = 1;

/// What passes on them, and how many of its kind before. A stream's trailers are not among them: the sidecar, which has
/// all by then, may have closed the connection before they pass.
const FRAMES: &[(usize, From, Frame, usize)] = &[
    (ASKED, From::Sidecar, Frame::Settings, 0),
    (ASKED, From::Sidecar, Frame::WindowUpdate, 0),
    (ASKED, From::Sidecar, Frame::Headers, 0),
    (ASKED, From::Sidecar, Frame::Data, 0),
    (ASKED, From::Gateway, Frame::Settings, 0),
    (ASKED, From::Gateway, Frame::WindowUpdate, 0),
    (ASKED, From::Gateway, Frame::Headers, 0),
    (ASKED, From::Gateway, Frame::Data, 0),
    (ASKED, From::Gateway, Frame::Trailers, 0),
    (STREAMED, From::Sidecar, Frame::Settings, 0),
    (STREAMED, From::Sidecar, Frame::WindowUpdate, 0),
    (STREAMED, From::Sidecar, Frame::Headers, 0),
    (STREAMED, From::Sidecar, Frame::Data, 0),
    (STREAMED, From::Sidecar, Frame::SettingsTaken, 0),
    (STREAMED, From::Gateway, Frame::Settings, 0),
    (STREAMED, From::Gateway, Frame::SettingsTaken, 0),
    (STREAMED, From::Gateway, Frame::WindowUpdate, 0),
    (STREAMED, From::Gateway, Frame::Headers, 0),
    (STREAMED, From::Gateway, Frame::Data, 0),
    (STREAMED, From::Gateway, Frame::Data, 7),
];

/// A gateway of a fleet, reached by way of a cutter if there is one; where it is bound, and what it is called.
async fn gateway(data: &Path, key: &TicketKey, through: Option<&Cutter>, drain: &Drain) -> (String, String) {
    let mut config = Config::new("127.0.0.1:0");
    config.datasets = vec![("d".to_owned(), data.to_str().unwrap().to_owned())];
    config.ticket_key = key.clone();
    config.advertise = through.map(|cutter| cutter.address.to_string());
    let bound = Gateway::start(config, drain).await.unwrap();
    if let Some(cutter) = through {
        cutter.lead_to(&bound.bound);
    }
    (bound.bound, bound.location)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_at_any_frame_is_gone_on_with() {
    const SHAPE: Shape = Shape { files: 3, rows_per_file: 40, row_group: 20, payload: Some(4096) };
    let cutter = Cutter::new().await;
    let bed = Bed::without_gateway();
    let data = bed.dir.path().join("data");
    data::write(&data, SHAPE);
    let (_, location) = gateway(&data, &TicketKey::generate(), Some(&cutter), &bed.drain).await;
    bed.sidecar(vec![location], |_| {});
    let feed = json!({"dataset": "d", "batch_size": 12, "seed": 7, "shuffle": "rows"});
    let undisturbed = bed.world(&feed, 1, 1).await;
    assert!(are_all(&ids_of(&undisturbed[0], 0), SHAPE.rows()));

    for &(connection, from, frame, after) in FRAMES {
        for how in HOWS {
            let cut = Cut { connection: Some(connection), from, frame, after, how };
            cutter.arm(cut);
            let fed = bed.world(&feed, 1, 1).await;
            cutter.has_cut().await;
            assert!(fed == undisturbed, "{cut:?}");
        }
    }
    bed.end().await;
}

/// What passes when a gateway leaves.
const LEAVING: &[(From, Frame)] =
    &[(From::Gateway, Frame::GoAway), (From::Gateway, Frame::Ping), (From::Sidecar, Frame::Pong)];

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_while_its_gateway_leaves_is_gone_on_with_elsewhere() {
    /// Far more than lies between a gateway and a trainer that waits.
    const SHAPE: Shape = Shape { files: 4, rows_per_file: 2500, row_group: 50, payload: Some(8192) };
    const WORLD: u32 = 2;
    let cutter = Cutter::new().await;
    let bed = Bed::without_gateway();
    let (data, key) = (bed.dir.path().join("data"), TicketKey::generate());
    data::write(&data, SHAPE);
    let (other, _) = gateway(&data, &key, None, &bed.drain).await;
    bed.sidecar(vec![other, format!("grpc://{}", cutter.address)], |sidecar| sidecar.memory = 2 << 20);
    let feed = json!({
        "dataset": "d", "batch_size": 20, "world_size": WORLD, "seed": 3, "shuffle": "rows", "shuffle_bytes": 1 << 20,
    });
    let fed = async |disturb: &mut (dyn FnMut() + Send)| {
        tokio::task::block_in_place(|| feed_ranks(&bed.socket, &feed, WORLD, disturb))
    };

    let leaving = Drain::new();
    gateway(&data, &key, Some(&cutter), &leaving).await;
    let undisturbed = fed(&mut || {}).await;
    assert!(are_all(&ids_of(&global(&undisturbed), 0), SHAPE.rows()));
    leaving.begin();
    leaving.finished(LONG).await.unwrap();

    for &(from, frame) in LEAVING {
        for how in HOWS {
            let leaving = Drain::new();
            gateway(&data, &key, Some(&cutter), &leaving).await;
            let cut = Cut { connection: None, from, frame, after: 0, how };
            // One of the ranks reads by way of the cutter, and nobody asks any more.
            let ranks = fed(&mut || {
                cutter.arm(cut);
                leaving.begin();
                Handle::current().block_on(cutter.has_cut());
            })
            .await;
            assert!(ranks == undisturbed, "{cut:?}");
            leaving.finished(LONG).await.unwrap();
        }
    }
    bed.end().await;
}
