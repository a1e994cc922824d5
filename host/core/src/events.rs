//! What happened to a parent → the events that tell it (rule R20). Where nothing happened nothing is told, and nothing
//! allocated.

mod ledger;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::conditions;
use crate::contract::{Event, EventType};
use crate::json::{Map, Value};
use crate::names::{event_action as action, event_reason, parent_condition, parent_reason};
use crate::object::Object;
use crate::observed_status::observed;
use crate::order::install_rank;
use crate::outcome::{NAMESPACE_PATIENCE, Problem, Progress, SuspendedBy, TRYING_AGAIN, Verdict};
use crate::plan::ChildId;
use crate::snapshot::Snapshot;

pub use ledger::{Ledger, Occasion, Telling};

/// Longest reason, in bytes (`ValidateEventCreate` of Kubernetes' API server).
const REASON_MAX: usize = 128;
/// Longest note, in bytes (the same).
const NOTE_MAX: usize = 1024;
/// Names of one kind that a message shows.
const SHOWN: usize = 5;

/// Whose words an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The host's, about what it did.
    Host,
    /// The plugin's, which may say the same in every answer.
    Plugin,
}

/// One event on a parent, before it has a name and a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whose words it is.
    pub source: Source,
    /// Normal or Warning.
    pub event_type: EventType,
    /// CamelCase, at most 128 bytes; the host's own are in [`crate::names`].
    pub reason: Cow<'static, str>,
    /// One of [`crate::names::event_action`].
    pub action: &'static str,
    /// A sentence for people, at most 1024 bytes.
    pub message: String,
    /// The child that it is about, if it is about one.
    pub related: Option<ChildId>,
}

impl Note {
    /// What the host tells of its own work.
    pub fn of_host(event_type: EventType, reason: &'static str, message: &str) -> Self {
        Self::new(event_type, reason.into(), message)
    }

    fn new(event_type: EventType, reason: Cow<'static, str>, message: &str) -> Self {
        let (source, action) = (Source::Host, action::RECONCILE);
        Self { source, event_type, reason, action, message: cut(message), related: None }
    }

    /// The last event on a parent that had a finalizer (rule R14).
    pub fn finalized(why: &FinalizerEnd) -> Self {
        let note = match why {
            FinalizerEnd::CleanedUp => {
                Self::new(EventType::Normal, event_reason::FINALIZED.into(), "The plugin has cleaned up")
            }
            FinalizerEnd::Skipped => {
                let message =
                    "The finalizer was removed without the plugin's word; what it would have cleaned up stays";
                Self::new(EventType::Warning, event_reason::FINALIZER_SKIPPED.into(), message)
            }
            FinalizerEnd::NamespaceTerminating(parent) => {
                let message = format!(
                    "The finalizer of {parent} was removed before the plugin had cleaned up: its namespace is being \
                     deleted, and no child could be created in it for {} s",
                    NAMESPACE_PATIENCE.as_secs()
                );
                Self::new(EventType::Warning, event_reason::FINALIZER_ABANDONED.into(), &message)
            }
        };
        Self { action: action::FINALIZE, ..note }
    }

    /// What a plugin wants told. A reason that Kubernetes would refuse is replaced, a long message is cut.
    pub fn of_plugin(event: &Event) -> Self {
        let reason =
            if is_reason(&event.reason) { event.reason.clone().into() } else { event_reason::PLUGIN_EVENT.into() };
        Self { source: Source::Plugin, ..Self::new(event.event_type, reason, &event.message) }
    }
}

/// Why the finalizer of a parent goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalizerEnd {
    /// The plugin has cleaned up.
    CleanedUp,
    /// A person asked for it to go without the plugin's word.
    Skipped,
    /// The plugin wants children that cannot be created any more in the namespace of this parent.
    NamespaceTerminating(String),
}

/// What was done to children in one reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Created.
    pub created: Vec<ChildId>,
    /// Brought to what the plugin wants.
    pub updated: Vec<ChildId>,
    /// Put back to what the plugin wants, after somebody edited them.
    pub restored: Vec<ChildId>,
    /// Taken over from other appliers, as the plugin asked.
    pub taken_over: Vec<ChildId>,
    /// Existed already, and became children because the Plugin says so.
    pub adopted: Vec<ChildId>,
    /// Deleted, to be made anew.
    pub replaced: Vec<ChildId>,
    /// Deleted for good.
    pub deleted: Vec<ChildId>,
}

impl Changes {
    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.kinds().iter().all(|(_, _, children)| children.is_empty())
    }

    /// The reason for each kind of change, how a message begins to speak of it, and the children.
    fn kinds(&self) -> [(&'static str, &'static str, &[ChildId]); 7] {
        [
            (event_reason::CREATED, "created", &self.created),
            (event_reason::UPDATED, "updated", &self.updated),
            (event_reason::DRIFT_CORRECTED, "undid edits of", &self.restored),
            (event_reason::TAKEN_OVER, "took over", &self.taken_over),
            (event_reason::ADOPTED, "adopted", &self.adopted),
            (event_reason::REPLACING, "began to replace", &self.replaced),
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

    /// The child, if it was only one.
    fn only(&self) -> Option<&ChildId> {
        let mut all = self.kinds().into_iter().flat_map(|(_, _, children)| children);
        all.next().filter(|_| all.next().is_none())
    }

    /// `created Pods web-0, web-1 and 3 more; deleted Pod web-9`
    fn describe(&self, home: Option<&str>) -> String {
        let mut text = String::new();
        for (_, verb, children) in self.kinds() {
            if !children.is_empty() {
                let separator = if text.is_empty() { "" } else { "; " };
                let _ = write!(text, "{separator}{verb} ");
                list(&mut text, children, home);
            }
        }
        text
    }
}

/// What was said of a parent before this reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// The same as now.
    Same,
    /// Something else, with this reason; nothing at all of a parent that is new.
    Other(Option<Cow<'static, str>>),
}

impl Before {
    /// As the parent's conditions say it: `Reconciling` or `Stalled`, whichever there is, carries the verdict's reason and
    /// message. Without them all was applied, and `Ready` may be the plugin's; or `Ready` says that it is suspended.
    pub fn in_status(parent: &Object, verdict: &Verdict) -> Self {
        let status = observed(parent);
        let of = |kind: &str| {
            conditions::conditions_of(&status).find(|condition| conditions::type_of(condition) == Some(kind))
        };
        let text =
            |condition: &Map, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let abnormal = [parent_condition::RECONCILING, parent_condition::STALLED].into_iter().filter_map(of);
        let told = |condition| (text(condition, "reason"), text(condition, "message"));
        let (reason, message) = match abnormal.into_iter().find(|condition| text(condition, "status") == "True") {
            Some(condition) => told(condition),
            None => match of(parent_condition::READY).map(told) {
                Some(ready) if is_suspension(&ready) => ready,
                Some(_) => (parent_reason::SUCCEEDED.to_owned(), String::new()),
                None => return Self::Other(None),
            },
        };
        if reason == verdict.reason && (verdict.progress == Progress::Applied || message == verdict.message) {
            return Self::Same;
        }
        Self::Other((!passes(&reason, &message)).then_some(reason.into()))
    }
}

/// Whether it is the host that says so: a plugin may give its own `Ready` the same reason.
fn is_suspension((reason, message): &(String, String)) -> bool {
    let says = |by| {
        let verdict = Verdict::from(&Problem::Suspended(by));
        verdict.message == *message || verdict.while_finalizing().message == *message
    };
    reason == parent_reason::SUSPENDED && [SuspendedBy::Parent, SuspendedBy::Plugin].into_iter().any(says)
}

/// What the host has to tell of one reconcile: one event with all of it, or none.
///
/// A failure is told when it is another than before, a recovery once.
pub fn note(snapshot: &Snapshot, changes: &Changes, before: &Before, verdict: &Verdict) -> Option<Note> {
    let turn = match before {
        Before::Same => None,
        Before::Other(reason) => turn(reason.as_deref(), verdict),
    };
    if changes.is_empty() {
        return turn;
    }
    let done = changes.describe(snapshot.parent.key.namespace.as_deref());
    let note = match turn {
        Some(note) => {
            // The failure stands first and is kept: what was done may be cut.
            let message = format!("{}. {}", note.message.trim_end_matches('.'), capitalised(done));
            Note { message: cut(&message), ..note }
        }
        None => match scaled(snapshot, changes) {
            Some(scaled) => {
                Note::new(EventType::Normal, event_reason::SCALED.into(), &format!("Scaled {scaled}: {done}"))
            }
            None => Note::new(EventType::Normal, changes.reason().into(), &capitalised(done)),
        },
    };
    Some(Note { related: changes.only().cloned(), ..note })
}

/// The turn that things took: from one verdict to another.
fn turn(before: Option<&str>, verdict: &Verdict) -> Option<Note> {
    if verdict.progress != Progress::Applied {
        let event_type = match tone(verdict.reason) {
            Tone::Quiet => return None,
            _ if passes(verdict.reason, &verdict.message) => return None,
            Tone::Told => EventType::Normal,
            Tone::Warned => EventType::Warning,
        };
        return Some(Note::new(event_type, verdict.reason.into(), &verdict.message));
    }
    let before = before?;
    if before == parent_reason::SUSPENDED {
        return Some(Note::new(EventType::Normal, event_reason::RESUMED.into(), "No longer suspended"));
    }
    (tone(before) == Tone::Warned).then(|| {
        let message = format!("Recovered from {before}: {}", verdict.message);
        Note::new(EventType::Normal, event_reason::RECOVERED.into(), &message)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    /// Part of the work: its steps are told as they are done.
    Quiet,
    /// For information.
    Told,
    /// Something that a person should look at.
    Warned,
}

/// How loud a verdict is, by its reason in the conditions.
fn tone(reason: &str) -> Tone {
    match reason {
        parent_reason::SUCCEEDED | parent_reason::CHILDREN_TERMINATING | parent_reason::ROLLING_UPDATE => Tone::Quiet,
        parent_reason::WAITING | parent_reason::SUSPENDED | parent_reason::FINALIZING => Tone::Told,
        _ => Tone::Warned,
    }
}

/// Whether a verdict is over within a second, as when a child changed while it was written.
fn passes(reason: &str, message: &str) -> bool {
    reason == parent_reason::API_ERROR && message.contains(TRYING_AGAIN)
}

/// `Pods from 2 to 5`, if that is what the changes are: of one kind there are more or fewer than before, some before
/// and some after, because the parent is of a new generation. A child that only comes back is none of it.
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

/// Children by kind, in install order: `ConfigMap web, Pods web-0, web-1 and 3 more`. Writes end in any order, and the
/// same must always read the same.
fn list(text: &mut String, children: &[ChildId], home: Option<&str>) {
    let mut children: Vec<_> = children.iter().collect();
    children.sort_unstable_by(|a, b| {
        let place = |child: &ChildId| install_rank(&child.kind);
        place(a).cmp(&place(b)).then_with(|| a.kind.cmp(&b.kind)).then_with(|| in_order(a, b))
    });
    for (at, group) in children.chunk_by(|a, b| a.kind == b.kind).enumerate() {
        let Some(first) = group.first() else { continue };
        let kind = if group.len() == 1 { Cow::Borrowed(&*first.kind.kind) } else { plural(&first.kind.kind) };
        let _ = write!(text, "{}{kind}", if at == 0 { "" } else { ", " });
        // Of a list that is too long by one, "and 1 more" would be no shorter.
        let shown = if group.len() <= SHOWN + 1 { group.len() } else { SHOWN };
        for (at, child) in group.iter().take(shown).enumerate() {
            let _ = write!(text, "{}", if at == 0 { " " } else { ", " });
            let _ = match &child.key.namespace {
                Some(namespace) if home != Some(&**namespace) => write!(text, "{namespace}/{}", child.key.name),
                _ => write!(text, "{}", child.key.name),
            };
        }
        if group.len() > shown {
            let _ = write!(text, " and {} more", group.len() - shown);
        }
    }
}

/// By namespace and name; of numbered ones `web-9` before `web-10`.
fn in_order(a: &ChildId, b: &ChildId) -> Ordering {
    let by_length = a.key.name.len().cmp(&b.key.name.len());
    a.key.namespace.cmp(&b.key.namespace).then(by_length).then_with(|| a.key.name.cmp(&b.key.name))
}

/// The plural of a kind, as English and Kubernetes make it.
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

/// One CamelCase word that Kubernetes takes.
fn is_reason(text: &str) -> bool {
    text.len() <= REASON_MAX
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// At most [`NOTE_MAX`] bytes of a message, whole characters only.
fn cut(message: &str) -> String {
    const MORE: &str = "…";
    if message.len() <= NOTE_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(NOTE_MAX - MORE.len());
    format!("{}{MORE}", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
