//! Wants its child to be another one in every answer, by the clock. The host writes it a few times, then once a
//! minute, and says that it thrashes.

use hostile_guests::{Answer, Hostile, Request, child, name, response};
use windlass_plugin::clock;

struct Restless;

impl Hostile for Restless {
    const KIND: &str = "Restless";

    fn attack(request: &Request) -> Answer {
        Ok(response([child(&format!("{}-child", name(request)), &format!("{:?}", clock::now()))]))
    }
}

hostile_guests::export!(Restless);
