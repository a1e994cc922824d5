//! Stands in for what the host gives and takes in the course of a call.

use std::{
    cell::RefCell,
    time::{Duration, SystemTime},
};

use crate::log::Level;

/// One value that a plugin measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Labels and their values.
    pub labels: Vec<(String, String)>,
}

/// What a call can see beside its request.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) now: SystemTime,
    pub(crate) random: Option<Vec<u8>>,
}

impl Default for World {
    fn default() -> Self {
        Self { now: SystemTime::UNIX_EPOCH + Duration::from_hours(490_896), random: None }
    }
}

/// What a call told the host beside its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Messages of the lines logged.
    pub logs: Vec<String>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// Attributes of the call's span.
    pub span_attributes: Vec<(String, String)>,
    /// Names of the span's events.
    pub span_events: Vec<String>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
    static TOLD: RefCell<Told> = RefCell::default();
}

pub(crate) fn begin(world: World) {
    WORLD.replace(world);
    take();
}

pub(crate) fn take() -> Told {
    TOLD.take()
}

#[cfg(feature = "clock")]
pub(crate) fn now() -> SystemTime {
    WORLD.with_borrow(|world| world.now)
}

#[cfg(feature = "random")]
pub(crate) fn random(count: u32) -> Vec<u8> {
    WORLD.with_borrow_mut(|world| match &mut world.random {
        Some(bytes) => {
            let count = bytes.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            bytes.drain(..count).collect()
        }
        None => (0..count).map(|index| index.wrapping_mul(151).to_le_bytes()[0]).collect(),
    })
}

pub(crate) fn log(_level: Level, message: &str, _fields: &[(String, String)]) {
    TOLD.with_borrow_mut(|told| told.logs.push(message.to_owned()));
}

pub(crate) fn span_attribute(key: &str, value: &str) {
    TOLD.with_borrow_mut(|told| told.span_attributes.push((key.to_owned(), value.to_owned())));
}

pub(crate) fn span_event(name: &str, _attributes: &[(String, String)]) {
    TOLD.with_borrow_mut(|told| told.span_events.push(name.to_owned()));
}

pub(crate) fn measure(metric: &str, value: f64, labels: &[(String, String)]) {
    let measurement = Measurement { metric: metric.to_owned(), value, labels: labels.to_vec() };
    TOLD.with_borrow_mut(|told| told.measurements.push(measurement));
}
