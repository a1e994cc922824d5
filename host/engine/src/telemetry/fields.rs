//! The fields of spans and of lines of the log, as text.

use std::fmt::Write as _;

use tracing::field::{Field, Visit};

/// The field with the text of a line.
pub(super) const MESSAGE: &str = "message";

/// The fields of a span or a line.
#[derive(Default)]
pub(super) struct Fields(pub Vec<(&'static str, String)>);

impl Fields {
    fn set(&mut self, field: &Field, value: String) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            // A line has its own text under this name, and may have a field of it.
            Some((_, old)) if field.name() != MESSAGE => *old = value,
            _ => self.0.push((field.name(), value)),
        }
    }

    /// Takes a field out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(field, _)| *field == name)?;
        Some(self.0.remove(at).1)
    }

    /// Adds all fields that are left to a line.
    pub fn describe(&self, line: &mut String) {
        for (name, value) in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(line, " {name}={value}");
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if !value.is_empty() {
            self.set(field, value.to_owned());
        }
    }
}
