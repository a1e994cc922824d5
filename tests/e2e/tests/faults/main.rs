//! Fault tests of the operators' life cycles: the host is killed at a write, or the connection to the API server fails.
//! After each fault, a parent and its children must reach the same state as without faults.
//!
//! `cargo xtask faults` runs the whole set; without it, a sample is drawn by `WINDLASS_FAULT_SEED`.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

mod children;
mod life;
mod matrix;
mod restart;
mod stage;

use std::env;

/// Whether all tests run, and not only a sample.
fn runs_all() -> bool {
    env::var("WINDLASS_FAULTS").is_ok_and(|value| value == "all")
}

/// Whether a life cycle or a fault was selected by name. Without names, all are selected.
fn is_selected(name: &str) -> bool {
    let Ok(names) = env::var("WINDLASS_FAULTS_ONLY") else { return true };
    names.split(',').map(str::trim).any(|selected| selected.is_empty() || name.contains(selected))
}
