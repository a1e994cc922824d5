//! Returns a child with the name of a user's ConfigMap, and asks to force ownership of its fields. The API server
//! reports that the name is taken; the host leaves that object alone and reports the conflict.

use hostile_guests::{Hostile, Outcome, Request, good, response};

struct NameThief;

impl Hostile for NameThief {
    const KIND: &str = "NameThief";

    fn attack(request: &Request) -> Outcome {
        let stolen = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"somebody-elses","annotations":{"windlass.dev/take-over":"true"}},"data":{"key":"mine"}}"#;
        Ok(response(good(request).children.into_iter().chain([stolen.to_vec()])))
    }
}

hostile_guests::export!(NameThief);
