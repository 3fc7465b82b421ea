//! The request of a trainer: JSON in, a resolved request out.
//!
//! The promise: what this release does not understand is refused by name, so that a misspelt member
//! never means its default.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use penstock_proto::{Code, Error, FeedCommand, FeedRequest, Rank};
use serde::Deserialize;

use crate::pack::{CodeRules, NullRules, UnitRules};
use crate::subscribe::Address;

/// The version of the request's JSON.
const VERSION: u64 = 1;

/// What a trainer wants, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// The trainer's name for the feed, for logs.
    pub(crate) name: String,
    /// Where it starts. `rank` is always there.
    pub(crate) feed: FeedRequest,
    pub(crate) rank: Rank,
    /// Gateways of this feed; empty means the sidecar's own.
    pub(crate) gateways: Vec<Address>,
    /// The feed covers epochs from `feed.epoch` to this one, itself excluded; `None` is endless.
    pub(crate) epochs: Option<u64>,
    pub(crate) nulls: NullRules,
    pub(crate) units: UnitRules,
    pub(crate) codes: CodeRules,
    /// Bytes the feed may hold; `None` leaves it to the sidecar.
    pub(crate) memory: Option<u64>,
    /// A step is done when it is acknowledged; without it, when it is handed out.
    pub(crate) acknowledgement: Option<Acknowledgement>,
    pub(crate) share: Share,
    /// How long to look for a gateway that serves the feed on; `None` leaves it to the sidecar.
    pub(crate) patience: Option<Duration>,
}

/// Of the steps of a rank every `count`-th, from the `index`-th on, counted from where the feed starts: what one
/// of several processes that read for one trainer hands to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Share {
    index: u64,
    count: NonZeroU64,
}

/// Part in a delivery: all ranks that say its name end together, and a consumer that says it again goes on
/// with what was not acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Acknowledgement {
    pub(crate) delivery: String,
    /// How long the end is held while nobody gets on.
    pub(crate) patience: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(rename = "version")]
    _version: u64,
    #[serde(default)]
    name: Option<String>,
    feed: FeedCommand,
    #[serde(default)]
    gateways: Option<Vec<String>>,
    /// Absent is one epoch; null is endless.
    #[serde(default = "one_epoch")]
    epochs: Option<u64>,
    #[serde(default)]
    nulls: Option<NullRules>,
    #[serde(default)]
    units: Option<UnitRules>,
    #[serde(default)]
    codes: Option<BTreeMap<String, Vec<Option<String>>>>,
    #[serde(default)]
    memory: Option<u64>,
    #[serde(default)]
    acknowledgement: Option<RawAcknowledgement>,
    #[serde(default)]
    share: Option<Share>,
    #[serde(default)]
    patience_seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAcknowledgement {
    delivery: String,
    #[serde(default = "ten_minutes")]
    patience_seconds: f64,
}

fn ten_minutes() -> f64 {
    600.0
}

#[expect(clippy::unnecessary_wraps, reason = "the member's own type, as serde wants it")]
fn one_epoch() -> Option<u64> {
    Some(1)
}

impl Request {
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        let unreadable =
            |error: serde_json::Error| invalid(format!("the feed's request is not readable: {error}"));
        let value: serde_json::Value = serde_json::from_str(json).map_err(unreadable)?;
        // Before anything else, for a newer release may have members that this one does not know.
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(VERSION) {
            return Err(invalid(format!(
                "the feed's request has version {} and this sidecar speaks {VERSION}: install the same release of penstock on both sides",
                version.map_or_else(|| "none".to_owned(), |version| version.to_string()),
            )));
        }
        let raw: Raw = serde_json::from_value(value).map_err(unreadable)?;
        let mut feed = FeedRequest::resolve(&raw.feed)?;
        let rank = match feed.rank {
            Some(rank) => rank,
            None if feed.world_size.get() == 1 => Rank::ZERO,
            None => {
                return Err(invalid(format!(
                    "the feed is one of a world of {} and does not say its rank: set \"rank\"",
                    feed.world_size
                )));
            }
        };
        feed.rank = Some(rank);
        let gateways = raw.gateways.unwrap_or_default();
        let acknowledgement = raw.acknowledgement.map(Acknowledgement::resolve).transpose()?;
        if acknowledgement.is_some() && raw.epochs.is_none() {
            return Err(invalid(
                "an endless feed cannot be acknowledged to its end: set \"epochs\"".to_owned(),
            ));
        }
        let share = raw.share.map_or(Ok(Share::WHOLE), Share::checked)?;
        if acknowledgement.is_some() && share != Share::WHOLE {
            return Err(invalid(
                "an acknowledged feed is not shared by processes: leave \"share\" out".to_owned(),
            ));
        }
        Ok(Self {
            name: raw.name.unwrap_or_else(|| feed.feed.dataset.clone()),
            gateways: gateways.iter().map(|text| Address::parse(text)).collect::<Result<_, _>>()?,
            feed,
            rank,
            epochs: raw.epochs,
            nulls: raw.nulls.unwrap_or_default(),
            units: raw.units.unwrap_or_default(),
            codes: CodeRules::new(raw.codes.unwrap_or_default())
                .map_err(|error| Error::chain(error.code(), &error))?,
            memory: raw.memory,
            acknowledgement,
            share,
            patience: raw.patience_seconds.map(patience).transpose()?,
        })
    }

    /// Rows of this rank's share of a whole global batch.
    pub(crate) fn rows_per_step(&self) -> u64 {
        let world = u128::from(self.feed.world_size.get());
        let bound = |rank: u32| u128::from(rank) * u128::from(self.feed.feed.batch_size) / world;
        let rows = bound(self.rank.get() + 1) - bound(self.rank.get());
        u64::try_from(rows).expect("a share is no larger than the batch")
    }
}

impl Share {
    const WHOLE: Self = Self { index: 0, count: NonZeroU64::MIN };

    fn checked(self) -> Result<Self, Error> {
        if self.index >= self.count.get() {
            return Err(invalid(format!(
                "share {} is not one of {}: they count from 0",
                self.index, self.count
            )));
        }
        Ok(self)
    }

    /// Whether the feed's `nth` step belongs to it.
    pub(crate) fn has(self, nth: u64) -> bool {
        nth % self.count == self.index
    }

    /// How many there are.
    pub(crate) fn count(self) -> u64 {
        self.count.get()
    }
}

impl Acknowledgement {
    fn resolve(raw: RawAcknowledgement) -> Result<Self, Error> {
        let patience = patience(raw.patience_seconds)?;
        if raw.delivery.is_empty() {
            return Err(invalid(
                "the acknowledgement's delivery has no name: give every pass its own".to_owned(),
            ));
        }
        Ok(Self { delivery: raw.delivery, patience })
    }
}

fn patience(seconds: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(format!("patience_seconds is {seconds}: give a number of seconds")))
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidFeed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        Request::parse(json).unwrap_err().message
    }

    #[test]
    fn little_needs_to_be_said() {
        let request = Request::parse(r#"{"version":1,"feed":{"dataset":"d"}}"#).unwrap();
        assert_eq!((request.name.as_str(), request.rank, request.epochs), ("d", Rank::ZERO, Some(1)));
        let endless = Request::parse(r#"{"version":1,"feed":{"dataset":"d"},"epochs":null}"#).unwrap();
        assert_eq!(endless.epochs, None);
    }

    #[test]
    fn shares_differ_by_at_most_a_row_and_make_the_batch() {
        for (batch, world) in [(10, 3), (7, 7), (1024, 5)] {
            let shares: Vec<u64> = (0..world)
                .map(|rank| {
                    let json = format!(
                        r#"{{"version":1,"feed":{{"dataset":"d","batch_size":{batch},"world_size":{world},"rank":{rank}}}}}"#
                    );
                    Request::parse(&json).unwrap().rows_per_step()
                })
                .collect();
            assert_eq!(shares.iter().sum::<u64>(), batch);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(refusal("{").contains("not readable"));
        assert!(refusal(r#"{"feed":{"dataset":"d"}}"#).contains("version none"));
        assert!(refusal(r#"{"version":2,"news":1}"#).contains("version 2"));
        assert!(refusal(r#"{"version":1,"feed":{"dataset":"d"},"epoch":1}"#).contains("`epoch`"));
        assert!(refusal(r#"{"version":1,"feed":{"dataset":"d","batchsize":1}}"#).contains("`batchsize`"));
        assert!(refusal(r#"{"version":1,"feed":{"dataset":"d","world_size":2}}"#).contains("rank"));
        assert!(refusal(r#"{"version":1,"feed":{"dataset":"d"},"gateways":["s3://x"]}"#).contains("s3://x"));
        let acknowledged = |how: &str, more: &str| {
            refusal(&format!(r#"{{"version":1,"feed":{{"dataset":"d"}},"acknowledgement":{how}{more}}}"#))
        };
        assert!(acknowledged(r#"{"delivery":""}"#, "").contains("no name"));
        assert!(acknowledged(r#"{"delivery":"e","patience_seconds":-1}"#, "").contains("-1"));
        assert!(acknowledged(r#"{"delivery":"e"}"#, r#","epochs":null"#).contains("endless"));
        let shared = r#","share":{"index":1,"count":2}"#;
        assert!(acknowledged(r#"{"delivery":"e"}"#, shared).contains("leave \"share\" out"));
        let share =
            |share: &str| refusal(&format!(r#"{{"version":1,"feed":{{"dataset":"d"}},"share":{share}}}"#));
        assert!(share(r#"{"index":2,"count":2}"#).contains("share 2 is not one of 2"));
        assert!(share(r#"{"index":0,"count":0}"#).contains("nonzero"));
    }
}
