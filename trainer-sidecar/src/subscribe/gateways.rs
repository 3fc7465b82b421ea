//! The gateways of a feed, whose turn it is, and what became of those that were tried.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_proto::{Code, Error, FeedRequest};
use tokio::time::Instant;

use super::{Address, Link, Notices, Subscription};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Gateways in the order of their turns. A pause comes after all were tried in vain, and grows.
#[derive(Debug, Clone)]
pub(crate) struct Gateways {
    known: Vec<Address>,
    turn: usize,
    /// Tries in vain since the last progress.
    failures: u32,
    /// The latest word about each.
    reasons: BTreeMap<Address, String>,
    /// When the first of these failures was; patience is not used up while nobody asks.
    failing_since: Option<Instant>,
    give_up: Duration,
    /// How long it has failed when that is said, and to whom.
    tell: Duration,
    notices: Notices,
}

impl Gateways {
    /// `None` without any gateway.
    pub(crate) fn new(known: Vec<Address>, give_up: Duration) -> Option<Self> {
        if known.is_empty() {
            return None;
        }
        let (reasons, notices) = (BTreeMap::new(), Notices::default());
        let tell = Duration::MAX;
        Some(Self { known, turn: 0, failures: 0, reasons, failing_since: None, give_up, tell, notices })
    }

    /// The same, which say so when they have failed for so long.
    pub(crate) fn telling(self, notices: Notices, tell: Duration) -> Self {
        Self { notices, tell, ..self }
    }

    /// Waits for the one whose turn it is, and says so if that lasts.
    pub(crate) async fn waiting<T>(&self, answer: impl Future<Output = T>) -> T {
        self.waiting_for(None, answer).await
    }

    /// The same, where it says itself what for.
    pub(crate) async fn waiting_for<T>(&self, why: Option<&str>, answer: impl Future<Output = T>) -> T {
        self.notices.waiting(self.current(), why, self.tell, answer).await
    }

    /// Passes on what gateways say of the feed.
    pub(crate) fn pass_on(&self, said: &[String]) {
        if !said.is_empty() {
            self.notices.warn(said.join("; "));
        }
    }

    /// Whose turn it is.
    pub(crate) fn current(&self) -> &Address {
        &self.known[self.turn]
    }

    /// All that are known.
    pub(crate) fn all(&self) -> &[Address] {
        &self.known
    }

    /// Takes in who else serves the feed.
    pub(crate) fn learn(&mut self, locations: &[Address]) {
        for location in locations {
            if !self.known.contains(location) {
                self.known.push(location.clone());
            }
        }
    }

    /// Gives the turn to the gateway that falls to `rank`, so that ranks spread over all that are known;
    /// or to those on this machine, if there are any, for their bytes cost less than half, and least where they
    /// are lent.
    pub(crate) fn spread(&mut self, rank: u32) {
        // Sorted, for ranks may know them in different orders.
        self.known.sort();
        let of = |kind: fn(&Address) -> bool| self.known.iter().filter(|address| kind(address)).count();
        let lending = of(|address| matches!(address, Address::Lent(_)));
        let here = if lending > 0 { lending } else { of(|address| matches!(address, Address::Unix(_))) };
        self.turn = rank as usize % if here > 0 { here } else { self.known.len() };
    }

    /// How long from the first failure to giving up.
    pub(crate) fn set_patience(&mut self, give_up: Duration) {
        self.give_up = give_up;
    }

    /// A step was received: patience starts anew.
    pub(crate) fn progress(&mut self) {
        self.failures = 0;
        self.reasons.clear();
        self.failing_since = None;
    }

    /// The current gateway was of no use. Passes the turn on, after a pause if all had theirs.
    ///
    /// # Errors
    /// Patience is over; the message says who was tried and why.
    pub(crate) async fn failed(&mut self, error: &Error) -> Result<(), Error> {
        tracing::debug!(gateway = %self.current(), error = %error, "gateway left");
        self.reasons.insert(self.current().clone(), error.message.clone());
        self.failures += 1;
        self.turn = (self.turn + 1) % self.known.len();
        let failing = self.failing_since.get_or_insert_with(Instant::now).elapsed();
        if failing >= self.give_up {
            return Err(self.given_up());
        }
        let left = self.give_up.saturating_sub(failing);
        if failing >= self.tell {
            let (failing, left) = (failing.as_secs_f32().round(), left.as_secs_f32().round());
            let reasons = self.reasons();
            self.notices.tell(format!(
                "no gateway has served the feed for {failing}s: {reasons}; looking for one for {left}s more"
            ));
        }
        let known = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        if self.failures.is_multiple_of(known) {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow((self.failures / known - 1).min(16));
            tokio::time::sleep(pause.min(LONGEST_PAUSE).min(left)).await;
        }
        Ok(())
    }

    fn given_up(&self) -> Error {
        Error::new(
            Code::Unreachable,
            format!(
                "no gateway served the feed for {}s; tried {}; start one of them again or give another",
                self.give_up.as_secs_f32(),
                self.reasons()
            ),
        )
    }

    fn reasons(&self) -> String {
        let reasons: Vec<_> =
            self.reasons.iter().map(|(address, reason)| format!("{address}: {reason}")).collect();
        reasons.join("; ")
    }

    /// Asks one after the other until one answers.
    ///
    /// # Errors
    /// A refusal of the feed itself, or patience is over.
    pub(crate) async fn subscribe(
        &mut self,
        link: &Link,
        request: &FeedRequest,
    ) -> Result<Subscription, Error> {
        loop {
            let address = self.current().clone();
            let answer = async { link.ask(&mut link.connect(&address).await?, &address, request).await };
            match self.waiting(answer).await {
                Ok(subscription) => {
                    self.progress();
                    return Ok(subscription);
                }
                Err(error) if error.may_retry() => self.failed(&error).await?,
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::parse(&format!("grpc://h:{port}")).unwrap()
    }

    fn gateways(count: u16) -> Gateways {
        Gateways::new((1..=count).map(address).collect(), Duration::from_secs(10)).unwrap()
    }

    fn refused() -> Error {
        Error::new(Code::Unreachable, "refused")
    }

    #[tokio::test(start_paused = true)]
    async fn the_turn_passes_on_at_once_and_pauses_after_a_round() {
        let mut gateways = gateways(2);
        let start = Instant::now();
        gateways.failed(&refused()).await.unwrap();
        assert_eq!((gateways.current(), start.elapsed()), (&address(2), Duration::ZERO));
        gateways.failed(&refused()).await.unwrap();
        assert_eq!((gateways.current(), start.elapsed()), (&address(1), FIRST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_with_who_was_tried_and_why() {
        let mut gateways = gateways(2);
        let start = Instant::now();
        let error = loop {
            if let Err(error) = gateways.failed(&refused()).await {
                break error;
            }
        };
        assert!(error.message.contains("grpc://h:1: refused; grpc://h:2: refused"), "{error}");
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_looked_for_in_vain_is_told_with_what_is_left_until_one_serves() {
        let notices = Notices::default();
        let mut gateways = gateways(2).telling(notices.clone(), Duration::from_secs(3));
        let mut heard = notices.listen();
        while !heard.has_changed().unwrap() {
            gateways.failed(&refused()).await.unwrap();
        }
        let text = heard.borrow_and_update().clone();
        assert!(
            text.starts_with("no gateway has served the feed for 3s: grpc://h:1: refused; grpc://h:2"),
            "{text}"
        );
        assert!(text.ends_with("looking for one for 7s more"), "{text}");
        gateways.progress();
        gateways.failed(&refused()).await.unwrap();
        assert!(!heard.has_changed().unwrap(), "it has just begun to fail again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_is_silent_is_told_while_it_is() {
        let notices = Notices::default();
        let gateways = gateways(1).telling(notices.clone(), Duration::from_secs(3));
        let heard = notices.listen();
        let answer = gateways.waiting(tokio::time::sleep(Duration::from_secs(2))).await;
        assert_eq!((answer, heard.has_changed().unwrap()), ((), false));
        gateways.waiting(tokio::time::sleep(Duration::from_secs(7))).await;
        assert_eq!(*heard.borrow(), "gateway grpc://h:1 has been silent for 6s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_says_why_is_told_of_at_once_and_while_it_lasts() {
        let notices = Notices::default();
        let gateways = gateways(1).telling(notices.clone(), Duration::from_secs(3));
        let mut heard = notices.listen();
        let answer = async {
            assert_eq!(*heard.borrow_and_update(), "gateway grpc://h:1: memory is short");
            tokio::time::sleep(Duration::from_secs(4)).await;
        };
        gateways.waiting_for(Some("memory is short"), answer).await;
        assert_eq!(*notices.listen().borrow(), "gateway grpc://h:1, for 3s: memory is short");
    }

    #[tokio::test(start_paused = true)]
    async fn ranks_spread_over_all_that_are_known() {
        let mut gateways = gateways(1);
        gateways.learn(&[address(1), address(2)]);
        for (rank, port) in [(0, 1), (1, 2), (2, 1)] {
            gateways.spread(rank);
            assert_eq!(gateways.current(), &address(port));
        }
    }

    #[tokio::test]
    async fn a_gateway_on_this_machine_is_asked_first() {
        let here = Address::parse("grpc+unix:///run/s").unwrap();
        let mut gateways = gateways(2);
        let lent = Address::parse("penstock+memfd:///run/s").unwrap();
        for address in [here, lent] {
            gateways.learn(std::slice::from_ref(&address));
            for rank in 0..3 {
                gateways.spread(rank);
                assert_eq!(gateways.current(), &address);
            }
        }
    }
}
