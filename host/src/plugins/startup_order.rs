//! Who goes first at a start: the lists of parents that exist need not share the API server with those of parents that do
//! not.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long after the start Plugins that had no parents let those go first that may.
const FIRST: Duration = Duration::from_secs(1);

/// Knows which looks at Plugins are urgent, and lets others wait for them.
pub(super) struct StartupOrder {
    started: Instant,
    /// How many urgent looks are under way.
    urgent: watch::Sender<usize>,
}

/// An urgent look, until it is dropped.
pub(super) struct Urgent<'a>(&'a watch::Sender<usize>);

impl StartupOrder {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), urgent: watch::Sender::new(0) }
    }

    /// An urgent look begins.
    pub(super) fn urgent(&self) -> Urgent<'_> {
        self.urgent.send_modify(|urgent| *urgent += 1);
        Urgent(&self.urgent)
    }

    /// Waits until no urgent look is under way. A worker waits here, so it is over soon, whatever hangs.
    pub(super) async fn give_way(&self) {
        let rest = FIRST.saturating_sub(self.started.elapsed());
        let mut urgent = self.urgent.subscribe();
        // Either way it goes on.
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
    async fn who_may_wait_waits_for_all_urgent_looks_and_for_none_later_than_the_first_second() {
        let courtesy = StartupOrder::new();
        let (one, other) = (courtesy.urgent(), courtesy.urgent());
        let mut waiting = task::spawn(courtesy.give_way());
        assert_pending!(waiting.poll());
        drop(one);
        assert_pending!(waiting.poll());
        drop(other);
        assert_ready!(waiting.poll());

        let long_ago = Instant::now().checked_sub(FIRST).expect("the machine runs for longer");
        let late = StartupOrder { started: long_ago, ..StartupOrder::new() };
        let _hangs = late.urgent();
        late.give_way().await;
    }
}
