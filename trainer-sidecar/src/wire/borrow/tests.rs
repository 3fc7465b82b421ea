//! Against a gateway that says byte for byte what it is told to.

use std::os::fd::BorrowedFd;

use penstock_proto::loan::{GREETING, WORD_BYTES, Word, put_error};
use penstock_ring::Lent;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;

const BYTES: u64 = 1 << 16;
const LIMIT: u64 = 1 << 20;

/// The gateway's end of a connection.
struct Peer(UnixStream);

impl Peer {
    async fn say(&mut self, head: Head, what: &[&[u8]]) {
        // A reader that has heard enough may have left.
        let _unheard = self.0.write_all(&[&head.encode()[..], &what.concat()].concat()).await;
    }

    /// Says a head with a descriptor.
    fn pass(&mut self, head: Head, descriptor: BorrowedFd<'_>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let head = head.encode();
        sendmsg(&self.0, &[io::IoSlice::new(&head)], &mut control, SendFlags::empty()).unwrap();
    }

    async fn hear(&mut self) -> Word {
        let mut word = [0; WORD_BYTES];
        self.0.read_exact(&mut word).await.unwrap();
        Word::decode(word)
    }
}

fn message(note: &[u8], body: u64, place: Option<u64>) -> Head {
    Head::Message { header: 2, note: note.len() as u32, body, place }
}

fn rooms() -> Rooms {
    Rooms::new(1 << 20, LIMIT)
}

/// Opens against a gateway that answers so.
async fn opened(answer: impl FnOnce(&mut Peer)) -> (Result<Borrowing, Error>, Peer) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut peer = Peer(theirs);
    answer(&mut peer);
    let opened = Borrowing::open(ours, b"ticket", rooms()).await;
    let mut greeting = [0; GREETING.len() + 4 + 6];
    peer.0.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting[..], greet(b"ticket"));
    (opened, peer)
}

/// A stream that has begun, its gateway, and what that lends.
async fn begun() -> (Borrowing, Peer, Lent) {
    let lent = Lent::create(BYTES).unwrap();
    let (borrowing, peer) = opened(|peer| peer.pass(Head::Memory { bytes: BYTES }, lent.reader())).await;
    (borrowing.unwrap(), peer, lent)
}

#[tokio::test]
async fn a_body_is_read_where_it_lies_and_given_back_when_nobody_reads_it() {
    let (mut borrowing, mut peer, mut lent) = begun().await;
    lent.bytes_mut()[128..228].fill(7);
    peer.say(message(b"note", 100, Some(128)), &[b"hd", b"note"]).await;
    let first = borrowing.next().await.unwrap().unwrap();
    assert_eq!((first.header.as_slice(), first.metadata.as_slice()), (&b"hd"[..], &b"note"[..]));
    assert_eq!((first.body.as_slice(), first.memory), (&[7; 100][..], 106));
    assert_eq!(first.body.as_ptr().addr() % 64, 0);
    // It is the memory itself.
    lent.bytes_mut()[128] = 9;
    assert_eq!(first.body[0], 9);

    // Whoever waits says that it holds something, and what it gives back meanwhile at once.
    let part = first.body.slice(50);
    let waiting = tokio::spawn(async move {
        let message = borrowing.next().await;
        (message, borrowing)
    });
    assert_eq!(peer.hear().await, Word::Hungry);
    drop(first);
    drop(part);
    assert_eq!(peer.hear().await, Word::Free { place: 128 });
    peer.say(Head::Complete, &[]).await;
    let (end, mut borrowing) = waiting.await.unwrap();
    assert!(end.unwrap().is_none() && borrowing.next().await.unwrap().is_none());
}

#[tokio::test]
async fn whoever_waits_is_hungry_only_when_nothing_but_its_own_step_is_held() {
    let (mut borrowing, mut peer, _lent) = begun().await;
    for place in [0, 128, 256] {
        peer.say(message(b"", 100, Some(place)), &[b"hd"]).await;
    }
    let whole = borrowing.next().await.unwrap().unwrap();
    borrowing.step_done();
    let parts = [borrowing.next().await.unwrap().unwrap(), borrowing.next().await.unwrap().unwrap()];
    let waiting = tokio::spawn(async move { borrowing.next().await });
    tokio::task::yield_now().await;
    let [first, second] = parts;
    drop(first);
    assert_eq!(peer.hear().await, Word::Free { place: 128 }, "the step before becomes free in its turn");
    drop(whole);
    assert_eq!((peer.hear().await, peer.hear().await), (Word::Free { place: 0 }, Word::Hungry));
    peer.say(Head::Complete, &[]).await;
    assert!(waiting.await.unwrap().unwrap().is_none());
    drop(second);
}

#[tokio::test]
async fn what_was_lent_outlives_its_stream_and_its_gateway() {
    let (mut borrowing, mut peer, mut lent) = begun().await;
    lent.bytes_mut().fill(5);
    peer.say(message(b"", BYTES, Some(0)), &[b"hd"]).await;
    let body = borrowing.next().await.unwrap().unwrap().body;
    drop(borrowing);
    assert_eq!(peer.hear().await, Word::Enough);
    drop(lent);
    assert!(body.iter().all(|&byte| byte == 5));
    // The connection stands for as long as it is read.
    assert_eq!(peer.0.try_read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(body);
    assert_eq!(peer.0.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_body_without_a_place_comes_by_the_socket_however_it_is_cut() {
    let (mut borrowing, mut peer, _lent) = begun().await;
    let body: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    let sent = body.clone();
    let sending = tokio::spawn(async move {
        let whole = [&message(b"n", 200_000, None).encode()[..], b"hd", b"n", &sent].concat();
        for piece in whole.chunks(999) {
            peer.0.write_all(piece).await.unwrap();
        }
        peer.say(message(b"e", 0, None), &[b"hd", b"e"]).await;
        peer.say(Head::Complete, &[]).await;
    });
    let first = borrowing.next().await.unwrap().unwrap();
    assert!(first.body.as_slice() == body && first.metadata == b"n");
    let second = borrowing.next().await.unwrap().unwrap();
    assert!(second.body.is_empty() && second.metadata == b"e");
    assert!(borrowing.next().await.unwrap().is_none());
    sending.await.unwrap();
}

#[tokio::test]
async fn a_gateway_is_told_of_what_is_free_once_a_quarter_is() {
    let (mut borrowing, mut peer, _lent) = begun().await;
    for place in 0..4 {
        peer.say(message(b"", BYTES / 16, Some(place * BYTES / 4)), &[b"hd"]).await;
    }
    // All four are there, so none is waited for.
    for _ in 0..4 {
        drop(borrowing.next().await.unwrap().unwrap());
    }
    for place in 0..4 {
        assert_eq!(peer.hear().await, Word::Free { place: place * BYTES / 4 });
    }
}

#[tokio::test]
async fn what_may_not_be_said_ends_the_stream() {
    let huge = MOST_SAID_BYTES as u32;
    for (head, code) in [
        (message(b"", BYTES, Some(64)), Code::BrokenStream),
        (message(b"", 64, Some(BYTES)), Code::BrokenStream),
        (message(b"", 64, Some(u64::MAX - 63)), Code::BrokenStream),
        (message(b"", 64, Some(32)), Code::BrokenStream),
        (message(b"", LIMIT + 1, None), Code::InvalidFeed),
        (message(b"", u64::MAX, Some(0)), Code::InvalidFeed),
        (Head::Message { header: huge, note: 1, body: 0, place: None }, Code::BrokenStream),
        (Head::Memory { bytes: BYTES }, Code::BrokenStream),
        (Head::Failed { bytes: huge + 1 }, Code::BrokenStream),
    ] {
        let (mut borrowing, mut peer, _lent) = begun().await;
        peer.say(head, &[b"hd"]).await;
        let Err(error) = borrowing.next().await else { panic!("{head:?}") };
        assert_eq!(error.code, code, "{head:?}");
    }
    let (mut borrowing, mut peer, _lent) = begun().await;
    peer.0.write_all(&[0xff; HEAD_BYTES]).await.unwrap();
    assert_eq!(borrowing.next().await.err().unwrap().code, Code::BrokenStream);
}

#[tokio::test]
async fn memory_that_is_not_as_announced_is_refused() {
    let lent = Lent::create(BYTES).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(BYTES).unwrap();
    let code = |opened: Result<Borrowing, Error>| opened.err().unwrap().code;
    let short = opened(|peer| peer.pass(Head::Memory { bytes: BYTES + 1 }, lent.reader())).await;
    assert_eq!(code(short.0), Code::BrokenStream);
    let may_shrink = opened(|peer| peer.pass(Head::Memory { bytes: BYTES }, file.as_fd())).await;
    assert_eq!(code(may_shrink.0), Code::BrokenStream);
    let none = opened(|peer| {
        assert_eq!(peer.0.try_write(&Head::Memory { bytes: BYTES }.encode()).unwrap(), HEAD_BYTES);
    })
    .await;
    assert_eq!(code(none.0), Code::BrokenStream);
    let other = opened(|peer| peer.pass(Head::Complete, lent.reader())).await;
    assert_eq!(code(other.0), Code::BrokenStream);
}

#[tokio::test]
async fn an_error_comes_back_as_it_was_said() {
    let error = Error::new(Code::BadFile, "file \"a\"\nis short");
    let said = put_error(&error);
    let bytes = said.len() as u32;
    let refused = opened(|peer| {
        let answer = [&Head::Failed { bytes }.encode()[..], &said].concat();
        assert_eq!(peer.0.try_write(&answer).unwrap(), answer.len());
    });
    assert_eq!(refused.await.0.err(), Some(error.clone()));

    let (mut borrowing, mut peer, _lent) = begun().await;
    peer.say(Head::Failed { bytes }, &[&said]).await;
    assert_eq!(borrowing.next().await.err(), Some(error));

    let (mut borrowing, peer, _lent) = begun().await;
    drop(peer);
    let broken = borrowing.next().await.err().unwrap();
    assert!(broken.code == Code::Unreachable && broken.may_retry());
}
