//! What no host may do, whatever happens: checked at each write.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;
use windlass_api_model::{ApiServer, Call, Change, Id};
use windlass_core::object::names::LABEL_PARENT_UID;

use crate::expected::{controller, is_forged, is_retained, label_of, text};
use crate::network::HOST_USER;
use crate::reports;
use crate::requests::{Requests, applied, deleted_at, is_adoptable};
use crate::setup::{CHILDREN, MASKS, OPERATORS};

/// Time after which a host has acted on what has changed, also if requests were slow meanwhile.
const LONG: SignedDuration = SignedDuration::from_secs(90);

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Number of the host.
    pub host: usize,
    /// The user of the request.
    pub user: &'a str,
    /// When the request left the host.
    pub sent: Instant,
}

/// The writes so far that no host may send.
#[derive(Debug, Default)]
pub struct Invariants {
    violations: Vec<String>,
    /// The identity by which each host took the Lease, by number.
    identities: Vec<(usize, String)>,
    requests: Requests,
    /// The host that created each child, and the child's uid.
    created: BTreeMap<Id, (usize, String)>,
    /// Whether a user lets the Plugin adopt objects.
    adopts: bool,
    /// The uids of all parents that existed, with the account of their Plugin.
    parents: BTreeMap<String, &'static str>,
    /// The uids of the parents that hosts have taken their finalizer off.
    finalized: BTreeSet<String>,
    /// The uids of the objects that a host deleted, if it got the response; with the host's number.
    deleted: BTreeSet<(usize, String)>,
    /// The host that last wrote a parent or one of its children, and when that arrived; by the parent's uid.
    last_writes: BTreeMap<String, (usize, Instant)>,
}

impl Invariants {
    /// The violations so far.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// What hosts have not done about what users changed more than a minute ago.
    pub fn unanswered(&self, server: &ApiServer, calm_since: Instant) -> Vec<String> {
        let requests = &self.requests;
        [requests.blocked_without_guard(server), requests.not_adopted(server), requests.unanswered(server, calm_since)]
            .concat()
    }

    /// Notes a violation that no single write shows.
    pub fn violate(&mut self, problem: String) {
        self.violations.push(problem);
    }

    /// Notes what a user writes: the path and the body of the request.
    pub fn note_user(&mut self, server: &ApiServer, path: &str, body: Option<&Value>) {
        self.requests.note(server, path, body);
        let text = body.map(Value::to_string).unwrap_or_default();
        self.adopts |= text.contains("\"adopt\":true");
    }

    /// Notes a write that was refused: with 409 if two hosts write at once, or if the parent already has the child. A host reconciles only
    /// once it has listed all children, and it waits until its caches show what it has created itself. Without a Lease it sends nothing.
    pub fn note_refused(&mut self, server: &ApiServer, call: &Call, writer: Writer<'_>, code: u16) {
        let host = writer.host;
        if code >= 300 && !call.path.contains("/leases") {
            let problem = self.is_without_lease(server, writer);
            self.violations
                .extend(problem.map(|problem| format!("host {host}: {} {}: {problem}", call.method, call.path)));
        }
        if code == 409 {
            let parent = call.body.as_ref().map(controller).unwrap_or_default();
            let problem = self.is_at_the_same_time(parent, writer);
            self.violations
                .extend(problem.map(|problem| format!("host {host}: {} {}: {problem}", call.method, call.path)));
        }
        let Some(name) = call.body.as_ref().map(|body| text(body, "/metadata/name")) else { return };
        if call.method != "POST" || code != 409 || call.user == HOST_USER {
            return;
        }
        let is_it = |(id, _): &(&Id, _)| {
            id.name == name && call.path.ends_with(id.resource.split('.').next().unwrap_or_default())
        };
        let all = CHILDREN.iter().flat_map(|resource| server.objects_of(resource));
        let Some((id, found)) = all.into_iter().find(is_it) else { return };
        let last = server.changes().iter().rev().find(|change| change.id == *id).map(|change| change.at);
        let is_old = last.is_some_and(|at| call.now.duration_since(at) > LONG);
        let is_own = self.created.get(id).is_some_and(|of| (of.0, &*of.1) == (host, text(found, "/metadata/uid")));
        let why = match (is_own, is_old) {
            (true, _) => "the host has created it before",
            (false, true) => "it has been a child for longer than 90 s",
            (false, false) => return,
        };
        if self.is_child(found, &call.user) && label_of(found).is_some() {
            self.violations.push(format!("host {host} as {}: {id} is created, although {why}", call.user));
        }
    }

    /// Notes that a host got the response to a write. It deletes nothing again: it waits until its caches show that it has deleted an object
    /// (rule R3).
    pub fn note_answered(&mut self, host: usize, call: &Call, code: u16) {
        if call.method == "DELETE" && code < 300 {
            self.deleted.insert((host, deleted_by(call).to_owned()));
        }
    }

    /// Checks a write of a host, and the changes that it made, which begin at this place of the log.
    pub fn check(&mut self, server: &ApiServer, call: &Call, writer: Writer<'_>, begin: usize) {
        if call.path.contains("/leases") {
            self.note_holders(server, begin, writer);
            return;
        }
        if call.method == "DELETE" && self.deleted.contains(&(writer.host, deleted_by(call).to_owned())) {
            self.violations
                .push(format!("host {}: DELETE {}: it has deleted this object before", writer.host, call.path));
        }
        for change in server.changes().get(begin..).unwrap_or_default() {
            let line = |problem: &str| {
                format!("host {} as {}: {} {}: {problem}", writer.host, writer.user, call.method, change.id)
            };
            if let (None, Some(created)) = (&change.before, &change.after) {
                self.created.insert(change.id.clone(), (writer.host, text(created, "/metadata/uid").to_owned()));
            }
            let found = [
                self.is_foreign(server, change, writer),
                self.is_without_lease(server, writer),
                self.is_at_the_same_time(parent_of(change), writer),
                self.is_after_clean_up(change),
                self.requests.is_undesired(server, change, call.now),
                self.requests.is_suspended(server, change),
                self.requests.is_not_granted(server, change),
                self.requests.is_pruned_early(server, change, call.now),
                self.requests.is_fought_over(server, change, writer.host),
                self.requests.is_untrue(server, change),
                self.requests.is_to_be_kept(server, change),
                self.requests.is_out_of_turn(server, change),
                is_changed_in_place(change),
                is_write_for_the_deleted(server, call, change),
                reports::is_early(change),
                reports::is_contradictory(server, change),
                reports::is_shared_early(change),
            ];
            self.violations.extend(found.into_iter().flatten().map(|problem| line(&problem)));
        }
    }

    /// Whether an object is a child of a parent whose Plugin has this account.
    fn is_child(&self, object: &Value, account: &str) -> bool {
        if is_forged(object) {
            return false;
        }
        let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let mut controllers = references.filter(|one| one.get("controller") == Some(&Value::Bool(true)));
        controllers.any(|one| self.parents.get(text(one, "/uid")) == Some(&account))
    }

    /// Notes the identity by which a host takes a Lease.
    fn note_holders(&mut self, server: &ApiServer, begin: usize, writer: Writer<'_>) {
        for change in server.changes().get(begin..).unwrap_or_default() {
            let holder = change.after.as_deref().map(|lease| text(lease, "/spec/holderIdentity")).unwrap_or_default();
            let is_known = self.identities.iter().any(|(_, identity)| identity == holder);
            if !holder.is_empty() && !is_known {
                self.identities.push((writer.host, holder.to_owned()));
            }
        }
    }

    /// A host writes that holds neither the Lease nor that of a shard.
    fn is_without_lease(&self, server: &ApiServer, writer: Writer<'_>) -> Option<String> {
        let leases = server.objects_of("leases.coordination.k8s.io");
        let holders: Vec<_> = leases.map(|(_, lease)| text(lease, "/spec/holderIdentity")).collect();
        let holds = |(host, identity): &(usize, String)| *host == writer.host && holders.contains(&&**identity);
        (!self.identities.iter().any(holds)).then(|| format!("the Leases are held by {holders:?}"))
    }

    /// A host writes for a parent before the last write of another host for it has arrived.
    fn is_at_the_same_time(&mut self, parent: &str, writer: Writer<'_>) -> Option<String> {
        if parent.is_empty() {
            return None;
        }
        let before = self.last_writes.insert(parent.to_owned(), (writer.host, Instant::now()));
        let (host, _) = before.filter(|(host, arrived)| *host != writer.host && *arrived > writer.sent)?;
        Some(format!("host {host} has written for the same parent since this was sent"))
    }

    /// A child is written after the host has taken its finalizer off the parent: the plugin has been called again.
    fn is_after_clean_up(&mut self, change: &Change) -> Option<String> {
        let is_parent = OPERATORS.iter().any(|operator| operator.parents == change.id.resource);
        let after = change.after.as_deref();
        if is_parent && let Some(before) = change.before.as_deref() {
            if deleted_at(before).is_some() && has_finalizer(before) && !after.is_some_and(has_finalizer) {
                self.finalized.insert(text(before, "/metadata/uid").to_owned());
            }
            return None;
        }
        let owner = controller(after?);
        self.finalized.contains(owner).then(|| "the plugin had finalized its parent before".to_owned())
    }

    /// A plugin's account changes what is neither a new object nor a child of one of its parents.
    fn is_foreign(&mut self, server: &ApiServer, change: &Change, writer: Writer<'_>) -> Option<String> {
        for operator in &OPERATORS {
            let parents = server.objects_of(operator.parents);
            let named = parents.map(|(_, parent)| (text(parent, "/metadata/uid").to_owned(), operator.account));
            self.parents.extend(named);
        }
        if writer.user == HOST_USER {
            let is_child = CHILDREN.contains(&&*change.id.resource) && change.id.namespace != "windlass-system";
            return is_child.then(|| "the host writes a child as itself".to_owned());
        }
        let Some(plugin) = OPERATORS.iter().find(|operator| operator.account == writer.user) else {
            return Some("an account that no Plugin has".to_owned());
        };
        if !CHILDREN.contains(&&*change.id.resource) {
            return Some("a kind that the Plugin does not own".to_owned());
        }
        let before = change.before.as_deref()?;
        let after = change.after.as_deref();
        if !controller(before).is_empty() && after.is_some_and(|after| controller(after) != controller(before)) {
            return Some("it is taken from the parent that it belongs to".to_owned());
        }
        let owner = after.and_then(|after| after.pointer("/metadata/labels")?.get(LABEL_PARENT_UID)?.as_str());
        if !controller(before).is_empty() && owner.is_some_and(|owner| owner != controller(before)) {
            return Some("it is marked as the child of another parent".to_owned());
        }
        let is_deleted = deleted_at(before).is_none() && after.is_none_or(|after| deleted_at(after).is_some());
        if is_deleted && label_of(before) != Some(plugin.name) {
            return Some("a user has taken it off the Plugin".to_owned());
        }
        // A retained child that lost its labels gets them back.
        if is_retained(before) && [None, Some(plugin.name)].contains(&label_of(before)) {
            return is_deleted.then(|| "it is a retained child".to_owned());
        }
        let is_free = || is_adoptable(before) && [None, Some(plugin.name)].contains(&label_of(before));
        let is_ours = self.is_child(before, writer.user) || self.adopts && change.after.is_some() && is_free();
        (!is_ours).then(|| "the object belongs to somebody else".to_owned())
    }
}

/// The uid of the parent that a change is about; empty if it is about none.
fn parent_of(change: &Change) -> &str {
    let object = change.after.as_deref().or(change.before.as_deref()).unwrap_or(&Value::Null);
    let is_parent = OPERATORS.iter().any(|operator| operator.parents == change.id.resource);
    match (is_parent, CHILDREN.contains(&&*change.id.resource)) {
        (true, _) => text(object, "/metadata/uid"),
        (false, true) => controller(object),
        (false, false) => "",
    }
}

/// Whether a parent has the finalizer of a plugin.
fn has_finalizer(parent: &Value) -> bool {
    let finalizers = parent.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    finalizers.filter_map(Value::as_str).any(|one| one.contains("windlass.dev"))
}

/// A child is written although its parent is being deleted and has no finalizer of a plugin: nothing must hold up the garbage collector.
fn is_write_for_the_deleted(server: &ApiServer, call: &Call, change: &Change) -> Option<String> {
    let owner = controller(change.after.as_deref()?);
    let parents = OPERATORS.iter().flat_map(|operator| server.objects_of(operator.parents));
    let (id, parent) = parents.into_iter().find(|(_, parent)| text(parent, "/metadata/uid") == owner)?;
    let since: Timestamp = text(parent, "/metadata/deletionTimestamp").parse().ok()?;
    let is_long_ago = call.now.duration_since(since) > LONG;
    (is_long_ago && !has_finalizer(parent))
        .then(|| format!("{} is being deleted, and its plugin does not finalize it", id.name))
}

/// The uid of the object that a request deletes, and no other one.
fn deleted_by(call: &Call) -> &str {
    call.body.as_ref().map_or("", |options| text(options, "/preconditions/uid"))
}

/// A Mask gets another desired state in place: its Plugin recreates it instead.
fn is_changed_in_place(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
    let is_changed = applied(before).is_some() && applied(before) != applied(after) && deleted_at(after).is_none();
    (change.id.resource == MASKS && is_changed && !controller(before).is_empty())
        .then(|| "it is changed instead of recreated".to_owned())
}
