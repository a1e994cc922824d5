//! The last calls of each parent, shared by the reconciles that add them and the debug address that serves them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::recent::{RecentCalls, Reconciled};

/// The last calls of each parent. Clones share the state.
#[derive(Clone)]
pub struct Recent(Arc<Inner>);

struct Inner {
    calls: Mutex<RecentCalls>,
    /// The number of the newest call.
    newest: watch::Sender<u64>,
    is_on: bool,
}

impl Recent {
    /// Keeps calls in at most this much memory, in bytes; with 0, none.
    pub fn new(budget: u64) -> Self {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        let calls = Mutex::new(RecentCalls::new(budget));
        Self(Arc::new(Inner { calls, newest: watch::Sender::new(0), is_on: budget > 0 }))
    }

    /// Whether calls are kept.
    pub fn is_on(&self) -> bool {
        self.0.is_on
    }

    /// Adds a reconcile.
    pub fn add(&self, reconciled: Reconciled) {
        let newest = {
            let mut calls = self.0.calls.lock();
            calls.add(reconciled);
            calls.newest()
        };
        self.0.newest.send_replace(newest);
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
