//! Kubernetes objects: what the caches keep of them, and what Windlass reads from them and writes on them.
//!
//! Here is what an object is and says: its marks, owners, fields' owners, labels, status. What follows from that is decided in other
//! rooms. It imports from [`crate::value`] alone.

mod cached;
pub mod child;
pub mod conditions;
pub mod managed;
pub mod mark;
pub mod masking;
pub mod name_rule;
pub mod names;
pub mod observed_status;
pub mod once;
pub mod order;
pub mod parent;
pub mod readiness;
pub mod reason;
pub mod selector;

pub use cached::{Checked, Marks, NotAnObject, Object, OwnerKey};
