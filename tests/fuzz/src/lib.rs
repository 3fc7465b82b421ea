//! Foreign bytes for decoders, made from true ones.
//!
//! In: what a decoder is to understand, and the decoder. Out: nothing, or a test that fails and shows the bytes.
//! The promise: the same inputs on every run and every machine, unless more are asked for; a decoder that
//! panics, or does not come back, is told with what it was given. It knows no decoder.
//!
//! There is no view into the code that runs. A decoder says in a word what it made of its input, and an input
//! that is made something new of is changed further: what it is refused for leads on as coverage would.
//!
//! A run is so many inputs; `PENSTOCK_FUZZ_SECONDS` makes it last so long instead, and `PENSTOCK_FUZZ_SEED` takes
//! another way.

mod change;
mod random;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::random::Random;

/// Inputs of a run that is not told how long it should last.
const INPUTS: usize = 3_000;
/// Inputs that are changed further.
const KEPT: usize = 4_096;
/// A decoder that has not come back by then does not come back.
const ENDLESS: Duration = Duration::from_secs(120);
/// Resident memory that a run may take; no decoder here needs a tenth of it.
const MEMORY_KIB: u64 = 2 << 20;

/// Gives `decode` the `seeds`, then what becomes of them by changing, splicing, cutting and repeating. What it
/// returns says what it made of an input; digits in it do not count.
///
/// # Panics
/// When `decode` does, and when it takes more memory than any input is worth. When it does not come back the
/// process ends.
pub fn fuzz(name: &str, seeds: &[Vec<u8>], mut decode: impl FnMut(&[u8]) -> String) {
    let mut run = Run::new(name);
    let longest = seeds.iter().map(Vec::len).max().unwrap_or(0) * 2 + 256;
    let mut kept = seeds.to_vec();
    let mut outcomes = HashSet::new();
    for seed in seeds {
        outcomes.insert(run.give(seed, &mut decode));
    }
    while run.goes_on() {
        let mut input = kept[run.random.below(kept.len())].clone();
        for _ in 0..1 + run.random.below(4) {
            let other = &kept[run.random.below(kept.len())];
            change::change(&mut input, other, &mut run.random);
        }
        input.truncate(longest);
        let outcome = run.give(&input, &mut decode);
        if outcomes.insert(outcome) && kept.len() < KEPT {
            kept.push(input);
        }
    }
    run.end(outcomes.len());
}

/// Inputs one after the other.
struct Run {
    name: String,
    random: Random,
    inputs: usize,
    lasts: Option<Duration>,
    began: Instant,
    at: Arc<At>,
}

/// What is being decoded, for who watches.
struct At(Mutex<Option<(Instant, Vec<u8>)>>);

/// Shows an input that is not survived.
struct Shown<'a> {
    name: &'a str,
    input: &'a [u8],
}

impl Run {
    fn new(name: &str) -> Self {
        let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse().ok());
        let at = Arc::new(At(Mutex::default()));
        watch(name.to_owned(), Arc::downgrade(&at));
        Self {
            name: name.to_owned(),
            random: Random::new(number("PENSTOCK_FUZZ_SEED").unwrap_or(0)),
            inputs: 0,
            lasts: number("PENSTOCK_FUZZ_SECONDS").map(Duration::from_secs),
            began: Instant::now(),
            at,
        }
    }

    fn goes_on(&self) -> bool {
        match self.lasts {
            Some(lasts) => self.began.elapsed() < lasts,
            None => self.inputs < INPUTS,
        }
    }

    fn give(&mut self, input: &[u8], decode: &mut impl FnMut(&[u8]) -> String) -> String {
        self.inputs += 1;
        self.at.set(Some((Instant::now(), input.to_vec())));
        let shown = Shown { name: &self.name, input };
        let outcome = decode(input);
        drop(shown);
        self.at.set(None);
        outcome.chars().filter(|character| !character.is_ascii_digit()).collect()
    }

    #[expect(clippy::print_stdout, reason = "what a run has seen is its result")]
    fn end(self, outcomes: usize) {
        println!("{}: {} inputs, {outcomes} outcomes", self.name, self.inputs);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let peak: u64 = peak.and_then(|kib| kib.parse().ok()).unwrap_or(0);
        assert!(peak < MEMORY_KIB, "{} took {peak} KiB", self.name);
    }
}

impl At {
    fn set(&self, at: Option<(Instant, Vec<u8>)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

/// Ends the process when a decoder does not come back: no thread can be made to.
#[expect(clippy::print_stderr, reason = "the test that would say it does not come back")]
fn watch(name: String, at: std::sync::Weak<At>) {
    thread::spawn(move || {
        while let Some(at) = at.upgrade() {
            let late = at.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((_, input)) = late.filter(|(since, _)| since.elapsed() > ENDLESS) {
                eprintln!("{name} does not come back from {}", hex(&input));
                std::process::abort();
            }
            drop(at);
            thread::sleep(Duration::from_secs(1));
        }
    });
}

impl Drop for Shown<'_> {
    #[expect(clippy::print_stderr, reason = "a test that fails shows what it failed over")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{} panics at {}", self.name, hex(self.input));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_on_is_followed() {
        // Four bytes, each found only when those before it are: more than chance would find.
        let mut deepest = 0;
        fuzz("a lock", &[b"....".to_vec()], |input| {
            let depth = input.iter().zip(b"open").take_while(|(byte, wanted)| byte == wanted).count();
            deepest = deepest.max(depth);
            "x".repeat(depth)
        });
        assert!(deepest >= 2, "{deepest}");
    }

    #[test]
    #[should_panic(expected = "nobody")]
    fn a_decoder_that_panics_fails_its_test() {
        fuzz("a decoder", &[vec![1, 2, 3]], |input| {
            assert!(input == [1, 2, 3], "nobody sends {input:?}");
            String::new()
        });
    }
}
