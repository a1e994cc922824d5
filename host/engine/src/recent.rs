//! The last calls of each parent, shared by the reconciles that add them and the debug address that serves them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::reconcile::recent::{Measured, RecentCalls, Reconciled};

/// The last calls of each parent. Clones share the state.
#[derive(Clone)]
pub struct Recent(Arc<Inner>);

struct Inner {
    calls: Mutex<RecentCalls>,
    /// The number of the newest call.
    newest: watch::Sender<u64>,
    /// Maximum memory, in bytes.
    budget: usize,
}

impl Recent {
    /// Keeps calls in at most this much memory, in bytes; with 0, none.
    pub fn new(budget: u64) -> Self {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        let calls = Mutex::new(RecentCalls::new(budget));
        Self(Arc::new(Inner { calls, newest: watch::Sender::new(0), budget }))
    }

    /// Whether calls are kept.
    pub fn is_on(&self) -> bool {
        self.0.budget > 0
    }

    /// Adds a reconcile.
    pub fn add(&self, reconciled: Reconciled) {
        let measured = Measured::new(reconciled, self.0.budget);
        let (dropped, newest) = {
            let mut calls = self.0.calls.lock();
            (calls.add(measured), calls.newest())
        };
        self.announce(newest);
        // Only now, because other threads may wait for the lock.
        drop(dropped);
    }

    /// Reports the number of the newest reconcile, unless another thread has reported a later one meanwhile.
    fn announce(&self, number: u64) {
        self.0.newest.send_if_modified(|newest| {
            let is_newer = number > *newest;
            *newest = number.max(*newest);
            is_newer
        });
    }

    /// The kept reconciles after this number that match, the oldest first.
    pub fn after(&self, number: u64, matches: impl Fn(&Reconciled) -> bool) -> Vec<Arc<Reconciled>> {
        self.0.calls.lock().after(number, matches)
    }

    /// Reports the number of the newest reconcile each time that it changes.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_the_newest_reconcile_does_not_decrease() {
        let recent = Recent::new(1024);
        let newest = recent.newest();
        for (number, expected) in [(1, 1), (3, 3), (2, 3), (4, 4)] {
            recent.announce(number);
            assert_eq!(*newest.borrow(), expected);
        }
    }
}
