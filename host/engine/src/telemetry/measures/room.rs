//! Bounds an amount, such as bytes, and that of a whole of which it is a part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An amount that is taken and given back, up to a limit.
#[derive(Debug)]
pub(super) struct Room {
    used: AtomicUsize,
    limit: usize,
    whole: Option<Arc<Self>>,
}

impl Room {
    /// Room for this amount.
    pub fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit, whole: None }
    }

    /// Room for this amount within the room of `whole`, to which it returns with its end.
    pub fn within(whole: &Arc<Self>, limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit, whole: Some(whole.clone()) }
    }

    /// Takes an amount from this room and from the whole; takes nothing and returns false if one of them is too small.
    #[must_use]
    pub fn take(&self, amount: usize) -> bool {
        let next = |used: usize| used.checked_add(amount).filter(|used| *used <= self.limit);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err() {
            return false;
        }
        let is_taken = self.whole.as_ref().is_none_or(|whole| whole.take(amount));
        if !is_taken {
            self.used.fetch_sub(amount, Ordering::Relaxed);
        }
        is_taken
    }

    /// Gives back an amount that was taken.
    pub fn give(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give(amount);
        }
    }

    /// The amount that is taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(whole) = &self.whole {
            whole.give(*self.used.get_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_takes_from_the_whole_and_returns_everything_with_its_end() {
        let whole = Arc::new(Room::new(10));
        let (one, other) = (Room::within(&whole, 6), Room::within(&whole, 6));
        assert!(one.take(6) && !one.take(1), "the part is full");
        assert!(!other.take(5), "the whole has room for 4");
        assert!(other.take(4));
        assert_eq!((one.used(), other.used(), whole.used()), (6, 4, 10));
        one.give(2);
        assert_eq!(whole.used(), 8);
        drop(one);
        assert_eq!(whole.used(), 4);
    }
}
