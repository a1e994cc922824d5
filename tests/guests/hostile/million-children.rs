//! Returns a million children, each as small as possible, which fit the guest's memory. The host stops when the list
//! itself exceeds the limit of a response, long before the last child.

use hostile_guests::{Hostile, Outcome, Request, response};

struct MillionChildren;

impl Hostile for MillionChildren {
    const KIND: &str = "MillionChildren";

    fn attack(_request: &Request) -> Outcome {
        Ok(response(vec![Vec::new(); 1_000_000]))
    }
}

hostile_guests::export!(MillionChildren);
