//! What the API server warns about in the headers of a response, of which kube's client passes on the body alone. An observer of
//! the client hands the warnings to whoever asked for them.

use std::mem;
use std::sync::Arc;

use http::{HeaderMap, Request, header};
use parking_lot::Mutex;
use windlass_core::reconcile::api_warnings::parse;

use super::observed::{Done, Observer};

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

/// Hands over the warnings in responses.
#[derive(Debug, Clone)]
pub struct HandsOver;

impl Observer for HandsOver {
    fn observe<B: 'static>(&self, request: &Request<B>) -> Option<Done> {
        let warnings = request.extensions().get::<Warnings>().cloned()?;
        Some(Box::new(move |response| {
            if let Some((_, headers)) = response {
                warnings.receive(headers);
            }
        }))
    }
}
