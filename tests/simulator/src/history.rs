//! A history: what people do and what goes wrong, and when. It follows from a seed, and can be written down.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_core::hosts::lease::WhileHeld;

use crate::host::Flags;

/// Number of parents that a history may have.
pub const PARENTS: u8 = 6;
/// The parent that has a finalizer; it has ConfigMaps only.
pub const FINALIZING: u8 = 3;
/// The parent whose children change one after the other: Dolls in place, and Masks by a new object.
pub const ROLLING: u8 = 4;
/// The parent in the host's own namespace, where plugins reconcile nothing.
pub const ASTRAY: u8 = 5;
/// The cluster-scoped parent, whose children have marks. Only histories with the Plugin `puppet-cluster` have it.
pub const CLUSTER: u8 = 6;
/// The parent whose children have stages. Only histories with the Plugin `puppet-staged` have it.
pub const STAGED: u8 = 7;
/// Number of names that the children of a parent may have.
pub const NAMES: u8 = 5;

/// What happens, in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// What it shows, if somebody has written that down.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shows: String,
    /// Whether it ends badly so far: what it shows is to be mended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails: bool,
    /// Whether users go on in the steady state. One that somebody has written need not: it shows one thing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// The seed of all delays, and of the hosts' own chance.
    pub seed: u64,
    /// Number of hosts that share the parents; with one, the leader has them all.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub shards: u8,
    /// Number of parents that a host may reconcile at once.
    #[serde(default = "few", skip_serializing_if = "is_few")]
    pub workers: usize,
    /// Whether a host exits while another one holds the Lease, instead of standing by.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// The Plugins of the cluster beside the usual ones, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// `spec.resync` of the Plugins, if it is not the default: with a long one, nothing is mended by a resync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync: Option<String>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When, in milliseconds after the beginning.
    pub at: u64,
    /// What.
    #[serde(flatten)]
    pub what: Act,
}

/// A kind of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Secret.
    Secret,
    /// `v1` Service, which the Plugin does not change once it exists.
    Service,
    /// A kind of a CRD, which is ready a while after its last change.
    Doll,
    /// The same; an object is recreated instead of changed.
    Mask,
}

/// A child that a parent's spec asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Its kind.
    pub kind: Kind,
    /// Number in its name.
    pub name: u8,
    /// What it contains.
    pub value: u8,
}

/// How a plugin fails for a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fail {
    /// It rejects the spec.
    Invalid,
    /// It asks for another call in three seconds.
    Retry,
    /// It reports a failure.
    Failed,
    /// It traps.
    Trap,
}

/// A component of the first Plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Version {
    /// It does what the parents say.
    Whole,
    /// It returns no children.
    Empty,
    /// It may have `ConfigMaps` only.
    Narrow,
    /// There is none.
    Missing,
}

/// What somebody does, or what goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "act")]
pub enum Act {
    /// A user applies a parent with these children.
    Apply {
        /// The parent.
        parent: u8,
        /// The children.
        children: Vec<Child>,
        /// How the plugin fails for this parent; none if it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fail: Option<Fail>,
        /// Whether the parent has a child for each key of the related ConfigMap, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reads: bool,
    },
    /// A user applies a parent with a spec of any kind.
    ApplySpec {
        /// The parent.
        parent: u8,
        /// The spec.
        spec: Value,
    },
    /// A user changes any object by a merge patch.
    Patch {
        /// Its path.
        path: String,
        /// The patch.
        patch: Value,
    },
    /// A user creates objects. For histories that somebody writes.
    Create {
        /// The path of their collection.
        path: String,
        /// The object; in its strings `${number}` is its number, from 0.
        object: Value,
        /// How many.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        count: u32,
    },
    /// By now everything must be as the parents want it. For histories that somebody writes.
    Expect,
    /// By now an object must have these fields; a list must have these items. For histories that somebody writes.
    Contains {
        /// Its path.
        path: String,
        /// The fields.
        object: Map<String, Value>,
    },
    /// By now objects may have been created, changed and deleted this often, by anybody. For histories that somebody writes.
    AtMost {
        /// How often.
        changes: usize,
        /// The resource, as in `events.events.k8s.io`.
        resource: String,
        /// The fields of these objects; without it, all of the resource count.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        with: Map<String, Value>,
    },
    /// Since the last such step, plugins were called this often. For histories that somebody writes.
    Calls {
        /// How often at least.
        #[serde(default)]
        least: usize,
        /// How often at most.
        most: usize,
    },
    /// Somebody sets the clock of the machines: forward, or back if the number is negative.
    SetClock {
        /// By how much, in seconds.
        seconds: i64,
    },
    /// A user changes the first Plugin: a merge patch of its spec.
    Plugin {
        /// The patch.
        spec: Value,
    },
    /// A user replaces the component of the first Plugin.
    Component {
        /// Which one.
        version: Version,
    },
    /// Another field manager applies a child's content by force, and so owns its fields.
    Take {
        /// Number of the parent.
        parent: u8,
        /// The child, and the content.
        child: Child,
    },
    /// A user creates a second Plugin of the first one's kind: it comes later, so it must not have the kind, whenever hosts start.
    Rival,
    /// A user suspends a parent by its annotation, or resumes it.
    SuspendParent {
        /// The parent.
        parent: u8,
        /// Whether it is suspended.
        suspended: bool,
    },
    /// A user sets a finalizer on a parent, or takes it off.
    ParentFinalizer {
        /// The parent.
        parent: u8,
        /// Whether it has the finalizer from now on.
        is_set: bool,
    },
    /// A user changes how many keys the related ConfigMap has; none deletes it.
    Share {
        /// The number.
        keys: Option<u16>,
    },
    /// A user deletes the namespace of the parents. The next one who applies a parent creates it again.
    DeleteNamespace,
    /// A user deletes a parent.
    Delete {
        /// The parent.
        parent: u8,
        /// The propagation policy; empty for the default.
        policy: String,
    },
    /// A user deletes a child.
    DeleteChild {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// A user changes what a child contains.
    EditChild {
        /// The parent.
        parent: u8,
        /// Kind, number and the value that the user sets.
        child: Child,
    },
    /// A user takes the labels off a child.
    Unlabel {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// A user takes the owner off a child.
    Disown {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// A user sets a finalizer on a child, or takes it off.
    ChildFinalizer {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
        /// Whether it has the finalizer from now on.
        is_set: bool,
    },
    /// A user deletes a child, and creates an object of the same name at once.
    Swap {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// A user creates an object with the name of a child, if there is none.
    Occupy {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
        /// The Plugin whose label the object has; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        plugin: String,
        /// The parent that controls the object, if it exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u8>,
        /// Whether the object, if it is a Secret, is for the token of a ServiceAccount.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        token: bool,
    },
    /// A user creates an object with all labels, annotations and owners of a child, and with the name of another child.
    Copy {
        /// The parent.
        parent: u8,
        /// Kind and number of the child.
        child: Child,
        /// The number of the other one.
        name: u8,
    },
    /// A user deletes such an object.
    Vacate {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// The API server answers every request with an error, or every write: 404, 409 and 422 are about writes.
    Refuse {
        /// HTTP status.
        code: u16,
        /// For how long.
        millis: u64,
        /// Only requests whose path contains this.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        path: String,
    },
    /// The answers of the next writes are lost.
    LoseAnswers {
        /// How many.
        count: u32,
    },
    /// The next writes are lost.
    LoseRequests {
        /// How many.
        count: u32,
    },
    /// Requests take long.
    SlowDown {
        /// The longest time of a request or answer, in milliseconds.
        most: u64,
        /// For how long.
        millis: u64,
        /// Only requests whose path contains this, and no watches then.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        path: String,
    },
    /// Each call of a plugin takes this time, until all faults end.
    SlowCalls {
        /// The time, in milliseconds.
        millis: u64,
    },
    /// The watches of a resource show nothing, and its lists do not end.
    Lag {
        /// The resource.
        resource: String,
        /// For how long.
        millis: u64,
    },
    /// Watches show each event twice.
    Repeat {
        /// For how long.
        millis: u64,
    },
    /// The garbage collector and the namespace controller do nothing.
    StopCollector {
        /// For how long.
        millis: u64,
    },
    /// All watches end.
    CutWatches,
    /// The API server forgets old versions, and all watches end.
    Compact,
    /// Another host starts beside the others, and stands by.
    StandBy,
    /// A host is killed, and another one started.
    Crash {
        /// Which of the running hosts.
        host: u8,
    },
    /// A host is told to stop, and another one started.
    Restart {
        /// Which of the running hosts.
        host: u8,
    },
    /// A host is cut off from the API server.
    CutOff {
        /// Which of the running hosts.
        host: u8,
        /// For how long.
        millis: u64,
    },
    /// A host is paused as a whole: nothing that it has not sent yet leaves it, and it sees nothing. Its clock goes on.
    Pause {
        /// Which of the running hosts.
        host: u8,
        /// For how long.
        millis: u64,
    },
    /// The account of a Plugin, or that of the host, may no longer do this, or again.
    Deny {
        /// The Plugin; without it, the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Whether it is the host's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        host: bool,
        /// The verb.
        verb: String,
        /// The resource.
        resource: String,
        /// Whether it is denied.
        denied: bool,
    },
}

/// Time in which things go wrong, in milliseconds.
pub const SPAN: u64 = 120_000;
/// Time until users have done what they do, in milliseconds. After [`SPAN`] nothing goes wrong any more, so that hosts know what they do.
pub const CALM: u64 = 300_000;

impl History {
    /// How its hosts are started.
    pub fn flags(&self) -> Flags {
        let while_held = if self.exits { WhileHeld::Exit } else { WhileHeld::StandBy };
        Flags { shards: self.shards, workers: self.workers, while_held }
    }

    /// Reads a history from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has no history; the error names it.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let named = || file.display().to_string();
        serde_json::from_slice(&fs::read(file).with_context(named)?).with_context(named)
    }
}

/// Few workers, so that parents wait for each other.
pub fn few() -> usize {
    4
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_few(workers: &usize) -> bool {
    *workers == few()
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_once(count: &u32) -> bool {
    *count == once()
}

fn one() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(shards: &u8) -> bool {
    *shards == one()
}
