//! Whether streams find room in the gateway's memory, said before they wait for it, or while.
//!
//! In: what a stream needs, and the budget. Out: a refusal of one that never has room, or what its reader is told. The
//! promise: nobody who would be served is refused; whoever waits is told what for, with the numbers and the settings that
//! change them. It leases nothing.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use penstock_proto::{Code, Error, Rank};

use super::Gateway;
use super::served::Served;
use crate::read::{Need, mib};

/// What a stream may need beyond the budget to run alone: what is told by footers errs, mostly to the safe side, and a
/// gateway may weigh twice as much beside its memory.
const BEYOND_BYTES: u64 = 128 << 20;
/// Sentences that are remembered; a gateway with more feeds says some again.
const SAID: usize = 1000;

/// What was said in the log already.
#[derive(Default)]
pub(super) struct Said(Mutex<HashSet<String>>);

impl Said {
    /// Warns, once for as long as it is remembered.
    pub(super) fn warn(&self, text: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= SAID {
            said.clear();
        }
        if said.insert(text.to_owned()) {
            tracing::warn!("{text}");
        }
    }
}

/// All that a stream must hold.
pub(super) fn bytes_of(needs: &[Need]) -> u64 {
    needs.iter().map(|need| need.bytes).fold(0, u64::saturating_add)
}

impl Gateway {
    /// Refuses a feed none of whose streams will ever have room.
    pub(super) fn check_room(&self, served: &Served) -> Result<(), Error> {
        let rank = served.request().rank.unwrap_or(Rank::ZERO);
        self.check_needs(&served.needs(rank, self.config.part_bytes)?, &served.request().feed.dataset)
    }

    /// Refuses a stream that will never have room. One that has, alone and a little beyond what there is, is told in the log.
    pub(super) fn check_needs(&self, needs: &[Need], dataset: &str) -> Result<(), Error> {
        let (bytes, total) = (bytes_of(needs), self.budget.total());
        if bytes <= total {
            return Ok(());
        }
        if bytes > total.saturating_add(BEYOND_BYTES) {
            let message =
                format!("{}, which is too little: {}", told(needs, total), self.advice(needs, bytes));
            return Err(Error::new(Code::InvalidFeed, message));
        }
        self.said.warn(&format!(
            "dataset {dataset:?}: {}; it runs while no other does, beyond that memory: {}",
            told(needs, total),
            self.advice(needs, bytes)
        ));
        Ok(())
    }

    /// What is to be said of a feed whose ranks do not all find room at once, on as many gateways as there are. Ranks that
    /// wait for each other at every step then wait for ever; others need not.
    pub(super) fn warn_of_lockstep(&self, served: &Served) -> Option<String> {
        let request = served.request();
        let (world, gateways) =
            (u64::from(request.world_size.get()), self.fleet.members().names().len() as u64);
        let here = world.div_ceil(gateways.max(1));
        let needs = served.needs(request.rank.unwrap_or(Rank::ZERO), self.config.part_bytes).ok()?;
        let (bytes, total) = (bytes_of(&needs), self.budget.total());
        let all = bytes.saturating_mul(here);
        if here == 1 || all <= total {
            return None;
        }
        let text = format!(
            "{world} ranks of {gateways} gateway(s) do not find room at once: {} of them need {} here, {} each, and the \
             gateway has {} for all streams; ranks that wait for each other at every step will wait for ever: {}",
            here,
            mib(all),
            mib(bytes),
            mib(total),
            self.advice(&needs, all)
        );
        self.said.warn(&format!("dataset {:?}: {text}", request.feed.dataset));
        Some(text)
    }

    /// What a stream is told that waits for memory.
    pub(super) fn waits_for(&self, needs: &[Need]) -> String {
        let (bytes, leased, total) = (bytes_of(needs), self.budget.leased(), self.budget.total());
        format!(
            "the stream waits for memory: it needs {}, and other streams hold {} of the {} there are; if these wait for \
             it, as ranks of one training do, they will wait for ever: {}",
            mib(bytes),
            mib(leased),
            mib(total),
            self.advice(needs, leased.saturating_add(bytes))
        )
    }

    /// What to change so that so many bytes find room.
    fn advice(&self, needs: &[Need], bytes: u64) -> String {
        // What footers take is no part of the budget.
        let memory = bytes.saturating_add(self.config.memory_bytes.saturating_sub(self.budget.total()));
        let lower = if needs.iter().all(|need| need.lanes == 1) {
            "feed fewer columns or write smaller row groups"
        } else {
            "lower shuffle_bytes or lanes"
        };
        format!(
            "give the gateway --memory {}MiB (PENSTOCK_GATEWAY_MEMORY where penstock.feed or penstock run starts it), or {lower}",
            memory.div_ceil(1 << 20)
        )
    }
}

/// What a stream needs of how much.
fn told(needs: &[Need], total: u64) -> String {
    let sum = |of: fn(&Need) -> u64| needs.iter().map(of).fold(0, u64::saturating_add);
    let (lanes, windows) = (sum(|need| need.lanes), sum(|need| need.lanes.saturating_mul(need.window_bytes)));
    let windows =
        if windows > 0 { format!(" and {} for windows of them", mib(windows)) } else { String::new() };
    let (bytes, open) = (sum(|need| need.bytes), sum(|need| need.open_bytes));
    format!(
        "a stream of the feed needs {} of memory, {} of it for row groups that {lanes} lane(s) have open{windows}, and the \
         gateway has {} for all streams",
        mib(bytes),
        mib(open),
        mib(total)
    )
}
