//! One cluster and one host for all tests of a binary that can run side by side.

use std::sync::OnceLock;

use crate::{Env, Host, guest};

/// A control plane with a host that runs Echo.
pub struct Shared {
    /// The control plane.
    pub env: Env,
    /// The host: never to be stopped.
    pub host: Host,
}

/// The environment that the tests of this binary share, started by the first that needs it. Each test takes a namespace of
/// its own in it, and leaves the Plugin `echo` and the host alone.
///
/// It ends with the process: the processes that it started watch a pipe from this one.
#[track_caller]
pub fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let env = Env::start();
        let host = env.start_host();
        env.push(&guest("echo"), "echo", &[]);
        env.wait_live("echo", &guest("echo"));
        Shared { env, host }
    })
}
