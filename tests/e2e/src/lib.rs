//! The harness of the end-to-end tests: a host under test on a control plane of its own.
//!
//! The host is the real binary, run as its own `ServiceAccount` with the generated roles; the API server's state and its
//! audit log show what it did. Everything here panics on failure, at the caller's line: a test then fails with the reason
//! and the host's log.
//!
//! ```no_run
//! use windlass_e2e::{Env, condition, guest};
//!
//! let env = Env::start();
//! let host = env.start_host();
//! env.push(&guest("echo"), "echo", &[]);
//! env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_true());
//! let ns = env.namespace("example");
//! ns.echo("web", 3, "nginx:1");
//! ns.wait_settled("web");
//! assert!(host.is_running());
//! ```
//!
//! Tests that only look at objects of their own take [`shared`]: one cluster and one host for the whole test binary, and
//! a namespace for each test. A test that restarts the host, hot-swaps a component or counts writes
//! cluster-wide takes [`Env::start`].

// A test fails by a panic, and only tests use this harness.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::missing_panics_doc)]

mod api;
mod binaries;
mod env;
mod host;
mod namespace;
mod objects;
mod puppet;
mod reader;
mod replica;
mod shared;
mod slot;

use std::time::Duration;

pub use binaries::{guest, path_with_go, run_offline, windlass, windlass_host};
pub use env::{Env, HOST_USER, SYSTEM_NAMESPACE, account};
pub use host::{Host, HostOptions, http_get};
pub use namespace::{Namespace, is_settled};
pub use objects::{Condition, condition, text};
pub use puppet::{Puppet, is_done};
pub use reader::Reader;
pub use replica::Replica;
pub use shared::{Shared, shared};
pub use windlass_testbed::{AuditEvent, AuditEvents, AuditLevel, Mark};

/// How long a test waits for something that usually takes moments: long, because a machine may be busy. Only a failure
/// takes this long. The longest wait is for the garbage collector, which looks for new kinds every 30 s and doubles its delay
/// with each try until then.
pub const TIMEOUT: Duration = Duration::from_mins(3);

/// Polls until the condition returns a value.
///
/// # Panics
/// When it returns none within `timeout`.
#[track_caller]
pub fn wait<T>(what: &str, timeout: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let caller = std::panic::Location::caller();
    match windlass_testbed::until(what, timeout, || Ok(condition())) {
        Ok(value) => value,
        Err(error) => panic!("{caller}: {error:#}"),
    }
}
