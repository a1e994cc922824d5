//! Children that a plugin returns, and live objects that it reads.

use super::*;

#[test]
fn a_child_is_found_by_namespace_and_name() {
    struct Find;
    impl Reconciler for Find {
        type Spec = Value;
        type Status = Value;
        fn descriptor() -> Descriptor {
            Descriptor::new("find", "1.0.0", Parent::existing::<ConfigMap>().labelled("a=b"))
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            let of = |child: Option<windlass_plugin::Object<'_, ConfigMap>>| {
                child.map(|child| child.read_as::<Value>().unwrap()["data"]["k"].clone())
            };
            let found = [
                request.child("c"),
                request.child_in("a", "c"),
                request.child_in("b", "c"),
                request.child_in("b", "d"),
            ];
            Ok(Response::new().status(json!({ "found": found.map(of) })))
        }
    }
    let child = |namespace, value| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": namespace },
            "data": { "k": value } })
    };
    let found = |metadata: Value| {
        let parent = json!({ "metadata": metadata, "spec": {} });
        let call = testing::request::<Find>(parent).children([child("a", "of a"), child("b", "of b")]);
        call.call().unwrap().status.unwrap()["found"].clone()
    };
    assert_eq!(found(json!({ "name": "p", "namespace": "b" })), json!(["of b", "of a", "of b", null]));
    assert_eq!(found(json!({ "name": "p" })), json!([null, "of a", "of b", null]));
}

#[test]
fn children_of_other_kinds_are_left_out() {
    struct Count;
    impl Reconciler for Count {
        type Spec = Value;
        type Status = Value;
        fn descriptor() -> Descriptor {
            Descriptor::new("count", "1.0.0", Parent::existing::<ConfigMap>().labelled("a=b"))
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            let names: Vec<&str> = request.children_of::<ConfigMap>().map(|child| child.name()).collect();
            let data: Value = request.child::<ConfigMap>("a").unwrap().read_as()?;
            Ok(Response::new().status(json!({ "names": names, "data": data["data"] })))
        }
    }
    let child =
        |kind, name| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, "data": { "k": "v" } });
    let response = testing::request::<Count>(json!({}))
        .children([child("Secret", "a"), child("ConfigMap", "b"), child("ConfigMap", "a")])
        .call()
        .unwrap();
    assert_eq!(response.status, Some(json!({ "names": ["a", "b"], "data": { "k": "v" } })));
    assert_eq!(testing::crd::<Count>(), Value::Null);
}

#[test]
fn children_have_no_null_fields() {
    struct Children;
    impl Reconciler for Children {
        type Spec = Value;
        type Status = ();
        fn descriptor() -> Descriptor {
            Descriptor::new("children", "1.0.0", Parent::existing::<Pod>()).child::<ConfigMap>()
        }
        fn reconcile(_: Request<Self>) -> Result<Response<Self>, Failure> {
            let child = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "annotations": null } });
            let mut a = child("a");
            a["data"] = json!({ "c": null, "d": [{ "b": null }] });
            Ok(Response::new()
                .child(a)
                .child_if(true, child("b"))
                .child_if(false, child("c"))
                .children(Some(child("d"))))
        }
    }
    let response = testing::request::<Children>(json!({})).call().unwrap();
    let named = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    let mut a = named("a");
    a["data"] = json!({ "d": [{}] });
    let expected = [a, named("b"), named("d")];
    assert_eq!(response.children, expected);
}

#[test]
fn a_condition_is_true_false_or_unknown() {
    struct Conditions;
    impl Reconciler for Conditions {
        type Spec = Value;
        type Status = ();
        fn descriptor() -> Descriptor {
            Descriptor::new("conditions", "1.0.0", Parent::existing::<ConfigMap>())
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            let pod = request.child::<Pod>("web").unwrap();
            let status = |type_: &str| pod.condition(type_).map(|condition| condition.status);
            assert_eq!(status("Ready"), Some(ConditionStatus::True));
            assert_eq!(status("Initialized"), Some(ConditionStatus::False));
            assert_eq!(status("Odd"), Some(ConditionStatus::Unknown));
            assert_eq!(status("Missing"), None);
            let is_true = ["Ready", "Initialized", "Odd", "Missing"].map(|type_| pod.is_condition_true(type_));
            assert_eq!(is_true, [true, false, false, false]);
            Ok(Response::new().condition("A", true, "A", "").condition("B", false, "B", "").condition(
                "C",
                ConditionStatus::Unknown,
                "C",
                "",
            ))
        }
    }
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" }, "status": { "conditions": [
        { "type": "Ready", "status": "True" },
        { "type": "Initialized", "status": "False" },
        { "type": "Odd", "status": "Perhaps" },
    ] } });
    let status = testing::request::<Conditions>(json!({})).child(pod).call().unwrap().status.unwrap();
    let statuses: Vec<_> = status["conditions"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, ["True", "False", "Unknown"]);
}

#[test]
fn fields_of_a_live_object_are_read_by_pointers() {
    struct Read;
    impl Reconciler for Read {
        type Spec = Value;
        type Status = ();
        fn descriptor() -> Descriptor {
            Descriptor::new("read", "1.0.0", Parent::existing::<ConfigMap>())
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            let pod = request.child::<Pod>("web").unwrap();
            assert_eq!(pod.at("/spec/containers/0/image"), "web:1");
            assert_eq!(pod.at("/spec/nodeName"), Value::Null);
            assert_eq!(pod.get("/spec/containers/0/resources/limits/cpu"), Some(Quantity::from_static("500m")));
            assert_eq!(pod.get::<u32>("/spec/containers/0/image"), None, "a value of another type is not read");
            assert_eq!(pod.get::<&str>("/metadata/annotations/example.com~1a"), Some("b"));
            assert_eq!((pod.is_being_deleted(), pod.metadata().annotations.len()), (true, 1));
            Ok(Response::new())
        }
    }
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "annotations": { "example.com/a": "b" },
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "containers": [{ "image": "web:1", "resources": { "limits": { "cpu": "0.5" } } }] },
    });
    testing::request::<Read>(json!({})).child(pod).call().unwrap();
}

#[cfg(feature = "k8s-openapi")]
#[test]
fn k8s_openapi_types_serve_as_children_and_kinds() {
    use k8s_openapi::api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStatus},
        core::v1::Pod,
    };

    struct Typed;
    impl Reconciler for Typed {
        type Spec = Value;
        type Status = Value;
        fn descriptor() -> Descriptor {
            Descriptor::new("typed", "1.0.0", Parent::existing::<ConfigMap>()).child::<Deployment>()
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            let mut desired = Deployment::default();
            desired.metadata.name = Some("web".to_owned());
            desired.spec = Some(DeploymentSpec { replicas: Some(3), ..DeploymentSpec::default() });
            let live = request.child::<Deployment>("web").unwrap();
            let status: DeploymentStatus = live.read()?.status.unwrap();
            Ok(Response::new()
                .status(json!({
                    "matches": live.matches(&desired),
                    "ready": status.ready_replicas,
                    "message": live.rollout().message(3),
                    "failure": request.child::<Pod>("web-0").unwrap().failure_message(),
                }))
                .child(desired))
        }
    }
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "uid": "1" },
        "spec": { "replicas": 3, "selector": {}, "template": {} },
        "status": { "readyReplicas": 2 },
    });
    let pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-0" }, "status": { "phase": "Failed" } });
    let response = testing::request::<Typed>(json!({})).children([deployment, pod]).call().unwrap();
    let status = json!({ "matches": true, "ready": 2, "message": "2/3 replicas ready", "failure": "failed" });
    assert_eq!(response.status, Some(status));
    let child = &response.children[0];
    assert_eq!((&child["apiVersion"], &child["kind"]), (&"apps/v1".into(), &"Deployment".into()));
    assert_eq!((&child["metadata"], &child["spec"]["replicas"]), (&json!({ "name": "web" }), &3.into()));
    assert_eq!(testing::descriptor::<Typed>().children[0].kind.name, "Deployment");
}
