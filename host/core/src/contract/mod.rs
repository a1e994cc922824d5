//! What plugin and host say to each other: what a plugin declares, what it is granted, what it receives, and what its response means.
//!
//! A response that got through this room is valid: its children have a granted kind, a name and an owner, and its requirements may be
//! read. Whether any of it is written is not decided here.

pub mod declared_parent;
pub mod descriptor;
pub mod desired;
mod exchange;
pub mod grant;
pub mod offer;
pub mod related;
pub mod reserved;
pub mod snapshot;

pub use exchange::{
    CallFailure, CallReport, ChildOptions, ChildRef, ChildRule, Descriptor, Event, EventType, Failure, FinalizeCause,
    JSON_DEPTH_MAX, Json, Keep, LeftOut, Level, Limits, LoadFailure, Metric, MetricType, Namespaces, Note, Observed,
    Parent, ParentSelector, Phase, PluginResult, ReadyMeans, Related, Request, Requirement, Response, Selection,
    Surface, Until, UpdateStrategy,
};
