//! Foreign bytes for what trainers ask and gateways answer.

use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::{FlightEndpoint, FlightInfo};
use penstock_fuzz::fuzz;
use penstock_proto::{FeedInfo, OrderRules, SnapshotId};
use prost::Message as _;

use crate::request::Request;
use crate::subscribe::{Address, Subscription};

fn words(error: impl std::fmt::Display) -> String {
    // What is quoted of the input is new every time.
    let text = error.to_string();
    text.split(['"', '`']).step_by(2).collect()
}

#[test]
fn fuzz_requests() {
    let seeds = [
        r#"{"version":1,"feed":{"dataset":"d"}}"#,
        r#"{"version":1,"name":"train","feed":{"dataset":"d","batch_size":8,"world_size":2,"rank":1,"shuffle":"rows","start_step":3},"gateways":["grpc://h:1","grpc+unix:///s"],"epochs":null,"nulls":{"*":"mask","a":0,"b":"x"},"memory":1000}"#,
        r#"{"version":1,"feed":{"dataset":"d"},"epochs":3,"acknowledgement":{"delivery":"e","patience_seconds":1.5}}"#,
    ];
    fuzz("requests", &seeds.map(|seed| seed.as_bytes().to_vec()), |bytes| {
        match Request::parse(&String::from_utf8_lossy(bytes)) {
            Ok(request) => {
                assert!(request.rows_per_step() <= request.feed.feed.batch_size);
                format!("{:?} {}", request.nulls, request.gateways.len())
            }
            Err(error) => words(error),
        }
    });
}

#[test]
fn fuzz_subscriptions() {
    let item = Field::new("item", DataType::Float32, true);
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::FixedSizeList(item.into(), 4), true),
        Field::new("text", DataType::Utf8, true),
    ];
    let said = FeedInfo {
        snapshot: SnapshotId::new("ab"),
        steps: 9,
        rows: 80,
        dropped: 8,
        lanes: 4,
        order_rules: OrderRules::DROP_BY_EPOCH,
        mixture: vec![],
        vocabularies: std::collections::BTreeMap::new(),
        nulls: std::collections::BTreeMap::new(),
        warnings: vec![],
    };
    let info = FlightInfo::new()
        .try_with_schema(&Schema::new(fields))
        .unwrap()
        .with_endpoint(
            FlightEndpoint::new()
                .with_ticket(arrow_flight::Ticket::new("sealed"))
                .with_location("grpc://h:1")
                .with_location("grpc+unix:///s"),
        )
        .with_app_metadata(said.to_json());
    let from = Address::parse("grpc://h:1").unwrap();
    fuzz("subscriptions", &[info.encode_to_vec()], |bytes| {
        let Ok(info) = FlightInfo::decode(bytes) else { return "no information".to_owned() };
        Subscription::read(info, &from, |_| true).map_or_else(words, |subscription| {
            assert!(!subscription.locations.is_empty());
            format!("{}", subscription.schema.fields().len())
        })
    });
}
