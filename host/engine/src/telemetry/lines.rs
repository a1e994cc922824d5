//! Passes the lines of the log on, for `windlass dev`.

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;

use super::fields::{Fields, MESSAGE};
use super::{CAUSE, GUEST};

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// What wrote it.
    pub target: &'static str,
    /// The level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The other fields, as text.
    pub fields: Vec<(&'static str, String)>,
}

impl LogLine {
    /// The value of a field; empty if the line does not have it.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }
}

/// Receives the lines, in order. It must not block.
pub type Listener = Box<dyn Fn(LogLine) + Send + Sync>;

/// Passes each line on to the listener.
pub(super) struct LineLayer(pub Listener);

impl LineLayer {
    /// The lines that are passed on.
    pub(super) fn filter() -> Targets {
        Targets::new()
            .with_target("windlass", Level::INFO)
            .with_target(CAUSE, Level::DEBUG)
            .with_target(GUEST, Level::TRACE)
    }
}

impl<S: Subscriber> Layer<S> for LineLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.take(MESSAGE).unwrap_or_default();
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        (self.0)(LogLine { target, level, message, fields: fields.0 });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn line_is_passed_on_with_its_own_text_and_a_field_of_the_same_name() {
        let all = Arc::new(Mutex::new(Vec::new()));
        let seen = all.clone();
        let layer = LineLayer(Box::new(move |line| seen.lock().push(line)));
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(LineLayer::filter()));
        tracing::subscriber::with_default(subscriber, || {
            let message = "no quota";
            tracing::warn!(target: "windlass::failure", object = "hello", message, "status was not written");
            tracing::debug!(target: "windlass_engine", "left out");
        });
        let lines = all.lock();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            (&*line.message, line.field("message"), line.field("object")),
            ("status was not written", "no quota", "hello")
        );
    }
}
