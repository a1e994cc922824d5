//! What happened in a history, line by line. The same seed gives the same lines.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::value::digest::Digest;

/// The lines of a history so far.
pub struct Trace {
    began: Instant,
    lines: Vec<String>,
}

impl Trace {
    /// A trace that begins now.
    pub fn begin() -> Self {
        Self { began: Instant::now(), lines: Vec::new() }
    }

    /// Adds a line with its time.
    pub fn note(&mut self, what: &str) {
        let at = self.began.elapsed();
        self.lines.push(format!("{:>9.3} {what}", at.as_secs_f64()));
    }

    /// The time since the beginning.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// The lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The hash of all lines.
    pub fn hash(&self) -> String {
        Digest::of(self.lines.join("\n").as_bytes()).hex()
    }
}
