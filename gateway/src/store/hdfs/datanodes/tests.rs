use super::*;

fn address(name: &str) -> Address {
    Address::from(name)
}

#[test]
fn the_nearest_replica_is_asked_unless_it_failed_or_is_being_asked() {
    let nodes = DataNodes::new(Duration::from_secs(1), None);
    let replicas = ["a", "b", "c"].map(address);
    let names = |asked: &Asked| nodes.order(&replicas, asked).concat();
    let asked = Asked::default();
    assert_eq!(names(&asked), "abc");

    // A second attempt goes elsewhere as long as the first is at it.
    let first = asked.begin(&replicas[0]);
    assert_eq!(names(&asked), "bca");
    let second = asked.begin(&replicas[1]);
    assert_eq!(names(&asked), "cab");
    drop(second);
    drop(first);
    assert_eq!(names(&asked), "abc");

    // Who was overtaken is asked last, and still before who is being asked.
    let slow = asked.begin(&replicas[0]);
    nodes.shun_slow(&asked);
    drop(slow);
    assert_eq!(names(&asked), "bca");
    let _busy = asked.begin(&replicas[1]);
    assert_eq!(names(&asked), "cab");
}
