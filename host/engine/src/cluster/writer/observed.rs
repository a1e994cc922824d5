//! A layer of the client that looks at each request, and at the head of its response.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::Inspect;
use http::{HeaderMap, Request, Response, StatusCode};
use tower::{BoxError, Service};

/// What is done once the response to a request is there: it gets the status and the headers, or none if there is no response.
pub type Done = Box<dyn FnOnce(Option<(StatusCode, &HeaderMap)>) + Send>;

/// Looks at requests.
pub trait Observer {
    /// Looks at a request before it is sent.
    fn observe<B: 'static>(&self, request: &Request<B>) -> Option<Done>;
}

/// A client's service that an observer looks at.
#[derive(Debug, Clone)]
pub struct Observed<O, S> {
    /// Looks at its requests.
    pub observer: O,
    /// The service itself.
    pub inner: S,
}

/// Looks at a result.
type OnResult<R> = Box<dyn FnOnce(&Result<Response<R>, BoxError>) + Send>;

impl<O, S, B, R> Service<Request<B>> for Observed<O, S>
where
    O: Observer,
    B: 'static,
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Inspect<S::Future, OnResult<R>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let done = self.observer.observe(&request);
        self.inner.call(request).inspect(Box::new(move |result| {
            if let Some(done) = done {
                done(result.as_ref().ok().map(|response| (response.status(), response.headers())));
            }
        }))
    }
}
