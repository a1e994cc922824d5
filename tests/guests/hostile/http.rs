//! Begins an HTTP request, an import that the contract does not grant. The component loads; the call traps, and the
//! import is named.

use hostile_guests::{Answer, Failure, Hostile, Request};
use wasip2::http::types::{Fields, OutgoingRequest};

struct Http;

impl Hostile for Http {
    const KIND: &str = "Http";

    fn attack(_request: &Request) -> Answer {
        let request = OutgoingRequest::new(Fields::new());
        Err(Failure::Failed(format!("there is a network: {:?}", request.method())))
    }
}

hostile_guests::export!(Http);
