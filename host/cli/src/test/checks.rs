//! How each property is checked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::call::{CallResult, Input, Plugin, Seed, Stock};
use super::generate::ParentKind;
use super::journey::Journey;
use super::property::{Check, CheckResult, ROUNDS, Scenario};
use super::reply::{Child, Reply};
use super::world::{World, difference, first_difference, is_retained, strip, title};

/// Checks a property.
pub fn check(plugin: &impl Plugin, kind: &ParentKind, scenario: &Scenario) -> CheckResult {
    let Scenario { check, parent, edited, .. } = scenario;
    match (check, edited) {
        (Check::Repeatable, _) => repeatable(plugin, parent),
        (Check::OrderIrrelevant, _) => order_irrelevant(plugin, parent),
        (Check::MetadataIrrelevant, _) => metadata_irrelevant(plugin, parent),
        (Check::InvalidParents, _) => invalid_parents(plugin, parent),
        (Check::EditLikeNew, Some(edited)) => edit_like_new(plugin, parent, edited),
        (Check::OptionalFields, Some(whole)) => optional_fields(plugin, parent, whole),
        (Check::EditLikeNew | Check::OptionalFields, None) => CheckResult::NotApplicable,
        (
            Check::NoTrap
            | Check::ValidParents
            | Check::SomeAccepted
            | Check::ResponseAccepted
            | Check::ValidLabels
            | Check::Converges
            | Check::StatusStable
            | Check::StatusSchema
            | Check::Finalizes,
            _,
        ) => Journey::of(plugin, kind, parent).result_of(*check),
    }
}

/// Calls the plugin for one parent until nothing changes, with fixed random numbers; `None` if it does not converge.
fn settled(plugin: &impl Plugin, world: &mut World, stock: Stock) -> Option<Reply> {
    for _ in 0..ROUNDS {
        let CallResult::Response(reply) = plugin.call(Input::sync(world, stock, Seed::Fixed)) else { return None };
        let change = world.apply(&reply);
        if !world.play() && change.child.is_none() {
            return Some(*reply);
        }
    }
    None
}

fn repeatable(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    let mut world = World::new(parent.clone());
    let mut result = CheckResult::NotApplicable;
    for _ in 0..2 {
        let call = |world: &World| plugin.call(Input::sync(world, Stock::Plausible, Seed::OfRequest));
        let (first, again) = (call(&world), call(&world));
        if let Some(problem) = unequal(&first, &again) {
            return CheckResult::Failed(format!("two calls with the same request differ: {problem}"));
        }
        let CallResult::Response(reply) = first else { return result };
        if !reply.is_impure {
            let mut later = world.clone();
            later.now += 86_400;
            if let Some(problem) = unequal(&CallResult::Response(reply.clone()), &call(&later)) {
                return CheckResult::Failed(format!("a call a day later, which reads no clock, differs: {problem}"));
            }
        }
        result = CheckResult::Passed;
        world.apply(&reply);
    }
    result
}

fn unequal(one: &CallResult, other: &CallResult) -> Option<String> {
    match (one, other) {
        (CallResult::Response(one), CallResult::Response(other)) if one.raw != other.raw => {
            Some(unlike(one, other).unwrap_or_else(|| "the bytes of the response".to_owned()))
        }
        (CallResult::Response(_), CallResult::Response(_)) => None,
        (one, other) => (one != other).then(|| "one of them fails".to_owned()),
    }
}

/// Where two responses differ, apart from the order of the children.
fn unlike(one: &Reply, other: &Reply) -> Option<String> {
    let status = |reply: &Reply| json!({"status": reply.status, "requeue": reply.raw.requeue});
    children_unlike(one, other, |_| true)
        .or_else(|| first_difference(&status(one), &status(other)).map(|first| format!("{} differs", first.path)))
        .or_else(|| (one.finalized != other.finalized).then(|| "finalized differs".to_owned()))
}

fn children_unlike(one: &Reply, other: &Reply, counts: impl Fn(&Child) -> bool) -> Option<String> {
    let by_name = |reply: &Reply| -> BTreeMap<String, Value> {
        let stripped = reply.children.iter().filter(|child| counts(child)).map(|child| {
            let mut body = child.body.clone();
            strip(&mut body);
            (child.name(), body)
        });
        stripped.collect()
    };
    let (one, other) = (by_name(one), by_name(other));
    let lacks = |all: &BTreeMap<String, Value>, name: &String| !all.contains_key(name);
    if let Some(name) = one.keys().find(|name| lacks(&other, name)) {
        return Some(format!("{name} is only in the first response"));
    }
    if let Some(name) = other.keys().find(|name| lacks(&one, name)) {
        return Some(format!("{name} is only in the second response"));
    }
    one.iter().find_map(|(name, body)| {
        let second = other.get(name).filter(|second| *second != body)?;
        Some(format!("{name}: {}", difference(body, second)))
    })
}

fn order_irrelevant(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    let mut result = CheckResult::NotApplicable;
    for stock in [Stock::Empty, Stock::Plausible] {
        let mut world = World::new(parent.clone());
        let Some(reply) = settled(plugin, &mut world, stock) else { return result };
        if world.live.len() < 2 && !reply.has_related {
            return result;
        }
        let call = |is_reversed| plugin.call(Input { is_reversed, ..Input::sync(&world, stock, Seed::Fixed) });
        let problem = match (call(false), call(true)) {
            (CallResult::Response(one), CallResult::Response(other)) => unlike(&one, &other),
            (one, other) => (one != other).then(|| "the plugin fails in one of the two calls".to_owned()),
        };
        if let Some(problem) = problem {
            return CheckResult::Failed(format!("with the objects in reverse order, {problem}"));
        }
        result = CheckResult::Passed;
        if !reply.has_related {
            break;
        }
    }
    result
}

fn metadata_irrelevant(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    let mut world = World::new(parent.clone());
    if settled(plugin, &mut world, Stock::Empty).is_none() {
        return CheckResult::NotApplicable;
    }
    let mut touched = world.clone();
    touched.touch();
    let call = |world: &World| plugin.call(Input::sync(world, Stock::Empty, Seed::Fixed));
    let problem = match (call(&world), call(&touched)) {
        (CallResult::Response(one), CallResult::Response(other)) => unlike(&one, &other),
        (one, other) => (one != other).then(|| "one of the calls fails".to_owned()),
    };
    problem.map_or(CheckResult::Passed, |problem| {
        CheckResult::Failed(format!("with other resource versions of the same objects, {problem}"))
    })
}

fn edit_like_new(plugin: &impl Plugin, parent: &Value, edited: &Value) -> CheckResult {
    let mut world = World::new(parent.clone());
    if settled(plugin, &mut world, Stock::Empty).is_none() {
        return CheckResult::NotApplicable;
    }
    let mut kept = generated(plugin, parent);
    kept.extend(world.live.iter().filter(|live| is_retained(live)).map(title));
    world.edit(edited);
    let mut fresh = World::new(parent.clone());
    fresh.edit(edited);
    let (Some(after_edit), Some(new)) =
        (settled(plugin, &mut world, Stock::Empty), settled(plugin, &mut fresh, Stock::Empty))
    else {
        return CheckResult::NotApplicable;
    };
    // A child with data stays on purpose, as the claims of a StatefulSet and generated passwords do.
    let counts = |child: &Child| {
        !child.is_retained
            && !kept.contains(&title(&child.body))
            && child.body.get("kind") != Some(&json!("PersistentVolumeClaim"))
    };
    match children_unlike(&after_edit, &new, counts) {
        Some(problem) => CheckResult::Failed(format!(
            "the first response is that after the edit, the second that for a new parent of the same spec: {problem}"
        )),
        None => CheckResult::Passed,
    }
}

/// The children of a new parent that depend on random numbers.
fn generated(plugin: &impl Plugin, parent: &Value) -> Vec<String> {
    let world = World::new(parent.clone());
    let bodies = |seed| -> Vec<Value> {
        match plugin.call(Input::sync(&world, Stock::Empty, seed)) {
            CallResult::Response(reply) => reply.children.into_iter().map(|child| child.body).collect(),
            _ => Vec::new(),
        }
    };
    let others = bodies(Seed::OtherFixed);
    bodies(Seed::Fixed).iter().filter(|body| !others.contains(body)).map(title).collect()
}

/// What the first call for a new parent gives.
fn first_call(plugin: &impl Plugin, parent: &Value) -> CallResult {
    plugin.call(Input::sync(&World::new(parent.clone()), Stock::Empty, Seed::OfRequest))
}

/// A message if the plugin traps or fails for a new parent.
pub fn breaks(plugin: &impl Plugin, parent: &Value) -> Option<String> {
    match first_call(plugin, parent) {
        CallResult::Trap(message) | CallResult::Failed { message, has_related: false } => Some(message),
        CallResult::Response(_)
        | CallResult::Invalid(_)
        | CallResult::Retry(_)
        | CallResult::Failed { has_related: true, .. }
        | CallResult::Rejected(_) => None,
    }
}

fn optional_fields(plugin: &impl Plugin, parent: &Value, whole: &Value) -> CheckResult {
    match (breaks(plugin, parent), breaks(plugin, whole)) {
        (Some(message), None) => {
            let field = first_difference(whole, parent).map(|first| first.path).unwrap_or_default();
            CheckResult::Failed(format!("without the optional field {field}, the call fails: {message}"))
        }
        (None, None) => CheckResult::Passed,
        (_, Some(_)) => CheckResult::NotApplicable,
    }
}

fn invalid_parents(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    match first_call(plugin, parent) {
        CallResult::Response(_) | CallResult::Invalid(_) | CallResult::Retry(_) => CheckResult::Passed,
        CallResult::Trap(message) => CheckResult::Failed(message),
        CallResult::Rejected(message) => CheckResult::Failed(format!("the host rejects the response: {message}")),
        CallResult::Failed { message, .. } => {
            CheckResult::Failed(format!("the plugin returns `failed` instead of `invalid`: {message}"))
        }
    }
}
