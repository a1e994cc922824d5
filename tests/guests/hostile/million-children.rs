//! Returns a million children, each as small as can be: they fit the guest's memory. The host stops where the list itself
//! takes more than an answer may, long before the last of them.

use hostile_guests::{Answer, Hostile, Request, response};

struct MillionChildren;

impl Hostile for MillionChildren {
    const KIND: &str = "MillionChildren";

    fn attack(_request: &Request) -> Answer {
        Ok(response(vec![Vec::new(); 1_000_000]))
    }
}

hostile_guests::export!(MillionChildren);
