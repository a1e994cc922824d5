//! Writes traces to the log: when a root span ends, it is written as a tree with the wall time of each span.
//!
//! `tracing-forest` is not used, because it measures only the time in which a span is polled: the time that a reconcile
//! waits would not show.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use windlass_core::value::line::one_line;

use super::fields::{Fields, MESSAGE};
use crate::clock;

/// Collects the spans below each root, and writes them to the writer in one piece when the root ends.
pub(super) struct TreeLayer<W>(pub W);

struct Node {
    start: Instant,
    fields: Fields,
    below: Vec<Branch>,
}

/// A finished span or an event: its line, and the lines below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

impl<S, W> Layer<S> for TreeLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Node { start: clock::now(), fields, below: Vec::new() });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(node) = span.extensions_mut().get_mut::<Node>()
        {
            values.record(&mut node.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = format!("· {} {}", event.metadata().level(), fields.take(MESSAGE).unwrap_or_default());
        fields.describe(&mut line);
        if let Some(node) = span.extensions_mut().get_mut::<Node>() {
            node.below.push(Branch { line, below: Vec::new() });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut node) = span.extensions_mut().remove::<Node>() else { return };
        let name = node.fields.take("otel.name").unwrap_or_else(|| span.name().to_owned());
        let mut line = format!("{name} {:.1?}", clock::since(node.start));
        node.fields.describe(&mut line);
        let branch = Branch { line, below: node.below };
        if let Some(parent) = span.parent() {
            if let Some(parent) = parent.extensions_mut().get_mut::<Node>() {
                parent.below.push(branch);
            }
        } else {
            let mut text = String::new();
            draw(&branch, "", "", &mut text);
            // A log that cannot be written must not stop the work.
            let _ = self.0.make_writer().write_all(text.as_bytes());
        }
    }
}

fn draw(branch: &Branch, head: &str, indent: &str, text: &mut String) {
    let _ = writeln!(text, "{head}{}", one_line(&branch.line));
    for (at, below) in branch.below.iter().enumerate() {
        let (corner, more) = if at + 1 == branch.below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(below, &format!("{indent}{corner}"), &format!("{indent}{more}"), text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("unpoisoned").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn root_span_is_written_as_one_tree_when_it_ends() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::registry().with(TreeLayer(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let root = tracing::info_span!("reconcile", outcome = tracing::field::Empty);
            root.in_scope(|| {
                tracing::info_span!("plugin.call", bytes = 7).in_scope(|| tracing::warn!(n = 1, "hello"));
                tracing::info_span!("write", otel.name = "create").in_scope(|| ());
            });
            root.record("outcome", "Succeeded");
        });
        let text = String::from_utf8(buffer.0.lock().expect("unpoisoned").clone()).expect("UTF-8");
        let untimed: Vec<String> = text
            .lines()
            .map(|line| {
                let timed = |word: &&str| word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit());
                line.split(' ').filter(|word| !timed(word)).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(
            untimed,
            ["reconcile outcome=Succeeded", "├─ plugin.call bytes=7", "│  └─ · WARN hello n=1", "└─ create"]
        );
    }
}
