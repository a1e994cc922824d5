//! Values without a meaning in Kubernetes: JSON, names, hashes, quantities, schedules, and how they are kept small.
//!
//! Nothing here knows an object, a plugin or a host. It imports from no other room.

pub mod bounded;
pub mod clock;
pub mod difference;
pub mod digest;
pub mod ids;
pub mod intern;
pub mod json;
pub mod line;
pub mod memory;
pub mod milliseconds;
pub mod packed;
pub mod quantity;
pub mod schedule;
