//! The feed a trainer asks for: raw command in, resolved request out.
//!
//! A command arrives as protobuf or as JSON with the same names. Here every default is filled in and
//! every value is checked once; further in, nothing is optional that cannot be absent. What needs the
//! dataset (column names, the number of lanes, the last step) is checked where the dataset is known.

use std::fmt;

use prost::Message as _;

use crate::mixture::{Exhausted, Mixture};
use crate::{Code, Compression, Error, FeedCommand, OrderRules, Rank, SnapshotId, WorldSize};

/// Rows of a global batch when nothing is said.
pub const DEFAULT_BATCH_SIZE: u64 = 1024;
/// Bytes of all shuffle windows of a feed together when nothing is said.
pub const DEFAULT_SHUFFLE_BYTES: u64 = 256 << 20;
/// Lanes a feed may have at most: beyond it a batch would be crumbs.
pub const MAX_LANES: u32 = 4096;

/// A dataset, columns, an order and a batch size. Equal feeds over equal snapshots give equal batches
/// on any machine and at any world size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// Its name; of a mixture those of its datasets, with `+` in between.
    pub dataset: String,
    /// The datasets that are fed as one; `None` where it is one.
    pub mixture: Option<Mixture>,
    /// In the order wanted; empty means all.
    pub columns: Vec<String>,
    /// Expressions with names, in the order wanted, instead of columns.
    pub select: Vec<String>,
    /// Columns of texts that are fed as codes.
    pub codes: Vec<String>,
    /// Which rows are fed; `None` means all.
    pub filter: Option<String>,
    pub batch_size: u64,
    pub shuffle: Shuffle,
    pub seed: u64,
    pub remainder: Remainder,
    /// `None` lets the plan choose.
    pub lanes: Option<u32>,
    pub shuffle_bytes: u64,
}

/// A feed, who asks for it and from where on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedRequest {
    pub feed: Feed,
    pub world_size: WorldSize,
    /// `None` asks for every rank's endpoint.
    pub rank: Option<Rank>,
    pub epoch: u64,
    pub start_step: u64,
    /// `None` means the newest.
    pub snapshot: Option<SnapshotId>,
    /// `None` sends columns as they lie in memory.
    pub compression: Option<Compression>,
    /// What the start counts in; `None` means whatever holds.
    pub order_rules: Option<OrderRules>,
}

/// How far rows move between epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shuffle {
    /// File order, one lane.
    None,
    /// Blocks change places; rows keep their order inside a block.
    Blocks,
    /// Blocks change places, then rows inside a window of every lane.
    Rows,
}

/// What becomes of the rows that fill no whole global batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// They are left out, and how many is said.
    Drop,
    /// The last batch is filled by repeating them; the bool column `_valid` tells which rows count.
    Pad,
    /// The last batch is short; a rank may get no row of it.
    Keep,
}

/// The column that [`Remainder::Pad`] adds to every batch.
pub const VALID_COLUMN: &str = "_valid";

impl FeedRequest {
    /// A whole dataset in file order for one reader: what a Flight path descriptor means.
    pub fn whole(dataset: impl Into<String>) -> Self {
        let command = FeedCommand {
            dataset: dataset.into(),
            remainder: Some(Remainder::Keep.to_string()),
            ..FeedCommand::default()
        };
        Self::resolve(&command).expect("a command of defaults resolves")
    }

    /// Reads a Flight command: JSON if it opens with a brace, else protobuf.
    pub fn parse(command: &[u8]) -> Result<Self, Error> {
        // 0x7b would be field 15 of a wire type that protobuf has given up: no command starts so.
        let is_json = command.trim_ascii_start().first() == Some(&b'{');
        let command = if is_json {
            serde_json::from_slice(command)
                .map_err(|e| invalid(format!("the JSON feed command is not readable: {e}")))?
        } else {
            FeedCommand::decode(command).map_err(|e| {
                invalid(format!(
                    "the descriptor's command is neither JSON nor a penstock.v1.FeedCommand: {e}"
                ))
            })?
        };
        Self::resolve(&command)
    }

    /// Fills in defaults and refuses what can be refused without the dataset.
    pub fn resolve(command: &FeedCommand) -> Result<Self, Error> {
        let mixture = Mixture::resolve(&command.mixture, command.exhausted.as_deref())?;
        let dataset = match (&mixture, command.dataset.as_str()) {
            (None, "") => return Err(invalid("the feed names no dataset: set \"dataset\"")),
            (None, name) => name.to_owned(),
            (Some(mixture), "") => mixture.name(),
            (Some(_), _) => {
                return Err(invalid("dataset and mixture are both said: name all datasets in mixture"));
            }
        };
        if !command.columns.is_empty() && !command.select.is_empty() {
            return Err(invalid("columns and select are both said: name all that is wanted in select"));
        }
        if !command.codes.is_empty() && mixture.is_some() {
            return Err(Error::new(
                Code::Unsupported,
                "codes are of one dataset's texts and the feed is a mixture: make numbers of them that need no list, \
                 with select=[\"hash_bucket(COLUMN, 100000) AS COLUMN\"]",
            ));
        }
        match command.delivery.as_deref() {
            None | Some("static") => {}
            Some("dynamic") => {
                return Err(Error::new(
                    Code::Unsupported,
                    "this release delivers \"static\" only: leave \"delivery\" out",
                ));
            }
            Some(other) => return Err(invalid(format!("delivery \"{other}\" is unknown: use \"static\""))),
        }
        let batch_size = command.batch_size.unwrap_or(DEFAULT_BATCH_SIZE);
        if batch_size == 0 {
            return Err(invalid("batch_size is 0: a step needs at least one row"));
        }
        let world_size = WorldSize::new(command.world_size.unwrap_or(1))
            .ok_or_else(|| invalid("world_size is 0: a feed needs at least one rank"))?;
        if batch_size < u64::from(world_size.get()) {
            return Err(invalid(format!(
                "the global batch of {batch_size} rows is smaller than the world of {world_size} ranks: \
                 raise batch_size to at least {world_size}"
            )));
        }
        let rank = command
            .rank
            .map(|rank| {
                world_size.rank(rank).ok_or_else(|| {
                    invalid(format!("rank {rank} is not in a world of {world_size}: ranks count from 0"))
                })
            })
            .transpose()?;
        let remainder = parse_or(command.remainder.as_deref(), Remainder::Drop)?;
        if mixture.is_some() && remainder != Remainder::Drop {
            return Err(invalid(format!(
                "remainder is \"{remainder}\" but the batches of a mixture are all whole: leave it out, what one \
                 epoch does not come to comes in the next"
            )));
        }
        if let Some(lanes) = command.lanes
            && (lanes == 0 || u64::from(lanes) > batch_size || lanes > MAX_LANES)
        {
            return Err(invalid(format!(
                "lanes is {lanes}: it must lie between 1 and the global batch of {batch_size} rows, and be at most {MAX_LANES}"
            )));
        }
        Ok(Self {
            feed: Feed {
                dataset,
                mixture,
                columns: command.columns.clone(),
                select: command.select.clone(),
                codes: command.codes.clone(),
                filter: command.filter.as_deref().map(str::trim).filter(|f| !f.is_empty()).map(str::to_owned),
                batch_size,
                shuffle: parse_or(command.shuffle.as_deref(), Shuffle::None)?,
                seed: command.seed.unwrap_or(0),
                remainder,
                lanes: command.lanes,
                shuffle_bytes: command.shuffle_bytes.unwrap_or(DEFAULT_SHUFFLE_BYTES),
            },
            world_size,
            rank,
            epoch: command.epoch.unwrap_or(0),
            start_step: command.start_step.unwrap_or(0),
            snapshot: command.snapshot.clone().map(SnapshotId::new),
            compression: command.compression.as_deref().map(parse).transpose()?,
            order_rules: command.order_rules.map(OrderRules::new),
        })
    }

    /// The command that resolves to this request, with every field said.
    pub fn to_command(&self) -> FeedCommand {
        let mixture = self.feed.mixture.as_ref();
        FeedCommand {
            dataset: if mixture.is_some() { String::new() } else { self.feed.dataset.clone() },
            columns: self.feed.columns.clone(),
            filter: self.feed.filter.clone(),
            batch_size: Some(self.feed.batch_size),
            world_size: Some(self.world_size.get()),
            rank: self.rank.map(Rank::get),
            shuffle: Some(self.feed.shuffle.to_string()),
            seed: Some(self.feed.seed),
            epoch: Some(self.epoch),
            start_step: Some(self.start_step),
            remainder: Some(self.feed.remainder.to_string()),
            lanes: self.feed.lanes,
            shuffle_bytes: Some(self.feed.shuffle_bytes),
            delivery: None,
            snapshot: self.snapshot.as_ref().map(ToString::to_string),
            select: self.feed.select.clone(),
            codes: self.feed.codes.clone(),
            mixture: mixture.map(Mixture::to_command).unwrap_or_default(),
            exhausted: mixture.map(|mixture| mixture.exhausted.to_string()),
            compression: self.compression.as_ref().map(ToString::to_string),
            order_rules: self.order_rules.map(OrderRules::get),
        }
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidFeed, message)
}

/// A choice that is written as a word.
pub(crate) trait Choice: Copy + fmt::Display + 'static {
    const NAME: &'static str;
    const ALL: &'static [Self];
}

pub(crate) fn parse_or<T: Choice>(word: Option<&str>, default: T) -> Result<T, Error> {
    word.map_or(Ok(default), parse)
}

fn parse<T: Choice>(word: &str) -> Result<T, Error> {
    T::ALL.iter().copied().find(|choice| choice.to_string() == word).ok_or_else(|| {
        let choices: Vec<_> = T::ALL.iter().map(|choice| format!("\"{choice}\"")).collect();
        invalid(format!("{} \"{word}\" is unknown: use {}", T::NAME, choices.join(", ")))
    })
}

impl Choice for Shuffle {
    const NAME: &'static str = "shuffle";
    const ALL: &'static [Self] = &[Self::None, Self::Blocks, Self::Rows];
}

impl Choice for Remainder {
    const NAME: &'static str = "remainder";
    const ALL: &'static [Self] = &[Self::Drop, Self::Pad, Self::Keep];
}

impl Choice for Exhausted {
    const NAME: &'static str = "exhausted";
    const ALL: &'static [Self] = &[Self::First, Self::All];
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Blocks => "blocks",
            Self::Rows => "rows",
        })
    }
}

impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drop => "drop",
            Self::Pad => "pad",
            Self::Keep => "keep",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        FeedRequest::parse(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn json_and_protobuf_say_the_same() {
        let json = br#" {"dataset":"d","select":["a + 1 AS b"],"codes":["b"],"filter":" a > 3 ","batch_size":8,"world_size":2,"rank":1,"shuffle":"rows","lanes":4}"#;
        let from_json = FeedRequest::parse(json).unwrap();
        let from_protobuf = FeedRequest::parse(&from_json.to_command().encode_to_vec()).unwrap();
        assert_eq!(from_json, from_protobuf);
        assert_eq!(from_json.feed.shuffle, Shuffle::Rows);
        assert_eq!(from_json.feed.seed, 0);
        assert_eq!(from_json.feed.filter.as_deref(), Some("a > 3"));
        let spaces = FeedRequest::parse(br#"{"dataset":"d","filter":"  "}"#).unwrap();
        assert_eq!(spaces.feed.filter, None);
    }

    #[test]
    fn only_the_dataset_has_no_default() {
        let request = FeedRequest::parse(br#"{"dataset":"d"}"#).unwrap();
        assert_eq!(request.feed.batch_size, DEFAULT_BATCH_SIZE);
        assert_eq!(request.feed.remainder, Remainder::Drop);
        assert_eq!(request.rank, None);
        assert!(refusal("{}").contains("set \"dataset\""));
    }

    #[test]
    fn refusals_name_the_field_and_the_choices() {
        assert!(refusal(r#"{"dataset":"d","shuffle":"all"}"#).contains(r#"use "none", "blocks", "rows""#));
        assert!(refusal(r#"{"dataset":"d","batchsize":1}"#).contains("batchsize"));
        assert!(
            refusal(r#"{"dataset":"d","batch_size":3,"world_size":4}"#)
                .contains("smaller than the world of 4")
        );
        assert!(
            refusal(r#"{"dataset":"d","world_size":2,"rank":2}"#).contains("rank 2 is not in a world of 2")
        );
        assert!(refusal(r#"{"dataset":"d","lanes":0}"#).contains("lanes is 0"));
        assert!(refusal(r#"{"dataset":"d","columns":["a"],"select":["b"]}"#).contains("both said"));
        let mixed = r#"{"mixture":[{"dataset":"d","weight":1}],"codes":["a"]}"#;
        assert!(refusal(mixed).contains("hash_bucket"));
        assert!(refusal("\u{1}nonsense").contains("neither JSON nor"));
    }
}
