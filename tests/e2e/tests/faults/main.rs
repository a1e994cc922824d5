//! The lives of the operators, disturbed: the host is killed at a write, or what lies between it and the API server
//! fails. However a life was disturbed, it must end as an undisturbed one does.
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

/// Whether everything is asked for, not a sample.
fn is_whole() -> bool {
    env::var("WINDLASS_FAULTS").is_ok_and(|value| value == "all")
}

/// Whether a life or a fault was asked for by name; all are, where none is named.
fn is_asked_for(name: &str) -> bool {
    let Ok(names) = env::var("WINDLASS_FAULTS_ONLY") else { return true };
    names.split(',').map(str::trim).any(|asked| asked.is_empty() || name.contains(asked))
}
