//! A Plugin as a whole: its config, the CRD that it carries, its conditions and events.
//!
//! What is decided for one parent is in [`crate::reconcile`].

pub mod config;
pub mod events;
pub mod former_kinds;
pub mod readiness;
pub mod schema;
