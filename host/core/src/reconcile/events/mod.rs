//! Turns the changes and the outcome of a reconcile into events on the parent (rule R20). In steady state this emits
//! nothing and allocates nothing.

mod ledger;

use std::borrow::Cow;
use std::sync::Arc;

use crate::contract::snapshot::Snapshot;
use crate::contract::{Event, EventType};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::conditions;
use crate::object::names::{event_action as action, event_reason, parent_condition};
use crate::object::observed_status::observed;
use crate::object::order::install_rank;
use crate::object::reason::ParentReason;
use crate::reconcile::api_warnings::ApiWarnings;
use crate::reconcile::outcome::{FinalizerEnd, NAMESPACE_PATIENCE, Outcome, Progress};
use crate::value::json::Value;
use crate::value::line::one_line;

pub use ledger::{EventWrite, Ledger, Occasion};

/// Longest reason, in bytes (`ValidateEventCreate` of Kubernetes' API server).
const REASON_MAX: usize = 128;
/// Longest note, in bytes (`ValidateEventCreate` of Kubernetes' API server).
const NOTE_MAX: usize = 1024;
/// Maximum number of children of one kind in a message.
const SHOWN: usize = 5;

/// Who emits an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The host, about its own work.
    Host,
    /// The plugin, which may repeat the event in every response.
    Plugin,
}

/// One event on a parent, before it has a name and a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Who emits the event.
    pub source: Source,
    /// Normal or Warning.
    pub event_type: EventType,
    /// CamelCase, at most 128 bytes; the host's own reasons are in [`crate::object::names`] and
    /// [`crate::object::reason`].
    pub reason: Cow<'static, str>,
    /// One of [`crate::object::names::event_action`].
    pub action: &'static str,
    /// A sentence for users, at most 1024 bytes.
    pub message: String,
    /// The child that the event is about, if it is about a single one.
    pub related: Option<ChildId>,
}

impl Note {
    /// Creates an event about the host's own work.
    pub fn of_host(event_type: EventType, reason: impl Into<Cow<'static, str>>, message: &str) -> Self {
        let (source, action) = (Source::Host, action::RECONCILE);
        Self { source, event_type, reason: reason.into(), action, message: cut(message), related: None }
    }

    /// Creates the last event on a parent that had a finalizer (rule R14).
    pub fn finalized(why: &FinalizerEnd) -> Self {
        let (event_type, reason) = match why {
            FinalizerEnd::CleanedUp | FinalizerEnd::ChildrenDeleted | FinalizerEnd::Unneeded => {
                (EventType::Normal, event_reason::FINALIZED)
            }
            FinalizerEnd::Skipped | FinalizerEnd::NotCalled => (EventType::Warning, event_reason::FINALIZER_SKIPPED),
            FinalizerEnd::NamespaceTerminating(_) => (EventType::Warning, event_reason::FINALIZER_ABANDONED),
        };
        let message = match why {
            FinalizerEnd::CleanedUp => "The plugin has cleaned up",
            FinalizerEnd::ChildrenDeleted => "All children are deleted, by stage",
            FinalizerEnd::Skipped => {
                "The finalizer was removed without clean-up, as a user asked; what the plugin would have cleaned up stays"
            }
            FinalizerEnd::Unneeded => "The finalizer was removed, because the component does not clean up",
            FinalizerEnd::NotCalled => {
                "The finalizer was removed without clean-up, because no plugin is called in the host's namespace; what the \
                 plugin would have cleaned up stays"
            }
            FinalizerEnd::NamespaceTerminating(parent) => &*format!(
                "The finalizer of {parent} was removed before the plugin had cleaned up: its namespace is being \
                 deleted, and no child could be created in it for {} s",
                NAMESPACE_PATIENCE.as_secs()
            ),
        };
        Self { action: action::FINALIZE, ..Self::of_host(event_type, reason, message) }
    }

    /// Creates an event that a plugin emits. A reason that Kubernetes would reject is replaced by `PluginEvent`; a long
    /// message is truncated.
    pub fn of_plugin(event: &Event) -> Self {
        let is_valid = is_reason(&event.reason);
        let reason = if is_valid { event.reason.clone().into() } else { Cow::Borrowed(event_reason::PLUGIN_EVENT) };
        Self { source: Source::Plugin, ..Self::of_host(event.event_type, reason, &event.message) }
    }
}

/// Changes of children in one reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Created children.
    pub created: Vec<ChildId>,
    /// Children updated to the desired state.
    pub updated: Vec<ChildId>,
    /// Children reverted to the desired state after another manager edited them.
    pub restored: Vec<ChildId>,
    /// Children whose fields were taken from other field managers, because the plugin forces ownership.
    pub taken_over: Vec<ChildId>,
    /// Existing objects that became children, because the Plugin adopts them.
    pub adopted: Vec<ChildId>,
    /// Children deleted to be recreated.
    pub replaced: Vec<ChildId>,
    /// Children deleted for good.
    pub deleted: Vec<ChildId>,
    /// Those of the created children that Kubernetes deletes once they have finished, so that they are created again.
    pub expiring: Vec<ChildId>,
}

impl Changes {
    /// Returns true if no child was changed.
    pub fn is_empty(&self) -> bool {
        self.kinds().iter().all(|(_, _, children)| children.is_empty())
    }

    /// For each kind of change: the event's reason, the verb for the message, and the children.
    pub fn kinds(&self) -> [(&'static str, &'static str, &[ChildId]); 7] {
        [
            (event_reason::CREATED, "created", &self.created),
            (event_reason::UPDATED, "updated", &self.updated),
            (event_reason::DRIFT_CORRECTED, "reverted edits of", &self.restored),
            (event_reason::TAKEN_OVER, "forced ownership of", &self.taken_over),
            (event_reason::ADOPTED, "adopted", &self.adopted),
            (event_reason::REPLACING, "began to recreate", &self.replaced),
            (event_reason::DELETED, "deleted", &self.deleted),
        ]
    }

    fn reason(&self) -> &'static str {
        let mut reasons = self.kinds().into_iter().filter(|(_, _, children)| !children.is_empty());
        match (reasons.next(), reasons.next()) {
            (Some((only, _, _)), None) => only,
            _ => event_reason::RECONCILED,
        }
    }

    /// Returns the child if there is only one.
    fn only(&self) -> Option<&ChildId> {
        let mut all = self.kinds().into_iter().flat_map(|(_, _, children)| children);
        all.next().filter(|_| all.next().is_none())
    }

    /// What the changes may lead to that a user does not expect: a sentence for each such change.
    fn warnings(&self, parent_namespace: Option<&str>) -> String {
        let mut warnings = Vec::new();
        if !self.expiring.is_empty() {
            warnings.push(format!(
                "{} (ttlSecondsAfterFinished): Kubernetes deletes a finished Job after that time, and while the plugin returns it, \
                 the host creates it again, and it runs again",
                list(&self.expiring, parent_namespace)
            ));
        }
        let emptied: Vec<_> = self.adopted.iter().filter(|child| child.kind.holds_data()).collect();
        if !emptied.is_empty() {
            let them = if emptied.len() == 1 { "it" } else { "them" };
            warnings.push(format!(
                "{} will be deleted with all contents when the parent is deleted, or when the plugin no longer returns {them}, unless \
                 the plugin retains {them}",
                list(emptied, parent_namespace)
            ));
        }
        warnings.join(". ")
    }

    /// Formats the changes, for example `created Pods web-0, web-1 and 3 more; deleted Pod web-9`.
    fn describe(&self, parent_namespace: Option<&str>) -> String {
        let changes = self.kinds().into_iter().filter(|(_, _, children)| !children.is_empty());
        let changes = changes.map(|(_, verb, children)| format!("{verb} {}", list(children, parent_namespace)));
        changes.collect::<Vec<_>>().join("; ")
    }
}

/// The outcome that was reported for a parent before this reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// The same outcome as now.
    Same,
    /// Another outcome, with this reason; `None` if there was none, or if the host does not know the reason.
    Other(Option<ParentReason>),
}

impl Before {
    /// The earlier outcome of a parent if neither the ledger nor the parent's conditions have one.
    pub fn unknown(outcome: &Outcome) -> Self {
        if outcome.progress == Progress::Applied { Self::Same } else { Self::Other(None) }
    }

    /// Reads the earlier outcome from the parent's conditions, and compares it with the present one. While
    /// `Reconciling` or `Stalled` is True, the host set `Ready`. If both are absent, the desired state was applied, and
    /// the plugin may have set `Ready`; or the parent was suspended, which [`Ledger::before`] remembers.
    pub fn in_status(parent: &Object, outcome: &Outcome) -> Self {
        let status = observed(parent);
        let Some(ready) = conditions::condition_of(&status, parent_condition::READY) else { return Self::Other(None) };
        let is_by_host = conditions::is_true(&status, parent_condition::RECONCILING)
            || conditions::is_true(&status, parent_condition::STALLED);
        let reason = if is_by_host {
            ready.get("reason").and_then(|reason| reason.as_str()?.parse().ok())
        } else {
            Some(ParentReason::Succeeded)
        };
        let is_same_message = || ready.get("message").and_then(Value::as_str) == Some(&outcome.message);
        if reason == Some(outcome.reason) && (outcome.progress == Progress::Applied || is_same_message()) {
            return Self::Same;
        }
        Self::Other(reason)
    }
}

/// Creates the host's event for one reconcile, which covers all changes; `None` if there is nothing to report.
///
/// A failure is reported if it differs from the earlier outcome. A recovery is reported once.
pub fn note(snapshot: &Snapshot, changes: &Changes, before: &Before, outcome: &Outcome) -> Option<Note> {
    let turn = match before {
        Before::Same => None,
        Before::Other(reason) => turn(*reason, outcome),
    };
    if changes.is_empty() {
        return turn;
    }
    let namespace = snapshot.parent.key.namespace.as_deref();
    let (done, warnings) = (changes.describe(namespace), changes.warnings(namespace));
    let note = match turn {
        Some(note) => {
            // The failure comes first, because a long message is truncated at its end.
            let message = format!("{}. {}", note.message.trim_end_matches('.'), capitalised(done));
            Note { message: cut(&message), ..note }
        }
        None => match scaled(snapshot, changes) {
            Some(scaled) => Note::of_host(EventType::Normal, event_reason::SCALED, &format!("Scaled {scaled}: {done}")),
            None => Note::of_host(EventType::Normal, changes.reason(), &capitalised(done)),
        },
    };
    let note = Note { related: changes.only().cloned(), ..note };
    if warnings.is_empty() {
        return Some(note);
    }
    Some(Note { event_type: EventType::Warning, message: cut(&format!("{}. {warnings}", note.message)), ..note })
}

/// Creates the events for what the API server warned about: one for each text, with all children that it is about.
pub fn of_warnings(warnings: &ApiWarnings, parent_namespace: Option<&str>) -> Vec<Note> {
    let note = |(text, children): (&str, &[ChildId])| {
        let related = if let [only] = children { Some(only.clone()) } else { None };
        let message = format!("The API server warns about {}: {text}", list(children, parent_namespace));
        Note { related, ..Note::of_host(EventType::Warning, event_reason::API_WARNINGS, &message) }
    };
    warnings.sorted().into_iter().map(note).collect()
}

/// Creates the event for a change of the outcome; `None` if the change needs no event. `before` is the earlier reason,
/// if known.
fn turn(before: Option<ParentReason>, outcome: &Outcome) -> Option<Note> {
    if outcome.progress != Progress::Applied {
        let event_type = event_type_of(outcome.reason)?;
        return Some(Note::of_host(event_type, outcome.reason.as_str(), &outcome.message));
    }
    // A parent that is selected again is a parent like a new one.
    let before = before.filter(|before| *before != ParentReason::NotSelected)?;
    if before == ParentReason::Suspended {
        return Some(Note::of_host(EventType::Normal, event_reason::RESUMED, "No longer suspended"));
    }
    is_trouble(before).then(|| {
        let message = format!("Recovered from {before}: {}", outcome.message);
        Note::of_host(EventType::Normal, event_reason::RECOVERED, &message)
    })
}

/// Whether a parent with this reason needs somebody's attention if it stays so: it is in no regular step of a reconcile, and waits for
/// nothing that the plugin or a user asked for.
pub fn is_trouble(reason: ParentReason) -> bool {
    event_type_of(reason) == Some(EventType::Warning)
}

/// The type of the event for an outcome. None for a regular step, whose changes have an event of their own, or a problem that passes within a
/// second.
fn event_type_of(reason: ParentReason) -> Option<EventType> {
    match reason {
        ParentReason::Succeeded
        | ParentReason::ChildrenTerminating
        | ParentReason::RollingUpdate
        | ParentReason::WaitingForReady
        | ParentReason::FinalizerRemoved
        | ParentReason::Outdated => None,
        ParentReason::Waiting | ParentReason::Suspended | ParentReason::Finalizing => Some(EventType::Normal),
        ParentReason::NotSelected
        | ParentReason::HostNamespace
        | ParentReason::InvalidSpec
        | ParentReason::PluginFailed
        | ParentReason::DeadlineExceeded
        | ParentReason::MemoryLimit
        | ParentReason::Trapped
        | ParentReason::LimitExceeded
        | ParentReason::MalformedResponse
        | ParentReason::ResponseRejected
        | ParentReason::HostError
        | ParentReason::Conflict
        | ParentReason::FieldConflict
        | ParentReason::ChildRejected
        | ParentReason::StatusRejected
        | ParentReason::ApiError
        | ParentReason::CacheBehind
        | ParentReason::ChildFailed
        | ParentReason::DeletionBlocked
        | ParentReason::BlockedAtPlugin
        | ParentReason::SpecUnchanged
        | ParentReason::ComponentChanged
        | ParentReason::Thrashing
        | ParentReason::Quarantined
        | ParentReason::NamespaceTerminating
        | ParentReason::ReadForbidden
        | ParentReason::RateLimited
        | ParentReason::RequirementsUnsettled => Some(EventType::Warning),
    }
}

/// Returns a text such as `Pods from 2 to 5` if the changes scale one kind of child: the parent has a new generation,
/// the number of children changes, and is above zero before and after. A recreated child does not count.
fn scaled(snapshot: &Snapshot, changes: &Changes) -> Option<String> {
    let (more, fewer) = (&changes.created, &changes.deleted);
    let others = [&changes.restored, &changes.taken_over, &changes.adopted, &changes.replaced, &changes.updated];
    if more.is_empty() == fewer.is_empty() || others.iter().any(|others| !others.is_empty()) {
        return None;
    }
    let kind = &more.first().or(fewer.first())?.kind;
    if more.iter().chain(fewer).any(|child| child.kind != *kind) {
        return None;
    }
    let parent = &snapshot.parent;
    let is_counted = |child: &&Arc<Object>| {
        child.kind.group_kind() == kind.group_kind() && !child.deleting && child.is_owned_by(&parent.uid)
    };
    let before = snapshot.children.iter().filter(is_counted).count();
    let after = (before + more.len()).checked_sub(fewer.len())?;
    let observed = observed(parent).get("observedGeneration").map(ToString::to_string)?;
    let is_new = parent.generation.is_some_and(|generation| generation.to_string() != observed);
    (before > 0 && after > 0 && is_new).then(|| format!("{} from {before} to {after}", plural(&kind.kind)))
}

/// Lists children by kind, in install order: `ConfigMap web, Pods web-0, web-1 and 3 more`. The children are sorted,
/// because writes end in any order and the same changes must yield the same text. The parent's own namespace is omitted
/// from the names.
fn list<'a>(children: impl IntoIterator<Item = &'a ChildId>, parent_namespace: Option<&str>) -> String {
    let mut children: Vec<_> = children.into_iter().collect();
    children.sort_unstable_by_key(|ChildId { kind, key }| {
        // Numbered names sort numerically (`web-9` before `web-10`).
        (install_rank(kind), kind, &key.namespace, key.name.len(), &key.name)
    });
    let name = |child: &&ChildId| match &child.key.namespace {
        Some(namespace) if parent_namespace == Some(&**namespace) => child.key.name.to_string(),
        _ => child.key.to_string(),
    };
    let groups = children.chunk_by(|a, b| a.kind == b.kind).filter_map(|group| {
        let kind = &*group.first()?.kind.kind;
        let kind = if group.len() == 1 { Cow::Borrowed(kind) } else { plural(kind) };
        // For a single omitted child, "and 1 more" would be no shorter than its name.
        let shown = if group.len() <= SHOWN + 1 { group.len() } else { SHOWN };
        let more = if group.len() > shown { format!(" and {} more", group.len() - shown) } else { String::new() };
        let names = group.iter().take(shown).map(name).collect::<Vec<_>>().join(", ");
        Some(format!("{kind} {names}{more}"))
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// The English plural of a kind, with Kubernetes' exceptions.
fn plural(kind: &str) -> Cow<'_, str> {
    let vowel_before_y = ["ay", "ey", "oy", "uy"].iter().any(|end| kind.ends_with(end));
    if kind.ends_with("points") {
        Cow::Borrowed(kind)
    } else if let Some(stem) = kind.strip_suffix('y').filter(|_| !vowel_before_y) {
        Cow::Owned(format!("{stem}ies"))
    } else if ["s", "x", "ch", "sh"].iter().any(|end| kind.ends_with(end)) {
        Cow::Owned(format!("{kind}es"))
    } else {
        Cow::Owned(format!("{kind}s"))
    }
}

fn capitalised(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// Returns true if Kubernetes accepts the text as a reason: one CamelCase word.
fn is_reason(text: &str) -> bool {
    text.len() <= REASON_MAX
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Makes a message one line, and truncates it to [`NOTE_MAX`] bytes, at a character boundary.
fn cut(message: &str) -> String {
    const MORE: &str = "…";
    let message = one_line(message);
    if message.len() <= NOTE_MAX {
        return message.into_owned();
    }
    let end = message.floor_char_boundary(NOTE_MAX - MORE.len());
    format!("{}{MORE}", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
