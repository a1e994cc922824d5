//! Runs hosts, as they are, against a model of the API server, by a clock and a chance of its own: a history of hours takes a moment,
//! and the same seed gives the same history. See README.md.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a simulation ends by panicking"
)]

mod connection;
mod controllers;
pub mod expected;
mod generator;
pub mod history;
pub mod host;
mod inherited_children;
pub mod invariants;
mod leaving_finalizers;
pub mod network;
mod objects;
pub mod reached;
mod reports;
mod requests;
mod retained_child;
mod rolling_update;
mod scenes;
pub mod setup;
mod stages;
mod steady_state;
pub mod trace;
mod trial;
mod user;
pub mod world;
