//! Keeps one copy of values that many objects share: namespaces and field ownership.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashSet;

/// Minimum number of values at which unused values are dropped.
const CLEAR_MIN: usize = 1024;

/// Keeps one copy of each value in use.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    known: HashSet<Arc<T>>,
    /// Number of values at which unused values are dropped next.
    clear_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), clear_at: CLEAR_MIN }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T>
where
    Arc<T>: Borrow<T>,
{
    /// Returns the shared copy of an equal value, or this value if there is none.
    pub fn share(&mut self, value: &Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get::<T>(value) {
            return known.clone();
        }
        if self.known.len() >= self.clear_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.clear_at = CLEAR_MIN.max(2 * self.known.len());
        }
        self.known.insert(value.clone());
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_allocation_and_unused_ones_are_dropped() {
        let mut texts = Interner::<str>::default();
        let first = texts.share(&Arc::from("default"));
        assert!(Arc::ptr_eq(&first, &texts.share(&Arc::from("default"))));
        for n in 0..10 * CLEAR_MIN {
            texts.share(&Arc::from(n.to_string()));
        }
        assert!(texts.known.len() <= 2 * CLEAR_MIN, "{}", texts.known.len());
        assert!(Arc::ptr_eq(&first, &texts.share(&Arc::from("default"))), "a value in use stays");
    }
}
