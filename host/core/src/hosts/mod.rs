//! The hosts: which of them leads and which parents each has, and what they make of the API server's watches and responses.
//!
//! Nothing here knows a plugin.

pub mod lease;
pub mod progress;
pub mod retry_after;
pub mod shards;
