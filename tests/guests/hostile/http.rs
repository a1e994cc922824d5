//! Begins an HTTP request, which is an unsupported import. The component loads; the call traps, and the message names
//! the import.

use hostile_guests::{Failure, Hostile, Outcome, Request};
use wasip2::http::types::{Fields, OutgoingRequest};

struct Http;

impl Hostile for Http {
    const KIND: &str = "Http";

    fn attack(_request: &Request) -> Outcome {
        let request = OutgoingRequest::new(Fields::new());
        Err(Failure::Failed(format!("there is a network: {:?}", request.method())))
    }
}

hostile_guests::export!(Http);
