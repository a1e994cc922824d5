//! Returns 10 000 events. The host rejects the whole response and names the limit.

use hostile_guests::raw::{Event, EventType};
use hostile_guests::{Hostile, Outcome, Request, Response, good};

struct EventBomb;

impl Hostile for EventBomb {
    const KIND: &str = "EventBomb";

    fn attack(request: &Request) -> Outcome {
        let event = |index: u32| Event {
            event_type: EventType::Warning,
            reason: format!("Bomb{index}"),
            message: "x".repeat(100),
        };
        Ok(Response { events: (0..10_000).map(event).collect(), ..good(request) })
    }
}

hostile_guests::export!(EventBomb);
