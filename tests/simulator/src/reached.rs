//! What the hosts of a history came to, with counts: the outcomes of their reconciles, as their spans name them, and the endings,
//! problems and claims that they log.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Counts what the spans of reconciles record. Clones share the counts.
#[derive(Clone, Default)]
pub struct Reached(Arc<Mutex<BTreeMap<String, u64>>>);

impl Reached {
    /// The counts so far.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }

    fn note(&self, record: impl FnOnce(&mut Found)) {
        let mut found = Found(Vec::new());
        record(&mut found);
        let mut counts = self.0.lock();
        for what in found.0 {
            *counts.entry(what).or_default() += 1;
        }
    }
}

/// The values of the fields that count.
struct Found(Vec<String>);

impl Visit for Found {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let "windlass.outcome" | "windlass.trigger" | "ending" = field.name() {
            self.0.push(format!("{} {value}", field.name().trim_start_matches("windlass.")));
        }
    }

    /// Values of enums count by the name of their variant.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if let "ending" | "problem" | "write_problem" | "claim" = field.name() {
            let text = format!("{value:?}");
            let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
            // Some lines of the log have a message there.
            if text.starts_with(char::is_uppercase) {
                self.0.push(format!("{} {}", field.name(), &text[..end]));
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for Reached {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let is_of_reconcile = || metadata.target().starts_with("windlass_core::reconcile");
        metadata.is_span() && metadata.name() == "reconcile" || metadata.is_event() && is_of_reconcile()
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.note(|found| event.record(found));
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.note(|found| attributes.record(found));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.note(|found| values.record(found));
    }
}
