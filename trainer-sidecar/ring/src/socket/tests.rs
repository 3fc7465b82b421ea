use super::*;
use crate::{SlotId, ToSidecar, ToTrainer};

#[test]
fn messages_arrive_whole_with_what_rides_along() {
    let (sidecar, trainer) = Socket::pair().unwrap();
    let memory = crate::seal_text("hi").unwrap();
    let large = ToSidecar::Open { request: "r".repeat(MAX_PAYLOAD) };
    sidecar.send(&ToTrainer::Described { bytes: 2 }, Some(memory.as_fd())).unwrap();
    sidecar.send(&ToTrainer::End, None).unwrap();
    trainer.send(&large, None).unwrap();
    let (message, fd) = trainer.recv::<ToTrainer>().unwrap().unwrap();
    assert_eq!(message, ToTrainer::Described { bytes: 2 });
    assert_eq!(crate::memory::read_text(fd.unwrap().as_fd(), 2).unwrap(), "hi");
    assert!(matches!(trainer.recv::<ToTrainer>().unwrap(), Some((ToTrainer::End, None))));
    assert!(matches!(sidecar.recv::<ToSidecar>().unwrap(), Some((message, None)) if message == large));
}

#[test]
fn the_other_sides_end_is_seen() {
    let (sidecar, trainer) = Socket::pair().unwrap();
    assert_eq!(trainer.try_recv::<ToTrainer>().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(sidecar);
    assert!(trainer.recv::<ToTrainer>().unwrap().is_none());
    let error = trainer.send(&ToSidecar::Release { slot: SlotId(0) }, None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    let (sidecar, trainer) = Socket::pair().unwrap();
    sidecar.send(&ToTrainer::End, None).unwrap();
    drop(trainer);
    let error = sidecar.send(&ToTrainer::End, None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "also when it left something unread");
}

#[test]
fn the_last_words_of_a_side_that_closed_with_unread_messages_are_heard() {
    let (sidecar, trainer) = Socket::pair().unwrap();
    trainer.send(&ToSidecar::Release { slot: SlotId(0) }, None).unwrap();
    sidecar.send(&ToTrainer::End, None).unwrap();
    drop(sidecar);
    assert!(matches!(trainer.recv::<ToTrainer>().unwrap(), Some((ToTrainer::End, None))));
    assert!(trainer.recv::<ToTrainer>().unwrap().is_none());
}

#[test]
fn foreign_bytes_are_an_error_and_do_not_end_the_connection() {
    let (sidecar, trainer) = Socket::pair().unwrap();
    rustix::net::send(&sidecar, b"GET / HTTP/1.1", SendFlags::empty()).unwrap();
    assert_eq!(trainer.recv::<ToTrainer>().unwrap_err().kind(), io::ErrorKind::InvalidData);
    rustix::net::send(&sidecar, &[0; HEADER + MAX_PAYLOAD + 2], SendFlags::empty()).unwrap();
    assert_eq!(trainer.recv::<ToTrainer>().unwrap_err().kind(), io::ErrorKind::InvalidData);
    sidecar.send(&ToTrainer::End, None).unwrap();
    assert!(matches!(trainer.recv::<ToTrainer>().unwrap(), Some((ToTrainer::End, None))));
}

#[test]
fn a_stale_address_is_replaced_and_a_used_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let listener = Listener::bind(&path).unwrap();
    assert_eq!(Listener::bind(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
    // A process that is killed leaves its socket file behind.
    leave_behind(listener);
    let listener = Listener::bind(&path).unwrap();
    let client = Socket::connect(&path).unwrap();
    client.send(&ToSidecar::Release { slot: SlotId(1) }, None).unwrap();
    assert!(listener.accept().unwrap().recv::<ToSidecar>().unwrap().is_some());
    drop(listener);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    assert_eq!(Listener::bind(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
    assert!(path.exists(), "what is no socket is left alone");
}

/// Closes the listener's descriptor and keeps its file, as a kill does.
fn leave_behind(listener: Listener) {
    let path = listener.path.clone();
    let kept = path.with_extension("kept");
    std::fs::rename(&path, &kept).unwrap();
    drop(listener);
    std::fs::rename(&kept, &path).unwrap();
}
