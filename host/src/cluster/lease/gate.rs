//! Blocks writes without the Lease: a client behind the gate rejects such a request before it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::{Either, Ready, ready};
use http::Request;
use tower::{BoxError, Layer, Service};
use windlass_core::lease::WRITES_FOR;

use super::super::writer::request::is_read;
use super::NAME;

/// Whether this host may write. Clones share the state.
#[derive(Debug, Clone)]
pub struct WriteGate(Arc<State>);

#[derive(Debug)]
struct State {
    base: Instant,
    /// Milliseconds after `base` until which the gate is open.
    until: AtomicU64,
}

impl Default for WriteGate {
    /// A closed gate.
    fn default() -> Self {
        Self(Arc::new(State { base: Instant::now(), until: AtomicU64::new(0) }))
    }
}

impl WriteGate {
    /// Opens the gate after a renewal of the Lease whose request was sent at this time.
    pub fn open_since(&self, sent: Instant) {
        let until = (sent + WRITES_FOR).saturating_duration_since(self.0.base).as_millis();
        self.0.until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Closes the gate: another host holds the Lease, or no host does.
    pub fn close(&self) {
        self.0.until.store(0, Ordering::Release);
    }

    /// Whether a write may be sent now.
    pub fn is_open(&self) -> bool {
        self.is_open_at(Instant::now())
    }

    fn is_open_at(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.0.base).as_millis();
        now < u128::from(self.0.until.load(Ordering::Acquire))
    }
}

/// Makes a client reject writes while the gate is closed.
#[derive(Debug, Clone)]
pub struct GateLayer {
    gate: WriteGate,
    namespace: Arc<str>,
    /// Path of the Leases in the host's namespace; writes to it are needed to open the gate.
    leases: Arc<str>,
}

impl GateLayer {
    /// A layer for the host in this namespace.
    pub fn new(gate: WriteGate, namespace: &str) -> Self {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases").into();
        Self { gate, namespace: namespace.into(), leases }
    }

    fn lets_through<B>(&self, request: &Request<B>) -> bool {
        is_read(request) || self.is_lease(request.uri().path()) || self.gate.is_open()
    }

    fn is_lease(&self, path: &str) -> bool {
        path.strip_prefix(&*self.leases).is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/') == Some(NAME))
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { layer: self.clone(), inner }
    }
}

/// A client's service behind the gate.
#[derive(Debug, Clone)]
pub struct Gate<S> {
    layer: GateLayer,
    inner: S,
}

impl<S, B> Service<Request<B>> for Gate<S>
where
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.layer.lets_through(&request) {
            Either::Right(self.inner.call(request))
        } else {
            let namespace = &self.layer.namespace;
            let message =
                format!("not sent: this host does not hold Lease {namespace}/{NAME}, or could not renew it in time");
            Either::Left(ready(Err(message.into())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;

    #[test]
    fn h01_gate_is_open_for_less_than_the_lease_lasts_and_closes_at_once() {
        let gate = WriteGate::default();
        let now = Instant::now();
        assert!(!gate.is_open_at(now), "before the Lease is held");
        gate.open_since(now);
        let just_before = now + WRITES_FOR.saturating_sub(Duration::from_millis(2));
        assert!(gate.is_open_at(now) && gate.is_open_at(just_before));
        assert!(!gate.is_open_at(now + WRITES_FOR), "the Lease was not renewed");
        gate.close();
        assert!(!gate.is_open_at(now));
    }

    #[test]
    fn h01_without_the_lease_only_reads_reviews_and_the_lease_itself_pass() {
        let layer = GateLayer::new(WriteGate::default(), "windlass-system");
        let passes = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(()).expect("a request");
            layer.lets_through(&request)
        };
        let leases = "/apis/coordination.k8s.io/v1/namespaces/windlass-system/leases";
        for (method, path) in [
            (Method::GET, "/api/v1/pods?watch=1".to_owned()),
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned()),
            (Method::POST, format!("{leases}?")),
            (Method::PUT, format!("{leases}/windlass?")),
        ] {
            assert!(passes(method, &path), "{path}");
        }
        for (method, path) in [
            (Method::POST, "/api/v1/namespaces/default/pods".to_owned()),
            (Method::PATCH, "/apis/my-operator.dev/v1/namespaces/default/echoes/web/status".to_owned()),
            (Method::DELETE, "/api/v1/namespaces/default/pods/a".to_owned()),
            (Method::PUT, format!("{leases}/other")),
            (Method::POST, "/apis/coordination.k8s.io/v1/namespaces/default/leases".to_owned()),
        ] {
            assert!(!passes(method, &path), "{path}");
        }
        layer.gate.open_since(Instant::now());
        assert!(passes(Method::POST, "/api/v1/namespaces/default/pods"));
    }
}
