//! What the parents of one Plugin share: the records of all of them, the deletions and failures of the live component, and the rate of
//! requests.

pub mod component_state;
pub mod contended;
pub mod failures;
pub mod kept_values;
pub mod records;

use std::sync::Arc;

use parking_lot::Mutex;

use self::component_state::ComponentState;
use self::records::Records;
use crate::guard::breaker::Breaker;
use crate::guard::budget::Budget;
use crate::value::clock::Clock;

/// What the parents of one Plugin share. But for `state`, it outlives the component.
#[derive(Clone)]
pub struct Shared {
    /// The clock and the random numbers of all decisions.
    pub clock: Clock,
    /// State of the component, which stays while only the Plugin's settings change.
    pub state: Arc<ComponentState>,
    /// The records of the parents. All components of the Plugin share them.
    pub records: Arc<Records>,
    /// The rate of requests that the plugin may cause. All components of the Plugin share it.
    pub budget: Arc<Mutex<Budget>>,
    /// The writes to each object. All Plugins share it: several may set finalizers of one parent. It drops old counts by itself.
    pub breaker: Arc<Mutex<Breaker>>,
}
