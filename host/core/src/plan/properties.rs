//! What holds for every plan, on generated clusters and answers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::contract::{Limits, Response};
use crate::desired::validate as validate_answer;
use crate::fixtures::{created, grants_with, parent_ref, snapshot, validate};

/// A wish for a child: which of a few names, and which of a few contents.
fn wishes() -> impl Strategy<Value = BTreeMap<(bool, u8), u8>> {
    proptest::collection::btree_map((any::<bool>(), 0_u8..5), 0_u8..3, 0..8)
}

fn children(wishes: &BTreeMap<(bool, u8), u8>) -> Vec<Json> {
    let child = |(is_pod, name): &(bool, u8), content: &u8| {
        json!({
            "apiVersion": "v1", "kind": if *is_pod { "Pod" } else { "ConfigMap" },
            "metadata": {"name": format!("c{name}")}, "data": {"content": content.to_string()},
        })
    };
    wishes.iter().map(|(name, content)| child(name, content)).collect()
}

fn desired(wishes: &BTreeMap<(bool, u8), u8>) -> Desired {
    validate(&children(wishes)).expect("valid")
}

/// What happened to a child since it was created.
#[derive(Debug, Clone, Copy)]
enum Fate {
    LeftAlone,
    Edited,
    BeingDeleted,
}

fn befall(mut live: Json, fate: Fate) -> Json {
    match fate {
        Fate::LeftAlone => {}
        // Another manager took the field: it left our entry.
        Fate::Edited => live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] = json!({".": {}}),
        Fate::BeingDeleted => live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
    }
    live
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    proptest::collection::vec(prop_oneof![Just(Fate::LeftAlone), Just(Fate::Edited), Just(Fate::BeingDeleted)], 8)
}

fn name_of(live: &Json) -> String {
    format!("{} {}/{}", live["kind"], live["metadata"]["namespace"], live["metadata"]["name"]).replace('"', "")
}

/// The cluster after a plan was carried out, and after what was being deleted has gone.
fn carry_out(live: &[Json], plan: &Plan) -> Vec<Json> {
    let mut after: BTreeMap<String, Json> = live
        .iter()
        .filter(|live| live["metadata"]["deletionTimestamp"].is_null())
        .map(|live| (name_of(live), live.clone()))
        .collect();
    for write in &plan.writes {
        match write {
            Write::Create(child) | Write::Apply { child, .. } => {
                let live = created(child);
                after.insert(name_of(&live), live);
            }
            Write::Replace(delete) => drop(after.remove(&delete.child.to_string())),
        }
    }
    for delete in &plan.prunes {
        after.remove(&delete.child.to_string());
    }
    after.into_values().collect()
}

proptest! {
    #[test]
    fn carrying_out_plans_leads_to_what_is_desired_and_then_to_an_empty_plan(
        before in wishes(), after in wishes(), fates in fates()
    ) {
        let live: Vec<Json> = desired(&before)
            .children
            .iter()
            .zip(&fates)
            .map(|(child, fate)| befall(created(child), *fate))
            .collect();
        let desired = desired(&after);
        let mut cluster = carry_out(&live, &plan(&snapshot(&live), &desired));
        // Children that were still being deleted come back in a second round, as their deletion's event brings it.
        cluster = carry_out(&cluster, &plan(&snapshot(&cluster), &desired));
        prop_assert!(plan(&snapshot(&cluster), &desired).is_empty());
        let mut wanted: Vec<_> =
            desired.children.iter().map(|child| crate::desired::describe(&child.kind, &child.key)).collect();
        wanted.sort();
        prop_assert_eq!(cluster.iter().map(name_of).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn the_order_of_children_never_matters_to_what_is_written(wishes in wishes(), seed in any::<u64>()) {
        let mut shuffled = children(&wishes);
        let length = shuffled.len().max(1);
        for at in 0..shuffled.len() {
            let other = usize::try_from(seed.rotate_left(u32::try_from(at).unwrap_or(0)) % length as u64).unwrap_or(0);
            shuffled.swap(at, other);
        }
        let names = |desired: &Desired| {
            let mut all: Vec<_> = desired.children.iter().map(|child| (child.key.clone(), child.applied.clone())).collect();
            all.sort();
            all
        };
        prop_assert_eq!(names(&desired(&wishes)), names(&validate(&shuffled).expect("valid")));
    }

    #[test]
    fn no_answer_leads_to_a_write_outside_the_grants_and_the_parents_namespace(
        kind in prop_oneof![Just("Pod"), Just("Secret"), Just("PersistentVolume"), Just("Node")],
        namespace in proptest::option::of(prop_oneof![Just("default"), Just("kube-system"), Just("")]),
        metadata in proptest::collection::btree_map("[a-zA-Z.]{1,12}", any::<bool>(), 0..3),
        name in "[a-z./%-]{0,6}",
        noise in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut child = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        for (key, value) in metadata {
            child["metadata"][key] = json!(value);
        }
        if let Some(namespace) = namespace {
            child["metadata"]["namespace"] = json!(namespace);
        }
        for bytes in [child.to_string().into_bytes(), noise] {
            let response = Response { children: vec![bytes], ..Response::default() };
            let grants = grants_with(&UpdateStrategy::Apply);
            let Ok(desired) = validate_answer(&response, &parent_ref(), &grants, &Limits::default()) else { continue };
            for child in &desired.children {
                prop_assert!(matches!(&*child.kind.kind, "Pod" | "ConfigMap" | "Service"));
                prop_assert_eq!(child.key.namespace.as_deref(), Some("default"));
                let meta = child.body.get("metadata").and_then(Value::as_object).expect("metadata");
                prop_assert!(meta.get("ownerReferences").is_some());
            }
        }
    }
}
