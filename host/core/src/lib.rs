//! Decisions of the Windlass host: how to interpret a plugin's response, what to write, and what to report. This crate
//! does no I/O and reads no clock or environment. The host, `windlass render` and the tests all run
//! the same code.
//!
//! | about | modules |
//! |---|---|
//! | what a plugin declares and returns | [`contract`], [`descriptor`], [`declared_parent`], [`config`], [`desired`], [`name_rule`], [`reserved`] |
//! | Kubernetes objects | [`object`], [`ids`], [`parent`], [`names`], [`mark`] (of children), [`managed`] (owners of fields), [`order`] (of kinds), [`selector`], [`schema`], [`conditions`], [`quantity`] |
//! | one reconcile | [`snapshot`] (the input of a call), [`next_step`], [`related`], [`plan`] (the writes, also of children that change one after the other), [`claim`] (an object has the name of a child), [`status`], [`observed_status`], [`events`], [`outcome`], [`reason`] |
//! | limits of what a plugin may do | [`guard`] (deletions, of one parent and by the rollout of a component), [`breaker`] (writes of one object), [`budget`], [`bucket`], [`quarantine`], [`grant`], [`former_kinds`] |
//! | retries and silent watches | [`backoff`], [`retry_after`], [`progress`] (of watches) |
//! | the status of a Plugin | [`readiness`], [`plugin_events`] |
//! | several hosts | [`lease`], [`shards`] |
//! | recorded calls | [`recent`], [`recording`], [`masking`] (of the values of Secrets) |
//! | values and texts | [`json`], [`difference`], [`digest`], [`line`](mod@line), [`bounded`] (maps), [`intern`] (shared values of cached objects), [`packed`] (their compressed JSON), [`memory`] (of a value) |

pub mod backoff;
pub mod bounded;
pub mod breaker;
pub mod bucket;
pub mod budget;
pub mod child;
pub mod claim;
pub mod conditions;
pub mod config;
pub mod contract;
pub mod declared_parent;
pub mod descriptor;
pub mod desired;
pub mod difference;
pub mod digest;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod former_kinds;
pub mod grant;
pub mod guard;
pub mod ids;
pub mod intern;
pub mod json;
pub mod lease;
pub mod line;
pub mod managed;
pub mod mark;
pub mod masking;
pub mod memory;
pub mod name_rule;
pub mod names;
pub mod next_step;
pub mod object;
pub mod observed_status;
pub mod order;
pub mod outcome;
pub mod packed;
pub mod parent;
pub mod plan;
pub mod plugin_events;
pub mod progress;
pub mod quantity;
pub mod quarantine;
pub mod readiness;
pub mod reason;
pub mod recent;
pub mod recording;
pub mod related;
pub mod reserved;
pub mod retry_after;
pub mod schema;
pub mod selector;
pub mod shards;
pub mod snapshot;
pub mod status;
