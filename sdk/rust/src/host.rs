//! What a plugin may tell the host in the course of a call. Write-only, so that no answer can depend on it.

#[cfg(target_family = "wasm")]
use crate::raw::windlass::plugin::host as sink;
#[cfg(not(target_family = "wasm"))]
use crate::testing::sink;

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Adds to a counter, sets a gauge or records in a histogram that [`Descriptor::metric`](crate::Descriptor::metric)
/// declared. Labels are name and value.
pub fn measure(metric: &str, value: f64, labels: &[(&str, &str)]) {
    sink::measure(metric, value, &pairs(labels));
}

/// Lines in the host's log, with the plugin and the parent. At most 64 KiB in one call.
///
/// When a call panics, the last error is quoted in the parent's condition and events, which more people read than a log:
/// neither it nor a panic's message may hold the value of a Secret.
pub mod log {
    use super::{pairs, sink};
    pub use crate::raw::windlass::plugin::host::Level;

    /// Writes a line with fields.
    pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
        sink::log(level, message, &pairs(fields));
    }

    /// Every step.
    pub fn trace(message: impl AsRef<str>) {
        sink::log(Level::Trace, message.as_ref(), &[]);
    }

    /// For whoever debugs the plugin.
    pub fn debug(message: impl AsRef<str>) {
        sink::log(Level::Debug, message.as_ref(), &[]);
    }

    /// Worth a line in production.
    pub fn info(message: impl AsRef<str>) {
        sink::log(Level::Info, message.as_ref(), &[]);
    }

    /// Odd, but handled.
    pub fn warn(message: impl AsRef<str>) {
        sink::log(Level::Warn, message.as_ref(), &[]);
    }

    /// Went wrong.
    pub fn error(message: impl AsRef<str>) {
        sink::log(Level::Error, message.as_ref(), &[]);
    }
}

/// The span of this call in the host's trace.
pub mod span {
    use super::{pairs, sink};

    /// Sets an attribute.
    pub fn attribute(key: &str, value: impl AsRef<str>) {
        sink::span_attribute(key, value.as_ref());
    }

    /// Adds an event.
    pub fn event(name: &str, attributes: &[(&str, &str)]) {
        sink::span_event(name, &pairs(attributes));
    }
}
