//! The notes on a parent about children that are created once (rule R25): annotations, because they outlive the child, the host and a change
//! of the leader.

use hashbrown::HashSet;
use jiff::Timestamp;

use super::Object;
use super::child::ChildId;
use super::names::{ANNOTATION_ONCE_PREFIX, ANNOTATION_PREFIX};
use crate::value::digest::Digest;
use crate::value::ids::{Gvk, ObjectKey, PluginName};

/// Largest number of notes on a parent about children that its plugin does not return any more. The oldest go first.
const OF_OTHERS: usize = 50;

/// [`ANNOTATION_ONCE_PREFIX`] without the prefix of all annotations.
const NOTE: &str = ANNOTATION_ONCE_PREFIX.split_at(ANNOTATION_PREFIX.len()).1;

/// What a parent says of a child that is created once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Noted {
    /// It was about to be created, so it may have existed.
    Begun,
    /// It was there and ready.
    Ready,
}

/// The identity of one creation: by this plugin, of this child, for this text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Once(Box<str>);

impl Once {
    /// The creation of a child for a text of a plugin.
    pub fn of(plugin: &PluginName, (kind, key): (&Gvk, &ObjectKey), text: &str) -> Self {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let parts = [plugin.as_str(), &kind.group, &kind.kind, namespace, &key.name, text];
        Self(Digest::of(parts.join("\0").as_bytes()).short().into())
    }

    /// The value of the annotation [`super::names::ANNOTATION_ONCE`] of the child.
    pub fn mark(&self) -> &str {
        &self.0
    }

    /// The name of the annotation on the parent.
    pub fn annotation(&self) -> String {
        format!("{ANNOTATION_ONCE_PREFIX}{}", self.0)
    }

    /// What the parent says of it; none if it was never begun.
    pub fn noted(&self, parent: &Object) -> Option<Noted> {
        // A value that a user has changed says no more than that it was begun.
        let parse = |value: &str| value.split(' ').next().unwrap_or_default().parse().unwrap_or(Noted::Begun);
        parent.marks.get(&self.annotation()).map(parse)
    }
}

/// The value of a note, for people to read: what, when, by which plugin, of which child.
pub fn note(noted: Noted, plugin: &PluginName, child: &ChildId, now: Timestamp) -> String {
    let ChildId { kind, key } = child;
    format!("{noted} {now:.0} {plugin} {} {key}", kind.kind)
}

/// Whether what the host interprets of two versions of a parent is the same, but for notes.
pub fn are_alike_but_for_notes(one: &Object, other: &Object) -> bool {
    let [this, that] = [one, other].map(|object| object.marks.iter().filter(|(name, _)| !name.starts_with(NOTE)));
    this.eq(that)
}

/// The oldest annotations of a parent about creations by this plugin other than `returned`, if it has too many.
pub fn surplus<'a>(parent: &Object, plugin: &PluginName, returned: impl Iterator<Item = &'a Once>) -> Vec<String> {
    let noted = parent.marks.iter().filter_map(|(name, value)| Some((name.strip_prefix(NOTE)?, value)));
    let returned: HashSet<_> = returned.map(Once::mark).collect();
    let others = noted.filter(|(mark, _)| !returned.contains(mark)).filter_map(|(mark, value)| {
        let mut words = value.split(' ').skip(1);
        let time = words.next()?;
        (words.next() == Some(plugin.as_str())).then_some((time, mark))
    });
    let mut others: Vec<_> = others.collect();
    others.sort_unstable();
    others.truncate(others.len().saturating_sub(OF_OTHERS));
    others.into_iter().map(|(_, mark)| format!("{ANNOTATION_ONCE_PREFIX}{mark}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;

    fn job(api_version: &str, name: &str) -> ChildId {
        ChildId { kind: Arc::new(Gvk::from_api_version(api_version, "Job")), key: ObjectKey::new(Some("shop"), name) }
    }

    fn plugin(name: &str) -> PluginName {
        name.parse().expect("a name")
    }

    fn of(child: &ChildId, text: &str) -> Once {
        Once::of(&plugin("echo"), (&child.kind, &child.key), text)
    }

    fn parent(annotations: &Value) -> Arc<Object> {
        let meta =
            json!({"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "1", "annotations": annotations});
        object(&json!({"apiVersion": "my-operator.dev/v1", "kind": "Echo", "metadata": meta}))
    }

    #[test]
    fn r25_creation_is_identified_by_the_child_and_the_text_and_not_by_the_version_of_its_kind() {
        let once = |api_version, name, text| of(&job(api_version, name), text);
        let first = once("batch/v1", "migrate", "1");
        assert_eq!(first, once("batch/v2", "migrate", "1"));
        for other in [once("batch/v1", "migrate", "2"), once("batch/v1", "other", "1"), once("v1", "migrate", "1")] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn r25_note_on_a_parent_is_read_back() {
        let (child, now) = (job("batch/v1", "migrate"), Timestamp::UNIX_EPOCH);
        let once = of(&child, "1");
        assert_eq!(once.noted(&parent(&json!({}))), None);
        for noted in [Noted::Begun, Noted::Ready] {
            let value = note(noted, &plugin("echo"), &child, now);
            assert_eq!(once.noted(&parent(&json!({once.annotation(): value}))), Some(noted), "{value}");
        }
        let readable = note(Noted::Ready, &plugin("echo"), &child, now);
        assert_eq!(readable, "ready 1970-01-01T00:00:00Z echo Job shop/migrate");
        assert_ne!(Once::of(&plugin("other"), (&child.kind, &child.key), "1"), once, "another plugin of the kind");
        assert_eq!(once.noted(&parent(&json!({once.annotation(): "?"}))), Some(Noted::Begun), "doubt creates nothing");
    }

    #[test]
    fn r25_oldest_notes_about_children_that_are_not_returned_any_more_go() {
        let now = |second| Timestamp::from_second(second).expect("a time");
        let all = (0..60).map(|at| {
            let child = job("batch/v1", &format!("backup-{at}"));
            (of(&child, "1"), note(Noted::Ready, &plugin("echo"), &child, now(at)))
        });
        let all: Vec<_> = all.collect();
        let annotations = all.iter().map(|(once, value)| (once.annotation(), json!(value)));
        let parent = parent(&annotations.collect::<serde_json::Map<_, _>>().into());
        let surplus_of = |name| surplus(&parent, &plugin(name), [&all[0].0, &all[59].0].into_iter());
        let surplus = surplus_of("echo");
        assert_eq!(surplus_of("other"), [""; 0], "those of another plugin stay");
        assert_eq!(surplus, all[1..9].iter().map(|(once, _)| once.annotation()).collect::<Vec<_>>());
    }
}
