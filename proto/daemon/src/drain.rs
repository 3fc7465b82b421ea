//! Leaving in order: every task is spawned here by name, so that a stop can wait for all of them and
//! name those it waits for.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// A process's way out. Clones are the same drain.
#[derive(Clone, Default)]
pub struct Drain {
    started: CancellationToken,
    tasks: TaskTracker,
    names: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// The grace was over and these tasks were still running.
#[derive(Debug, thiserror::Error)]
#[error("still running after the grace of {}s: {}", grace.as_secs_f32(), names.join(", "))]
pub struct Unfinished {
    pub grace: Duration,
    /// Task names in alphabetical order, each once.
    pub names: Vec<String>,
}

impl Drain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells every task to finish. Saying it twice is saying it once.
    pub fn begin(&self) {
        self.started.cancel();
        self.tasks.close();
    }

    pub fn has_begun(&self) -> bool {
        self.started.is_cancelled()
    }

    /// Resolves when [`begin`](Self::begin) is called. Cancel-safe.
    pub async fn begun(&self) {
        self.started.cancelled().await;
    }

    /// Spawns a task in a span of its name. The task should watch [`begun`](Self::begun) unless it ends
    /// by itself.
    pub fn spawn<F>(&self, name: impl Into<String>, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let name = name.into();
        let span = tracing::info_span!("task", name = %name);
        let named = Named::enter(Arc::clone(&self.names), name);
        self.tasks.spawn(
            async move {
                let _named = named;
                task.await
            }
            .instrument(span),
        )
    }

    /// Waits for all tasks, at most `grace`.
    pub async fn finished(&self, grace: Duration) -> Result<(), Unfinished> {
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait())
            .await
            .map_err(|_| Unfinished { grace, names: self.running() })
    }

    /// Names of the tasks that run now.
    pub fn running(&self) -> Vec<String> {
        lock(&self.names).keys().cloned().collect()
    }
}

/// Keeps a task's name in the list for as long as the task lives, also when it panics.
struct Named {
    names: Arc<Mutex<BTreeMap<String, usize>>>,
    name: String,
}

impl Named {
    fn enter(names: Arc<Mutex<BTreeMap<String, usize>>>, name: String) -> Self {
        *lock(&names).entry(name.clone()).or_default() += 1;
        Self { names, name }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let mut names = lock(&self.names);
        if let Some(count) = names.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                names.remove(&self.name);
            }
        }
    }
}

fn lock(names: &Mutex<BTreeMap<String, usize>>) -> std::sync::MutexGuard<'_, BTreeMap<String, usize>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_and_names_who_is_late() {
        let drain = Drain::new();
        let watcher = drain.clone();
        drain.spawn("polite", async move { watcher.begun().await });
        let stubborn = drain.spawn("stubborn", std::future::pending::<()>());
        drain.begin();
        let late = drain.finished(Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(late.names, ["stubborn"]);
        stubborn.abort();
        drain.finished(Duration::from_secs(5)).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_does_not_stay_on_the_list() {
        let drain = Drain::new();
        let task = drain.spawn("falls", async { panic!("on purpose") });
        assert!(task.await.is_err());
        assert!(drain.running().is_empty());
    }
}
