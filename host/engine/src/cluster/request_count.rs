//! Counts the host's requests to the API server, by status code, method and host.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::Inspect;
use http::{Method, Request, Response};
use tower::{BoxError, Layer, Service};

use crate::telemetry;

/// Makes a client count its requests.
#[derive(Debug, Clone)]
pub struct RequestCountLayer {
    host: Arc<str>,
}

impl RequestCountLayer {
    /// A layer for requests to the API server of this host name.
    pub fn new(host: &str) -> Self {
        Self { host: host.into() }
    }
}

impl<S> Layer<S> for RequestCountLayer {
    type Service = RequestCount<S>;

    fn layer(&self, inner: S) -> RequestCount<S> {
        RequestCount { host: self.host.clone(), inner }
    }
}

/// A client's service whose requests are counted.
#[derive(Debug, Clone)]
pub struct RequestCount<S> {
    host: Arc<str>,
    inner: S,
}

type Count<B> = Box<dyn FnOnce(&Result<Response<B>, BoxError>) + Send>;

impl<S, A, B> Service<Request<A>> for RequestCount<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Inspect<S::Future, Count<B>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (host, method) = (self.host.clone(), Method::clone(request.method()));
        let count = move |result: &Result<Response<B>, BoxError>| {
            let code = result.as_ref().ok().map(|response| response.status().as_u16());
            telemetry::requested(&host, &method, code);
        };
        self.inner.call(request).inspect(Box::new(count))
    }
}
