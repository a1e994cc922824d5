//! Histories from seeds.

use std::fmt;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::permissions::{ADMIN, users};

#[derive(Clone, Debug)]
pub struct Step {
    pub verb: Verb,
    pub kind: Kind,
    /// The object's short name.
    pub name: &'static str,
    pub manager: &'static str,
    /// The user who sends the request.
    pub user: &'static str,
    pub is_status: bool,
    pub is_dry_run: bool,
    /// What is sent, without type and name.
    pub body: Value,
    /// The resource version that the request expects.
    pub version: Expect,
    /// The uid that the request expects.
    pub uid: Expect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Post,
    /// With `generateName`.
    PostGenerated,
    /// Into a namespace that does not exist.
    PostElsewhere,
    Get,
    /// By a label selector.
    List(&'static str),
    /// Of the body alone.
    Put,
    /// Of the object as it is, with the body merged into it.
    PutChanged,
    MergePatch,
    JsonPatch(Patch),
    Apply,
    ForceApply,
    /// With a propagation policy, if it has one.
    Delete(&'static str),
}

/// What a JSON patch does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Patch {
    AddLabels,
    AddLabel,
    FailingTest,
    TestVersion,
    ReplaceVersion,
    RemoveFinalizers,
    Nothing,
    Unusable,
}

/// What a request says about a resource version or a uid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    Nothing,
    Right,
    Wrong,
}

/// Steps, as people read them.
pub struct History<'a>(pub &'a [Step]);

impl fmt::Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { verb, kind, name, manager, user, is_status, is_dry_run, body, version, uid } in self.0 {
            let status = if *is_status { " status" } else { "" };
            let dry = if *is_dry_run { ", dry run" } else { "" };
            let manager = if *user == ADMIN { (*manager).to_owned() } else { format!("{manager} as {user}") };
            writeln!(f, "  {manager}: {verb:?} {kind:?} {name}{status} {body}, version {version:?}, uid {uid:?}{dry}")?;
        }
        Ok(())
    }
}

const SELECTORS: [&str; 9] =
    ["a=1", "a", "!a", "a in (1,2)", "a!=1", "a notin (1,3)", "a==2,b", "a=1,!b", "kubernetes.io/metadata.name"];

/// The history of a seed: of one kind, or of all.
pub fn steps(seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let kind = [Kind::ConfigMap, Kind::Secret, Kind::Part, Kind::Part, Kind::Namespace][rng.usize(..5)];
    let is_mixed = rng.u8(..4) == 0;
    let mut steps: Vec<Step> = Vec::new();
    for index in 0..rng.usize(4..24) {
        let next = match steps.last() {
            // A write again, which changes nothing.
            Some(last) if rng.u8(..8) == 0 => last.clone(),
            _ if is_mixed => {
                let kind = [Kind::ConfigMap, Kind::Secret, Kind::Part, Kind::Namespace, Kind::Home][rng.usize(..5)];
                step(&mut rng, kind, index == 0)
            }
            _ if rng.u8(..40) == 0 => step(&mut rng, Kind::Home, false),
            _ => step(&mut rng, kind, index == 0),
        };
        steps.push(next);
    }
    steps
}

fn step(rng: &mut Rng, kind: Kind, is_first: bool) -> Step {
    let verb = if is_first { [Verb::Post, Verb::Apply][rng.usize(..2)] } else { verb(rng) };
    let is_status = match kind {
        Kind::Part => !is_first && is_of_object(verb) && rng.u8(..4) == 0,
        _ => !is_first && is_of_object(verb) && kind.is_namespaced() && rng.u8(..60) == 0,
    };
    let is_whole = matches!(verb, Verb::Post | Verb::PostGenerated | Verb::PostElsewhere | Verb::Put)
        || matches!(verb, Verb::Apply | Verb::ForceApply);
    let mut body = object(rng, kind, is_status);
    if !is_whole && rng.u8(..6) == 0 {
        body = json!({});
    } else if verb == Verb::MergePatch && rng.u8(..3) == 0 {
        body = json!({"metadata": {"finalizers": finalizers(rng).unwrap_or(Value::Null)}});
    }
    if kind == Kind::Secret && is_whole {
        body["type"] = "Opaque".into();
    }
    let is_apply = matches!(verb, Verb::Apply | Verb::ForceApply);
    if kind == Kind::Secret && !is_apply && rng.u8(..6) == 0 {
        body["stringData"] = map(rng, &["x", "z"], &["1", ""]).unwrap_or_else(|| json!({"x": "2"}));
    }
    if matches!(kind, Kind::ConfigMap | Kind::Secret) && rng.u8(..12) == 0 {
        body["immutable"] = (rng.u8(..4) != 0).into();
    }
    if rng.u8(..60) == 0 {
        body["metadata"]["labels"]["a"] = "not valid".into();
    }
    let (version, uid) = (expect(rng, verb, true), expect(rng, verb, false));
    let name = if rng.u8(..60) == 0 { "Not-valid" } else { ["a", "a", "a", "b"][rng.usize(..4)] };
    Step {
        verb,
        kind,
        name: if kind == Kind::Home { "" } else { name },
        manager: ["alice", "alice", "bob", "carol"][rng.usize(..4)],
        user: if !is_first && rng.u8(..10) == 0 { users()[rng.usize(..5)] } else { ADMIN },
        is_status,
        is_dry_run: rng.u8(..10) == 0,
        body,
        version,
        uid,
    }
}

fn verb(rng: &mut Rng) -> Verb {
    match rng.u8(..40) {
        0..=4 => Verb::Post,
        5 => Verb::PostGenerated,
        6 => Verb::PostElsewhere,
        7 => Verb::Get,
        8 => Verb::List(SELECTORS[rng.usize(..SELECTORS.len())]),
        9..=10 => Verb::Put,
        11..=13 => Verb::PutChanged,
        14..=19 => Verb::MergePatch,
        20..=23 => Verb::JsonPatch(
            [
                Patch::AddLabels,
                Patch::AddLabel,
                Patch::FailingTest,
                Patch::TestVersion,
                Patch::ReplaceVersion,
                Patch::RemoveFinalizers,
                Patch::Nothing,
                Patch::Unusable,
            ][rng.usize(..8)],
        ),
        24..=30 => Verb::Apply,
        31..=33 => Verb::ForceApply,
        _ => Verb::Delete(["", "", "Orphan", "Foreground", "Background"][rng.usize(..5)]),
    }
}

fn is_of_object(verb: Verb) -> bool {
    use Verb::{Apply, ForceApply, Get, JsonPatch, MergePatch, Put, PutChanged};
    matches!(verb, Get | Put | PutChanged | MergePatch | JsonPatch(_) | Apply | ForceApply)
}

fn expect(rng: &mut Rng, verb: Verb, is_version: bool) -> Expect {
    match verb {
        Verb::Put | Verb::PutChanged if is_version => match rng.u8(..6) {
            0 => Expect::Nothing,
            1 => Expect::Wrong,
            _ => Expect::Right,
        },
        Verb::JsonPatch(_) => [Expect::Right, Expect::Wrong][rng.usize(..2)],
        _ => match rng.u8(..20) {
            0 => Expect::Wrong,
            1..=2 => Expect::Right,
            _ => Expect::Nothing,
        },
    }
}

fn map(rng: &mut Rng, names: &[&str], values: &[&str]) -> Option<Value> {
    let mut map = Map::new();
    for name in names {
        if rng.bool() {
            map.insert((*name).to_owned(), values[rng.usize(..values.len())].into());
        }
    }
    // The API server drops an empty map at another moment for a custom kind than for a built-in one.
    (!map.is_empty()).then_some(Value::Object(map))
}

fn finalizers(rng: &mut Rng) -> Option<Value> {
    let all = ["example.com/x", "example.com/y"];
    let some: Vec<_> = all.into_iter().filter(|_| rng.u8(..3) == 0).collect();
    (!some.is_empty()).then(|| json!(some))
}

fn object(rng: &mut Rng, kind: Kind, is_status: bool) -> Value {
    let mut object = json!({});
    if rng.u8(..3) != 0
        && let Some(labels) = map(rng, &["a", "b"], &["1", "2"])
    {
        object["metadata"]["labels"] = labels;
    }
    if rng.u8(..3) == 0
        && let Some(annotations) = map(rng, &["example.com/a", "c"], &["1", "2"])
    {
        object["metadata"]["annotations"] = annotations;
    }
    if rng.u8(..3) == 0
        && let Some(finalizers) = finalizers(rng)
    {
        object["metadata"]["finalizers"] = finalizers;
    }
    match kind {
        Kind::ConfigMap => set(&mut object, "data", map(rng, &["x", "y"], &["1", "2"])),
        Kind::Secret => set(&mut object, "data", map(rng, &["x", "y"], &["MQ==", "Mg=="])),
        Kind::Part => {
            if !is_status || rng.u8(..8) == 0 {
                let mut spec = map(rng, &["color"], &["red", "blue"]).unwrap_or_else(|| json!({}));
                spec["size"] = rng.u8(1..4).into();
                set(&mut object, "spec", Some(spec));
            }
            if is_status || rng.u8(..8) == 0 {
                let mut status = map(rng, &["phase"], &["A", "B"]).unwrap_or_else(|| json!({}));
                status["count"] = rng.u8(1..4).into();
                set(&mut object, "status", Some(status));
            }
        }
        Kind::Whole | Kind::Namespace | Kind::Home => {}
    }
    object
}

fn set(object: &mut Value, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[name] = value;
    }
}
