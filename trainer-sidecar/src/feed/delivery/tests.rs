use penstock_proto::WorldSize;

use super::*;

/// Two epochs of four steps, from step 1 on.
fn extent() -> Extent {
    Extent { snapshot: SnapshotId::new("5a"), steps_per_epoch: 4, first: 1, end: 8 }
}

fn enter(deliveries: &Deliveries) -> Consumer {
    deliveries.enter("d", Rank::ZERO, &extent()).unwrap()
}

/// Hands out steps by their index, each in the slot of the same number.
fn hand_out(consumer: &Consumer, steps: std::ops::Range<u64>) {
    for index in steps {
        let (epoch, step) = consumer.position(index);
        assert!(consumer.wants(epoch, step));
        consumer.hand_out(SlotId(index as u32), epoch, step);
    }
}

fn acknowledge(consumer: &Consumer, index: u64) {
    let (epoch, step) = consumer.position(index);
    consumer.acknowledge(epoch, step).unwrap();
}

#[tokio::test]
async fn what_was_not_acknowledged_is_offered_again_in_order() {
    let deliveries = Deliveries::default();
    let consumer = enter(&deliveries);
    hand_out(&consumer, 1..8);
    for index in [6, 1, 2] {
        acknowledge(&consumer, index);
        consumer.give_back(SlotId(index as u32));
    }
    for slot in [5, 3] {
        consumer.give_back(SlotId(slot));
    }
    assert_eq!(consumer.outstanding().await, Some(3));
    assert!(consumer.hand_out(SlotId(3), 0, 3), "offered before");
    assert_eq!(consumer.outstanding().await, Some(5));
    assert!(!consumer.wants(1, 0), "step 4 is held");
    assert!(!consumer.wants(1, 2), "step 6 is done");
    assert_eq!(consumer.tally(), Tally { acknowledged: 3, steps: 7 });
}

#[tokio::test]
async fn a_successor_goes_on_and_its_predecessor_is_told() {
    let deliveries = Deliveries::default();
    let first = enter(&deliveries);
    hand_out(&first, 1..6);
    acknowledge(&first, 1);
    acknowledge(&first, 3);
    let second = enter(&deliveries);
    assert!(first.superseded().await.message.contains("taken over"));
    assert_eq!(second.first_undone(), 2);
    assert_eq!(second.position(2), (0, 2));
    hand_out(&second, 2..3);
    assert!(!second.wants(0, 3));
    hand_out(&second, 4..8);
    // Late words of the first: a slot means nothing any more, an acknowledgement does.
    first.give_back(SlotId(4));
    acknowledge(&first, 4);
    drop(first);
    for index in [2, 5, 6, 7] {
        acknowledge(&second, index);
    }
    assert_eq!(second.outstanding().await, None);
    assert!(second.tally().is_done());
    let third = enter(&deliveries);
    assert_eq!((third.outstanding().await, third.first_undone()), (None, 8));
}

#[tokio::test]
async fn the_end_waits_for_the_last_acknowledgement() {
    let deliveries = Deliveries::default();
    let consumer = enter(&deliveries);
    hand_out(&consumer, 1..8);
    (1..7).for_each(|index| acknowledge(&consumer, index));
    let outstanding = consumer.outstanding();
    tokio::pin!(outstanding);
    assert!(futures::poll!(&mut outstanding).is_pending());
    acknowledge(&consumer, 7);
    assert_eq!(outstanding.await, None);
}

#[test]
fn a_name_is_one_feeds_and_a_step_one_of_its_own() {
    let other_rank = WorldSize::new(2).unwrap().rank(1).unwrap();
    let deliveries = Deliveries::default();
    let consumer = enter(&deliveries);
    let other = Extent { end: 12, ..extent() };
    assert!(deliveries.enter("d", Rank::ZERO, &other).is_err());
    assert!(deliveries.enter("d", other_rank, &other).is_ok());
    assert!(deliveries.enter("e", Rank::ZERO, &other).is_ok());
    for (epoch, step) in [(0, 0), (0, 4), (2, 0), (u64::MAX, 1)] {
        assert!(consumer.acknowledge(epoch, step).is_err(), "step {step} of epoch {epoch}");
    }
}
