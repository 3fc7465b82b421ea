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
pub(crate) struct Notices(Arc<watch::Sender<String>>);

impl Notices {
    /// Puts this in the place of what was said before.
    pub(super) fn tell(&self, text: String) {
        self.0.send_replace(text);
    }

    /// Hears what is said from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<String> {
        self.0.subscribe()
    }

    /// What comes of waiting for a gateway; says so every time that it has lasted for so long.
    pub(crate) async fn waiting<T>(
        &self,
        gateway: &Address,
        long: Duration,
        answer: impl Future<Output = T>,
    ) -> T {
        let began = Instant::now();
        let mut answer = pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = sleep(long) => self.tell(format!(
                    "gateway {gateway} has been silent for {}s",
                    began.elapsed().as_secs_f32().round()
                )),
            }
        }
    }
}
