//! Compares a live child with the desired one.

use std::borrow::Cow;

use crate::contract::desired::{APPLIED_VERSION, DesiredChild};
use crate::object::Object;
use crate::object::names;
use crate::object::once::Once;
use crate::value::digest::Digest;
use crate::value::json::{Map, Value};

/// Returns true if the desired state is the state that was applied last, and no other manager has changed the host's
/// fields since (rule R7).
pub(super) fn is_settled(live: &Object, child: &DesiredChild) -> bool {
    let applied = live.marks.get(names::ANNOTATION_APPLIED);
    let as_applied = match applied {
        Some(mark) if mark.starts_with(APPLIED_VERSION) => mark == child.applied,
        // The mark is of a version of Windlass with another hash; upgrading to this version must write nothing.
        Some(_) => holds(live, &child.body),
        None => false,
    };
    as_applied && has_stage(live, child) && live.managed.cover(&child.body, &live.json, live.controller.as_ref())
}

/// Whether a live child has its stage. A stage that another manager has written on a child of stage 0 is none of the host's.
pub(super) fn has_stage(live: &Object, child: &DesiredChild) -> bool {
    if live.stage() == child.stage {
        return true;
    }
    let annotations = Map::from([(names::ANNOTATION_STAGE, Value::from(live.stage().to_string().as_str()))]);
    let stage = Map::from([("metadata", Value::from(Map::from([("annotations", annotations.into())])))]);
    child.stage == 0 && !live.managed.cover(&stage, &live.json, live.controller.as_ref())
}

/// Whether a live child was created once for another text than the desired one, for which none was created yet (rule R25). One without a
/// text was created before the plugin said that it is created once.
pub(super) fn is_of_other_text(live: &Object, child: &DesiredChild, parent: &Object) -> bool {
    let of = live.marks.get(names::ANNOTATION_ONCE);
    let is_other = |once: &&Once| of.is_some_and(|of| of != once.mark());
    child.once.as_ref().filter(is_other).is_some_and(|once| once.noted(parent).is_none())
}

/// Returns true if a live object has every field of a body, except for the annotation with the applied hash.
fn holds(live: &Object, body: &Map) -> bool {
    live.values().is_some_and(|live| Value::Object(live).holds(&Value::Object(without_applied_hash(body))))
}

fn without_applied_hash(body: &Map) -> Map {
    let mut body = body.clone();
    if let Some(annotations) = body.object_mut("metadata").and_then(|meta| meta.object_mut("annotations")) {
        annotations.remove(names::ANNOTATION_APPLIED);
    }
    body
}

/// Returns a hash of the live values if they differ from the desired values, regardless of what the managed fields
/// record. The status is excluded, because it belongs to the child's own controller.
pub fn differing(live: &Object, child: &DesiredChild) -> Option<Digest> {
    let mut values = live.values()?;
    // The hash of another version of Windlass is no reason to write.
    let is_of_this_version = live.marks.get(names::ANNOTATION_APPLIED) == Some(child.applied.as_str());
    let body =
        if is_of_this_version { Cow::Borrowed(&child.body) } else { Cow::Owned(without_applied_hash(&child.body)) };
    if !live.managed.differs(&body, &values, live.controller.as_ref()) {
        return None;
    }
    values.remove("status");
    if let Some(meta) = values.object_mut("metadata") {
        meta.remove("resourceVersion");
        meta.remove("generation");
    }
    Some(Digest::of(Value::Object(values).to_string().as_bytes()))
}

/// Whether the metadata of a live object differs from the desired one.
pub fn differs_in_metadata(live: &Object, child: &DesiredChild) -> bool {
    let Some(values) = live.values() else { return true };
    let meta = child.body.get("metadata").cloned().unwrap_or(Value::Null);
    live.managed.differs(&Map::from([("metadata", meta)]), &values, live.controller.as_ref())
}

/// Returns true if the desired state is the state that was applied last, so that the difference is another manager's
/// edit. A child without the mark of the last apply counts as edited too: another writer removed the mark, or the child
/// was adopted and not applied yet. Neither is a reason to delete it; nor is the other hash of an earlier version of Windlass.
pub(super) fn is_drift(live: &Object, child: &DesiredChild) -> bool {
    let is_same = |applied| applied == child.applied || Some(applied) == child.applied_as_string_data.as_deref();
    live.marks.get(names::ANNOTATION_APPLIED).is_none_or(is_same)
}
