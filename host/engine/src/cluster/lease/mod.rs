//! The Lease that lets one host act at a time: acquired before any write, renewed while the host works, released at the
//! end.
//!
//! A host whose Lease may have expired writes nothing: [`gate`] rejects its writes, and [`fence`] stops those that
//! were on their way to the network.

mod candidate;
mod fence;
mod gate;
mod holder;
mod identity;
mod leases;

use std::time::Duration;

use http::Request;
use kube::Client;
use windlass_core::hosts::lease::{Observations, Step, Timing, WhileHeld};
use windlass_core::hosts::shards::{SHARDS_MAX, Shard};

use crate::clock;

pub(super) use self::leases::{Leases, Refusal};
pub use candidate::Candidate;
pub use fence::{Pools, fenced};
pub use gate::{GateFilter, WriteGate};
pub use holder::{End, HeldLease};
pub use identity::Instance;

/// Name of the leader's Lease, in the host's namespace.
pub const NAME: &str = "windlass";
/// Start of the names of the shards' Leases; the shard's number follows.
const SHARD_PREFIX: &str = "windlass-shard-";

/// Name of a shard's Lease.
pub fn name_of_shard(shard: Shard) -> String {
    format!("{SHARD_PREFIX}{shard}")
}

/// The shard whose Lease has this name; none if it is another Lease.
pub fn shard_of(name: &str) -> Option<Shard> {
    name.strip_prefix(SHARD_PREFIX)?.parse().ok().filter(|shard| *shard < SHARDS_MAX)
}

/// Whether this is the name of the leader's Lease, or of a shard's.
fn is_name(name: &str) -> bool {
    name == NAME || shard_of(name).is_some()
}

/// How a host takes part in the leader election.
#[derive(Debug, Clone, Copy)]
pub struct Election {
    /// What the host does while another one holds the Lease.
    pub while_held: WhileHeld,
    /// The times.
    pub timing: Timing,
    /// Number of hosts that share the parents; with one, the leader has all of them.
    pub shards: Shard,
}

/// How a host with this identity would react to the Lease now; and the holder, if there is one.
///
/// # Errors
/// If the Lease cannot be read. The text is for users.
pub async fn preview(
    client: Client,
    namespace: &str,
    election: Election,
    instance: &Instance,
) -> Result<(Step, String), String> {
    let leases = Leases::new(client, namespace, NAME, election.timing);
    let state = leases.get().await?.map(|lease| leases.read(&lease)).unwrap_or_default();
    let nothing_yet = Observations::default();
    let step = state.step(&instance.identity, clock::date(), &nothing_yet, Duration::ZERO, election.while_held);
    Ok((step, state.holder.unwrap_or_default()))
}

/// Whether a request is for the existing Lease, to read, acquire, renew or release it. A create is not counted: its path
/// has no name.
pub fn is_of_lease<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let rest = path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/");
    rest.and_then(|rest| rest.split_once('/')?.1.strip_prefix("leases/")).is_some_and(is_name)
}

/// Why this host may not act.
#[derive(Debug, thiserror::Error)]
pub enum NotHolder {
    /// Another host holds the Lease.
    #[error(
        "another host is running: Lease {namespace}/{NAME} is held by {holder}. Stop that host, or start this one with \
         --leader-elect to let it stand by; if that host no longer runs, start this one again in {} s",
        expires_in.as_secs()
    )]
    Refused {
        /// Namespace of the Lease.
        namespace: String,
        /// Identity of the holder.
        holder: String,
        /// Time until the Lease expires.
        expires_in: Duration,
    },
    /// Another host acquired the Lease, because this host could not renew it in time.
    #[error(
        "this host stops, because Lease {namespace}/{name} is held by {holder} now: it was not renewed in time, or another client \
         changed it"
    )]
    Lost {
        /// Namespace of the Lease.
        namespace: String,
        /// Name of the Lease.
        name: String,
        /// Identity of the holder.
        holder: String,
    },
}
