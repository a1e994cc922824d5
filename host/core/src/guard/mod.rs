//! The limits of what a plugin may do: deletions that no user asked for, too many writes, calls that keep failing.
//!
//! Each judges what it is told of (deletions, a write, a call) and remembers what it needs for that. None changes a plan.

pub mod backoff;
pub mod breaker;
pub mod bucket;
pub mod budget;
pub mod deletions;
pub mod quarantine;
