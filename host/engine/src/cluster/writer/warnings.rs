//! What the API server warns about in the headers of a response, of which kube's client passes on the body alone. A layer of the client
//! hands the warnings to whoever asked for them.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::Inspect;
use http::{HeaderMap, Request, Response, header};
use parking_lot::Mutex;
use tower::{BoxError, Service};
use windlass_core::reconcile::api_warnings::parse;

/// Receives the warnings in the response to a request. It is stored in the request's extensions.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<Box<str>>>>);

impl Warnings {
    /// Asks for the warnings about a request that is not sent yet.
    pub fn of(request: &mut Request<Vec<u8>>) -> Self {
        request.extensions_mut().get_or_insert_default::<Self>().clone()
    }

    /// The warnings, once the response is there.
    pub fn take(&self) -> Vec<Box<str>> {
        mem::take(&mut self.0.lock())
    }

    fn receive(&self, headers: &HeaderMap) {
        let values = headers.get_all(header::WARNING).into_iter();
        self.0.lock().extend(values.flat_map(|value| parse(&String::from_utf8_lossy(value.as_bytes()))));
    }
}

/// A client's service that hands over warnings.
#[derive(Debug, Clone)]
pub struct Warned<S>(pub S);

/// Looks at a response.
type OnResponse<R> = Box<dyn FnOnce(&Result<Response<R>, BoxError>) + Send>;

impl<S, B, R> Service<Request<B>> for Warned<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Inspect<S::Future, OnResponse<R>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asked = request.extensions().get::<Warnings>().cloned();
        self.0.call(request).inspect(Box::new(move |result| {
            if let (Some(warnings), Ok(response)) = (asked, result) {
                warnings.receive(response.headers());
            }
        }))
    }
}
