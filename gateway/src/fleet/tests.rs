//! Who is told what, and who is found where.

use super::*;

async fn fleet(own: &str, nearby: &[&str], sources: &[&str]) -> Fleet {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Fleet::open(own.to_owned(), None, texts(nearby), &texts(sources), Scheme::Plain).await.unwrap()
}

const SOCKET: &str = "grpc+unix:///s";
const LENT: &str = "penstock+memfd:///s";
const THREE: &[&str] = &["b:1", "grpc://a:1", "c:1"];

#[tokio::test]
async fn every_rank_is_told_every_gateway_once() {
    let fleet = fleet("grpc://a:1", &[], THREE).await;
    assert_eq!(fleet.locations(0, true), ["grpc://a:1", "grpc://b:1", "grpc://c:1"]);
    assert_eq!(fleet.locations(4, true), ["grpc://b:1", "grpc://c:1", "grpc://a:1"]);
}

#[tokio::test]
async fn a_neighbour_is_told_the_socket_behind_the_address_it_belongs_to() {
    let fleet = fleet("grpc://a:1", &[SOCKET, LENT], THREE).await;
    assert_eq!(fleet.locations(0, true), ["grpc://a:1", SOCKET, LENT, "grpc://b:1", "grpc://c:1"]);
    assert_eq!(fleet.locations(1, true), ["grpc://b:1", "grpc://c:1", "grpc://a:1", SOCKET, LENT]);
    assert_eq!(fleet.locations(1, false), ["grpc://b:1", "grpc://c:1", "grpc://a:1"]);
}

#[tokio::test]
async fn a_gateway_that_no_list_names_is_in_its_fleet_all_the_same() {
    let fleet = fleet("grpc://b2:1", &[], THREE).await;
    let members = fleet.members();
    assert_eq!(members.names(), ["grpc://a:1", "grpc://b2:1", "grpc://b:1", "grpc://c:1"]);
    assert_eq!(members.own(), 1);
}

#[tokio::test]
async fn a_file_is_read_again_and_what_was_known_outlives_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fleet");
    std::fs::write(&path, "# ours\na:1\n\n b:1 \n").unwrap();
    let fleet = fleet("grpc://a:1", &[], &[&format!("file:{}", path.display())]).await;
    assert_eq!(fleet.members().names(), ["grpc://a:1", "grpc://b:1"]);
    std::fs::write(&path, "a:1\nb:1\nc:1\n").unwrap();
    fleet.look().await.unwrap();
    assert_eq!(fleet.members().names(), ["grpc://a:1", "grpc://b:1", "grpc://c:1"]);
    std::fs::remove_file(&path).unwrap();
    let error = fleet.look().await.unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert_eq!(fleet.members().names().len(), 3);
}

#[tokio::test]
async fn a_gateway_is_named_as_the_list_names_it() {
    // Behind a wildcard any address of this machine is this gateway's, if the port is.
    let open = async |own: &str, bound: &str, list: &[&str]| {
        let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
        let bound = Some(bound.parse().unwrap());
        let fleet = Fleet::open(own.to_owned(), bound, Vec::new(), &list, Scheme::Plain).await.unwrap();
        let members = fleet.members();
        members.names()[members.own()].clone()
    };
    let list = ["127.0.0.1:81", "127.0.0.1:82", "192.0.2.1:81"];
    assert_eq!(open("grpc://node7:81", "0.0.0.0:81", &list).await, "grpc://127.0.0.1:81");
    assert_eq!(open("grpc://127.0.0.1:83", "127.0.0.1:83", &list).await, "grpc://127.0.0.1:83");
    // What the operator says counts before what is found.
    assert_eq!(open("grpc://192.0.2.1:81", "0.0.0.0:82", &list).await, "grpc://192.0.2.1:81");
}

#[tokio::test]
async fn all_addresses_of_a_name_are_gateways() {
    let fleet = fleet("grpc://127.0.0.1:81", &[], &["dns:localhost:81"]).await;
    assert!(fleet.members().names().contains(&"grpc://127.0.0.1:81".to_owned()));
}

#[tokio::test]
async fn what_is_no_list_says_how_to_write_one() {
    for text in ["node1", "dns:gateways", "file:", "", "dns::1"] {
        let error =
            Fleet::open("grpc://a:1".to_owned(), None, Vec::new(), &[text.to_owned()], Scheme::Plain).await;
        let error = error.err().unwrap().to_string();
        assert!(error.contains("dns:NAME:PORT"), "{error}");
    }
}

#[test]
fn a_secured_fleet_is_told_as_one() {
    assert_eq!(Scheme::Tls.location("a:1"), "grpc+tls://a:1");
    assert_eq!(Scheme::Tls.location("grpc://b:1"), "grpc://b:1");
}

#[test]
fn a_wildcard_is_told_as_the_machines_name() {
    let name = || Some("node7".to_owned());
    assert_eq!(advertised("0.0.0.0:81".parse().unwrap(), name), "node7:81");
    assert_eq!(advertised("[::]:81".parse().unwrap(), || None), "[::1]:81");
    assert_eq!(advertised("10.0.0.1:81".parse().unwrap(), name), "10.0.0.1:81");
}
