//! Which desired children are not ready (rule R22).

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::events::Changes;
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::once::{Noted, Once};
use crate::object::readiness::Readiness;

/// A child that is not ready.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{child} {}: {why}", if *is_failed { "has failed" } else { "is not ready" })]
pub struct NotReady {
    /// The child.
    pub child: ChildId,
    /// Why.
    pub why: Cow<'static, str>,
    /// Whether it will not become ready by itself.
    pub is_failed: bool,
}

impl NotReady {
    /// A child on which the host is still working.
    pub fn because(child: &DesiredChild, why: &'static str) -> Self {
        Self { child: child.id(), why: why.into(), is_failed: false }
    }

    /// A child whose readiness is this, unless the plugin says whether it is ready; none if it is ready.
    fn unless_ready(child: &DesiredChild, readiness: impl FnOnce() -> Readiness) -> Option<Self> {
        let (why, is_failed) = match child.ready {
            Some(true) => return None,
            Some(false) => ("the plugin says that it is not".into(), false),
            None => match readiness() {
                Readiness::Ready => return None,
                Readiness::Progressing(why) => (why, false),
                Readiness::Failed(why) => (why, true),
                Readiness::Unknown => (
                    "its kind and its conditions do not say whether it is; the plugin must set `ready` of this child"
                        .into(),
                    false,
                ),
            },
        };
        Some(Self { child: child.id(), why, is_failed })
    }

    /// An existing child as [`NotReady::of`] has it, whether it is being deleted or not: a Job that has done its work is deleted by its time to
    /// live.
    pub fn or_leaving(live: &Object, child: &DesiredChild) -> Option<Self> {
        Self::unless_ready(child, || Readiness::of_json(&live.kind, false, || live.json.bytes()))
    }

    /// A child that was created once, and is gone; none if it was ready, or if the plugin says that it is.
    pub fn gone(child: &DesiredChild, noted: Noted) -> Option<Self> {
        if noted == Noted::Ready {
            return Self::unless_ready(child, || Readiness::Ready);
        }
        let why = format!(
            "it is created once, is gone, and was not seen to be ready, so it may have failed, or have been deleted before it was. To \
             create it again, remove the annotation {} from the parent",
            child.once.as_ref().map(Once::annotation).unwrap_or_default()
        );
        (child.ready != Some(true)).then(|| Self { child: child.id(), why: why.into(), is_failed: true })
    }

    /// The desired children that are created once, are gone, and were not seen to be ready.
    pub fn lost(snapshot: &Snapshot, desired: &Desired, changes: &Changes) -> Vec<Self> {
        let of = |child: &Arc<DesiredChild>| {
            let noted = child.once.as_ref()?.noted(&snapshot.parent).filter(|noted| *noted == Noted::Begun)?;
            let is_it = |live: &Arc<Object>| live.key == child.key && live.kind.group_kind() == child.kind.group_kind();
            let is_there = snapshot.children.iter().chain(&snapshot.left_out).any(is_it);
            let is_created = || changes.created.contains(&child.id());
            if is_there || is_created() { None } else { Self::gone(child, noted) }
        };
        desired.children.iter().filter_map(of).collect()
    }

    /// An existing child that has its desired state; none if it is ready.
    pub fn of(live: &Object, child: &DesiredChild) -> Option<Self> {
        Self::unless_ready(child, || Readiness::of(live))
    }

    /// The desired children that are not ready after these changes, failed ones first. `snapshot`: the children before the changes.
    pub fn among(snapshot: &Snapshot, desired: &Desired, changes: &Changes) -> Vec<Self> {
        let written: HashSet<_> = changes.kinds().into_iter().flat_map(|(_, _, children)| children).collect();
        let live: HashMap<_, _> =
            snapshot.children.iter().map(|live| ((live.kind.group_kind(), &live.key), live)).collect();
        let of = |child: &DesiredChild| {
            let is_written = written.contains(&child.id());
            let live = live.get(&(child.kind.group_kind(), &child.key)).filter(|_| !is_written);
            let gone = || child.once.as_ref().filter(|_| !is_written)?.noted(&snapshot.parent);
            if let Some(noted) = live.is_none().then(gone).flatten() {
                return Self::gone(child, noted);
            }
            Self::unless_ready(child, || {
                live.map_or_else(|| Readiness::after_a_write(&child.kind), |live| Readiness::of(live))
            })
        };
        let mut all: Vec<_> = desired.children.iter().filter_map(|child| of(child)).collect();
        all.sort_by_key(|one| !one.is_failed);
        all
    }
}
