//! What the deletion guard must do, to the child (rule R9): in the steady state, the first Plugin asks for fewer children.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api_model::{ApiServer, Id};
use windlass_core::object::names::ANNOTATION_ROLLBACK;

use crate::expected::{condition, text};
use crate::history::{ASTRAY, Act, Child, FINALIZING, Kind, Version};
use crate::objects::plugin_path;
use crate::requests::GUARDED;
use crate::setup::{NAMESPACE, OPERATORS, RENAMED};
use crate::user::messages_of;

/// The number in the name of the first child: no child had it before.
const FIRST: u8 = 20;
/// Number of keys of the ConfigMap that parents may require, before and after a change.
const KEYS: (u16, u16) = (5, 1);
/// The label by which a Plugin selects the namespace of parents.
const TEAM: (&str, &str) = ("team", "a");

/// Why fewer children are desired.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The component keeps as many children of each parent.
    Kept(u8),
    /// Another component returns no children.
    Component,
    /// The config renames all children.
    Renamed,
    /// The ConfigMap that all parents require has fewer keys.
    Required,
    /// The namespace of the parents loses the label by which the Plugin selects it.
    Left,
}

/// When a host is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    Never,
    /// So many milliseconds after the change.
    Early(u64),
    /// Once the guard has decided.
    Late,
}

/// What a user does once deletions are blocked. None of it releases them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Raises the limit of the guard.
    Raises,
    /// Changes the content of the children that each parent names.
    Edits,
}

/// A change that asks for fewer children of parents that have some.
pub struct Trial {
    change: Change,
    /// Number of children that each parent names.
    children: Vec<u8>,
    /// When a host is killed.
    pub killed: Killed,
    /// What a user does once deletions are blocked.
    meanwhile: Meanwhile,
    /// Number of writes that are lost once a user has allowed the deletions. What is left of these is allowed, too.
    lost: u32,
    /// Whether writes of children are slow at that time.
    is_slow: bool,
    /// Whether requests are too large for the plugin just before, so that parents are stalled for another reason.
    is_too_large: bool,
}

impl Trial {
    /// The trial of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let change = match rng.u8(0..8) {
            0 | 1 => Change::Kept(rng.u8(0..4)),
            2 => Change::Component,
            3 | 4 => Change::Renamed,
            5 | 6 => Change::Left,
            _ => Change::Required,
        };
        let children: Vec<_> = (0..FINALIZING).map(|_| rng.u8(0..6)).collect();
        let is_small = children.iter().copied().map(usize::from).sum::<usize>() < GUARDED.1;
        // A host that starts counts all deletions together, also those of a ConfigMap, which may be carried out in part. And children that
        // were created before do not make the old ones fewer, but may be as many as the guard needs to block.
        let may_be_killed = match change {
            Change::Kept(_) | Change::Component | Change::Left => true,
            Change::Renamed => !is_small,
            Change::Required => false,
        };
        let killed = match rng.u8(0..6) {
            0..3 if may_be_killed => Killed::Early(rng.u64(0..4_000)),
            3 if may_be_killed => Killed::Late,
            _ => Killed::Never,
        };
        let is_early = matches!(killed, Killed::Early(_));
        let meanwhile = match rng.u8(0..4) {
            0 | 1 if !is_early => Meanwhile::Raises,
            // A change of the spec is a request for what the spec alone deletes.
            2 if !is_early && !matches!(change, Change::Required) => Meanwhile::Edits,
            _ => Meanwhile::Nothing,
        };
        let (lost, is_slow) = (rng.u32(0..4), is_early && rng.bool());
        let is_too_large = matches!(change, Change::Kept(_)) && rng.bool();
        Self { change, children, killed, meanwhile, lost, is_slow, is_too_large }
    }

    /// What users do first: they delete the parents, so that no deletions of theirs are undecided. The Plugin is called for each parent then,
    /// without the one in the host's namespace.
    pub fn clear() -> Vec<Act> {
        let parents = (0..FINALIZING).chain([ASTRAY]);
        parents.map(|parent| Act::Delete { parent, policy: String::new() }).collect()
    }

    /// What users do before parents get their children: a change of the Plugin begins a rollout, which has to end first.
    pub fn prepare(&self) -> Vec<Act> {
        if matches!(self.change, Change::Left) { select_namespace(OPERATORS[0].name).into() } else { Vec::new() }
    }

    /// What users do then: each parent gets its children.
    pub fn begin(&self) -> Vec<Act> {
        [Act::Share { keys: Some(KEYS.0) }].into_iter().chain(self.applied(0)).collect()
    }

    /// A user applies each parent with its children, all of which have this value.
    fn applied(&self, value: u8) -> impl Iterator<Item = Act> {
        let reads = matches!(self.change, Change::Required);
        (0..FINALIZING).zip(&self.children).map(move |(parent, count)| {
            let names = FIRST..FIRST + count;
            let children = names.map(|name| Child { kind: Kind::ConfigMap, name, value }).collect();
            Act::Apply { parent, children, fail: None, reads }
        })
    }

    /// What users do just before the change.
    pub fn stall(&self) -> Vec<Act> {
        let limits = Act::Plugin { spec: json!({ "limits": { "requestBytes": "1Ki" } }) };
        self.is_too_large.then_some(limits).into_iter().collect()
    }

    /// The change.
    pub fn change(&self) -> Vec<Act> {
        let slow = Act::SlowDown { most: 2_000, millis: 3_000, path: "/configmaps".to_owned() };
        let change = match self.change {
            Change::Kept(keep) => Act::Plugin { spec: json!({ "config": { "keepChildren": keep }, "limits": null }) },
            Change::Component => Act::Component { version: Version::Empty },
            Change::Renamed => Act::Plugin { spec: json!({ "config": { "prefix": RENAMED } }) },
            Change::Required => Act::Share { keys: Some(KEYS.1) },
            Change::Left => label_namespace(None),
        };
        self.is_slow.then_some(slow).into_iter().chain([change]).collect()
    }

    /// What a user does once deletions are blocked.
    pub fn meanwhile(&self) -> Vec<Act> {
        match self.meanwhile {
            Meanwhile::Nothing => Vec::new(),
            Meanwhile::Raises => vec![Act::Plugin { spec: json!({ "deletionGuard": { "maxPercent": 95 } }) }],
            Meanwhile::Edits => self.applied(1).collect(),
        }
    }

    /// What goes wrong when a user allows the deletions.
    pub fn lost(&self) -> Act {
        Act::LoseRequests { count: self.lost }
    }

    /// How the cluster differs from what it must be after the change, and before a user allows deletions.
    pub fn problems(&self, server: &ApiServer) -> Vec<String> {
        let is_blocked = self.blocked();
        let untold = (0..FINALIZING).filter_map(|parent| self.untold(server, parent));
        let children = (0..FINALIZING).flat_map(|parent| self.old_children(parent));
        children
            .filter_map(|(parent, child, is_desired)| {
                let (exists, is_blocked) = (server.object(&child).is_some(), is_blocked[usize::from(parent)]);
                let why = match (exists, is_desired, is_blocked) {
                    (false, true, _) => "deleted, although it is desired",
                    (false, false, true) => "deleted, although the guard blocks that",
                    (true, false, false) => "still there, although the guard does not block its deletion",
                    _ => return None,
                };
                Some(format!("{child} is {why}: {:?} of {:?}", self.change, self.children))
            })
            .chain(untold)
            .chain(self.untold_at_plugin(server))
            .collect()
    }

    /// Whether the Plugin does not say that deletions are blocked at it; or how to run the previous component again, although the component
    /// or its config has changed; or says that after another change.
    fn untold_at_plugin(&self, server: &ApiServer) -> Option<String> {
        let plugin = server.object(&Id::new("plugins.windlass.dev", "", OPERATORS[0].name))?;
        let Some(message) = messages_of(plugin).find(|message| message.contains("Blocked: ")) else {
            return self
                .is_blocked_for_all()
                .then(|| format!("after {:?}, the Plugin does not say that deletions are blocked", self.change));
        };
        let is_new = match self.change {
            Change::Kept(_) | Change::Component | Change::Renamed => true,
            Change::Required | Change::Left => false,
        };
        (message.contains(ANNOTATION_ROLLBACK) != is_new)
            .then(|| format!("after {:?}, the Plugin says: {message}", self.change))
    }

    /// Whether a parent, whose own deletions are blocked, does not say why.
    fn untold(&self, server: &ApiServer, parent: u8) -> Option<String> {
        let object = server.object(&Id::new(OPERATORS[0].parents, NAMESPACE, &format!("p{parent}")))?;
        let reason = condition(object, "Stalled").map_or("", |stalled| text(stalled, "/reason"));
        let expected = match self.change {
            Change::Kept(_) | Change::Component | Change::Renamed => "ComponentChanged",
            Change::Required => "SpecUnchanged",
            Change::Left => "NotSelected",
        };
        let is_its_own = is_beyond(self.count(parent)) && !self.is_blocked_for_all();
        // A host that starts does not know why, if it was killed before it could tell.
        (is_its_own && !matches!(self.killed, Killed::Early(_)) && reason != expected)
            .then(|| format!("p{parent} is blocked because of {reason:?}, not {expected}: {:?}", self.change))
    }

    /// How the cluster differs from what it must be once a user has allowed all deletions.
    pub fn problems_when_allowed(&self, server: &ApiServer) -> Vec<String> {
        let children = (0..FINALIZING).flat_map(|parent| self.old_children(parent));
        let left = children.filter(|(_, child, is_desired)| server.object(child).is_some() != *is_desired);
        let left = left.map(|(_, child, is_desired)| {
            let state = if is_desired { "gone" } else { "still there" };
            format!("{child} is {state} after deletions were allowed: {:?} of {:?}", self.change, self.children)
        });
        let is_blocked = |(_, parent): &(&Id, &Arc<Value>)| {
            condition(parent, "Ready").is_some_and(|ready| text(ready, "/message").contains("Blocked: "))
        };
        let parents = server.objects_of(OPERATORS[0].parents);
        let blocked = parents.filter(is_blocked).map(|(id, _)| format!("{id}: deletions are blocked once more"));
        left.chain(blocked).collect()
    }

    /// Whether the guard blocks the deletions of each parent.
    fn blocked(&self) -> Vec<bool> {
        let are_all = self.is_blocked_for_all();
        (0..FINALIZING).map(|parent| are_all || is_beyond(self.count(parent))).collect()
    }

    /// Whether the guard blocks all deletions at the Plugin. A ConfigMap is no part of it, so that each parent counts for itself then.
    fn is_blocked_for_all(&self) -> bool {
        let parents = (0..FINALIZING).map(|parent| self.count(parent));
        let all = parents.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        !matches!(self.change, Change::Required) && is_beyond(all)
    }

    /// Number of children that a parent has before the change, and of those that it desires no more.
    fn count(&self, parent: u8) -> (usize, usize) {
        let deleted = self.old_children(parent).into_iter().filter(|(_, _, is_desired)| !is_desired);
        (self.old_children(parent).len(), deleted.count())
    }

    /// The children that a parent has before the change, and whether it desires them after it.
    fn old_children(&self, parent: u8) -> Vec<(u8, Id, bool)> {
        let count = self.children[usize::from(parent)];
        let keep = match self.change {
            Change::Kept(keep) => keep,
            Change::Component | Change::Renamed | Change::Left => 0,
            Change::Required => count,
        };
        let named = (0..count).map(|number| (format!("p{parent}-c{}", FIRST + number), number < keep));
        let keys = if matches!(self.change, Change::Required) { KEYS } else { (0, 0) };
        let required = (0..keys.0).map(|key| (format!("p{parent}-k{key}"), key < keys.1));
        named
            .chain(required)
            .map(|(name, is_desired)| (parent, Id::new("configmaps", NAMESPACE, &name), is_desired))
            .collect()
    }
}

/// What users do for a Plugin to select the namespace of the parents by a label.
pub fn select_namespace(plugin: &str) -> [Act; 2] {
    let (key, value) = TEAM;
    let selector = json!({ "spec": { "namespaceSelector": { "matchLabels": { (key): value } } } });
    [label_namespace(Some(value)), Act::Patch { path: plugin_path(plugin), patch: selector }]
}

/// A user sets the label of the namespace of the parents, or takes it off.
pub fn label_namespace(team: Option<&str>) -> Act {
    let patch = json!({ "metadata": { "labels": { (TEAM.0): team } } });
    Act::Patch { path: format!("/api/v1/namespaces/{NAMESPACE}"), patch }
}

/// Whether so many deletions, of so many children, are beyond the limit.
fn is_beyond((children, deleted): (usize, usize)) -> bool {
    let (most, least) = GUARDED;
    children >= least && deleted * 100 > children * most
}
