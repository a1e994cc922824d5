//! Bounds how many clusters run at once in one test process.

use std::sync::{Condvar, Mutex, PoisonError};

/// Control planes at once: each takes 700 MB, and the start of one all cores.
const MAX_CLUSTERS: usize = 3;

/// A place among the clusters that run at once.
pub(crate) struct Slot;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Slot {
    /// Waits for a place.
    pub(crate) fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = FREED.wait_while(taken, |taken| *taken >= MAX_CLUSTERS).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}
