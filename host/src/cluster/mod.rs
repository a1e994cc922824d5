//! Everything between the API server and the rest of the host: caches, writes, access reviews, discovery, events, the Lease.

pub mod access_review;
pub mod account;
pub mod discovery;
pub mod events;
pub mod lease;
pub mod retry_after;
pub mod watch;
pub mod writer;

// Requests of the crate below need it as well.
pub use windlass_delivery::in_time;
