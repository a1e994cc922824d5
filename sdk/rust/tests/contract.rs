//! What a plugin can say of its children, its parents and its time, and what it is told.

#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    ChildOptions, ChildRef, CustomResource, Descriptor, Failure, FinalizeCause, Kind, Parent, Readiness, ReadyMeans,
    Reconciler, Request, Requirement, Response, UpdateStrategy, Value, json,
    kinds::{ConfigMap, Deployment, Job, Pod, Secret},
    raw::{self, Keep, Namespaces, Selection},
    testing::{self, Call},
};

/// A kind that a cluster may lack.
struct Monitor;

impl Kind for Monitor {
    const API_VERSION: &str = "optional.example/v1";
    const KIND: &str = "Monitor";
}

/// Does what its spec names, and writes what it sees into its status.
struct Tool;

#[derive(Deserialize, JsonSchema)]
struct Spec {
    act: String,
}

#[derive(Serialize, JsonSchema)]
struct Seen {
    seen: Value,
}

impl Reconciler for Tool {
    type Spec = Spec;
    type Status = Seen;

    fn descriptor() -> Descriptor {
        let kind = CustomResource::namespaced::<Self>("tools.example", "v1", "Tool");
        Descriptor::new("tool", "1.0.0", Parent::from(kind).labelled("tier=web").annotated("!ignored"))
            .child_with::<Pod>(UpdateStrategy::Recreate)
            .child::<Job>()
            .optional_child::<Monitor>()
            .related::<Secret>()
            .optional_related::<Monitor>()
            .ordered_deletion()
            .ready_means(ReadyMeans::Plugin)
            .clock()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let response = Response::new();
        let pods = || request.children_of::<Pod>();
        let status = |seen: Value| Response::new().status(Seen { seen });
        Ok(match &*request.spec.act {
            "options" => options(response),
            "keep" => response.keep(pods()).keep([ChildRef::new::<Job>("old").in_namespace("b")]),
            "keep all" => response.keep_all().keep(pods()),
            "wait" => Response::wait("for Godot", Duration::from_secs(9)),
            "schedule" => response.requeue_at(request.now() + Duration::from_mins(1)),
            "require" => require(response),
            "kinds" => status(json!(request.has_kind::<Monitor>())),
            "readiness" => {
                let pods = pods().map(|pod| json!([pod.name(), pod.is_ready(), pod.readiness().message()]));
                let deployments = request.children_of::<Deployment>();
                let deployments = deployments.map(|one| json!([one.name(), one.is_ready(), one.readiness().message()]));
                let related = request.related::<Secret>("one").into_iter().flatten();
                let related = related.map(|secret| json!([secret.name(), secret.is_ready()]));
                status(deployments.chain(pods).chain(related).collect())
            }
            "generate" => status(json!(request.generated("key", "password", || request.name().to_owned()))),
            "clean-up" => {
                let cause = request.cause().map(|cause| format!("{cause:?}"));
                status(json!([request.is_finalizing(), cause, request.is_namespace_terminating()]))
            }
            "limits" => {
                let left_out = request.left_out().iter().map(|left| json!([left.child.name, left.size]));
                status(json!([left_out.collect::<Vec<_>>(), request.closed_namespaces()]))
            }
            act => return Err(Failure::invalid_field("spec.act", format!("{act} is unknown"))),
        })
    }
}

fn named<K: Kind>(name: &str) -> Value {
    json!({ "apiVersion": K::API_VERSION, "kind": K::KIND, "metadata": { "name": name } })
}

fn options(response: Response<Tool>) -> Response<Tool> {
    let data = ChildOptions::new().stage(1).retain(true).take_over(true);
    let job = ChildOptions::new().once("v1").ready(true).update(UpdateStrategy::OnDelete);
    response
        .child(named::<Pod>("plain"))
        .children_with([named::<Pod>("a"), named::<Pod>("b")], &data)
        .child_with(named::<Job>("job"), job.replaces(ChildRef::new::<Job>("old")))
}

fn require(response: Response<Tool>) -> Response<Tool> {
    let selector = json!({ "matchLabels": { "app": "web" }, "matchExpressions": null });
    response
        .require(Requirement::named::<Secret>("one", "key"))
        .require(Requirement::matching::<Secret>("several", selector).in_namespaces(["a", "b"]))
        .require(Requirement::labelled::<Secret>("all", "").in_all_namespaces().metadata_only())
}

fn tool(act: &str) -> Call<Tool> {
    testing::request(json!({ "metadata": { "name": "drill" }, "spec": { "act": act } }))
}

fn seen(call: Call<Tool>) -> Value {
    call.call().unwrap().status.unwrap()["seen"].clone()
}

fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" } })
}

#[test]
fn descriptor_says_which_parents_there_are_and_which_kinds_may_be_missing() {
    let descriptor = testing::descriptor::<Tool>();
    let selector = |parent: &raw::Parent| match parent {
        raw::Parent::Custom(parent) => parent.selector.clone(),
        raw::Parent::Existing(parent) => parent.selector.clone(),
    };
    let expected = raw::ParentSelector { labels: Some("tier=web".into()), annotations: Some("!ignored".into()) };
    assert_eq!(selector(&descriptor.parent), expected);
    let existing = Descriptor::new("guard", "1.0.0", Parent::existing::<ConfigMap>().labelled("guard=true"));
    assert!(format!("{existing:?}").contains("labels: Some(\"guard=true\")"), "{existing:?}");

    let children = descriptor.children.iter().map(|rule| (&*rule.kind.name, rule.optional, rule.update.clone()));
    let apply = UpdateStrategy::Apply;
    let expected = [("Pod", false, UpdateStrategy::Recreate), ("Job", false, apply.clone()), ("Monitor", true, apply)];
    assert_eq!(children.collect::<Vec<_>>(), expected);
    let related = descriptor.related.iter().map(|rule| (&*rule.kind.name, rule.optional));
    assert_eq!(related.collect::<Vec<_>>(), [("Secret", false), ("Monitor", true)]);
    assert!(descriptor.ordered_deletion && descriptor.clock && descriptor.ready_means == ReadyMeans::Plugin);
}

#[test]
fn children_have_their_options() {
    let (response, _) = tool("options").call_raw();
    let plain = raw::DesiredChild {
        object: named::<Pod>("plain").to_string().into_bytes(),
        stage: 0,
        retain: false,
        take_over: false,
        create: raw::Create::Always,
        ready: None,
        update: None,
        replaces: None,
    };
    let data = |name: &str| raw::DesiredChild {
        object: named::<Pod>(name).to_string().into_bytes(),
        stage: 1,
        retain: true,
        take_over: true,
        ..plain.clone()
    };
    let job = raw::DesiredChild {
        object: named::<Job>("job").to_string().into_bytes(),
        create: raw::Create::Once("v1".to_owned()),
        ready: Some(true),
        update: Some(UpdateStrategy::OnDelete),
        replaces: Some(ChildRef::new::<Job>("old")),
        ..plain.clone()
    };
    assert_eq!(response.unwrap().children, [plain.clone(), data("a"), data("b"), job]);
    let response = tool("options").call().unwrap();
    assert_eq!(response.options[0], ChildOptions::new());
    assert_eq!(response.options[1], ChildOptions::new().stage(1).retain(true).take_over(true));
}

#[test]
fn live_children_can_be_kept() {
    let kept = |act| tool(act).child(pod("a")).child(pod("b")).call().unwrap().keep;
    let live = |name| ChildRef::new::<Pod>(name).in_namespace("default");
    let job = ChildRef::new::<Job>("old").in_namespace("b");
    assert_eq!(kept("keep"), Keep::These(vec![live("a"), live("b"), job]));
    assert_eq!(kept("keep all"), Keep::All);
    assert_eq!(kept("kinds"), Keep::None);
}

#[test]
fn plugin_that_waits_changes_nothing() {
    let response = tool("wait").call().unwrap();
    assert_eq!((response.children.len(), response.keep, response.status), (0, Keep::All, None));
    assert_eq!((response.waiting.as_deref(), response.requeue), (Some("for Godot"), Some(Duration::from_secs(9))));
}

#[test]
fn plugin_is_called_at_a_time() {
    let at = |call: Call<Tool>| call.call().unwrap().requeue_at;
    assert_eq!(
        at(tool("schedule").at(Duration::from_millis(1500))),
        Some(SystemTime::UNIX_EPOCH + Duration::from_millis(61_500))
    );
    let first_minute_of_2026 = SystemTime::UNIX_EPOCH + Duration::from_hours(490_896) + Duration::from_mins(1);
    assert_eq!(at(tool("schedule")), Some(first_minute_of_2026));
}

#[test]
#[should_panic(expected = "Request::now needs Descriptor::clock")]
fn time_without_a_clock_names_the_setting() {
    struct Late;
    impl Reconciler for Late {
        type Spec = Value;
        type Status = ();
        fn descriptor() -> Descriptor {
            Descriptor::new("late", "1.0.0", Parent::existing::<ConfigMap>())
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            Ok(Response::new().requeue_at(request.now()))
        }
    }
    let _ = testing::request::<Late>(json!({})).call();
}

#[test]
fn requirements_have_namespaces_and_a_selection() {
    let requirements = tool("require").call().unwrap().requirements;
    let parts = requirements.into_iter().map(|one| (one.namespaces, one.select, one.metadata_only));
    let selector = br#"{"matchLabels":{"app":"web"}}"#.to_vec();
    let expected = [
        (Namespaces::OfParent, Selection::Name("key".to_owned()), false),
        (Namespaces::Named(vec!["a".to_owned(), "b".to_owned()]), Selection::LabelSelector(selector), false),
        (Namespaces::All, Selection::Labels(String::new()), true),
    ];
    assert_eq!(parts.collect::<Vec<_>>(), expected);
}

#[test]
fn plugin_learns_which_optional_kinds_exist() {
    assert_eq!(seen(tool("kinds")), true);
    assert_eq!(seen(tool("kinds").without_kind::<Monitor>()), false);
}

#[test]
fn live_object_says_whether_it_is_ready() {
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default", "generation": 2 },
        "status": { "observedGeneration": 1 },
    });
    let call = tool("readiness")
        .child_with(pod("a"), Readiness::Ready)
        .child_with(pod("b"), Readiness::Failed("ImagePullBackOff".to_owned()))
        .child(deployment)
        .related("one", [named::<Secret>("key")]);
    let of_host = "its controller has not seen its latest change yet";
    let expected = json!([["web", false, of_host], ["a", true, null], ["b", false, "ImagePullBackOff"], ["key", true]]);
    assert_eq!(seen(call), expected);
}

#[test]
fn generated_value_stays_once_the_secret_has_it() {
    assert_eq!(seen(tool("generate")), "drill");
    let secret = |name: &str, key: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "data": { key: "b2xk" } });
    assert_eq!(seen(tool("generate").child(secret("key", "password"))), "old");
    assert_eq!(seen(tool("generate").child(secret("key", "user")).child(secret("other", "password"))), "drill");
}

#[test]
fn clean_up_has_a_cause() {
    assert_eq!(seen(tool("clean-up")), json!([false, null, false]));
    assert_eq!(seen(tool("clean-up").finalize()), json!([true, "FinalizeCause::Deleted", false]));
    let left = tool("clean-up").finalize_with(FinalizeCause::LeftSelector, true);
    assert_eq!(seen(left), json!([true, "FinalizeCause::LeftSelector", true]));
}

#[test]
fn request_names_what_is_left_out_and_closed() {
    let call = tool("limits").left_out(ChildRef::new::<Pod>("big"), 5000).closed_namespaces(["windlass"]);
    assert_eq!(seen(call), json!([[["big", 5000]], ["windlass"]]));
}

#[test]
fn failure_names_the_field() {
    assert_eq!(tool("dance").call(), Err(Failure::invalid_field("spec.act", "dance is unknown")));
}
