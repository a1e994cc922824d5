//! The host of a test: its clock and random bytes, and a record of the calls of its functions.

use std::{
    cell::RefCell,
    time::{Duration, SystemTime},
};

use crate::log::Level;

/// One call of [`measure`](crate::measure()).
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The name of the metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Labels, as pairs of name and value.
    pub labels: Vec<(String, String)>,
}

/// The input of a call in addition to its request.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) now: SystemTime,
    pub(crate) random: Option<Vec<u8>>,
}

impl Default for Input {
    fn default() -> Self {
        Self { now: SystemTime::UNIX_EPOCH + Duration::from_hours(490_896), random: None }
    }
}

/// The calls of the host's functions during one call of a plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostCalls {
    /// Messages of log lines.
    pub logs: Vec<String>,
    /// Measurements.
    pub measurements: Vec<Measurement>,
    /// Attributes of the call's span, as pairs of name and value.
    pub span_attributes: Vec<(String, String)>,
    /// Names of events of the call's span.
    pub span_events: Vec<String>,
}

thread_local! {
    static INPUT: RefCell<Input> = RefCell::default();
    static CALLS: RefCell<HostCalls> = RefCell::default();
}

pub(crate) fn begin(input: Input) {
    INPUT.replace(input);
    take();
}

pub(crate) fn take() -> HostCalls {
    CALLS.take()
}

#[cfg(feature = "clock")]
pub(crate) fn now() -> SystemTime {
    INPUT.with_borrow(|input| input.now)
}

#[cfg(feature = "random")]
pub(crate) fn random(count: u32) -> Vec<u8> {
    INPUT.with_borrow_mut(|input| match &mut input.random {
        Some(bytes) => {
            let count = bytes.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            bytes.drain(..count).collect()
        }
        None => (0..count).map(|index| index.wrapping_mul(151).to_le_bytes()[0]).collect(),
    })
}

pub(crate) fn log(_level: Level, message: &str, _fields: &[(String, String)]) {
    CALLS.with_borrow_mut(|calls| calls.logs.push(message.to_owned()));
}

pub(crate) fn span_attribute(key: &str, value: &str) {
    CALLS.with_borrow_mut(|calls| calls.span_attributes.push((key.to_owned(), value.to_owned())));
}

pub(crate) fn span_event(name: &str, _attributes: &[(String, String)]) {
    CALLS.with_borrow_mut(|calls| calls.span_events.push(name.to_owned()));
}

pub(crate) fn measure(metric: &str, value: f64, labels: &[(String, String)]) {
    let measurement = Measurement { metric: metric.to_owned(), value, labels: labels.to_vec() };
    CALLS.with_borrow_mut(|calls| calls.measurements.push(measurement));
}
