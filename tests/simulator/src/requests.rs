//! What users ask for: which children hosts may delete, which parents they leave alone, and which changes they must answer.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use windlass_api_model::{ApiServer, Change, Id};
use windlass_core::names::{ANNOTATION_ALLOW_DELETION, ANNOTATION_APPLIED, ANNOTATION_SUSPEND};

use crate::expected::{condition, controller, label_of, scripted, text};
use crate::setup::{CHILDREN, MASKS, OPERATORS, SHARED};

/// Time after which a host knows what a user has changed, by the clock of the simulation: longer than any watch lags.
const KNOWN_AFTER: Duration = Duration::from_mins(1);

/// What users asked for so far.
#[derive(Debug, Default)]
pub struct Requests {
    /// When a user last changed each parent, by name.
    parents: BTreeMap<String, Instant>,
    /// When a user last changed each parent before that.
    earlier: BTreeMap<String, Instant>,
    /// When a user last changed a Plugin, its component, or what its parents require.
    plugins: Option<Instant>,
    /// Whether a user has allowed deletions since then.
    is_allowed: bool,
    /// Whether the Plugin has a guard of its own.
    is_guard_changed: bool,
    /// When each host put a child back to what it had applied before: by the host's number, the child, and the generation of the parent.
    restored: BTreeMap<(usize, Id, i64), Vec<Instant>>,
    /// What `plugin` returned at first.
    whole: Option<(Value, Value)>,
    /// The largest number of children that each parent had since then, and how many of these were deleted that its spec still desires; by
    /// the parent's uid, and for all parents of a Plugin together by their resource.
    deleted: BTreeMap<String, (usize, usize)>,
}

/// The time in which the breaker counts writes, and after how many it admits one more in this time (rule R18).
const BREAKER: (Duration, usize) = (Duration::from_mins(1), 11);
/// The defaults of the deletion guard (rule R9): `maxPercent` and `minChildren`.
const GUARDED: (usize, usize) = (50, 4);

fn is_recent(at: Option<&Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < KNOWN_AFTER)
}

/// The parts of the Plugin that users change by which it desires more or fewer children, and its component.
fn plugin(server: &ApiServer) -> Option<(Value, Value)> {
    let plugin = server.object(&Id::new("plugins.windlass.dev", "", "puppet"))?;
    let source = server.object(&Id::new("configmaps", "windlass-system", "puppet"))?;
    let of_spec = |field| plugin.pointer(field).cloned().unwrap_or_default();
    let spec = ["/spec/config", "/spec/namespaceSelector", "/spec/limits"].map(of_spec).into_iter().collect();
    Some((spec, source.get("binaryData").cloned().unwrap_or_default()))
}

fn is_plugin_suspended(server: &ApiServer) -> bool {
    let plugin = server.object(&Id::new("plugins.windlass.dev", "", "puppet"));
    plugin.is_some_and(|plugin| plugin.pointer("/spec/suspend") == Some(&true.into()))
}

/// Whether a user has suspended a parent.
fn is_marked(parent: &Value) -> bool {
    let annotations = parent.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(ANNOTATION_SUSPEND)) == Some(&Value::from("true"))
}

/// When an object was deleted that still exists.
fn deleted_at(object: &Value) -> Option<Timestamp> {
    text(object, "/metadata/deletionTimestamp").parse().ok()
}

/// The parent that controls an object, with all parents of its Plugin.
fn owner<'a>(server: &'a ApiServer, object: &Value) -> Option<(&'a Id, &'a Value, Vec<&'a Value>)> {
    let owner = controller(object);
    let is_owner = |parent: &Value| text(parent, "/metadata/uid") == owner;
    OPERATORS.iter().find_map(|operator| {
        let (id, parent) = server.objects_of(operator.parents).find(|(_, parent)| is_owner(parent))?;
        Some((id, &**parent, server.objects_of(operator.parents).map(|(_, parent)| &**parent).collect()))
    })
}

impl Requests {
    /// Notes what a user writes: the path and the body of the request.
    pub fn note(&mut self, server: &ApiServer, path: &str, body: Option<&Value>) {
        self.whole = self.whole.take().or_else(|| plugin(server));
        if let Some((_, name)) = path.split_once("puppets/") {
            let before = self.parents.insert(name.to_owned(), Instant::now());
            self.earlier.extend(before.map(|before| (name.to_owned(), before)));
        }
        let allows = body.is_some_and(|body| body.to_string().contains(ANNOTATION_ALLOW_DELETION));
        let begins = path.contains("/plugins/") || path.contains("/configmaps/puppet") || path.ends_with(SHARED);
        if begins && !allows {
            self.plugins = Some(Instant::now());
            (self.is_allowed, self.deleted) = (false, BTreeMap::new());
        }
        self.is_allowed |= allows;
        if let Some(guard) = body.and_then(|body| body.pointer("/spec/deletionGuard")) {
            self.is_guard_changed = !guard.is_null();
        }
    }

    /// Whether the Plugin desires what it desired at first.
    fn is_whole(&self, server: &ApiServer) -> bool {
        self.whole.is_none() || plugin(server) == self.whole
    }

    /// A child is deleted that its parent has desired for at least a minute, although the Plugin is whole; or, if a user has changed the
    /// Plugin, more of them than the deletion guard allows.
    pub fn is_undesired(&mut self, server: &ApiServer, change: &Change) -> Option<String> {
        // A Mask is deleted to be recreated.
        if change.after.is_some() || change.id.resource == MASKS || !CHILDREN.contains(&&*change.id.resource) {
            return None;
        }
        let (id, parent, fleet) = owner(server, change.before.as_deref()?)?;
        let is_deleting = parent.pointer("/metadata/deletionTimestamp").is_some();
        let is_wanted = scripted(id, parent).any(|(child, _)| child == change.id);
        if !is_wanted || is_deleting || is_recent(self.parents.get(&id.name)) {
            return None;
        }
        if self.is_whole(server) && !is_recent(self.plugins.as_ref()) {
            return Some(format!("{} has desired it for at least a minute", id.name));
        }
        let uid = |of: &Value| text(of, "/metadata/uid").to_owned();
        let children = CHILDREN.iter().flat_map(|resource| server.objects_of(resource));
        let owners: Vec<_> =
            children.filter(|(_, child)| label_of(child).is_some()).map(|(_, child)| controller(child)).collect();
        let count = |parents: &[&Value]| owners.iter().filter(|of| parents.iter().any(|one| uid(one) == **of)).count();
        let (own, all) = (count(&[parent]), count(&fleet));
        let is_beyond = self.is_beyond_guard(&uid(parent), own + 1);
        let is_beyond_for_all = self.is_beyond_guard(&id.resource, all + 1);
        (is_beyond || is_beyond_for_all)
            .then(|| format!("more children of {} are deleted than the deletion guard allows", id.name))
    }

    /// A child is pruned although another one, which its parent desires, has been on its way out for a minute (rule R8).
    pub fn is_pruned_early(&self, server: &ApiServer, change: &Change, now: Timestamp) -> Option<String> {
        let before = change.before.as_deref()?;
        let is_going = |object: &Value| deleted_at(object).is_some();
        let is_deleted = change.after.as_deref().is_none_or(is_going) && !is_going(before);
        let (id, parent, _) = owner(server, before).filter(|(_, parent, _)| is_deleted && !is_going(parent))?;
        let is_known = self.is_whole(server) && !is_recent(self.plugins.as_ref());
        if !is_known
            || is_recent(self.earlier.get(&id.name))
            || scripted(id, parent).any(|(child, _)| child == change.id)
        {
            return None;
        }
        let has_long_been_going = |child: &Value| {
            deleted_at(child).is_some_and(|at| now.duration_since(at).unsigned_abs() > KNOWN_AFTER)
                && controller(child) == text(parent, "/metadata/uid")
        };
        let mut desired = scripted(id, parent).map(|(child, _)| child);
        let waits_for = desired.find(|child| server.object(child).is_some_and(|child| has_long_been_going(child)))?;
        Some(format!("its parent desires {waits_for}, which must have gone before"))
    }

    /// A host puts a child back more often than the breaker allows (rule R18): somebody else changes it all the time.
    pub fn is_fought_over(&mut self, server: &ApiServer, change: &Change, host: usize) -> Option<String> {
        let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
        let applied = |object: &Value| object.pointer("/metadata/annotations")?.get(ANNOTATION_APPLIED).cloned();
        let (_, parent, _) =
            owner(server, after).filter(|_| applied(after).is_some() && applied(before) == applied(after))?;
        let generation = parent.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let times = self.restored.entry((host, change.id.clone(), generation)).or_default();
        let (window, most) = BREAKER;
        times.retain(|at| at.elapsed() < window);
        times.push(Instant::now());
        (times.len() > most).then(|| format!("it is put back {} times within a minute", times.len()))
    }

    /// Notes that a host deleted a child of these parents, which had this many. Returns whether the guard should have blocked that.
    fn is_beyond_guard(&mut self, parents: &str, children: usize) -> bool {
        let (most, deleted) = self.deleted.entry(parents.to_owned()).or_default();
        (*most, *deleted) = ((*most).max(children), *deleted + 1);
        let (share, least) = GUARDED;
        *most >= least && *deleted * 100 > share * *most && !self.is_allowed && !self.is_guard_changed
    }

    /// The parents whose spec a user changed more than a minute ago, after all faults, and whose conditions are of an earlier generation.
    pub fn unanswered(&self, server: &ApiServer, calm_since: Instant) -> Vec<String> {
        let usual = OPERATORS.iter().filter(|operator| operator.existing.is_none());
        let parents: Vec<_> = usual.flat_map(|operator| server.objects_of(operator.parents)).collect();
        let traps = parents.iter().any(|(_, parent)| parent.pointer("/spec/fail") == Some(&"trap".into()));
        if !self.is_whole(server) || is_plugin_suspended(server) || is_recent(self.plugins.as_ref()) || traps {
            return Vec::new();
        }
        let late = parents.iter().filter(|(id, parent)| {
            let is_due = self.parents.get(&id.name).is_some_and(|at| *at > calm_since && !is_recent(Some(at)));
            let is_left_alone = is_marked(parent) || parent.pointer("/metadata/deletionTimestamp").is_some();
            let observed = condition(parent, "Ready").and_then(|ready| ready.get("observedGeneration"));
            is_due && !is_left_alone && observed != parent.pointer("/metadata/generation")
        });
        late.map(|(id, _)| format!("{id}: no condition is of the generation that a user made more than a minute ago"))
            .collect()
    }

    /// A child is written although its parent has been suspended for a minute, or the Plugin.
    pub fn is_suspended(&self, server: &ApiServer, change: &Change) -> Option<String> {
        let child = change.after.as_deref().or(change.before.as_deref())?;
        let (id, parent, _) = owner(server, child).filter(|_| CHILDREN.contains(&&*change.id.resource))?;
        let is_of_plugin = id.resource == OPERATORS[0].parents;
        let is_suspended = is_marked(parent) && !is_recent(self.parents.get(&id.name))
            || is_of_plugin && is_plugin_suspended(server) && !is_recent(self.plugins.as_ref());
        (is_suspended && parent.pointer("/metadata/deletionTimestamp").is_none())
            .then(|| format!("{} is suspended", id.name))
    }
}
