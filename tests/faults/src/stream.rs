//! The events of one watch: parses them from the stream, and orders them.

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::{Call, Fault};

/// Splits chunks into lines.
#[derive(Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that are complete now, with their line breaks.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Vec<Bytes> {
        self.rest.extend_from_slice(chunk);
        let mut lines = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let rest = self.rest.split_off(end + 1);
            lines.push(std::mem::replace(&mut self.rest, rest).into());
        }
        lines
    }
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The bytes as received.
    pub line: Bytes,
    /// The watch, with the namespace and name of the event's object.
    pub call: Call,
    is_about_an_object: bool,
}

impl Event {
    /// Parses an event of this watch.
    pub(crate) fn read(watch: &Call, line: Bytes) -> Self {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_about_an_object = matches!(text("/type").as_str(), "ADDED" | "MODIFIED" | "DELETED");
        let mut call = watch.clone();
        if is_about_an_object {
            call.namespace = text("/object/metadata/namespace");
            call.name = text("/object/metadata/name");
        }
        Self { line, call, is_about_an_object }
    }

    /// Whether an event may be dropped, doubled or moved: a bookmark claims that all events before it were delivered.
    pub(crate) fn is_about_an_object(&self) -> bool {
        self.is_about_an_object
    }

    fn is_of(&self, other: &Self) -> bool {
        self.call == other.call
    }
}

/// The event that ends a watch whose version is too old.
pub(crate) fn expired() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version (injected)",
    });
    format!("{}\n", json!({ "type": "ERROR", "object": status })).into()
}

/// Orders the events.
#[derive(Default)]
pub(crate) struct Order {
    held: Option<Held>,
}

struct Held {
    event: Event,
    until_same: bool,
}

impl Order {
    /// The events to deliver after this event has arrived.
    pub(crate) fn take(&mut self, event: Event, fault: Option<&Fault>) -> Vec<Bytes> {
        if !event.is_about_an_object() {
            return self.flush().into_iter().chain([event.line]).collect();
        }
        if let Some(held) = self.held.take() {
            return match (held.until_same, event.is_of(&held.event)) {
                // Swapped with an event of another object for `SwapObjects`, of the same object for `SwapVersions`.
                (false, false) | (true, true) => vec![event.line, held.event.line],
                (false, true) => vec![held.event.line, event.line],
                (true, false) => {
                    self.held = Some(held);
                    vec![event.line]
                }
            };
        }
        match fault {
            Some(Fault::Drop) => Vec::new(),
            Some(Fault::Double) => vec![event.line.clone(), event.line],
            Some(Fault::SwapObjects) => self.hold(event, false),
            Some(Fault::SwapVersions) => self.hold(event, true),
            Some(
                Fault::Status { .. }
                | Fault::CloseBefore
                | Fault::CloseAfter
                | Fault::Delay(_)
                | Fault::ServeOlder(_)
                | Fault::Silence
                | Fault::Expire,
            )
            | None => vec![event.line],
        }
    }

    fn hold(&mut self, event: Event, until_same: bool) -> Vec<Bytes> {
        self.held = Some(Held { event, until_same });
        Vec::new()
    }

    /// Whether an event is held.
    pub(crate) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// The held event, if no other follows.
    pub(crate) fn flush(&mut self) -> Option<Bytes> {
        self.held.take().map(|held| held.event.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verb;

    fn event(kind: &str, name: &str, version: u32) -> Event {
        let watch = Call {
            verb: Verb::Watch,
            group: String::new(),
            resource: "pods".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        };
        let object = json!({"metadata": {"namespace": "n", "name": name, "resourceVersion": version.to_string()}});
        let line = format!("{}\n", json!({ "type": kind, "object": object }));
        Event::read(&watch, line.into())
    }

    /// Delivers these events, the first of them with a fault; `a1` is object `a` at version 1, `-9` a bookmark.
    fn order(fault: &Fault, events: &[(&str, u32)]) -> String {
        let mut order = Order::default();
        let mut delivered = Vec::new();
        for (at, (name, version)) in events.iter().enumerate() {
            let kind = if *name == "-" { "BOOKMARK" } else { "MODIFIED" };
            delivered.extend(order.take(event(kind, name, *version), (at == 0).then_some(fault)));
        }
        delivered.extend(order.flush());
        let name = |line: &Bytes| {
            let event: Value = serde_json::from_slice(line).unwrap();
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
            text("/object/metadata/name") + &text("/object/metadata/resourceVersion")
        };
        delivered.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn watch_events_are_dropped_doubled_and_reordered() {
        let events = [("a", 1), ("b", 2), ("a", 3)];
        assert_eq!(order(&Fault::Drop, &events), "b2 a3");
        assert_eq!(order(&Fault::Double, &events), "a1 a1 b2 a3");
        assert_eq!(order(&Fault::SwapObjects, &events), "b2 a1 a3");
        assert_eq!(order(&Fault::SwapVersions, &events), "b2 a3 a1");
    }

    #[test]
    fn swapping_objects_keeps_the_order_of_one_objects_events() {
        assert_eq!(order(&Fault::SwapObjects, &[("a", 1), ("a", 2), ("b", 3)]), "a1 a2 b3");
    }

    #[test]
    fn a_bookmark_never_overtakes_an_event() {
        assert_eq!(order(&Fault::SwapObjects, &[("a", 1), ("-", 9), ("b", 10)]), "a1 -9 b10");
        assert_eq!(order(&Fault::Drop, &[("-", 9), ("b", 10)]), "-9 b10");
    }

    #[test]
    fn last_swapped_event_is_not_lost() {
        assert_eq!(order(&Fault::SwapVersions, &[("a", 1), ("b", 2)]), "b2 a1");
    }

    #[test]
    fn lines_are_assembled_wherever_chunks_end() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"a\"").is_empty());
        assert_eq!(lines.push(b":1}\n{}\n{"), [Bytes::from("{\"a\":1}\n"), Bytes::from("{}\n")]);
        assert_eq!(lines.push(b"}\n"), [Bytes::from("{}\n")]);
    }
}
