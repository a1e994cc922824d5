//! Limits the requests that a plugin causes: writes of children, and access reviews. A faulty component may desire
//! children with new names, or require other objects, in every response.
//!
//! A plan or a set of reviews is carried out as a whole or not at all. It may make a bucket's balance negative;
//! otherwise a plan larger than the bucket would never be carried out.

use std::time::Duration;

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
    is_empty: bool,
}

impl Allowance {
    fn new(rate: Rate, now: Timestamp) -> Self {
        Self { rate, bucket: Bucket::new(rate, now), is_empty: false }
    }

    fn is_empty(&mut self, now: Timestamp) -> bool {
        self.is_empty &= self.bucket.level(now) < self.rate.burst * REFILLED;
        self.is_empty
    }
}

impl Budget {
    /// Creates full buckets.
    pub fn new(now: Timestamp) -> Self {
        Self { writes: Allowance::new(WRITES, now), reviews: Allowance::new(REVIEWS, now), newly_empty: false }
    }

    /// Takes `count` tokens, if at least one is available; the balance may become negative.
    ///
    /// # Errors
    /// The time until tokens are available.
    pub fn spend(&mut self, cost: Cost, count: usize, now: Timestamp) -> Result<(), Duration> {
        let count = u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let allowance = match cost {
            Cost::Write => &mut self.writes,
            Cost::Review => &mut self.reviews,
        };
        allowance.bucket.spend(count, now).inspect_err(|_| {
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
            written += budget.spend(Cost::Write, 2000, at(second)).map_or(0, |()| 2000);
            reports += usize::from(budget.take_newly_empty());
        }
        assert!((400_000..=60_000 + 3600 * 100 + 2000).contains(&written), "{written}");
        assert_eq!((reports, budget.empty(at(3600))), (1, Some(Cost::Write)));
        assert_eq!(budget.spend(Cost::Review, 1, at(3600)), Ok(()), "reviews have tokens of their own");
        assert_eq!(budget.empty(at(3600 + 40)), Some(Cost::Write));
        assert_eq!(budget.empty(at(3600 + 100)), None, "a tenth of the tokens is back");
    }

    #[test]
    fn rollout_over_ten_thousand_parents_is_not_slowed_down() {
        let mut budget = Budget::new(at(0));
        assert!((0..10_000).all(|parent| budget.spend(Cost::Write, 6, at(parent / 1000)).is_ok()));
        assert!(!budget.take_newly_empty() && budget.empty(at(10)).is_none());
    }

    #[test]
    fn cost_larger_than_the_bucket_is_admitted_once_and_paid_for_later() {
        let mut budget = Budget::new(at(0));
        assert_eq!(budget.spend(Cost::Review, 20_000, at(0)), Ok(()));
        let Err(wait) = budget.spend(Cost::Review, 1, at(0)) else { panic!("ten thousand are owed") };
        assert!((100..102).contains(&wait.as_secs()), "{wait:?}");
        assert!(budget.spend(Cost::Review, 1, at(99)).is_err());
        assert_eq!(budget.spend(Cost::Review, 1, at(101)), Ok(()));
    }
}
