//! The running host: it watches Plugins and their parents, calls the plugins and writes what they desire.
//!
//! From top to bottom, each module importing only from rows below its own:
//!
//! | module | what lives there |
//! |---|---|
//! | [`command`] | the flags of a host, and the check of whether one can run here |
//! | [`run`] | connects the parts, starts their tasks, stops them |
//! | [`plugins`], [`reconcile`], [`serve`] | a Plugin becomes a live component; the world in which core reconciles a parent; health, metrics, recent calls |
//! | [`live`], [`recent`] | the live components: on which terms they work, their caches and calls, and what their parents share; the last calls of each parent |
//! | [`cluster`], [`queue`] | the traffic with the API server: the client, watches (objects stay JSON) and their caches, writes, access reviews, Leases; which key runs when |
//! | [`telemetry`], [`heap`], [`output`] | spans, metrics, logs; unused memory; lines for people |
//! | [`clock`] | the time |
#![allow(rustdoc::private_intra_doc_links, reason = "who works on the engine reads its private items as well")]

pub mod clock;
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
