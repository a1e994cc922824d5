//! What no host may do, whatever happens: checked at each write.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use windlass_api_model::{ApiServer, Call, Change, Id};

use crate::expected::{controller, scripted};
use crate::network::HOST_USER;
use crate::setup::{CHILDREN, LEASE, OPERATORS};

/// Time after which a host knows what a user has changed: longer than any watch lags.
const KNOWN_AFTER: Duration = Duration::from_mins(1);

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Number of the host.
    pub host: usize,
    /// The user of the request.
    pub user: &'a str,
}

/// The writes so far that no host may send.
#[derive(Debug, Default)]
pub struct Invariants {
    violations: Vec<String>,
    /// Writes that no host should send, and that the rules allow so far.
    known: Vec<String>,
    /// The identity by which each host took the Lease, by number.
    identities: Vec<(usize, String)>,
    /// When a user last changed each parent, by name.
    changed: BTreeMap<String, Instant>,
    /// Whether the Plugin was configured to return fewer children.
    is_configured: bool,
    /// The uids of all parents that existed, with the account of their Plugin.
    parents: BTreeMap<String, &'static str>,
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

impl Invariants {
    /// The violations so far.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The writes so far that no host should send, and that the rules allow so far: a child is deleted by its uid alone (rule R8), so also
    /// one whose owner a user has just taken off.
    pub fn known(&self) -> &[String] {
        &self.known
    }

    /// Notes what a user does, with the path of the request.
    pub fn note_user(&mut self, path: &str) {
        if let Some((_, name)) = path.split_once("puppets/") {
            self.changed.insert(name.to_owned(), Instant::now());
        }
        self.is_configured |= path.contains("/plugins/");
    }

    /// Checks a write of a host, and the changes that it made, which begin at this place of the log.
    pub fn check(&mut self, server: &ApiServer, call: &Call, writer: Writer<'_>, begin: usize) {
        let lease = Id::new("leases.coordination.k8s.io", "windlass-system", LEASE);
        if call.path.contains("/leases") {
            self.note_holder(server, &lease, writer);
            return;
        }
        for change in server.changes().get(begin..).unwrap_or_default() {
            let line = |problem: &str| {
                format!("host {} as {}: {} {}: {problem}", writer.host, writer.user, call.method, change.id)
            };
            if let Some(problem) = self.is_foreign(server, change, writer) {
                let is_known = call.method == "DELETE" && self.was_ours(server, change, (begin, writer.user));
                if is_known { &mut self.known } else { &mut self.violations }.push(line(&problem));
            }
            let other =
                self.is_without_lease(server, &lease, writer).or_else(|| self.is_undesired_deletion(server, change));
            self.violations.extend(other.map(|problem| line(&problem)));
        }
    }

    /// A child is deleted that its parent has desired for at least a minute.
    fn is_undesired_deletion(&self, server: &ApiServer, change: &Change) -> Option<String> {
        if change.after.is_some() || self.is_configured || !CHILDREN.contains(&&*change.id.resource) {
            return None;
        }
        let owner = controller(change.before.as_deref()?);
        let parents = OPERATORS.iter().flat_map(|operator| server.objects_of(operator.parents));
        let (id, parent) = parents.into_iter().find(|(_, parent)| text(parent, "/metadata/uid") == owner)?;
        let is_deleting = parent.pointer("/metadata/deletionTimestamp").is_some();
        let is_recent = self.changed.get(&id.name).is_some_and(|at| at.elapsed() < KNOWN_AFTER);
        let is_wanted = scripted(id, parent).any(|(child, _)| child == change.id);
        (is_wanted && !is_deleting && !is_recent).then(|| format!("{} has desired it for at least a minute", id.name))
    }

    /// Whether the object that a change removes was a child of one of the Plugin's parents before.
    fn was_ours(&self, server: &ApiServer, change: &Change, (begin, account): (usize, &str)) -> bool {
        let uid = |object: &Value| text(object, "/metadata/uid").to_owned();
        let own = change.before.as_deref().map(uid);
        let earlier =
            server.changes().get(..begin).unwrap_or_default().iter().filter(|earlier| earlier.id == change.id);
        let states = earlier.filter_map(|earlier| earlier.after.as_deref());
        states.filter(|state| Some(uid(state)) == own).any(|state| self.is_child(state, account))
    }

    /// Whether an object is a child of a parent whose Plugin has this account.
    fn is_child(&self, object: &Value, account: &str) -> bool {
        let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let mut controllers = references.filter(|one| one.get("controller") == Some(&Value::Bool(true)));
        controllers.any(|one| self.parents.get(text(one, "/uid")) == Some(&account))
    }

    fn note_holder(&mut self, server: &ApiServer, lease: &Id, writer: Writer<'_>) {
        let holder =
            server.object(lease).map(|lease| text(lease, "/spec/holderIdentity").to_owned()).unwrap_or_default();
        let is_known = self.identities.iter().any(|(_, identity)| *identity == holder);
        if !holder.is_empty() && !is_known {
            self.identities.push((writer.host, holder));
        }
    }

    /// A host writes while another host holds the Lease.
    fn is_without_lease(&self, server: &ApiServer, lease: &Id, writer: Writer<'_>) -> Option<String> {
        let holder = server.object(lease).map(|lease| text(lease, "/spec/holderIdentity").to_owned())?;
        let of = self.identities.iter().find(|(_, identity)| *identity == holder).map(|(host, _)| *host);
        (of != Some(writer.host)).then(|| format!("the Lease is held by {holder:?} (host {of:?})"))
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
        if !OPERATORS.iter().any(|operator| operator.account == writer.user) {
            return Some("an account that no Plugin has".to_owned());
        }
        if !CHILDREN.contains(&&*change.id.resource) {
            return Some("a kind that the Plugin does not own".to_owned());
        }
        let is_ours = self.is_child(change.before.as_deref()?, writer.user);
        (!is_ours).then(|| "the object belongs to somebody else".to_owned())
    }
}
