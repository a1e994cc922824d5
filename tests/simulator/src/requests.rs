//! What users ask for: which children hosts may delete, which parents they leave alone, and which changes they must answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use windlass_api_model::{ApiServer, Change, Id};
use windlass_core::object::names::{ANNOTATION_ALLOW_DELETION, ANNOTATION_APPLIED, ANNOTATION_SUSPEND};

use crate::expected::{condition, content_problem, controller, fails, is_forged, is_ready, label_of, scripted, text};
use crate::setup::{CHILDREN, DOLLS, MASKS, NAMESPACE, OPERATORS, RENAMED, SHARED, TOKEN};

/// Time after which a host knows what a user has changed, by the clock of the simulation: longer than any watch lags.
const KNOWN_AFTER: Duration = Duration::from_mins(1);

/// What users asked for so far.
#[derive(Debug, Default)]
pub struct Requests {
    /// When a user last changed each parent, by name.
    parents: BTreeMap<String, Instant>,
    /// When a user last changed each parent before that.
    earlier: BTreeMap<String, Instant>,
    /// When a user last changed a Plugin, its component, what its parents require, or their namespace.
    plugins: Option<Instant>,
    /// Whether a user has allowed deletions since then.
    is_allowed: bool,
    /// Whether the Plugin has a guard of its own.
    is_guard_changed: bool,
    /// When a user last removed the Plugin's own guard: a reconcile that had begun ends by the guard that it began with.
    guard_restored: Option<Instant>,
    /// When each host put a child back to what it had applied before: by the host's number, the child, and the generation of the parent.
    restored: BTreeMap<(usize, Id, i64), Vec<Instant>>,
    /// The generation that each child had after the last change by a host.
    generations: BTreeMap<Id, i64>,
    /// What `plugin` returned at first.
    whole: Option<(Value, Value)>,
    /// The largest number of children that each parent had since then, and how many of these were deleted that its spec still desires; by
    /// the parent's uid, and for all parents of a Plugin together by their resource.
    deleted: BTreeMap<String, (Count, usize)>,
}

/// A number of children.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    all: usize,
    /// Those that have been there for a minute: a host may not know of others.
    known: usize,
}

/// The time in which the breaker counts writes, and after how many it admits one more in this time (rule R18).
const BREAKER: (Duration, usize) = (Duration::from_mins(1), 11);
/// The defaults of the deletion guard (rule R9): `maxPercent` and `minChildren`.
pub const GUARDED: (usize, usize) = (50, 4);

fn is_recent(at: Option<&Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < KNOWN_AFTER)
}

/// The parts of the Plugin that users change by which it desires more or fewer children, and its component.
fn plugin(server: &ApiServer) -> Option<(Value, Value)> {
    let plugin = server.object(&Id::new("plugins.windlass.dev", "", "puppet"))?;
    let source = server.object(&Id::new("configmaps", "windlass-system", "puppet"))?;
    let of_spec = |field| plugin.pointer(field).cloned().unwrap_or_default();
    let spec =
        ["/spec/config", "/spec/namespaceSelector", "/spec/limits", "/spec/grants"].map(of_spec).into_iter().collect();
    Some((spec, source.get("binaryData").cloned().unwrap_or_default()))
}

/// Whether a user lets the Plugin adopt objects.
fn may_adopt(server: &ApiServer) -> bool {
    let plugin = server.object(&Id::new("plugins.windlass.dev", "", "puppet"));
    plugin.is_some_and(|plugin| plugin.pointer("/spec/adopt") == Some(&true.into()))
}

/// Whether the Plugin may have children of this one's kind.
fn is_granted(server: &ApiServer, child: &Value) -> bool {
    let plugin = server.object(&Id::new("plugins.windlass.dev", "", "puppet"));
    let granted = plugin.and_then(|plugin| plugin.pointer("/spec/grants/children")?.as_array());
    granted.is_none_or(|all| all.iter().any(|granted| text(granted, "/kind") == text(child, "/kind")))
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
pub fn deleted_at(object: &Value) -> Option<Timestamp> {
    text(object, "/metadata/deletionTimestamp").parse().ok()
}

/// The hash of what a host has applied.
pub fn applied(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/annotations")?.get(ANNOTATION_APPLIED)
}

fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a Plugin may adopt an object: nobody controls it, and it is not for the token of a ServiceAccount.
pub fn is_adoptable(object: &Value) -> bool {
    controller(object).is_empty() && text(object, "/type") != TOKEN
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

/// Whether a child has been there for a minute, so that each host knows of it.
fn is_old(child: &Value, now: Timestamp) -> bool {
    let created: Option<Timestamp> = text(child, "/metadata/creationTimestamp").parse().ok();
    created.is_some_and(|at| now.duration_since(at).unsigned_abs() > KNOWN_AFTER)
}

/// Whether a parent has desired the same children, in the same order, for a minute: users may have changed what these contain.
fn has_long_desired(server: &ApiServer, id: &Id, parent: &Value, now: Timestamp) -> bool {
    let desired = |parent: &Value| -> Vec<_> { scripted(id, parent).map(|(child, _)| child).collect() };
    let children = desired(parent);
    let is_recent = |change: &&Change| now.duration_since(change.at).unsigned_abs() < KNOWN_AFTER;
    let recent = server.changes().iter().rev().take_while(is_recent).filter(|change| change.id == *id);
    let mut before = recent.map(|change| change.before.as_deref());
    !fails(parent) && before.all(|before| before.is_some_and(|before| desired(before) == children && !fails(before)))
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
        let begins = ["/plugins/", "/configmaps/puppet"].iter().any(|part| path.contains(part))
            || [SHARED, NAMESPACE].iter().any(|name| path.ends_with(name));
        if begins && !allows {
            self.plugins = Some(Instant::now());
            (self.is_allowed, self.deleted) = (false, BTreeMap::new());
        }
        self.is_allowed |= allows;
        if let Some(guard) = body.and_then(|body| body.pointer("/spec/deletionGuard")) {
            if self.is_guard_changed && guard.is_null() {
                self.guard_restored = Some(Instant::now());
            }
            self.is_guard_changed = !guard.is_null();
        }
    }

    /// Whether the Plugin desires what it desired at first.
    fn is_whole(&self, server: &ApiServer) -> bool {
        self.whole.is_none() || plugin(server) == self.whole
    }

    /// A child is deleted that its parent has desired for at least a minute, although the Plugin is whole; or, if a user has changed the
    /// Plugin, more of them than the deletion guard allows.
    pub fn is_undesired(&mut self, server: &ApiServer, change: &Change, now: Timestamp) -> Option<String> {
        // A Mask is deleted to be recreated.
        if change.after.is_some() || change.id.resource == MASKS || !CHILDREN.contains(&&*change.id.resource) {
            return None;
        }
        let (id, parent, fleet) = owner(server, change.before.as_deref()?)?;
        let is_deleting = parent.pointer("/metadata/deletionTimestamp").is_some();
        let is_wanted = scripted(id, parent).any(|(child, _)| child == change.id);
        if !is_wanted || is_deleting || !has_long_desired(server, id, parent, now) {
            return None;
        }
        if self.is_whole(server) && !is_recent(self.plugins.as_ref()) && !is_recent(self.parents.get(&id.name)) {
            return Some(format!("{} has desired it for at least a minute", id.name));
        }
        let uid = |of: &Value| text(of, "/metadata/uid").to_owned();
        let children = CHILDREN.iter().flat_map(|resource| server.objects_of(resource));
        // What a change of the Plugin created does not count: the share is that of the children before it. Nor do kinds that it may not
        // have any more.
        let counts = |(child, object): &(&Id, &Arc<Value>)| {
            let is_allowed = id.resource != OPERATORS[0].parents || is_granted(server, object);
            label_of(object).is_some() && !child.name.starts_with(RENAMED) && is_allowed
        };
        let children: Vec<_> =
            children.filter(counts).map(|(_, child)| (controller(child), is_old(child, now))).collect();
        let count = |parents: &[&Value]| {
            let of_them = children.iter().filter(|(of, _)| parents.iter().any(|one| uid(one) == **of));
            let (all, known) = (of_them.clone().count(), of_them.filter(|(_, is_known)| *is_known).count());
            Count { all: all + 1, known: known + 1 }
        };
        let (own, all) = (count(&[parent]), count(&fleet));
        let is_beyond = self.is_beyond_guard(&uid(parent), own);
        let is_beyond_for_all = self.is_beyond_guard(&id.resource, all);
        (is_beyond || is_beyond_for_all)
            .then(|| format!("more children of {} are deleted than the deletion guard allows", id.name))
    }

    /// A child is pruned although another one, which its parent desires, has been on its way out for a minute, or its name has been taken for
    /// as long (rule R8).
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
        let is_long_ago = |at: Timestamp| now.duration_since(at).unsigned_abs() > KNOWN_AFTER;
        let is_missing = |child: &Id| {
            let Some(object) = server.object(child) else { return false };
            if controller(object) == text(parent, "/metadata/uid") {
                return deleted_at(object).is_some_and(is_long_ago);
            }
            let last = server.changes().iter().rev().find(|change| change.id == *child);
            !may_adopt(server) && last.is_some_and(|change| is_long_ago(change.at))
        };
        let missing = scripted(id, parent).map(|(child, _)| child).find(is_missing)?;
        Some(format!("its parent desires {missing}, which is not there"))
    }

    /// A host puts a child back more often than the breaker allows (rule R18): somebody else changes it all the time.
    pub fn is_fought_over(&mut self, server: &ApiServer, change: &Change, host: usize) -> Option<String> {
        let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
        let (_, parent, _) =
            owner(server, after).filter(|_| applied(after).is_some() && applied(before) == applied(after))?;
        let times = self.restored.entry((host, change.id.clone(), generation(parent))).or_default();
        let (window, most) = BREAKER;
        times.retain(|at| at.elapsed() < window);
        times.push(Instant::now());
        (times.len() > most).then(|| format!("it is put back {} times within a minute", times.len()))
    }

    /// A parent is reported as ready for its generation although a child that it does not desire is still there, or one that it desires has
    /// never been.
    pub fn is_untrue(&self, server: &ApiServer, change: &Change) -> Option<String> {
        let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
        let is_known = self.is_whole(server) && !is_recent(self.plugins.as_ref());
        let is_reported = |parent: &Value| {
            let ready = condition(parent, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
            ready && parent.pointer("/status/observedGeneration") == parent.pointer("/metadata/generation")
        };
        let is_parent = OPERATORS.iter().any(|operator| operator.parents == change.id.resource);
        if !is_parent || !is_known || is_reported(before) || !is_reported(after) || is_marked(after) {
            return None;
        }
        let desired: Vec<_> = scripted(&change.id, after).map(|(child, _)| child).collect();
        if desired.iter().any(|child| child.name.contains("${random}")) {
            // Only the plugin knows its children.
            return None;
        }
        let uid = text(after, "/metadata/uid");
        // One for each key of a related ConfigMap may be there, too.
        let is_required = |child: &Id| child.name.starts_with(&format!("{}-k", change.id.name));
        let is_left = |(child, object): &(&Id, &Arc<Value>)| {
            controller(object) == uid
                && is_old(object, change.at)
                && label_of(object).is_some()
                && deleted_at(object).is_none()
                && !is_forged(object)
                && !desired.contains(child)
                && !is_required(child)
        };
        if let Some((child, _)) = CHILDREN.iter().flat_map(|of| server.objects_of(of)).find(is_left) {
            return Some(format!("it is ready although {child} is still there"));
        }
        let has_been = |child: &&Id| server.changes().iter().any(|change| change.id == **child);
        desired
            .iter()
            .find(|child| !has_been(child))
            .map(|child| format!("it is ready although {child} has never been"))
    }

    /// A child is deleted whose parent was deleted with `--cascade=orphan` (rule R15).
    pub fn is_to_be_kept(&self, server: &ApiServer, change: &Change) -> Option<String> {
        let before = change.before.as_deref().filter(|before| deleted_at(before).is_none())?;
        let (id, parent, _) = owner(server, before)?;
        let finalizers = parent.pointer("/metadata/finalizers").and_then(Value::as_array);
        let is_deleted = change.after.as_deref().is_none_or(|after| deleted_at(after).is_some());
        let is_orphaning = finalizers.is_some_and(|all| all.contains(&"orphan".into()));
        let is_desired = scripted(id, parent).any(|(child, _)| child == change.id);
        (is_deleted && is_orphaning && is_desired && !is_recent(self.earlier.get(&id.name)))
            .then(|| format!("{} was deleted so that its children stay", id.name))
    }

    /// A child changes although another one of its kind, which has changed already, is not ready (rule R11).
    pub fn is_out_of_turn(&mut self, server: &ApiServer, change: &Change) -> Option<String> {
        if ![DOLLS, MASKS].contains(&&*change.id.resource) {
            return None;
        }
        let after = change.after.as_deref();
        let before = change.before.as_deref().or_else(|| {
            self.generations.insert(change.id.clone(), generation(after?));
            None
        })?;
        self.generations.extend(after.map(|after| (change.id.clone(), generation(after))));
        let (id, parent, _) = owner(server, before)?;
        let is_put_back = after.is_some_and(|after| deleted_at(after).is_none() && applied(after) == applied(before));
        let is_desired = scripted(id, parent).any(|(child, _)| child == change.id);
        if is_put_back || !is_desired || deleted_at(parent).is_some() || is_recent(self.earlier.get(&id.name)) {
            return None;
        }
        let is_waited_for = |child: &Id, script: &Value| {
            let object = server.object(child).filter(|object| controller(object) == text(parent, "/metadata/uid"))?;
            let is_by_host = self.generations.get(child) == Some(&generation(object));
            let is_changed = content_problem(child, object, script).is_none();
            (is_by_host && is_changed && !is_ready(object)).then_some(())
        };
        let mut others = scripted(id, parent);
        let (other, _) = others.find(|(other, script)| {
            *other != change.id && other.resource == change.id.resource && is_waited_for(other, script).is_some()
        })?;
        Some(format!("{other} has changed before and is not ready"))
    }

    /// Notes that a host deleted a child of these parents, which had this many. Returns whether the guard should have blocked that.
    fn is_beyond_guard(&mut self, parents: &str, children: Count) -> bool {
        let (most, deleted) = self.deleted.entry(parents.to_owned()).or_default();
        *most = Count { all: most.all.max(children.all), known: most.known.max(children.known) };
        if self.is_guard_changed || is_recent(self.guard_restored.as_ref()) {
            return false;
        }
        *deleted += 1;
        let (share, least) = GUARDED;
        most.known >= least && *deleted * 100 > share * most.all && !self.is_allowed
    }

    /// A child is written whose kind has not been among the Plugin's grants for a minute.
    pub fn is_not_granted(&self, server: &ApiServer, change: &Change) -> Option<String> {
        let child = change.after.as_deref().filter(|child| deleted_at(child).is_none())?;
        owner(server, child).filter(|(id, ..)| id.resource == OPERATORS[0].parents)?;
        (!is_granted(server, child) && !is_recent(self.plugins.as_ref()))
            .then(|| "the Plugin's grants have no such kind".to_owned())
    }

    /// The objects that a Plugin that has adopted for a minute has not adopted.
    pub fn not_adopted(&self, server: &ApiServer) -> Vec<String> {
        if !may_adopt(server)
            || !self.is_whole(server)
            || is_plugin_suspended(server)
            || is_recent(self.plugins.as_ref())
        {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (id, parent) in server.objects_of(OPERATORS[0].parents) {
            if fails(parent)
                || is_marked(parent)
                || deleted_at(parent).is_some()
                || is_recent(self.parents.get(&id.name))
            {
                continue;
            }
            let objects = scripted(id, parent).filter_map(|(child, _)| Some((child.clone(), server.object(&child)?)));
            let (own, others): (Vec<_>, Vec<_>) =
                objects.partition(|(_, object)| controller(object) == text(parent, "/metadata/uid"));
            let are_free = |(_, object): &(Id, &Arc<Value>)| {
                is_adoptable(object) && label_of(object).is_none() && deleted_at(object).is_none()
            };
            // An object that may not be adopted keeps the parent from what comes after it.
            if own.iter().all(|(_, object)| deleted_at(object).is_none()) && others.iter().all(are_free) {
                found.extend(others.iter().map(|(child, _)| format!("{child} is not adopted")));
            }
        }
        found
    }

    /// The parents whose deletions are blocked although a user has turned the deletion guard off for a minute.
    pub fn blocked_without_guard(&self, server: &ApiServer) -> Vec<String> {
        let plugin = server.object(&Id::new("plugins.windlass.dev", "", "puppet"));
        let share = plugin.and_then(|plugin| plugin.pointer("/spec/deletionGuard/maxPercent")?.as_u64());
        if share != Some(100) || is_plugin_suspended(server) || is_recent(self.plugins.as_ref()) {
            return Vec::new();
        }
        let is_blocked = |parent: &Value| {
            condition(parent, "Ready").is_some_and(|ready| text(ready, "/reason") == "DeletionBlocked")
        };
        let parents = server.objects_of(OPERATORS[0].parents);
        let blocked = parents
            .filter(|(id, parent)| is_blocked(parent) && !is_marked(parent) && !is_recent(self.parents.get(&id.name)));
        blocked.map(|(id, _)| format!("{id}: its deletions are blocked although the guard is off")).collect()
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
