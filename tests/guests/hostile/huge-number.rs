//! Returns a child with a number that fits no machine type. The host keeps numbers verbatim and compares them as
//! decimals, without computing their value. The API server rejects the child, and the parent's condition reports it.

use hostile_guests::{Hostile, Outcome, Request, good, response};

struct HugeNumber;

impl Hostile for HugeNumber {
    const KIND: &str = "HugeNumber";

    fn attack(request: &Request) -> Outcome {
        let child = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"huge"},"spec":{"containers":[{"name":"a","image":"a"}],"priority":1e99999999999999999999}}"#;
        Ok(response(good(request).children.into_iter().chain([child.to_vec()])))
    }
}

hostile_guests::export!(HugeNumber);
