//! A history: what people do and what goes wrong, and when. It follows from a seed, and can be written down.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of parents that a history may have.
pub const PARENTS: u8 = 4;
/// The parent that has a finalizer; it has ConfigMaps only.
pub const FINALIZING: u8 = 3;
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
    /// The seed of all delays, and of the hosts' own chance.
    pub seed: u64,
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
    },
    /// A user applies a parent with a spec of any kind. No seed does so: it is for histories that somebody writes.
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
    /// By now everything must be as the parents want it. For histories that somebody writes.
    Expect,
    /// A user configures the Plugin: its component then returns at most this number of children.
    Configure {
        /// The number; none for all.
        keep: Option<u8>,
    },
    /// A user suspends the Plugin, or resumes it.
    Suspend {
        /// Whether it is suspended.
        suspended: bool,
    },
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
    /// A user creates an object with the name of a child, if there is none.
    Occupy {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// A user deletes such an object.
    Vacate {
        /// The parent.
        parent: u8,
        /// Kind and number.
        child: Child,
    },
    /// The API server answers every request with an error.
    Refuse {
        /// HTTP status.
        code: u16,
        /// For how long.
        millis: u64,
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
    },
    /// The watches of a resource show nothing.
    Lag {
        /// The resource.
        resource: String,
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
    /// The account of the Plugin may no longer do this, or again.
    Deny {
        /// The verb.
        verb: String,
        /// The resource.
        resource: String,
        /// Whether it is denied.
        denied: bool,
    },
}

/// Time in which things happen, in milliseconds.
pub const SPAN: u64 = 120_000;

impl History {
    /// Reads a history from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has no history; the error names it.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let named = || file.display().to_string();
        serde_json::from_slice(&fs::read(file).with_context(named)?).with_context(named)
    }

    /// The history of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed);
        let count = chance.usize(4..30);
        let mut times: Vec<_> = (0..count).map(|_| chance.u64(0..SPAN)).collect();
        // People and failures come in bursts: half of all steps follow the one before at once.
        for index in 1..times.len() {
            if chance.bool() {
                times[index] = times[index - 1] + chance.u64(0..800);
            }
        }
        times.sort_unstable();
        let children = children(&mut chance, 0);
        let first = Step {
            at: chance.u64(0..3000).min(times.first().copied().unwrap_or_default()),
            what: Act::Apply { parent: 0, children: children.clone(), fail: None },
        };
        let mut wanted = vec![Vec::new(); usize::from(PARENTS)];
        wanted[0] = children;
        let mut steps: Vec<_> = times.into_iter().map(|at| Step { at, what: act(&mut chance, &mut wanted) }).collect();
        // Sometimes a user fights with the host for a child.
        if chance.u8(0..12) == 0 {
            let (begin, parent, child) = (chance.u64(0..SPAN / 2), chance.u8(0..PARENTS), child(&mut chance));
            let edits = (0..15).map(|time| Step {
                at: begin + 1_500 * u64::from(time),
                what: Act::EditChild { parent, child: Child { value: 3 + time % 2, ..child } },
            });
            steps.extend(edits);
        }
        steps.insert(0, first);
        steps.sort_by_key(|step| step.at);
        Self { shows: String::new(), fails: false, seed, steps }
    }
}

fn children(chance: &mut fastrand::Rng, parent: u8) -> Vec<Child> {
    let mut found = Vec::<Child>::new();
    for _ in 0..chance.usize(0..5) {
        let mut child = child(chance);
        if parent == FINALIZING {
            child.kind = Kind::ConfigMap;
        }
        if !found.iter().any(|other| (other.kind, other.name) == (child.kind, child.name)) {
            found.push(child);
        }
    }
    found
}

fn child(chance: &mut fastrand::Rng) -> Child {
    let kind = match chance.u8(0..6) {
        0..3 => Kind::ConfigMap,
        3..5 => Kind::Secret,
        _ => Kind::Service,
    };
    Child { kind, name: chance.u8(0..NAMES), value: chance.u8(0..3) }
}

/// The next thing that happens; `wanted` has the children of each parent so far.
fn act(chance: &mut fastrand::Rng, wanted: &mut [Vec<Child>]) -> Act {
    let parent = chance.u8(0..PARENTS);
    let of_parent = &mut wanted[usize::from(parent)];
    let mut child = child(chance);
    // Most of what people do to children is about children that exist.
    if let Some(existing) = chance.choice(of_parent.iter()).filter(|_| child.value > 0) {
        child = Child { value: child.value, ..*existing };
    }
    let millis = [300, 2_000, 8_000, 25_000][chance.usize(0..4)];
    let resource = || ["configmaps", "secrets", "services", "puppets.puppets.example", "plugins.windlass.dev"];
    match chance.u8(0..100) {
        0..24 => {
            let fail = [Fail::Invalid, Fail::Retry, Fail::Failed, Fail::Trap].get(chance.usize(0..24)).copied();
            *of_parent = children(chance, parent);
            Act::Apply { parent, children: of_parent.clone(), fail }
        }
        24..27 => Act::Configure { keep: [None, Some(0), Some(1), Some(2)][chance.usize(0..4)] },
        27..29 => Act::Suspend { suspended: chance.bool() },
        29..34 => {
            let policy = ["", "", "Orphan", "Foreground", "Background"][chance.usize(0..5)];
            Act::Delete { parent, policy: policy.to_owned() }
        }
        34..40 => Act::DeleteChild { parent, child },
        40..46 => Act::EditChild { parent, child },
        46..49 => Act::Unlabel { parent, child },
        49..52 => Act::Disown { parent, child },
        52..56 => Act::Occupy { parent, child },
        56..59 => Act::Vacate { parent, child },
        59..64 => Act::Refuse { code: [403, 429, 500, 503, 504][chance.usize(0..5)], millis },
        64..70 => Act::LoseAnswers { count: chance.u32(1..4) },
        70..74 => Act::LoseRequests { count: chance.u32(1..4) },
        74..78 => Act::SlowDown { most: chance.u64(200..4_000), millis },
        78..84 => Act::Lag { resource: resource()[chance.usize(0..5)].to_owned(), millis },
        84..87 => Act::CutWatches,
        87..89 => Act::Compact,
        89..91 => Act::StandBy,
        91..93 => Act::Crash { host: parent },
        93..94 => Act::Restart { host: parent },
        94..97 => Act::CutOff { host: parent, millis },
        _ => Act::Deny {
            verb: ["get", "create", "patch", "delete"][chance.usize(0..4)].to_owned(),
            resource: resource()[chance.usize(0..3)].to_owned(),
            denied: chance.u8(0..3) > 0,
        },
    }
}
