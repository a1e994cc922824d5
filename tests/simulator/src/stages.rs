//! What stages must do (rule R23), in the steady state: a child is created and changed once those of lower stages are ready, and the
//! children of a deleted parent go from the highest stage down, each stage gone before the next.

use serde_json::json;
use windlass_api_model::{ApiServer, Change, Id};

use crate::expected::is_ready;
use crate::history::{Act, Child, Kind, STAGED};
use crate::objects::{child_name, script_of};
use crate::requests::{applied, deleted_at};
use crate::setup::{DOLLS, NAMESPACE};

/// The Plugin of the parent.
pub const PLUGIN: &str = "puppet-staged";

/// The children with their stages; Dolls are ready a while after each change.
const CHILDREN: [(u32, Kind); 4] = [(0, Kind::Doll), (1, Kind::ConfigMap), (1, Kind::Doll), (2, Kind::Secret)];

/// A user applies the parent, whose children have this value.
pub fn apply(value: u8) -> Act {
    let scripts = children(value).map(|(stage, child)| {
        let mut script = script_of(child);
        script["options"] = json!({ "stage": stage });
        script
    });
    // In no order of stages.
    let scripts: Vec<_> = scripts.rev().collect();
    Act::ApplySpec { parent: STAGED, spec: json!({ "children": scripts }) }
}

/// A user deletes the parent.
pub fn delete() -> Act {
    Act::Delete { parent: STAGED, policy: String::new() }
}

/// What is wrong with the order in which children were created or changed since this place of the log.
pub fn problems_going_up(server: &ApiServer, begin: usize) -> Vec<String> {
    let place = |id: &Id, is_it: &dyn Fn(&Change) -> bool| {
        server.changes().get(begin..)?.iter().position(|change| change.id == *id && is_it(change))
    };
    let written =
        |id: &Id| place(id, &|change| change.after.as_deref().map(applied) != change.before.as_deref().map(applied));
    let ready = |id: &Id| match &*id.resource {
        DOLLS => {
            let from = written(id)?;
            let changes = server.changes().get(begin + from..)?;
            let is_it = |change: &Change| change.id == *id && change.after.as_deref().is_some_and(is_ready);
            Some(from + changes.iter().position(is_it)?)
        }
        _ => written(id),
    };
    out_of_order(|lower, higher| match (ready(lower), written(higher)) {
        (Some(ready), Some(written)) => ready < written,
        _ => false,
    })
}

/// What is wrong with the order in which children went since this place of the log.
pub fn problems_going_down(server: &ApiServer, begin: usize) -> Vec<String> {
    let place = |id: &Id, is_it: fn(&Change) -> bool| {
        server.changes().get(begin..)?.iter().position(|change| change.id == *id && is_it(change))
    };
    let gone = |id: &Id| place(id, |change| change.after.is_none());
    let going = |id: &Id| place(id, |change| change.after.as_deref().is_none_or(|after| deleted_at(after).is_some()));
    out_of_order(|lower, higher| match (going(lower), gone(higher)) {
        (Some(going), Some(gone)) => gone < going,
        _ => false,
    })
}

/// The pairs of a child and one of a higher stage that are not in order.
fn out_of_order(is_in_order: impl Fn(&Id, &Id) -> bool) -> Vec<String> {
    let children: Vec<_> = children(0).map(|(stage, child)| (stage, id_of(child))).collect();
    let pairs = children.iter().flat_map(|lower| children.iter().map(move |higher| (lower, higher)));
    let wrong = pairs.filter(|((low, lower), (high, higher))| low < high && !is_in_order(lower, higher));
    wrong.map(|((_, lower), (_, higher))| format!("stages: {lower} and {higher} are not in order")).collect()
}

fn children(value: u8) -> impl DoubleEndedIterator<Item = (u32, Child)> {
    (60..)
        .zip(CHILDREN)
        .map(move |(name, (stage, kind))| (stage, Child { kind, name, value }))
        .collect::<Vec<_>>()
        .into_iter()
}

fn id_of(child: Child) -> Id {
    let resource = match child.kind {
        Kind::Doll => DOLLS,
        Kind::Secret => "secrets",
        _ => "configmaps",
    };
    Id::new(resource, NAMESPACE, &child_name(STAGED, child))
}
