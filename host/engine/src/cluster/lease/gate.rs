//! Blocks writes without the Lease: a client behind the gate rejects such a request before it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use tower::BoxError;
use tower::filter::Predicate;

use super::super::writer::request::is_read;
use super::{NAME, is_name};
use crate::clock;

/// Whether this host may write: it must hold each Lease that it needs. Clones share the state. A new gate needs the
/// Lease of the leader, and is closed.
///
/// The gate closes by the time since the machine's boot, which passes also while the process or the machine is
/// suspended, and which no change of the date moves.
#[derive(Debug, Clone)]
pub struct WriteGate {
    /// The part of the leader's Lease.
    pub(crate) leader: GatePart,
    /// The part of a shard's Lease.
    pub(crate) shard: GatePart,
}

/// The part of a gate that one Lease opens.
#[derive(Debug, Clone)]
pub struct GatePart {
    /// Milliseconds after the boot until which this part is open.
    until: Arc<AtomicU64>,
}

/// Value of a part whose Lease the host does not need.
const NOT_NEEDED: u64 = u64::MAX;

impl Default for WriteGate {
    fn default() -> Self {
        Self { leader: GatePart::new(0), shard: GatePart::new(NOT_NEEDED) }
    }
}

impl WriteGate {
    /// Makes a new gate need the Lease of a shard. The Lease of the leader is needed only once the host has acquired
    /// it.
    pub fn need_shard(&self) {
        self.shard.close();
        self.leader.until.store(NOT_NEEDED, Ordering::Release);
    }

    /// Whether a write may be sent now.
    pub fn is_open(&self) -> bool {
        self.leader.is_open() && self.shard.is_open()
    }

    /// Whether this host leads, and may write.
    pub fn leads(&self) -> bool {
        self.leader.until.load(Ordering::Acquire) != NOT_NEEDED && self.is_open()
    }
}

impl GatePart {
    fn new(until: u64) -> Self {
        Self { until: Arc::new(AtomicU64::new(until)) }
    }

    /// Opens this part until this time after the boot.
    pub fn open_until(&self, time: Duration) {
        let until = u64::try_from(time.as_millis()).unwrap_or(NOT_NEEDED).min(NOT_NEEDED - 1);
        self.until.store(until, Ordering::Release);
    }

    /// Closes this part: another host holds the Lease, or no host does.
    pub fn close(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Whether this part is open now.
    pub fn is_open(&self) -> bool {
        clock::since_boot().as_millis() < u128::from(self.until.load(Ordering::Acquire))
    }
}

/// Marks a request that needs the Lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeedsLease;

/// Makes a client reject writes while the gate is closed, as the predicate of a [`FilterLayer`](tower::filter::FilterLayer).
#[derive(Debug, Clone)]
pub struct GateFilter {
    /// The gate.
    pub gate: WriteGate,
    namespace: Arc<str>,
    /// Path of the Leases in the host's namespace; writes to it are needed to open the gate.
    leases: Arc<str>,
    /// Time between the end of the holder's writes and the expiry of its Lease: so long may the network take to deliver a write that was
    /// sent before the gate closed.
    pub margin: Duration,
}

impl GateFilter {
    /// The filter of the host in this namespace, whose Lease expires this long after the gate has closed.
    pub fn new(gate: WriteGate, namespace: &str, margin: Duration) -> Self {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases").into();
        Self { gate, namespace: namespace.into(), leases, margin }
    }

    fn needs_lease<B>(&self, request: &Request<B>) -> bool {
        !is_read(request) && !self.is_lease(request.uri().path())
    }

    fn is_lease(&self, path: &str) -> bool {
        let is_ours = |rest: &str| rest.strip_prefix('/').is_some_and(is_name);
        path.strip_prefix(&*self.leases).is_some_and(|rest| rest.is_empty() || is_ours(rest))
    }
}

impl<B> Predicate<Request<B>> for GateFilter {
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Result<Request<B>, BoxError> {
        if self.needs_lease(&request) {
            if !self.gate.is_open() {
                let namespace = &self.namespace;
                let message = format!(
                    "not sent: this host does not hold Lease {namespace}/{NAME} or that of a shard, or could not renew it in time"
                );
                return Err(message.into());
            }
            request.extensions_mut().insert(NeedsLease);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures::FutureExt as _;
    use http::Method;
    use tower::filter::FilterLayer;
    use tower::{Layer as _, Service as _};

    use super::*;
    use crate::clock::since_boot;

    #[test]
    fn h01_gate_is_open_until_its_time_and_closes_at_once() {
        let gate = WriteGate::default();
        assert!(!gate.is_open(), "before the Lease is held");
        gate.leader.open_until(since_boot() + Duration::from_mins(1));
        assert!(gate.is_open());
        gate.leader.open_until(since_boot());
        assert!(!gate.is_open(), "the Lease was not renewed");
        gate.leader.open_until(since_boot() + Duration::from_mins(1));
        gate.leader.close();
        assert!(!gate.is_open());
    }

    #[test]
    fn h03_host_with_a_shard_writes_only_with_its_shard_and_as_the_leader_only_with_both_leases() {
        let (gate, soon) = (WriteGate::default(), since_boot() + Duration::from_mins(1));
        gate.need_shard();
        assert!(!gate.is_open(), "before the shard is held");
        gate.shard.open_until(soon);
        assert!(gate.is_open() && !gate.leads());
        gate.leader.open_until(soon);
        assert!(gate.is_open() && gate.leads());
        gate.leader.close();
        assert!(!gate.is_open(), "a leader that lost its Lease writes nothing, not even in its share");
        gate.leader.open_until(soon);
        gate.shard.close();
        assert!(!gate.is_open() && !gate.leads());
    }

    #[test]
    fn h01_without_the_lease_only_reads_reviews_and_the_lease_itself_pass() {
        let gate = WriteGate::default();
        let filter = GateFilter::new(gate.clone(), "windlass-system", Duration::from_secs(5));
        let passes = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(()).expect("a request");
            let inner = tower::service_fn(|_| ready(Ok::<_, BoxError>(())));
            let sent = FilterLayer::new(filter.clone()).layer(inner).call(request).now_or_never();
            sent.expect("an immediate response").is_ok()
        };
        let leases = "/apis/coordination.k8s.io/v1/namespaces/windlass-system/leases";
        for (method, path) in [
            (Method::GET, "/api/v1/pods?watch=1".to_owned()),
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned()),
            (Method::POST, format!("{leases}?")),
            (Method::PUT, format!("{leases}/windlass?")),
            (Method::PUT, format!("{leases}/windlass-shard-2?")),
        ] {
            assert!(passes(method, &path), "{path}");
        }
        for (method, path) in [
            (Method::POST, "/api/v1/namespaces/default/pods".to_owned()),
            (Method::PATCH, "/apis/my-operator.dev/v1/namespaces/default/echoes/web/status".to_owned()),
            (Method::DELETE, "/api/v1/namespaces/default/pods/a".to_owned()),
            (Method::PUT, format!("{leases}/other")),
            (Method::PUT, format!("{leases}/windlass-shard-other")),
            (Method::POST, "/apis/coordination.k8s.io/v1/namespaces/default/leases".to_owned()),
        ] {
            assert!(!passes(method, &path), "{path}");
        }
        gate.leader.open_until(since_boot() + Duration::from_mins(1));
        assert!(passes(Method::POST, "/api/v1/namespaces/default/pods"));
    }
}
