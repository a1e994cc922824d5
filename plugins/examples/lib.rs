//! The examples of metacontroller as plugins: see README.md.

// Each plugin exports the functions of a component, and a component has them once.
#![cfg(not(target_family = "wasm"))]

#[path = "catset/plugin.rs"]
pub mod catset;
#[path = "clusteredparent/plugin.rs"]
pub mod clusteredparent;
#[path = "configmappropagation/plugin.rs"]
pub mod configmappropagation;
#[path = "globalconfigmap/plugin.rs"]
pub mod globalconfigmap;
#[path = "indexedjob/plugin.rs"]
pub mod indexedjob;
#[path = "service-per-pod/plugin.rs"]
pub mod service_per_pod;
