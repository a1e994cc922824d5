//! Decisions of the Windlass host: how to interpret a plugin's response, what to write, and what to report. This crate
//! does no I/O and reads no clock or environment; what a reconcile reads and sends goes through a [`reconcile::world`]. The host,
//! `windlass render` and the tests all run the same code.
//!
//! A *Plugin* is a resource of the cluster, and a *plugin* the component that it runs (docs/glossary.md). R1 to R21 are the rules in
//! docs/reconcile-rules.md.
//!
//! Seven rooms, from top to bottom. A room imports from rooms below its own alone; `plugin` and `hosts` do not import from each other.
//!
//! | room | what lives there |
//! |---|---|
//! | [`plugin`] | a Plugin as a whole: its config, its CRD, its conditions and events |
//! | [`hosts`] | several hosts: who leads, who has which parents; watches that are silent |
//! | [`reconcile`] | one reconcile of a parent, step by step, and how it is reported and recorded |
//! | [`guard`] | limits of what a plugin may do: deletions, writes, calls |
//! | [`contract`] | what a plugin declares, is granted, receives and returns |
//! | [`object`] | Kubernetes objects, and what Windlass writes on them |
//! | [`value`] | JSON, names, hashes, quantities, schedules |

pub mod contract;
#[cfg(test)]
mod fixtures;
pub mod guard;
pub mod hosts;
pub mod object;
pub mod plugin;
pub mod reconcile;
pub mod value;
