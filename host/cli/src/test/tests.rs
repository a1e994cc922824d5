use std::cell::Cell;
use std::path::Path;

use serde_json::{Value, json};
use windlass_core::contract::related::{Need, Place, Select};
use windlass_core::contract::{Phase, Response, UpdateStrategy};
use windlass_core::value::ids::Gvk;

use super::call::{CallResult, Input, Plugin, Stock};
use super::generate::Examples;
use super::generate::tests::kind;
use super::plugin::plausible;
use super::properties::{Runs, properties};
use super::property::{Check, CheckResult, Scenario};
use super::reply::{Child, Reply};
use crate::yaml;

/// A plugin whose response a function computes. It has a ConfigMap for each replica.
struct Native<F> {
    call: F,
    finalizes: bool,
}

impl<F: Fn(&Call<'_>, &mut Reply) -> Option<CallResult>> Plugin for Native<F> {
    fn call(&self, input: Input<'_>) -> CallResult {
        let parent = &input.world.parent;
        let replicas = parent["spec"]["replicas"].as_u64().unwrap_or_default();
        let call = Call { input, replicas };
        let children = if input.phase == Phase::Finalize { 0 } else { replicas };
        let mut reply = Reply {
            children: (0..children)
                .map(|at| config_map(&format!("web-{at}"), &json!({"image": parent["spec"]["image"]})))
                .collect(),
            status: Some(json!({"ready": input.world.live.len()})),
            next_status: None,
            finalized: input.phase == Phase::Finalize,
            is_impure: false,
            has_related: false,
            raw: Response::default(),
        };
        if let Some(result) = (self.call)(&call, &mut reply) {
            return result;
        }
        for child in &mut reply.children {
            let text = child.body.to_string();
            child.body["metadata"]["annotations"] = json!({"windlass.dev/applied": text});
        }
        reply.raw.children = reply.children.iter().map(|child| child.body.to_string().into_bytes()).collect();
        let status = reply.status.clone().unwrap_or_default();
        reply.raw.status = Some(status.to_string().into_bytes());
        reply.next_status = (parent.get("status") != Some(&status)).then_some(status);
        CallResult::Response(Box::new(reply))
    }

    fn finalizes(&self) -> bool {
        self.finalizes
    }
}

struct Call<'a> {
    input: Input<'a>,
    replicas: u64,
}

impl Call<'_> {
    fn spec(&self) -> &Value {
        &self.input.world.parent["spec"]
    }

    /// The names of the children, in the order of the request.
    fn names(&self) -> Vec<String> {
        let names = self.input.world.live.iter().map(|live| live["metadata"]["name"].to_string());
        if self.input.is_reversed { names.rev().collect() } else { names.collect() }
    }
}

fn config_map(name: &str, data: &Value) -> Child {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data});
    Child { body, update: UpdateStrategy::Apply, is_retained: false }
}

/// The failing checks of a plugin with a fault.
#[track_caller]
fn failing(finalizes: bool, call: impl Fn(&Call<'_>, &mut Reply) -> Option<CallResult>) -> Vec<Scenario> {
    let plugin = Native { call, finalizes };
    let tallies = properties(&plugin, &kind(), runs(12)).expect("parents");
    assert!(
        tallies.values().map(|tally| tally.passed).sum::<u32>() > 0
            || tallies.values().any(|tally| tally.failing.is_some())
    );
    tallies.into_values().filter_map(|tally| tally.failing).collect()
}

#[track_caller]
fn assert_found(check: Check, finalizes: bool, call: impl Fn(&Call<'_>, &mut Reply) -> Option<CallResult>) -> Scenario {
    let plugin = Native { call, finalizes };
    let tallies = properties(&plugin, &kind(), runs(12)).expect("parents");
    let found: Vec<_> = tallies.into_values().filter_map(|tally| tally.failing).collect();
    let names: Vec<_> = found.iter().map(|failing| (failing.check, &failing.description)).collect();
    let failing = found.iter().find(|failing| failing.check == check).unwrap_or_else(|| panic!("{check:?}: {names:?}"));
    // The saved case fails in the same way.
    let text = failing.yaml();
    let read: Scenario = serde_json::from_value(yaml::only(&text).expect("YAML")).expect("a case");
    assert_eq!(super::check(&plugin, &kind(), &read), CheckResult::Failed(failing.description.clone()), "{text}");
    failing.clone()
}

/// So many parents from the same seed, with all properties.
fn runs(number: u32) -> Runs<'static> {
    Runs { number, seed: 1, except: &[], save: Path::new("") }
}

#[test]
fn plugin_without_a_fault_passes_all_checks() {
    for finalizes in [false, true] {
        let found = failing(finalizes, |_, _| None);
        assert_eq!(found, []);
    }
}

#[test]
fn trap_is_found_and_shrunk() {
    let found =
        assert_found(Check::NoTrap, false, |call, _| (call.replicas > 2).then(|| CallResult::Trap("boom".to_owned())));
    assert_eq!(found.parent["spec"]["replicas"], 3, "{found:?}");
    assert!(
        found.parent["spec"].get("env").is_none() && found.parent["metadata"].get("annotations").is_none(),
        "{found:?}"
    );
}

#[test]
fn trap_on_a_missing_optional_field_is_blamed_on_the_field() {
    let without_host =
        |call: &Call<'_>, _: &mut Reply| call.spec().get("host").is_none().then(|| CallResult::Trap("None".to_owned()));
    let found = assert_found(Check::OptionalFields, false, without_host);
    assert!(found.description.contains("spec.host"), "{}", found.description);
    let checks: Vec<_> = failing(false, without_host).into_iter().map(|failing| failing.check).collect();
    assert!(!checks.contains(&Check::NoTrap), "the trap is reported once: {checks:?}");
}

#[test]
fn failure_for_a_valid_parent_is_found() {
    let failed = |message: &str| CallResult::Failed { message: message.to_owned(), has_related: false };
    assert_found(Check::ValidParents, false, |call, _| (call.spec().get("env").is_some()).then(|| failed("no")));
    let found = assert_found(Check::SomeAccepted, false, |_, _| Some(CallResult::Invalid("never".to_owned())));
    assert!(found.description.contains("accepts none"), "{}", found.description);
}

#[test]
fn response_that_depends_on_the_call_is_found() {
    let calls = Cell::new(0);
    let plugin = Native {
        call: |_: &Call<'_>, reply: &mut Reply| {
            calls.set(calls.get() + 1);
            reply.status = Some(json!({"ready": calls.get()}));
            None
        },
        finalizes: false,
    };
    let tallies = properties(&plugin, &kind(), runs(4)).expect("parents");
    assert!(tallies.get(&Check::Repeatable).is_some_and(|tally| tally.failing.is_some()));
}

#[test]
fn children_and_status_that_keep_changing_are_found() {
    assert_found(Check::Converges, false, |call, reply| {
        reply.children.push(config_map("clock", &json!({"now": call.input.world.now.to_string()})));
        reply.is_impure = true;
        None
    });
    assert_found(Check::StatusStable, false, |call, reply| {
        reply.status = Some(json!({"ready": call.input.world.now}));
        reply.is_impure = true;
        None
    });
    let found = assert_found(Check::StatusStable, false, |call, reply| {
        let mut seen = call.input.world.parent["status"]["seen"].as_array().cloned().unwrap_or_default();
        seen.push(json!(1));
        reply.status = Some(json!({"seen": seen}));
        None
    });
    assert!(found.description.contains("grows"), "{}", found.description);
}

#[test]
fn dependence_on_the_order_of_the_request_is_found() {
    let found = assert_found(Check::OrderIrrelevant, false, |call, reply| {
        reply.children.push(config_map("first", &json!({"name": call.names().first().cloned().unwrap_or_default()})));
        None
    });
    assert!(found.description.contains("reverse order"), "{}", found.description);
}

#[test]
fn dependence_on_the_order_of_related_objects_is_found() {
    let need = Need {
        id: "settings".into(),
        kind: Gvk::from_api_version("v1", "ConfigMap").into(),
        place: Place::In("default".into()),
        select: Select::Labels("app=web".parse().expect("a selector")),
        metadata_only: false,
    };
    let found = assert_found(Check::OrderIrrelevant, false, |call, reply| {
        reply.has_related = true;
        let mut related = if call.input.stock == Stock::Plausible { plausible(&need) } else { Vec::new() };
        if call.input.is_reversed {
            related.reverse();
        }
        let first = related.first().map(|first| first.key.name.to_string());
        reply.children.push(config_map("first", &json!({"name": first.unwrap_or_default()})));
        None
    });
    assert!(found.description.contains("reverse order"), "{}", found.description);
}

#[test]
fn dependence_on_the_resource_version_is_found() {
    let found = assert_found(Check::MetadataIrrelevant, false, |call, reply| {
        let version = &call.input.world.parent["metadata"]["resourceVersion"];
        reply.children.push(config_map("seen", &json!({"version": version})));
        None
    });
    assert!(found.description.contains("data.version"), "{}", found.description);
}

/// Keeps all children after a scale-down.
fn keep(call: &Call<'_>, reply: &mut Reply) {
    for name in call.names() {
        let name = name.trim_matches('"');
        if !reply.children.iter().any(|child| child.body["metadata"]["name"] == name) {
            reply.children.push(config_map(name, &json!({})));
        }
    }
}

#[test]
fn children_kept_after_a_scale_down_are_found() {
    let found = assert_found(Check::EditLikeNew, false, |call, reply| {
        keep(call, reply);
        None
    });
    let replicas = |parent: &Value| parent["spec"]["replicas"].as_u64();
    assert_eq!((replicas(&found.parent), found.edited.as_ref().and_then(replicas)), (Some(1), Some(0)), "{found:?}");
}

#[test]
fn endless_growing_and_trapping_clean_up_is_found() {
    assert_found(Check::Finalizes, true, |_, reply| {
        reply.finalized = false;
        None
    });
    assert_found(Check::Finalizes, true, |call, reply| {
        let job = |at| config_map(&format!("job-{at}"), &json!({}));
        if call.input.phase == Phase::Finalize {
            reply.children = (0..=call.replicas + 1).map(job).collect();
        }
        None
    });
    let trap = |call: &Call<'_>, _: &mut Reply| {
        (call.input.phase == Phase::Finalize).then(|| CallResult::Trap("boom".to_owned()))
    };
    assert_found(Check::NoTrap, true, trap);
    let plugin = Native { call: trap, finalizes: true };
    let tallies = properties(&plugin, &kind(), runs(4)).expect("parents");
    assert_eq!(tallies.get(&Check::Finalizes).map(|tally| tally.passed), Some(0), "no call finalized a parent");
}

#[test]
fn labels_and_statuses_that_the_api_server_refuses_are_found() {
    let found = assert_found(Check::ValidLabels, false, |call, reply| {
        if let Some(child) = reply.children.first_mut() {
            child.body["metadata"]["labels"] = call.input.world.parent["metadata"]["annotations"].clone();
        }
        None
    });
    assert!(found.description.contains("label"), "{}", found.description);
    assert_found(Check::StatusSchema, false, |_, reply| {
        reply.status = Some(json!({"ready": "three"}));
        None
    });
    assert_found(Check::ResponseAccepted, false, |_, _| Some(CallResult::Rejected("kind".to_owned())));
}

#[test]
fn trap_on_a_rejected_parent_is_found() {
    let found = assert_found(Check::InvalidParents, false, |call, _| {
        (!call.spec()["replicas"].is_u64()).then(|| CallResult::Trap("not a number".to_owned()))
    });
    assert_ne!(kind().problems(&found.parent), [""; 0]);
}

#[test]
fn examples_make_generated_parents_acceptable_to_a_plugin_that_accepts_only_some_texts() {
    let accepts_one = |call: &Call<'_>, _: &mut Reply| {
        let is_accepted = call.spec()["image"] == json!("@hourly");
        (!is_accepted).then(|| CallResult::Invalid("spec.image: not a schedule".to_owned()))
    };
    let plugin = Native { call: accepts_one, finalizes: false };
    let passed = |kind| {
        let tallies = properties(&plugin, &kind, runs(12)).expect("parents");
        let of = |check| tallies.get(&check).map_or(0, |tally| tally.passed);
        (of(Check::SomeAccepted), of(Check::Converges), of(Check::EditLikeNew))
    };
    assert_eq!(passed(kind()).0, 0, "the schema does not describe the texts");
    let example = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"image": "@hourly", "replicas": 1}});
    let mut with_example = kind();
    with_example.examples = Examples::new(vec![example]);
    let (accepted, converges, edited) = passed(with_example);
    assert!(accepted > 6 && converges > 6 && edited > 0, "{accepted}, {converges}, {edited}");
}

#[test]
fn each_example_is_tested_however_few_parents_are_generated() {
    let plugin = Native {
        call: |call: &Call<'_>, _: &mut Reply| {
            (call.spec()["image"] == json!("@second")).then(|| CallResult::Trap("boom".to_owned()))
        },
        finalizes: false,
    };
    let example = |image: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"image": image, "replicas": 1}})
    };
    let mut kind = kind();
    kind.examples = Examples::new(vec![example("@first"), example("@second")]);
    for number in [0, 1] {
        let tallies = properties(&plugin, &kind, runs(number)).expect("parents");
        assert!(tallies.get(&Check::NoTrap).is_some_and(|tally| tally.failing.is_some()), "{number} generated parents");
    }
}

#[test]
fn excepted_property_is_not_checked() {
    let plugin = Native {
        call: |call: &Call<'_>, reply: &mut Reply| {
            keep(call, reply);
            None
        },
        finalizes: false,
    };
    let fails = |except: &[Check]| {
        let tallies = properties(&plugin, &kind(), Runs { except, ..runs(12) }).expect("parents");
        tallies.get(&Check::EditLikeNew).is_some_and(|tally| tally.failing.is_some())
    };
    assert!(fails(&[]));
    assert!(!fails(&[Check::EditLikeNew]));
    assert_eq!(Check::parse("edit-like-new"), Ok(Check::EditLikeNew));
    assert!(Check::parse("edit").is_err_and(|error| error.contains("no-trap, valid-parents")));
}
