//! The last calls of each parent, shared by the reconciles that add them and the debug address that serves them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::reconcile::recent::{Measured, RecentCalls, Reconciled};

/// The last calls of each parent. Clones share the state.
#[derive(Clone)]
pub struct Recent(Arc<Inner>);

/// Is told of each reconcile when it ends. It must not block.
pub type Listener = Box<dyn Fn(&Reconciled) + Send + Sync>;

/// Which reconciles are kept or told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// None.
    None,
    /// Those with a call, and those with a result that is worth it.
    Notable,
    /// All.
    All,
}

struct Inner {
    listener: Option<Listener>,
    calls: Mutex<RecentCalls>,
    /// The number of the newest call.
    newest: watch::Sender<u64>,
    /// Maximum memory, in bytes.
    budget: usize,
}

impl Recent {
    /// Keeps calls in at most this much memory, in bytes; with 0, none.
    pub fn new(budget: u64) -> Self {
        Self::with(None, usize::try_from(budget).unwrap_or(usize::MAX))
    }

    /// Keeps nothing, but tells the listener of all reconciles.
    pub fn told(listener: Listener) -> Self {
        Self::with(Some(listener), 0)
    }

    fn with(listener: Option<Listener>, budget: usize) -> Self {
        let calls = Mutex::new(RecentCalls::new(budget));
        Self(Arc::new(Inner { listener, calls, newest: watch::Sender::new(0), budget }))
    }

    /// Whether calls are kept.
    pub fn is_on(&self) -> bool {
        self.0.budget > 0
    }

    /// Which reconciles must be [added](Self::add).
    pub fn wants(&self) -> Detail {
        match (&self.0.listener, self.is_on()) {
            (Some(_), _) => Detail::All,
            (None, true) => Detail::Notable,
            (None, false) => Detail::None,
        }
    }

    /// Adds a reconcile.
    pub fn add(&self, reconciled: Reconciled) {
        if let Some(listener) = &self.0.listener {
            listener(&reconciled);
        }
        if !self.is_on() {
            return;
        }
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
