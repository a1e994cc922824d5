//! The running host: it watches Plugins and their parents, calls the plugins and writes what they desire.

pub mod cluster;
pub mod command;
pub mod heap;
pub mod live;
pub mod output;
pub mod plugins;
pub mod queue;
pub mod recent;
pub mod reconcile;
pub mod run;
pub mod serve;
pub mod telemetry;
