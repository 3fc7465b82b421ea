//! What a trainer that waits may be told of its gateways.
//!
//! In: who does not answer, and why. Out: the latest of it, to whoever passes it on. The promise: nobody waits here, and
//! nothing piles up. It knows no trainer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Address;

/// Clones say the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices {
    latest: Arc<watch::Sender<String>>,
    warnings: Arc<watch::Sender<String>>,
}

impl Notices {
    /// Puts this in the place of what was said before.
    pub(super) fn tell(&self, text: String) {
        self.latest.send_replace(text);
    }

    /// Says what is to be known before there is trouble, and does not put off what is said of that.
    pub(super) fn warn(&self, text: String) {
        self.warnings.send_replace(text);
    }

    /// Hears what is said from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<String> {
        self.latest.subscribe()
    }

    /// Hears what is warned of from now on.
    pub(crate) fn listen_for_warnings(&self) -> watch::Receiver<String> {
        self.warnings.subscribe()
    }

    /// What comes of waiting for a gateway; says so every time that it has lasted for so long, and at once where the
    /// gateway itself says `why`.
    pub(crate) async fn waiting<T>(
        &self,
        gateway: &Address,
        why: Option<&str>,
        long: Duration,
        answer: impl Future<Output = T>,
    ) -> T {
        let began = Instant::now();
        let mut answer = pin!(answer);
        if let Some(why) = why {
            self.tell(format!("gateway {gateway}: {why}"));
        }
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = sleep(long) => {
                    let seconds = began.elapsed().as_secs_f32().round();
                    self.tell(match why {
                        Some(why) => format!("gateway {gateway}, for {seconds}s: {why}"),
                        None => format!("gateway {gateway} has been silent for {seconds}s"),
                    });
                }
            }
        }
    }
}
