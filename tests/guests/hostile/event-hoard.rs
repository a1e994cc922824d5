//! Emits as many events as a response may have, each with a reason and a long text that it never had before, and asks to be called each
//! second. The host remembers a bounded number of the plugin's events, writes one a second, and uses the response.

use std::time::UNIX_EPOCH;

use hostile_guests::raw::{Event, EventType};
use hostile_guests::{Hostile, Outcome, Request, Response, good};
use windlass_plugin::clock;

/// The default of `limits.events`.
const EVENTS: u32 = 16;

struct EventHoard;

impl Hostile for EventHoard {
    const KIND: &str = "EventHoard";

    fn attack(request: &Request) -> Outcome {
        // The clock also makes the call impure: the host does not reuse the response, and calls the guest again.
        let now = clock::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let event = |index: u32| Event {
            event_type: EventType::Warning,
            reason: format!("Hoard{now}x{index}"),
            message: format!("{now} {}", "x".repeat(900)),
        };
        Ok(Response { events: (0..EVENTS).map(event).collect(), requeue: Some(1), ..good(request) })
    }
}

hostile_guests::export!(EventHoard);
