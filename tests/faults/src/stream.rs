//! The events of one watch, parsed from the stream.

use hyper::body::Bytes;
use serde_json::Value;

use crate::Call;

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

/// The watch of an event, with the namespace and name of the event's object; without them for a bookmark.
pub(crate) fn call_of(watch: &Call, event: &[u8]) -> Call {
    let event: Value = serde_json::from_slice(event).unwrap_or_default();
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut call = watch.clone();
    if matches!(text("/type").as_str(), "ADDED" | "MODIFIED" | "DELETED") {
        call.namespace = text("/object/metadata/namespace");
        call.name = text("/object/metadata/name");
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_assembled_wherever_chunks_end() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"a\"").is_empty());
        assert_eq!(lines.push(b":1}\n{}\n{"), [Bytes::from("{\"a\":1}\n"), Bytes::from("{}\n")]);
        assert_eq!(lines.push(b"}\n"), [Bytes::from("{}\n")]);
    }
}
