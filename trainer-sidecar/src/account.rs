//! What came of a feed: how much it handed out, how long its trainer waited for that, and for what.
//!
//! In: steps as they are handed out, and signs of the trainer's life. Out: metrics of each feed by its name and rank,
//! and a line for the log at its end. The promise: every step counts once, with no wait if it was there in time, and
//! a wait is divided among stages without rest. It knows no connection and no gateway.

mod quantiles;
mod series;
mod tally;
mod waits;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_proto::Rank;
use tokio::time::Instant;

use self::series::Series;
pub(crate) use self::series::describe;
use self::tally::Tally;
pub(crate) use self::waits::{Waits, Way};

/// Names that are told apart; a trainer has a few. Those beyond are one.
const NAMES: usize = 64;
const OTHERS: &str = "others";

/// All feeds that a sidecar has had, by name and rank. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Accounts(Arc<Mutex<Known>>);

type Known = BTreeMap<(String, Rank), Arc<Account>>;

/// Feeds of one name and rank: those that follow one another, and those that share one.
pub(crate) struct Account {
    tally: Mutex<Tally>,
    series: Series,
}

/// A feed that is open.
pub(crate) struct Sitting {
    account: Arc<Account>,
    slots: u32,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Up to when the time it is open was counted.
    counted: Instant,
    used_slots: u32,
    has_ended: bool,
}

impl Accounts {
    pub(crate) fn of(&self, name: &str, rank: Rank) -> Arc<Account> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.contains_key(&(name.to_owned(), rank));
        let name = if is_known || known.len() < NAMES { name } else { OTHERS };
        let new = || Arc::new(Account { tally: Mutex::default(), series: Series::new(name, rank) });
        Arc::clone(known.entry((name.to_owned(), rank)).or_insert_with(new))
    }

    /// Takes note, for the feeds that are open, of how busy the trainer's GPUs have been, 0 to 1.
    pub(crate) fn saw_gpus(&self, busy: f64) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for account in known.values() {
            let mut tally = account.tally();
            if tally.is_open() {
                tally.saw_gpus(busy);
                account.series.tell(&tally);
            }
        }
    }
}

impl Account {
    /// Begins with a ring of so many slots.
    pub(crate) fn open(self: &Arc<Self>, slots: u32) -> Sitting {
        self.series.slots.increment(f64::from(slots));
        self.tally().opened();
        let progress = Mutex::new(Progress { counted: Instant::now(), used_slots: 0, has_ended: false });
        Sitting { account: Arc::clone(self), slots, progress }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sitting {
    /// Counts a step that has become the trainer's.
    pub(crate) fn handed_out(&self, rows: u64, bytes: u64, waits: &Waits) {
        let series = &self.account.series;
        series.rows.increment(rows);
        series.bytes.increment(bytes);
        series.steps.increment(1);
        let mut tally = self.count_time(|used| used + 1);
        tally.add(waits);
        series.tell(&tally);
    }

    /// Takes note that the trainer is done with a slot.
    pub(crate) fn taken_back(&self) {
        drop(self.count_time(|used| used.saturating_sub(1)));
    }

    /// Ends it, and says what came of all that had its name so far.
    pub(crate) fn report(&self) {
        self.end();
        let tally = self.account.tally();
        self.account.series.tell(&tally);
        if tally.steps == 0 {
            return;
        }
        tracing::info!(
            verdict = tally.verdict().name(),
            slow_stage = tally.slow_stage().name(),
            steps = tally.steps,
            open_s = tally.open.as_secs_f64(),
            waited_s = tally.waited.total().as_secs_f64(),
            wait_p50_s = tally.wait_at(0.5).as_secs_f64(),
            wait_p99_s = tally.wait_at(0.99).as_secs_f64(),
            "where the time went"
        );
    }

    /// The trainer is alive, and uses more or fewer slots.
    fn count_time(&self, used: impl FnOnce(u32) -> u32) -> MutexGuard<'_, Tally> {
        let mut tally = self.account.tally();
        let mut progress = self.progress();
        let (now, used) = (Instant::now(), used(progress.used_slots));
        self.account.series.used_slots.increment(f64::from(used) - f64::from(progress.used_slots));
        tally.open += now.saturating_duration_since(progress.counted);
        (progress.counted, progress.used_slots) = (now, used);
        tally
    }

    /// The first time, it is open no more.
    fn end(&self) {
        let mut tally = self.account.tally();
        if !std::mem::replace(&mut self.progress().has_ended, true) {
            tally.ended();
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        self.end();
        let series = &self.account.series;
        series.slots.decrement(f64::from(self.slots));
        series.used_slots.decrement(f64::from(self.progress().used_slots));
    }
}
