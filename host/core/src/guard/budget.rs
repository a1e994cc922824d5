//! Limits the requests that a plugin causes: writes of children, and access reviews. A faulty component may desire
//! children with new names, or require other objects, in every response.
//!
//! A plan or a set of reviews is carried out as a whole or not at all. One that is larger than the burst makes the bucket's balance
//! negative; otherwise it would never be carried out.
//!
//! The parents of all namespaces share a bucket. So that a namespace which uses it up leaves something to others, a bucket has a reserve:
//! the larger the part of the used tokens that a namespace has taken, the more of the reserve it must leave.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use jiff::Timestamp;

use crate::guard::bucket::{Bucket, Rate};

/// Limit for writes of children. The burst covers a new component over 10 000 parents with six children each; an API
/// server sustains the rate beside its other load.
pub const WRITES: Rate = Rate { burst: 60_000.0, per_second: 100.0 };

/// Limit for access reviews of the objects that a plugin requires. A review is valid for a minute. If the plugin's
/// ServiceAccount may read all objects of a kind in a namespace, one review covers all names.
pub const REVIEWS: Rate = Rate { burst: 10_000.0, per_second: 100.0 };

/// A bucket counts as empty until it is refilled to this fraction; otherwise the Plugin's condition would change every
/// second.
const REFILLED: f64 = 0.1;

/// The reserve of a bucket, which it has beside the burst, as a fraction of the burst.
const RESERVE: f64 = 0.1;

/// An action that costs tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// A write of a child.
    Write,
    /// An access review.
    Review,
}

/// The token buckets of one plugin.
#[derive(Debug)]
pub struct Budget {
    writes: Allowance,
    reviews: Allowance,
    newly_empty: bool,
}

#[derive(Debug)]
struct Allowance {
    rate: Rate,
    bucket: Bucket,
    used: Used,
    is_empty: bool,
}

/// The used tokens of a bucket that are not refilled yet, by the namespaces that took them. Refilled tokens count for all namespaces, each in
/// proportion.
#[derive(Debug, Default)]
struct Used {
    total: f64,
    /// What each namespace took, to be multiplied by `scale`: then refilling changes one number.
    of: HashMap<Option<Arc<str>>, f64>,
    scale: f64,
}

impl Used {
    /// Sets the total after a refill.
    fn set_total(&mut self, total: f64) {
        if total <= 0.0 || self.total <= 0.0 {
            *self = Self::default();
            return;
        }
        self.scale *= total / self.total;
        self.total = total;
        if self.scale < 1e-6 {
            let scale = std::mem::replace(&mut self.scale, 1.0);
            self.of.values_mut().for_each(|tokens| *tokens *= scale);
            self.of.retain(|_, tokens| *tokens >= 1.0);
        }
    }

    /// The part of the used tokens that a namespace took, from 0 to 1.
    fn part(&self, namespace: Option<&Arc<str>>) -> f64 {
        if self.total <= 0.0 {
            return 0.0;
        }
        let tokens = self.of.get(&namespace.cloned()).map_or(0.0, |tokens| tokens * self.scale);
        (tokens / self.total).min(1.0)
    }

    fn add(&mut self, namespace: Option<&Arc<str>>, tokens: f64) {
        if self.of.is_empty() {
            self.scale = 1.0;
        }
        self.total += tokens;
        *self.of.entry(namespace.cloned()).or_default() += tokens / self.scale;
    }
}

impl Allowance {
    fn new(rate: Rate, now: Timestamp) -> Self {
        let with_reserve = Rate { burst: rate.burst * (1.0 + RESERVE), ..rate };
        Self { rate, bucket: Bucket::new(with_reserve, now), used: Used::default(), is_empty: false }
    }

    fn reserve(&self) -> f64 {
        self.rate.burst * RESERVE
    }

    fn is_empty(&mut self, now: Timestamp) -> bool {
        self.is_empty &= self.bucket.level(now) < self.reserve() + self.rate.burst * REFILLED;
        self.is_empty
    }

    fn spend(&mut self, tokens: f64, namespace: Option<&Arc<str>>, now: Timestamp) -> Result<(), Duration> {
        self.used.set_total(self.rate.burst + self.reserve() - self.bucket.level(now));
        let kept = self.reserve() * self.used.part(namespace);
        self.bucket.spend(tokens, (kept, self.rate.burst), now)?;
        self.used.add(namespace, tokens);
        Ok(())
    }
}

impl Budget {
    /// Creates full buckets.
    pub fn new(now: Timestamp) -> Self {
        Self { writes: Allowance::new(WRITES, now), reviews: Allowance::new(REVIEWS, now), newly_empty: false }
    }

    /// Takes `count` tokens for a parent in this namespace, if they are available to it.
    ///
    /// # Errors
    /// The time until tokens are available.
    pub fn spend(
        &mut self,
        cost: Cost,
        count: usize,
        namespace: Option<&Arc<str>>,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let count = u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let allowance = match cost {
            Cost::Write => &mut self.writes,
            Cost::Review => &mut self.reviews,
        };
        allowance.spend(count, namespace, now).inspect_err(|_| {
            self.newly_empty |= !allowance.is_empty;
            allowance.is_empty = true;
        })
    }

    /// Returns the action whose bucket is empty, or was empty recently and is not refilled yet; `None` if there is
    /// none.
    pub fn empty(&mut self, now: Timestamp) -> Option<Cost> {
        let (writes, reviews) = (self.writes.is_empty(now), self.reviews.is_empty(now));
        if writes { Some(Cost::Write) } else { reviews.then_some(Cost::Review) }
    }

    /// Returns true if a bucket became empty since the last call of this method.
    pub fn take_newly_empty(&mut self) -> bool {
        std::mem::take(&mut self.newly_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("a time")
    }

    #[test]
    fn component_with_new_children_each_second_is_limited_to_the_rate_and_reported_once() {
        let mut budget = Budget::new(at(0));
        let (mut written, mut reports) = (0, 0);
        // A thousand creates and a thousand deletes per second, for an hour.
        for second in 0..3600 {
            written += budget.spend(Cost::Write, 2000, None, at(second)).map_or(0, |()| 2000);
            reports += usize::from(budget.take_newly_empty());
        }
        assert!((400_000..=60_000 + 3600 * 100 + 2000).contains(&written), "{written}");
        assert_eq!((reports, budget.empty(at(3600))), (1, Some(Cost::Write)));
        assert_eq!(budget.spend(Cost::Review, 1, None, at(3600)), Ok(()), "reviews have tokens of their own");
        assert_eq!(budget.empty(at(3600 + 20)), Some(Cost::Write));
        assert_eq!(budget.empty(at(3600 + 100)), None, "a tenth of the tokens is back");
    }

    #[test]
    fn rollout_over_ten_thousand_parents_is_not_slowed_down() {
        let mut budget = Budget::new(at(0));
        assert!((0..10_000).all(|parent| budget.spend(Cost::Write, 6, None, at(parent / 1000)).is_ok()));
        assert!(!budget.take_newly_empty() && budget.empty(at(10)).is_none());
    }

    #[test]
    fn cost_larger_than_the_bucket_is_admitted_once_and_paid_for_later() {
        let mut budget = Budget::new(at(0));
        assert_eq!(budget.spend(Cost::Review, 20_000, None, at(0)), Ok(()));
        let Err(wait) = budget.spend(Cost::Review, 1, None, at(0)) else { panic!("ten thousand are owed") };
        assert!((100..102).contains(&wait.as_secs()), "{wait:?}");
        assert!(budget.spend(Cost::Review, 1, None, at(99)).is_err());
        assert_eq!(budget.spend(Cost::Review, 1, None, at(101)), Ok(()));
    }

    #[test]
    fn namespaces_that_use_the_tokens_up_leave_some_to_others_and_share_the_rate() {
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        let mut budget = Budget::new(at(0));
        let mut spend =
            |namespace, count, second| budget.spend(Cost::Write, count, Some(namespace), at(second)).is_ok();
        while spend(&a, 1000, 0) {}
        assert!(spend(&b, 10, 0), "one that took nothing finds the reserve");
        while spend(&b, 10, 0) {}
        assert!(spend(&c, 10, 0), "and so does a third one");
        // For an hour, two namespaces ask for a thousand times as much as the third, which gets all that it asks for.
        let (mut of_a, mut of_b) = (0_u32, 0_u32);
        for second in 0..3600 {
            for _ in 0..10 {
                of_a += if spend(&a, 100, second) { 100 } else { 0 };
                of_b += if spend(&b, 100, second) { 100 } else { 0 };
            }
            assert!(spend(&c, 1, second), "after {second} s");
        }
        assert!(of_a + of_b <= 3600 * 100, "{of_a} + {of_b}: the rate is that of all");
        assert!(of_a.abs_diff(of_b) < 36_000, "{of_a}, {of_b}: equal shares but for a tenth");
    }

    #[test]
    fn namespaces_are_forgotten_once_their_tokens_are_refilled() {
        let mut budget = Budget::new(at(0));
        for namespace in 0..1000 {
            let namespace: Arc<str> = namespace.to_string().into();
            budget.spend(Cost::Write, 1, Some(&namespace), at(0)).expect("tokens");
        }
        assert_eq!(budget.writes.used.of.len(), 1000);
        budget.spend(Cost::Write, 1, None, at(11)).expect("tokens");
        assert_eq!(budget.writes.used.of.len(), 1);
    }
}
