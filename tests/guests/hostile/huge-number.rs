//! Returns a child with a number that is no number of any machine: the host passes numbers on to the letter and
//! compares them as decimals without computing their value. The API server refuses the child, and the host says so.

use hostile_guests::{Answer, Hostile, Request, good, response};

struct HugeNumber;

impl Hostile for HugeNumber {
    const KIND: &str = "HugeNumber";

    fn attack(request: &Request) -> Answer {
        let child = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"huge"},"spec":{"containers":[{"name":"a","image":"a"}],"priority":1e99999999999999999999}}"#;
        Ok(response(good(request).children.into_iter().chain([child.to_vec()])))
    }
}

hostile_guests::export!(HugeNumber);
