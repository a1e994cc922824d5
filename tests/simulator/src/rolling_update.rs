//! What a rolling update must do (rule R11), in the steady state: changes come one after the other, in the order of the response. A child
//! that is no longer desired goes at once if its kind rolls, because that is a scale-down; others stay until the last change has begun.

use windlass_api_model::{ApiServer, Change, Id};

use crate::expected::{condition, text};
use crate::history::{Act, Child, Kind, ROLLING};
use crate::objects::child_name;
use crate::requests::{applied, deleted_at};
use crate::setup::{DOLLS, MASKS, NAMESPACE, OPERATORS};

/// The number in the name of the first child: no child had it before.
const FIRST: u8 = 40;
/// A child that all others may use.
const USED: Child = Child { kind: Kind::ConfigMap, name: 50, value: 0 };

/// A change of a parent whose children change one after the other.
pub struct RollingUpdate {
    /// The kind of the children that change.
    kind: Kind,
    /// How many change.
    count: u8,
}

impl RollingUpdate {
    /// The rolling update of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        Self { kind: if rng.bool() { Kind::Doll } else { Kind::Mask }, count: rng.u8(2..5) }
    }

    /// What a user does first: the parent gets children of the first version, one more than later.
    pub fn begin(&self) -> Act {
        apply(self.children(self.count + 1, 0).chain([USED]))
    }

    /// The change.
    pub fn change(&self) -> Act {
        apply(self.children(self.count, 1))
    }

    /// What the parent does not say while its last child waits for the others. `begin` is the place of the log at the change.
    pub fn untold(&self, server: &ApiServer, begin: usize) -> Option<String> {
        let last = self.id(self.count - 1);
        if Self::begun(server, begin, &last).is_some() {
            return None;
        }
        let name = format!("p{ROLLING}");
        let ready = condition(server.object(&Id::new(OPERATORS[2].parents, NAMESPACE, &name))?, "Ready")?;
        let (reason, message) = (text(ready, "/reason"), text(ready, "/message"));
        // A Mask that is being recreated is what its parent waits for.
        let is_told = match self.kind {
            Kind::Mask if reason == "ChildrenTerminating" => true,
            _ => reason == "RollingUpdate" && message.contains(&last.name),
        };
        (!is_told).then(|| format!("{name} says while {last} waits: {reason}: {message}"))
    }

    /// What is wrong with the changes of the cluster since this place of the log.
    pub fn problems(&self, server: &ApiServer, begin: usize) -> Vec<String> {
        let place = |id: &Id| Self::begun(server, begin, id);
        let changed: Vec<_> = (0..self.count).map(|number| place(&self.id(number))).collect();
        let (less, used) = (place(&self.id(self.count)), place(&id_of(USED)));
        let second = changed.get(1).copied().flatten();
        let last = changed.last().copied().flatten();
        [
            (changed.iter().any(Option::is_none), "not all children have changed"),
            (!changed.is_sorted(), "the children did not change in the order of the response"),
            (less.is_none() || less > second, "the child that is no longer desired did not go at once"),
            (used.is_none() || used < last, "the ConfigMap did not go after the last change"),
        ]
        .into_iter()
        .filter(|(is_wrong, _)| *is_wrong)
        .map(|(_, problem)| format!("rolling update of {} {:?}s: {problem}", self.count, self.kind))
        .collect()
    }

    /// The place of the first change of a child since this place of the log.
    fn begun(server: &ApiServer, begin: usize, id: &Id) -> Option<usize> {
        let changes = server.changes().get(begin..)?;
        changes.iter().position(|change| change.id == *id && is_begun(change))
    }

    fn children(&self, count: u8, value: u8) -> impl Iterator<Item = Child> {
        (FIRST..FIRST + count).map(move |name| Child { kind: self.kind, name, value })
    }

    fn id(&self, number: u8) -> Id {
        id_of(Child { kind: self.kind, name: FIRST + number, value: 0 })
    }
}

fn apply(children: impl Iterator<Item = Child>) -> Act {
    Act::Apply { parent: ROLLING, children: children.collect(), fail: None, reads: false }
}

fn id_of(child: Child) -> Id {
    let resource = match child.kind {
        Kind::Doll => DOLLS,
        Kind::Mask => MASKS,
        _ => "configmaps",
    };
    Id::new(resource, NAMESPACE, &child_name(ROLLING, child))
}

/// Whether a child is changed or deleted by this: its desired state is another one, or it is on its way out.
fn is_begun(change: &Change) -> bool {
    let Some(before) = change.before.as_deref() else { return false };
    let after = change.after.as_deref();
    after.is_none_or(|after| applied(after) != applied(before) || deleted_at(after).is_some())
}
