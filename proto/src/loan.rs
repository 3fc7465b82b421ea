//! How a gateway lends batches to a reader on its machine: the bodies lie in shared memory, and a Unix socket
//! says which is where.
//!
//! In: what one side has to say. Out: its bytes, and what the other side reads of them. The promise: what a
//! peer says is a number that has to be checked, or is refused; nothing of it is read as more memory than it is.
//! It knows no socket, no memory and no batch.
//!
//! The reader greets with a ticket. The gateway answers with heads, each followed by the bytes that it
//! announces; the descriptor of the memory rides on the head that says how large it is. A batch that finds no
//! place in the memory follows its head, so a reader that holds much is never waited for. The reader says words.

use crate::{Code, Error};

/// What stands before the path in the location of a gateway that lends. Stock clients know no such scheme.
pub const SCHEME: &str = "penstock+memfd://";

/// What a reader begins with. HTTP/2 begins with another byte, so both may come to one socket.
pub const GREETING: [u8; 8] = *b"lend/1\r\n";

/// Bytes of a ticket, at most.
pub const MOST_TICKET_BYTES: u32 = 16 << 20;

/// Bytes of a description and of a note together, at most.
pub const MOST_SAID_BYTES: u64 = 64 << 20;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 32;

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

/// What a lent body begins at a multiple of.
pub const ALIGNMENT: u64 = 64;

/// What a gateway says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// The memory has so many bytes; its descriptor rides along.
    Memory { bytes: u64 },
    /// A message of the stream. Its description and its note follow, in so many bytes, and its body too if
    /// it has no place in the memory.
    Message { header: u32, note: u32, body: u64, place: Option<u64> },
    /// All is said.
    Complete,
    /// Why nothing more comes follows, in so many bytes.
    Failed { bytes: u32 },
}

/// What a reader says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The body at that place is not read any more.
    Free { place: u64 },
    /// Nothing is there to be read, and not all that was lent is free: what is next must not wait for it.
    Hungry,
    /// Nothing more is wanted; what was lent is still read.
    Enough,
}

/// What a gateway says is nothing that may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway lends in words of another release: use one release of penstock on the machine")]
pub struct NoHead;

const MEMORY: u64 = 1;
const MESSAGE: u64 = 2;
const COMPLETE: u64 = 3;
const FAILED: u64 = 4;
/// A place that is none; also the word of a reader that is hungry.
const NOWHERE: u64 = u64::MAX;
const ENOUGH: u64 = u64::MAX - 1;

/// What a reader sends to begin with.
///
/// # Panics
/// A ticket of more bytes than [`MOST_TICKET_BYTES`], which no gateway makes.
pub fn greet(ticket: &[u8]) -> Vec<u8> {
    let length = u32::try_from(ticket.len()).ok().filter(|&length| length <= MOST_TICKET_BYTES);
    let length = length.expect("a ticket came in a message of this length");
    [&GREETING[..], &length.to_le_bytes(), ticket].concat()
}

impl Head {
    pub fn encode(self) -> [u8; HEAD_BYTES] {
        let numbers = match self {
            Self::Memory { bytes } => [MEMORY, bytes, 0, 0],
            Self::Message { header, note, body, place } => {
                [MESSAGE | u64::from(header) << 32, u64::from(note), body, place.unwrap_or(NOWHERE)]
            }
            Self::Complete => [COMPLETE, 0, 0, 0],
            Self::Failed { bytes } => [FAILED, u64::from(bytes), 0, 0],
        };
        let mut head = [0; HEAD_BYTES];
        for (into, number) in head.chunks_exact_mut(8).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        head
    }

    /// # Errors
    /// Bytes that are no head.
    pub fn decode(head: &[u8; HEAD_BYTES]) -> Result<Self, NoHead> {
        let [first, second, third, place] = [0, 8, 16, 24].map(|at| {
            u64::from_le_bytes(head[at..at + 8].try_into().expect("a head is four numbers of eight bytes"))
        });
        let small = |number: u64| u32::try_from(number).map_err(|_| NoHead);
        match (first & u64::from(u32::MAX), first >> 32) {
            (MEMORY, 0) => Ok(Self::Memory { bytes: second }),
            (MESSAGE, header) => {
                let place = (place != NOWHERE).then_some(place);
                Ok(Self::Message { header: small(header)?, note: small(second)?, body: third, place })
            }
            (COMPLETE, 0) => Ok(Self::Complete),
            (FAILED, 0) => Ok(Self::Failed { bytes: small(second)? }),
            _ => Err(NoHead),
        }
    }
}

impl Word {
    pub fn encode(self) -> [u8; WORD_BYTES] {
        let number = match self {
            Self::Free { place } => place,
            Self::Hungry => NOWHERE,
            Self::Enough => ENOUGH,
        };
        number.to_le_bytes()
    }

    pub fn decode(word: [u8; WORD_BYTES]) -> Self {
        match u64::from_le_bytes(word) {
            NOWHERE => Self::Hungry,
            ENOUGH => Self::Enough,
            place => Self::Free { place },
        }
    }
}

/// An error as it follows its head.
pub fn put_error(error: &Error) -> Vec<u8> {
    format!("{}\n{}", error.code.name(), error.message).into_bytes()
}

/// The error that [`put_error`] wrote.
pub fn read_error(bytes: &[u8]) -> Error {
    let text = String::from_utf8_lossy(bytes);
    let (name, message) = text.split_once('\n').unwrap_or(("", &text));
    let code = Code::named(name).unwrap_or(Code::Internal);
    Error::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for head in [
            Head::Memory { bytes: 8 << 20 },
            Head::Message { header: u32::MAX, note: 7, body: 1 << 40, place: Some(0) },
            Head::Message { header: 0, note: u32::MAX, body: 0, place: None },
            Head::Complete,
            Head::Failed { bytes: 9 },
        ] {
            assert_eq!(Head::decode(&head.encode()), Ok(head));
        }
        for word in [Word::Free { place: 0 }, Word::Free { place: 1 << 50 }, Word::Hungry, Word::Enough] {
            assert_eq!(Word::decode(word.encode()), word);
        }
        let error = Error::new(Code::BadFile, "row 7\nof \"a\" is odd");
        assert_eq!(read_error(&put_error(&error)), error);
    }

    #[test]
    fn what_nobody_says_is_refused() {
        for kind in [0, 5, 1 << 32 | MEMORY, u64::MAX] {
            let mut head = [0; HEAD_BYTES];
            head[..8].copy_from_slice(&u64::to_le_bytes(kind));
            assert_eq!(Head::decode(&head), Err(NoHead));
        }
        assert_eq!(read_error(b"no error").code, Code::Internal);
    }

    #[test]
    fn a_greeting_is_not_taken_for_another_protocol() {
        let greeting = greet(b"ticket");
        assert_ne!(greeting[0], b'P', "HTTP/2 begins with PRI");
        assert_eq!(greeting, b"lend/1\r\n\x06\0\0\0ticket");
    }
}
