//! A ticket: all that a gateway needs to serve a stream, sealed so that only the fleet can make one.
//!
//! Sealing is XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha) under a key that the fleet shares: a client
//! can neither read a ticket nor make one for a file that the operator did not allow. The nonce is
//! random, 24 bytes, so keys need no counter and survive restarts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chacha20poly1305::aead::{Aead, AeadCore, KeyInit, OsRng, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use prost::Message as _;
use sha2::{Digest, Sha256};

use crate::{Code, Error, FeedRequest, generated};

/// Says what the bytes are and which layout they have; authenticated with the rest.
const MAGIC: &[u8] = b"penstock-ticket-1";
const NONCE_BYTES: usize = 24;
const VERSION: u32 = 1;
/// Of a ticket that older gateways would take for more than it is.
const VERSION_OF_PULLS: u32 = 2;

/// A stream that a gateway agreed to serve, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// With rank, lanes and snapshot said.
    pub request: FeedRequest,
    pub expires_at: SystemTime,
    /// With a filter: the digest of what the gateway that made the ticket counted.
    pub counts: Option<String>,
    /// `None` is the rank's whole share.
    pub pull: Option<Pull>,
}

/// Of a rank's whole steps the rows of some lanes alone: what one gateway of a fleet asks another for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// In rising order.
    pub lanes: Vec<u32>,
    /// Bytes of one message, unless a single row is larger.
    pub part_bytes: u64,
}

/// The fleet's key. Gateways that share it serve each other's tickets.
#[derive(Clone)]
pub struct TicketKey(XChaCha20Poly1305);

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("cannot read the ticket key file {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the ticket key file {} holds {length} bytes after trimming: it needs at least 32, e.g. from `openssl rand -hex 32`", path.display())]
    TooShort { path: PathBuf, length: usize },
}

impl TicketKey {
    /// A key nobody else has: tickets die with this process.
    pub fn generate() -> Self {
        Self(XChaCha20Poly1305::new(&XChaCha20Poly1305::generate_key(&mut OsRng)))
    }

    /// A key made from any secret of at least 32 bytes; white space around it does not count.
    pub fn from_file(path: &Path) -> Result<Self, KeyFileError> {
        let bytes =
            std::fs::read(path).map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
        let secret = bytes.trim_ascii();
        if secret.len() < 32 {
            return Err(KeyFileError::TooShort { path: path.to_owned(), length: secret.len() });
        }
        Ok(Self::from_secret(secret))
    }

    /// The key that a secret stands for.
    pub fn from_secret(secret: &[u8]) -> Self {
        Self(XChaCha20Poly1305::new(&Sha256::digest(secret)))
    }

    /// Seals a ticket into the bytes that a Flight client hands back.
    pub fn seal(&self, ticket: &Ticket) -> Vec<u8> {
        let message = generated::Ticket {
            version: if ticket.pull.is_some() { VERSION_OF_PULLS } else { VERSION },
            feed: Some(ticket.request.to_command()),
            expires_at: seconds(ticket.expires_at),
            counts: ticket.counts.clone(),
            pull: ticket.pull.clone().map(|Pull { lanes, part_bytes }| generated::Pull { lanes, part_bytes }),
        };
        let nonce = XChaCha20Poly1305::generate_nonce(&mut OsRng);
        let payload = Payload { msg: &message.encode_to_vec(), aad: MAGIC };
        let sealed = self.0.encrypt(&nonce, payload).expect("a ticket is far below the cipher's limit");
        [MAGIC, nonce.as_slice(), &sealed].concat()
    }

    /// Opens what [`seal`](Self::seal) made, if it is whole, ours and not expired at `now`.
    pub fn open(&self, bytes: &[u8], now: SystemTime) -> Result<Ticket, Error> {
        let forged = || {
            Error::new(
                Code::BadTicket,
                "the ticket was not made by this fleet or was edited: get one from GetFlightInfo, and give all gateways the same --ticket-key-file",
            )
        };
        let sealed = bytes.strip_prefix(MAGIC).ok_or_else(forged)?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(forged)?;
        let payload = Payload { msg: sealed, aad: MAGIC };
        let plain = self.0.decrypt(XNonce::from_slice(nonce), payload).map_err(|_| forged())?;
        let message = generated::Ticket::decode(plain.as_slice()).map_err(|_| forged())?;
        if message.version > VERSION_OF_PULLS {
            return Err(Error::new(
                Code::BadTicket,
                "the ticket was made by a newer gateway: upgrade this one, or ask it for a ticket of its own",
            ));
        }
        if seconds(now) > message.expires_at {
            return Err(Error::new(Code::TicketExpired, "the ticket has expired: call GetFlightInfo again"));
        }
        Ok(Ticket {
            request: FeedRequest::resolve(&message.feed.unwrap_or_default())?,
            expires_at: UNIX_EPOCH + Duration::from_secs(message.expires_at),
            counts: message.counts,
            pull: message.pull.map(|generated::Pull { lanes, part_bytes }| Pull { lanes, part_bytes }),
        })
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(now: SystemTime) -> Ticket {
        let request = FeedRequest::parse(br#"{"dataset":"d","rank":0,"lanes":1,"snapshot":"ab"}"#).unwrap();
        // Whole seconds travel.
        let expires_at = UNIX_EPOCH + Duration::from_secs(seconds(now) + 60);
        let pull = Some(Pull { lanes: vec![0, 3], part_bytes: 1 << 20 });
        Ticket { request, expires_at, counts: Some("12ab".to_owned()), pull }
    }

    #[test]
    fn a_ticket_opens_in_any_gateway_of_the_fleet() {
        let now = SystemTime::now();
        let secret = b"one secret of at least thirty-two bytes";
        let sealed = TicketKey::from_secret(secret).seal(&ticket(now));
        assert_eq!(TicketKey::from_secret(secret).open(&sealed, now).unwrap(), ticket(now));
    }

    #[test]
    fn forged_edited_cut_and_late_tickets_are_refused() {
        let now = SystemTime::now();
        let key = TicketKey::generate();
        let sealed = key.seal(&ticket(now));
        let code = |bytes: &[u8], now| key.open(bytes, now).unwrap_err().code;
        assert_eq!(code(&TicketKey::generate().seal(&ticket(now)), now), Code::BadTicket);
        for i in 0..sealed.len() {
            let mut edited = sealed.clone();
            edited[i] ^= 1;
            assert_eq!(code(&edited, now), Code::BadTicket);
            assert_eq!(code(&sealed[..i], now), Code::BadTicket);
        }
        assert_eq!(code(&sealed, now + Duration::from_secs(3600)), Code::TicketExpired);
    }

    #[test]
    fn a_release_that_knows_no_pulls_refuses_them() {
        let now = SystemTime::now();
        let key = TicketKey::generate();
        let version = |ticket: &Ticket| {
            let sealed = key.seal(ticket);
            let (nonce, sealed) = sealed[MAGIC.len()..].split_at(NONCE_BYTES);
            let payload = Payload { msg: sealed, aad: MAGIC };
            let plain = key.0.decrypt(XNonce::from_slice(nonce), payload).unwrap();
            generated::Ticket::decode(plain.as_slice()).unwrap().version
        };
        assert_eq!(version(&ticket(now)), 2);
        assert_eq!(version(&Ticket { pull: None, ..ticket(now) }), 1);
    }

    #[test]
    fn two_seals_of_one_ticket_differ() {
        let now = SystemTime::now();
        let key = TicketKey::generate();
        assert_ne!(key.seal(&ticket(now)), key.seal(&ticket(now)));
    }
}
