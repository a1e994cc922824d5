//! One call of a plugin for the checks: its input, and what it gave.

use windlass_core::contract::Phase;

use super::reply::Reply;
use super::world::World;

/// Which objects the requirements of a response get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {
    /// None.
    Empty,
    /// For each requirement, objects that it selects: one by name, or two by labels.
    Plausible,
}

/// The random numbers of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// As in the host: the same for the same request, others for another request.
    OfRequest,
    /// The same in every call.
    Fixed,
    /// The same in every call, and others than those of [`Self::Fixed`].
    OtherFixed,
}

/// The input of one call.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The parent, its children and the clock.
    pub world: &'a World,
    /// Whether the parent is being finalized.
    pub phase: Phase,
    /// The related objects.
    pub stock: Stock,
    /// The random numbers.
    pub seed: Seed,
    /// Whether children and related objects are in reverse order.
    pub is_reversed: bool,
}

impl<'a> Input<'a> {
    /// The input for a parent that is not being deleted, with the objects in their order.
    pub fn sync(world: &'a World, stock: Stock, seed: Seed) -> Self {
        Self { world, phase: Phase::Sync, stock, seed, is_reversed: false }
    }
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub enum CallResult {
    /// A response that the host accepts.
    Response(Box<Reply>),
    /// The plugin considers the parent invalid.
    Invalid(String),
    /// The plugin waits.
    Retry(String),
    /// The plugin failed.
    Failed {
        /// The plugin's message.
        message: String,
        /// Whether the plugin had required related objects.
        has_related: bool,
    },
    /// The call failed.
    Trap(String),
    /// The host rejects the response.
    Rejected(String),
}

/// A plugin that can be called without a cluster.
pub trait Plugin {
    /// Calls the plugin until its requirements are final, and validates its response.
    fn call(&self, input: Input<'_>) -> CallResult;
    /// Whether its descriptor has `finalizes` set.
    fn finalizes(&self) -> bool;
}
