//! A real Kubernetes control plane, an OpenTelemetry Collector, a Prometheus server and an OCI registry, as ordinary processes on loopback: for
//! tests and for `cargo xtask`.
//!
//! It blocks and needs no async runtime, so that every kind of test can use it.
//!
//! ```no_run
//! use windlass_testbed::{Cluster, Options};
//!
//! let cluster = Cluster::start(Options::default())?;
//! let mark = cluster.audit()?.mark()?;
//! cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")?;
//! assert_eq!(cluster.audit()?.since(mark)?.writes().resource("namespaces").len(), 1);
//! # anyhow::Ok(())
//! ```

mod audit;
mod audit_events;
mod cluster;
mod collector;
mod control_plane;
mod cosign;
mod credentials;
mod detached;
mod helm;
mod kubectl;
mod node;
mod otlp;
mod poll;
mod ports;
mod prometheus;
mod proxy;
mod registry;
mod supervised;
pub mod tools;

pub use audit::{Audit, Mark};
pub use audit_events::{AuditEvent, AuditEvents};
pub use cluster::{AuditLevel, Cluster, Options};
pub use collector::Collector;
pub use cosign::{Cosign, SignatureLayout};
pub use detached::{attach, down, up};
pub use helm::Helm;
pub use otlp::{Attributes, Metric, Span, SpanEvent, Status};
pub use poll::until;
pub use prometheus::{Prometheus, check_metrics, promtool};
pub use proxy::Proxy;
pub use registry::{REGISTRY_PASSWORD, REGISTRY_USER, Registry};
