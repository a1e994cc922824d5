//! Orders the first reconciles of Plugins at a start: Plugins with parents first, so that listing these parents does
//! not compete with the requests of Plugins without parents.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock;

/// How long after the start Plugins without parents wait for urgent ones.
const FIRST: Duration = Duration::from_secs(1);

/// Counts the urgent reconciles of Plugins, and lets other reconciles wait for them.
pub(super) struct StartupOrder {
    /// When the host began to reconcile Plugins.
    started: Mutex<Instant>,
    /// Number of urgent reconciles in progress.
    urgent: watch::Sender<usize>,
}

/// An urgent reconcile; ends when dropped.
pub(super) struct Urgent<'a>(&'a watch::Sender<usize>);

impl StartupOrder {
    /// Counts the time from now on.
    pub(super) fn new() -> Self {
        Self { started: Mutex::new(clock::now()), urgent: watch::Sender::new(0) }
    }

    /// Counts the time from now on: the host may have waited for its Lease before.
    pub(super) fn begin(&self) {
        *self.started.lock() = clock::now();
    }

    /// Starts an urgent reconcile.
    pub(super) fn urgent(&self) -> Urgent<'_> {
        self.urgent.send_modify(|urgent| *urgent += 1);
        Urgent(&self.urgent)
    }

    /// Waits until no urgent reconcile is in progress. The wait occupies a worker, so it is bounded.
    pub(super) async fn give_way(&self) {
        let rest = FIRST.saturating_sub(clock::since(*self.started.lock()));
        let mut urgent = self.urgent.subscribe();
        // Continues in either case.
        let _ = tokio::time::timeout(rest, urgent.wait_for(|urgent| *urgent == 0)).await.map(drop);
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|urgent| *urgent -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    #[tokio::test]
    async fn plugins_without_parents_wait_for_the_others_for_at_most_a_second() {
        let order = StartupOrder::new();
        let (one, other) = (order.urgent(), order.urgent());
        let mut waiting = task::spawn(order.give_way());
        assert_pending!(waiting.poll());
        drop(one);
        assert_pending!(waiting.poll());
        drop(other);
        assert_ready!(waiting.poll());

        let long_ago = Instant::now().checked_sub(FIRST).expect("the machine has run for longer");
        let late = StartupOrder { started: Mutex::new(long_ago), ..StartupOrder::new() };
        let _hangs = late.urgent();
        late.give_way().await;
    }
}
