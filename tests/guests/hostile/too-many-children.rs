//! Returns 5000 children, more than the limit. The host rejects the whole response and names the limit.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct TooManyChildren;

impl Hostile for TooManyChildren {
    const KIND: &str = "TooManyChildren";

    fn attack(_request: &Request) -> Outcome {
        Ok(response((0..5000).map(|index| child(&format!("many-{index}"), ""))))
    }
}

hostile_guests::export!(TooManyChildren);
