//! One reconcile of a parent, step by step: what to do next, the plan of writes, whose an object is, how it ended, and what is reported
//! of it.
//!
//! The steps are functions of what they are given, and of a [`world`], through which every write goes. [`recent`] and [`recording`] are
//! about past reconciles, [`record`] is what the next one must know of the last.

pub mod api_response;
pub mod applied;
pub mod carry_out;
pub mod claim;
pub mod due;
pub mod events;
pub mod next_step;
pub mod outcome;
pub mod plan;
pub mod recent;
pub mod record;
pub mod recording;
pub mod rounds;
pub mod status;
pub mod terms;
mod waves;
pub mod world;
pub mod written;
