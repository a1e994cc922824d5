//! One reconcile of a parent, step by step: what to do next, the plan of writes, whose an object is, how it ended, and what is reported
//! of it.
//!
//! [`steps`] has a reconcile from top to bottom. What it reads, writes, wakes and tells goes through a [`world`]; what it must know of
//! earlier reconciles is in the parent's [`record`], and what parents share in [`shared`]. [`recent`] and [`recording`] are about past
//! reconciles.

pub mod api_response;
pub mod api_warnings;
pub mod applied;
pub mod carried;
pub mod carry_out;
pub mod claim;
pub mod events;
pub mod next_step;
pub mod not_ready;
pub mod outcome;
pub mod plan;
pub mod recent;
pub mod record;
pub mod recording;
pub mod rounds;
pub mod shared;
pub mod status;
pub mod steps;
pub mod terms;
pub mod trigger;
mod waves;
pub mod world;
pub mod written;
