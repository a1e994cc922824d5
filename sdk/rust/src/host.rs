//! Functions of the host that a plugin may call. They return nothing, so no response can depend on them.

#[cfg(target_family = "wasm")]
use crate::raw::windlass::plugin::host as sink;
#[cfg(not(target_family = "wasm"))]
use crate::testing::host as sink;

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Adds to a counter, sets a gauge or records in a histogram that [`Descriptor::metric`](crate::Descriptor::metric)
/// declares. `value` is in the metric's unit, and `labels` are pairs of name and value. The host drops metrics and labels that the
/// descriptor does not declare.
pub fn measure(metric: &str, value: f64, labels: &[(&str, &str)]) {
    sink::measure(metric, value, &pairs(labels));
}

/// Writes lines into the host's log, with the plugin and the parent. Log lines, and attributes and events of the span, of one call
/// have at most 64 KiB together (`spec.limits.logBytes` of the Plugin); the host drops the rest.
///
/// When a call panics, the host copies its last error line into the parent's condition and events, which more users read than a
/// log: neither that line nor the message of a panic may contain the value of a Secret.
pub mod log {
    use super::{pairs, sink};
    pub use crate::raw::windlass::plugin::host::Level;

    /// Writes a line with fields, which are pairs of name and value.
    pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
        sink::log(level, message, &pairs(fields));
    }

    /// Writes a line about a single step.
    pub fn trace(message: impl AsRef<str>) {
        sink::log(Level::Trace, message.as_ref(), &[]);
    }

    /// Writes a line for debugging the plugin.
    pub fn debug(message: impl AsRef<str>) {
        sink::log(Level::Debug, message.as_ref(), &[]);
    }

    /// Writes a line that is useful in production.
    pub fn info(message: impl AsRef<str>) {
        sink::log(Level::Info, message.as_ref(), &[]);
    }

    /// Writes a line about something unexpected that the plugin handles.
    pub fn warn(message: impl AsRef<str>) {
        sink::log(Level::Warn, message.as_ref(), &[]);
    }

    /// Writes a line about an error.
    pub fn error(message: impl AsRef<str>) {
        sink::log(Level::Error, message.as_ref(), &[]);
    }
}

/// The span of this call in the host's trace. Its attributes and events count as bytes of the [`log`].
pub mod span {
    use super::{pairs, sink};

    /// Sets an attribute.
    pub fn attribute(key: &str, value: impl AsRef<str>) {
        sink::span_attribute(key, value.as_ref());
    }

    /// Adds an event; `attributes` are pairs of name and value.
    pub fn event(name: &str, attributes: &[(&str, &str)]) {
        sink::span_event(name, &pairs(attributes));
    }
}
