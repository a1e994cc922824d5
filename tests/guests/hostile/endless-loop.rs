//! Never responds. The host ends the call at its deadline and reports the timeout; its threads and the other plugins
//! continue to work.

use hostile_guests::{Hostile, Outcome, Request};

struct EndlessLoop;

impl Hostile for EndlessLoop {
    const KIND: &str = "EndlessLoop";

    fn attack(_request: &Request) -> Outcome {
        loop {
            std::hint::black_box(());
        }
    }
}

hostile_guests::export!(EndlessLoop);
