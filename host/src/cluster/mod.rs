//! All access to the API server: watches and their caches, writes, access reviews, discovery, events, the Lease.

pub mod access_review;
pub mod account;
pub mod discovery;
pub mod events;
pub mod lease;
pub mod request_count;
pub mod retry_after;
pub mod secret_key;
pub mod shards;
pub mod watch;
pub mod writer;

// The delivery crate sends requests as well, so this function lives there.
pub use windlass_delivery::in_time;
