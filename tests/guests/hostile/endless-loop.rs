//! Never answers. The host ends the call at its deadline and reports the timeout; its threads and the other plugins go
//! on.

use hostile_guests::{Answer, Hostile, Request};

struct EndlessLoop;

impl Hostile for EndlessLoop {
    const KIND: &str = "EndlessLoop";

    fn attack(_request: &Request) -> Answer {
        loop {
            std::hint::black_box(());
        }
    }
}

hostile_guests::export!(EndlessLoop);
