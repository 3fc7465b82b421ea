//! Trainer and sidecar in one process, over a real socket and real shared memory.

use std::path::PathBuf;
use std::thread::JoinHandle;

use super::*;
use crate::dtype::DType;
use crate::layout::ColumnSpec;
use crate::ring::{FreeSlot, Ring};
use crate::slot::BatchHeader;
use crate::socket::{Listener, Socket};

const LONG: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::ZERO;

/// A sidecar that opens one feed and then plays `script`.
struct Scripted<T> {
    path: PathBuf,
    thread: JoinHandle<T>,
    _dir: tempfile::TempDir,
}

impl<T: Send + 'static> Scripted<T> {
    fn new(slots: u32, script: impl FnOnce(&Ring, Socket) -> T + Send + 'static) -> Scripted<T> {
        Scripted::answering(move |socket| {
            let ring = Ring::create(slots, 4096, r#"{"rows":3}"#).unwrap();
            let opened = ToTrainer::Opened { slots, slot_bytes: ring.slot_bytes() };
            socket.send(&opened, Some(ring.fd())).unwrap();
            script(&ring, socket)
        })
    }

    fn answering(script: impl FnOnce(Socket) -> T + Send + 'static) -> Scripted<T> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sidecar.sock");
        let listener = Listener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            let socket = listener.accept().unwrap();
            let (request, _) = socket.recv::<ToSidecar>().unwrap().unwrap();
            assert!(
                matches!(request, ToSidecar::Open { request } | ToSidecar::Describe { request } if request == "{}")
            );
            script(socket)
        });
        Scripted { path, thread, _dir: dir }
    }

    fn open(&self) -> Consumer {
        Consumer::open(&self.path, "{}", LONG).unwrap()
    }
}

/// Fills a slot with one int64 column of three ids and hands it out.
fn send(mut slot: FreeSlot, socket: &Socket, step: u64) -> SlotId {
    let columns = [ColumnSpec::fixed(DType::Int64, vec![3])];
    let mut writer = slot.writer(BatchHeader { epoch: 0, step, rows: 3 }, &columns).unwrap();
    for (row, bytes) in writer.column(0).chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&(step * 3 + row as u64).to_le_bytes());
    }
    let slot = slot.hand_out();
    socket.send(&ToTrainer::Batch { slot, epoch: 0, step }, None).unwrap();
    slot
}

fn ids(batch: &Batch) -> Vec<u64> {
    let column = batch.column(0);
    assert_eq!((column.dtype, column.dims, column.offsets), (DType::Int64, &[3][..], None));
    assert_eq!(column.data.as_ptr() as usize % 128, 0);
    column.data.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn released(socket: &Socket) -> Option<SlotId> {
    loop {
        match socket.recv::<ToSidecar>().unwrap()? {
            (ToSidecar::Release { slot }, None) => return Some(slot),
            (ToSidecar::Waiting { .. }, None) => {}
            other => panic!("{other:?} instead of a release"),
        }
    }
}

#[test]
fn a_batch_that_is_waited_for_is_asked_for_once() {
    let sidecar = Scripted::new(2, |ring, socket| {
        let mut heard = Vec::new();
        for step in 0..2 {
            heard.push(socket.recv::<ToSidecar>().unwrap().unwrap().0);
            send(ring.take().unwrap(), &socket, step);
        }
        heard.extend(std::iter::from_fn(|| socket.recv::<ToSidecar>().unwrap().map(|(message, _)| message)));
        heard
    });
    let consumer = sidecar.open();
    assert!(matches!(consumer.next(NOW).err(), Some(NextError::NotYet { .. })), "a look is no wait");
    let first = loop {
        match consumer.next(Duration::from_millis(1)) {
            Err(NextError::NotYet { .. }) => {}
            batch => break batch.unwrap().unwrap(),
        }
    };
    let second = consumer.next(LONG).unwrap().unwrap();
    drop((first, second, consumer));
    let waiting = |received| ToSidecar::Waiting { received };
    let expected = [
        waiting(0),
        waiting(1),
        ToSidecar::Release { slot: SlotId(0) },
        ToSidecar::Release { slot: SlotId(1) },
    ];
    assert_eq!(sidecar.thread.join().unwrap(), expected);
}

#[test]
fn a_feed_many_times_the_ring_arrives_in_order_and_ends() {
    let sidecar = Scripted::new(3, |ring, socket| {
        for step in 0..200 {
            let slot = loop {
                match ring.take() {
                    Some(slot) => break slot,
                    None => ring.release(released(&socket).unwrap()).unwrap(),
                }
            };
            send(slot, &socket, step);
        }
        socket.send(&ToTrainer::End, None).unwrap();
        while released(&socket).is_some() {}
    });
    let consumer = sidecar.open();
    assert_eq!((consumer.description(), consumer.slots()), (r#"{"rows":3}"#, 3));
    let mut seen = Vec::new();
    while let Some(batch) = consumer.next(LONG).unwrap() {
        assert_eq!(
            (batch.epoch(), batch.step(), batch.rows(), batch.columns()),
            (0, seen.len() as u64 / 3, 3, 1)
        );
        seen.extend(ids(&batch));
    }
    assert_eq!(seen, (0..600).collect::<Vec<_>>());
    assert!(consumer.next(NOW).unwrap().is_none(), "the end stays the end");
    drop(consumer);
    sidecar.thread.join().unwrap();
}

#[test]
fn held_batches_keep_their_bytes_and_go_back_in_any_order() {
    let sidecar = Scripted::new(3, |ring, socket| {
        for step in 0..3 {
            send(ring.take().unwrap(), &socket, step);
        }
        for step in 3..5 {
            ring.release(released(&socket).unwrap()).unwrap();
            send(ring.take().unwrap(), &socket, step);
        }
        std::iter::from_fn(|| released(&socket)).collect::<Vec<_>>()
    });
    let consumer = sidecar.open();
    let [a, b, c] = [(); 3].map(|()| consumer.next(LONG).unwrap().unwrap());
    assert_eq!(consumer.next(NOW).err(), Some(NextError::AllSlotsHeld { held: 3 }));
    drop(b);
    let d = consumer.next(LONG).unwrap().unwrap();
    assert_eq!((ids(&a), ids(&c), ids(&d)), (vec![0, 1, 2], vec![6, 7, 8], vec![9, 10, 11]));
    drop(c);
    let e = consumer.next(LONG).unwrap().unwrap();
    assert_eq!((ids(&a), ids(&d), ids(&e)), (vec![0, 1, 2], vec![9, 10, 11], vec![12, 13, 14]));
    let elsewhere = std::thread::spawn(move || drop((e, d)));
    elsewhere.join().unwrap();
    assert_eq!(consumer.held(), 1);
    drop(a);
    assert!(matches!(consumer.next(NOW).err(), Some(NextError::NotYet { .. })));
    drop(consumer);
    assert_eq!(sidecar.thread.join().unwrap(), [2, 1, 0].map(SlotId));
}

#[test]
fn a_batch_outlives_its_consumer_and_its_sidecar() {
    let sidecar = Scripted::new(2, |ring, socket| {
        send(ring.take().unwrap(), &socket, 0);
    });
    let consumer = sidecar.open();
    let batch = consumer.next(LONG).unwrap().unwrap();
    sidecar.thread.join().unwrap();
    drop(consumer);
    assert_eq!(ids(&batch), [0, 1, 2]);
}

#[test]
fn a_batch_larger_than_its_slot_brings_memory_of_its_own() {
    let sidecar = Scripted::new(2, |ring, socket| {
        let columns = [ColumnSpec::text(DType::String, vec![2], 100_000)];
        let header = BatchHeader { epoch: 0, step: 0, rows: 2 };
        let mut batch = ring.take().unwrap().outgrow(header, &columns).unwrap();
        assert!(batch.bytes() > 100_000);
        let mut writer = batch.writer().unwrap();
        writer.offsets(0).copy_from_slice(&[0, 1, 100_000]);
        writer.column(0).fill(b'x');
        let (slot, memory) = batch.hand_out();
        socket.send(&ToTrainer::Batch { slot, epoch: 0, step: 0 }, Some(memory.as_fd())).unwrap();
        drop(memory);
        ring.release(released(&socket).unwrap()).unwrap();
    });
    let consumer = sidecar.open();
    let batch = consumer.next(LONG).unwrap().unwrap();
    let column = batch.column(0);
    assert_eq!((column.offsets, column.data.len()), (Some(&[0, 1, 100_000][..]), 100_000));
    assert!(column.data.iter().all(|&byte| byte == b'x'));
    assert_eq!(consumer.held(), 1, "a large batch counts as its slot");
    drop(batch);
    sidecar.thread.join().unwrap();
}

#[test]
fn the_sidecars_death_is_said_after_what_it_had_sent() {
    let sidecar = Scripted::new(2, |ring, socket| {
        send(ring.take().unwrap(), &socket, 0);
    });
    let consumer = sidecar.open();
    assert_eq!(ids(&consumer.next(LONG).unwrap().unwrap()), [0, 1, 2]);
    for _ in 0..2 {
        let error = consumer.next(LONG).err().unwrap();
        assert!(matches!(error, NextError::SidecarDied { .. }), "{error:?}");
        assert!(error.to_string().starts_with("the sidecar at /"), "{error}");
    }
    assert!(matches!(consumer.acknowledge(0, 0), Err(NextError::SidecarDied { .. })));
}

#[test]
fn a_failure_arrives_in_the_sidecars_words_and_stays() {
    let failed = ToTrainer::Failed { code: "null".into(), message: "column age is null at step 3".into() };
    let sent = failed.clone();
    let sidecar = Scripted::new(2, move |_, socket| socket.send(&sent, None).unwrap());
    let consumer = sidecar.open();
    for _ in 0..2 {
        let error = consumer.next(LONG).err().unwrap();
        assert_eq!(error.to_string(), "column age is null at step 3");
        assert!(matches!(error, NextError::Failed { code, .. } if code == "null"));
    }
}

#[test]
fn cancel_wakes_every_waiting_thread() {
    let sidecar = Scripted::new(2, |_, socket| assert_eq!(released(&socket), None));
    let consumer = sidecar.open();
    std::thread::scope(|scope| {
        let waiting = [(); 3].map(|()| scope.spawn(|| consumer.next(LONG).err()));
        consumer.cancel();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Some(NextError::Cancelled));
        }
    });
    assert_eq!(consumer.next(LONG).err(), Some(NextError::Cancelled));
    drop(consumer);
    sidecar.thread.join().unwrap();
}

#[test]
fn acknowledgements_arrive() {
    let sidecar = Scripted::new(1, |_, socket| socket.recv::<ToSidecar>().unwrap().unwrap().0);
    sidecar.open().acknowledge(2, 9).unwrap();
    assert_eq!(sidecar.thread.join().unwrap(), ToSidecar::Acknowledge { epoch: 2, step: 9 });
}

#[test]
fn what_contradicts_itself_is_never_a_batch() {
    let check = |what: &str, script: fn(&Ring, &Socket)| {
        let sidecar = Scripted::new(2, move |ring, socket| script(ring, &socket));
        let consumer = sidecar.open();
        let mut held = Vec::new();
        let error = loop {
            match consumer.next(LONG) {
                Ok(batch) => held.push(batch.unwrap()),
                Err(error) => break error,
            }
        };
        let NextError::Damaged { what: said } = &error else { panic!("{error:?} instead of {what}") };
        assert!(said.contains(what), "{said}");
        assert_eq!(consumer.next(LONG).err(), Some(error));
    };
    check("there is no slot 2", |_, socket| {
        socket.send(&ToTrainer::Batch { slot: SlotId(2), epoch: 0, step: 0 }, None).unwrap();
    });
    check("magic", |_, socket| {
        socket.send(&ToTrainer::Batch { slot: SlotId(0), epoch: 0, step: 0 }, None).unwrap();
    });
    check("slot 0 holds step 5 of epoch 0", |ring, socket| {
        let mut slot = ring.take().unwrap();
        slot.writer(BatchHeader { epoch: 0, step: 5, rows: 0 }, &[]).unwrap();
        socket.send(&ToTrainer::Batch { slot: slot.hand_out(), epoch: 0, step: 4 }, None).unwrap();
    });
    check("slot 0 came while it is held", |ring, socket| {
        let slot = send(ring.take().unwrap(), socket, 0);
        socket.send(&ToTrainer::Batch { slot, epoch: 0, step: 0 }, None).unwrap();
    });
    check("a feed is opened once", |ring, socket| {
        socket.send(&ToTrainer::Opened { slots: 2, slot_bytes: 4096 }, Some(ring.fd())).unwrap();
    });
    check("without its seals", |ring, socket| {
        let memory = memory::reserve(4096).unwrap();
        let slot = ring.take().unwrap().hand_out();
        socket.send(&ToTrainer::Batch { slot, epoch: 0, step: 0 }, Some(memory.as_fd())).unwrap();
    });
}

#[test]
fn a_ring_that_is_not_what_was_announced_is_not_mapped() {
    let check = |what: &str, script: fn(&Socket)| {
        let sidecar = Scripted::answering(move |socket| script(&socket));
        let error = Consumer::open(&sidecar.path, "{}", LONG).err().unwrap();
        let source =
            std::error::Error::source(&error).map(|source| format!("{source}: {:?}", source.source()));
        assert!(format!("{error} {source:?}").contains(what), "{error} {source:?}");
    };
    check("other slots than announced", |socket| {
        let ring = Ring::create(2, 4096, "{}").unwrap();
        socket.send(&ToTrainer::Opened { slots: 3, slot_bytes: 4096 }, Some(ring.fd())).unwrap();
    });
    check("another release", |socket| {
        let memory = crate::seal_text(&"x".repeat(9000)).unwrap();
        socket.send(&ToTrainer::Opened { slots: 1, slot_bytes: 4096 }, Some(memory.as_fd())).unwrap();
    });
    check("without its seals", |socket| {
        let memory = memory::reserve(8192).unwrap();
        socket.send(&ToTrainer::Opened { slots: 1, slot_bytes: 4096 }, Some(memory.as_fd())).unwrap();
    });
    check("not understood", |socket| {
        socket.send(&ToTrainer::Opened { slots: 1, slot_bytes: 4096 }, None).unwrap();
    });
    check("died while it opened the feed", |_| {});
    check("unknown dataset", |socket| {
        let message = "unknown dataset `weather`".into();
        socket.send(&ToTrainer::Failed { code: "not_found".into(), message }, None).unwrap();
    });
}

#[test]
fn notices_are_passed_over_on_the_way_to_what_is_waited_for() {
    let notice = |text: &str| ToTrainer::Notice { text: text.into() };
    let sidecar = Scripted::answering(move |socket| {
        socket.send(&notice("a gateway is silent"), None).unwrap();
        let ring = Ring::create(2, 4096, "{}").unwrap();
        socket.send(&ToTrainer::Opened { slots: 2, slot_bytes: 4096 }, Some(ring.fd())).unwrap();
        socket.send(&notice("and goes on to be"), None).unwrap();
        send(ring.take().unwrap(), &socket, 0);
        released(&socket)
    });
    let consumer = sidecar.open();
    assert_eq!(ids(&consumer.next(LONG).unwrap().unwrap()), [0, 1, 2]);
    assert!(sidecar.thread.join().unwrap().is_some());
}

#[test]
fn a_feed_can_be_described_without_being_opened() {
    let description = format!(r#"{{"columns":"{}"}}"#, "x".repeat(1 << 20));
    let answer = description.clone();
    let sidecar = Scripted::answering(move |socket| {
        let memory = crate::seal_text(&answer).unwrap();
        socket.send(&ToTrainer::Described { bytes: answer.len() as u64 }, Some(memory.as_fd())).unwrap();
    });
    assert_eq!(Consumer::describe(&sidecar.path, "{}", LONG).unwrap(), description);
}

#[test]
fn nobody_there_and_nobody_answering_are_told_apart() {
    let absent = Consumer::open(Path::new("/nonexistent/s.sock"), "{}", LONG).err().unwrap();
    assert!(
        absent.to_string().starts_with("no sidecar answers at /nonexistent/s.sock: No such file"),
        "{absent}"
    );
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let sidecar = Scripted::answering(move |_socket| told.recv());
    let silent = Consumer::open(&sidecar.path, "{}", NOW).err().unwrap();
    assert!(matches!(silent, OpenError::Deadline { seconds: 0, .. }), "{silent}");
    drop(tell);
}
