//! One reconcile of a parent, step by step: what to do next, the plan of writes, whose an object is, how it ended, and what is reported
//! of it.
//!
//! The steps are functions of what they are given. They neither call a plugin nor send a request.

pub mod claim;
pub mod events;
pub mod next_step;
pub mod outcome;
pub mod plan;
pub mod recent;
pub mod recording;
pub mod status;
