//! A reverse proxy between the host and a real API server. Tests tell it which requests fail, which replies are lost, and
//! which watches are silent; everything else passes unchanged.
//!
//! The host speaks plain HTTP to the proxy (its kubeconfig names an `http://` server and its token travels in the
//! `Authorization` header); the proxy speaks TLS to the API server. It listens on loopback only.
//!
//! ```no_run
//! use windlass_faults::{Fault, Faults, Match, Rule, Verb};
//!
//! # fn main() -> anyhow::Result<()> {
//! # let ca_pem = b"";
//! let faults = Faults::start("https://127.0.0.1:6443", ca_pem, windlass_faults::seed())?;
//! let half = faults.add(Rule::new(Match::verbs(&[Verb::Create]).resource("secrets"), Fault::Status(503)).probability(0.5));
//! let silent = faults.add(Rule::new(Match::verbs(&[Verb::Watch]).resource("pods"), Fault::Silence));
//! // … the host runs …
//! faults.remove(silent);
//! faults.remove(half);
//! # Ok(())
//! # }
//! ```

mod call;
mod journal;
mod proxy;
mod rules;
mod stream;

use std::env;

pub use call::{Call, Verb};
pub use journal::{Outcome, Passed};
pub use proxy::{Faults, Hook, Moment};
pub use rules::{Fault, Match, Rule, RuleId};

/// The environment variable that sets the seed.
pub const SEED_VARIABLE: &str = "WINDLASS_FAULT_SEED";

/// The seed of this run: the value of [`SEED_VARIABLE`], or a constant. A test prints it when it fails
/// ([`Faults`] does so when it is dropped by a panic).
pub fn seed() -> u64 {
    env::var(SEED_VARIABLE).ok().and_then(|value| value.trim().parse().ok()).unwrap_or(1)
}
