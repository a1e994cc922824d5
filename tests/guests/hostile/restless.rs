//! Returns its child with other content in every call: the time. The host writes it a few times, then once a minute, and the
//! parent has the reason `Thrashing`.

use hostile_guests::{Hostile, Outcome, Request, child, name, response};
use windlass_plugin::clock;

struct Restless;

impl Hostile for Restless {
    const KIND: &str = "Restless";

    fn attack(request: &Request) -> Outcome {
        Ok(response([child(&format!("{}-child", name(request)), &format!("{:?}", clock::now()))]))
    }
}

hostile_guests::export!(Restless);
