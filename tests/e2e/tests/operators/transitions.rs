//! Transitions, as in state-centric operator testing (Acto, SOSP 2023): a parent's children depend only on its current
//! spec, not on earlier ones. Specs are generated: a parent goes from A to B and back to A, gets an invalid spec in
//! between, and is compared with a parent that was created with A.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_e2e::{Namespace, TIMEOUT, condition, text};

use crate::{APPLICATION, ECHO, Kind, MYAPP, MYSQLCLUSTER, another_volume, stage, volume, wait_for};

/// Pairs of specs for each kind.
const PAIRS: usize = 6;

/// A random generator with the same sequence in every run.
struct Chance(fastrand::Rng);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.usize(..choices.len())].clone()
    }

    /// Sets a field, or leaves it out.
    fn maybe<T: Clone + Into<Value>>(&mut self, spec: &mut Value, field: &str, choices: &[T]) {
        if self.0.bool() {
            spec[field] = self.of(choices).into();
        }
    }
}

fn echo(chance: &mut Chance) -> Value {
    json!({ "replicas": chance.of(&[0, 1, 2, 4]), "image": chance.of(&["nginx:1", "nginx:2"]) })
}

fn myapp(chance: &mut Chance) -> Value {
    let mut spec = json!({ "image": chance.of(&["nginx:1", "nginx:2"]) });
    chance.maybe(&mut spec, "replicas", &[1, 2, 3]);
    chance.maybe(&mut spec, "port", &[80, 8080, 9000]);
    chance.maybe(
        &mut spec,
        "resources",
        &[json!({ "cpu": "50m" }), json!({ "memory": "1Gi" }), json!({ "cpu": 1, "memory": "256Mi" })],
    );
    chance.maybe(
        &mut spec,
        "env",
        &[
            json!([{ "name": "A", "value": "1" }]),
            json!([{ "name": "B", "value": "2" }, { "name": "A", "value": "3" }]),
        ],
    );
    chance.maybe(&mut spec, "ingressHost", &["a.example.com", "b.example.com"]);
    spec
}

fn mysqlcluster(chance: &mut Chance) -> Value {
    // Storage can only grow, so the way back to A would be invalid.
    let mut spec =
        json!({ "version": chance.of(&["8.0", "8.4"]), "replicas": chance.of(&[1, 2, 3]), "storageSize": "1Gi" });
    chance.maybe(&mut spec, "resources", &[json!({ "cpu": "100m" }), json!({ "memory": "2Gi" })]);
    chance.maybe(&mut spec, "deleteData", &[true, false]);
    spec
}

fn application(chance: &mut Chance) -> Value {
    let mut spec = json!({ "image": chance.of(&["nginx:1", "nginx:2"]), "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } } });
    chance.maybe(&mut spec, "replicas", &[0, 1, 3]);
    chance.maybe(&mut spec, "port", &[80, 9000]);
    chance.maybe(&mut spec, "environment", &[json!([{ "name": "A", "value": "1" }])]);
    let probe = |path: &str| json!({ "httpGet": { "path": path }, "periodSeconds": 5 });
    chance.maybe(
        &mut spec,
        "healthCheck",
        &[
            json!({ "livenessProbe": probe("/live") }),
            json!({ "livenessProbe": probe("/"), "readinessProbe": probe("/ready") }),
        ],
    );
    chance.maybe(
        &mut spec,
        "scaling",
        &[
            json!({ "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50 }),
            json!({ "minReplicas": 2, "maxReplicas": 4, "targetMemoryUtilizationPercentage": 80 }),
        ],
    );
    chance.maybe(&mut spec, "storage", &[json!({ "persistentVolumeClaims": [{ "name": "data", "size": "1Gi" }] })]);
    let balanced = json!({ "serviceType": "LoadBalancer", "loadBalancer": { "sourceRanges": ["10.0.0.0/8"] } });
    chance.maybe(&mut spec, "network", &[json!({ "serviceType": "NodePort" }), balanced]);
    let security = json!({ "networkPolicy": true, "securityContext": { "runAsUser": 1000, "fsGroup": 2000 } });
    chance.maybe(&mut spec, "security", &[security, json!({ "imagePullSecrets": [{ "name": "registry" }] })]);
    spec
}

/// Kinds of children.
const RESOURCES: &str =
    "pods,secrets,persistentvolumeclaims,services,deployments,ingresses,horizontalpodautoscalers,networkpolicies";

/// The desired state of the parent's children, without fields of the API server and the controllers, and with `*` instead
/// of the parent's name.
#[track_caller]
fn children(ns: &Namespace, uid: &str, name: &str) -> BTreeMap<String, Value> {
    let mut children = BTreeMap::new();
    for mut child in ns.env().list(RESOURCES, ns.name()) {
        if text(&child, "/metadata/labels/windlass.dev~1parent-uid") != uid
            || text(&child, "/metadata/labels/windlass.dev~1plugin").is_empty()
        {
            continue;
        }
        // A ReplicaSet's Pods have the Deployment's labels, and are not children.
        let owners = child["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        if owners.iter().any(|owner| owner["uid"] != uid) {
            continue;
        }
        let mut annotations = child["metadata"]["annotations"].clone();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.retain(|key, _| {
                !["windlass.dev/applied", "deployment.kubernetes.io", "pv.kubernetes.io", "autoscaling"]
                    .iter()
                    .any(|of| key.starts_with(of))
            });
        }
        let is_owned = !owners.is_empty();
        let mut labels = child["metadata"]["labels"].take();
        if let Some(labels) = labels.as_object_mut() {
            // A Pod gets these labels from its node.
            labels.retain(|key, _| !key.starts_with("topology.kubernetes.io/"));
        }
        let mut spec = child["spec"].take();
        // The cluster chooses these.
        for chosen in ["clusterIP", "clusterIPs", "nodeName", "volumeName", "healthCheckNodePort"] {
            if let Some(spec) = spec.as_object_mut() {
                spec.remove(chosen);
            }
        }
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
        if let Some(volumes) = spec["volumes"].as_array_mut() {
            volumes.retain(|volume| !text(volume, "/name").starts_with("kube-api-access"));
        }
        for container in spec["containers"].as_array_mut().into_iter().flatten() {
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.retain(|mount| !text(mount, "/name").starts_with("kube-api-access"));
            }
        }
        // Passwords are random, so only the keys are compared.
        let keys: Vec<_> = child["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let desired =
            json!({ "labels": labels, "annotations": annotations, "isOwned": is_owned, "spec": spec, "keys": keys });
        let neutral = |text: String| text.replace(uid, "*uid*").replace(name, "*");
        let id = neutral(format!("{} {}", text(&child, "/kind"), text(&child, "/metadata/name")));
        children.insert(id, serde_json::from_str(&neutral(desired.to_string())).expect("JSON"));
    }
    children
}

/// Invalid specs.
struct Invalid {
    /// A spec that the API server rejects.
    to_the_api_server: Value,
    /// A spec that only the plugin rejects, if there are such specs.
    to_the_plugin: Option<Value>,
}

/// Takes parents of a kind through their pairs of specs, all at once, and compares their children.
#[track_caller]
fn assert_children_depend_only_on_the_current_spec(
    kind: Kind,
    generate: fn(&mut Chance) -> Value,
    invalid: &Invalid,
    may_stay: fn(&str) -> bool,
) {
    let ns = &stage().env.namespace(&format!("transitions-{}", kind.name.to_lowercase()));
    let mut chance = Chance::new(1);
    let mut pairs = Vec::new();
    while pairs.len() < PAIRS {
        let (a, b) = (generate(&mut chance), generate(&mut chance));
        if a != b {
            pairs.push((a, b));
        }
    }
    for at in 0..PAIRS {
        for parent in [format!("moved-{at}"), format!("fresh-{at}")] {
            volume(ns, &format!("{parent}-data"), &["ReadWriteOnce"]);
            // A released volume is not available again.
            another_volume(ns, &format!("{parent}-data"), "again", &["ReadWriteOnce"]);
            (0..3).for_each(|server| volume(ns, &format!("{parent}-data-{server}"), &["ReadWriteOnce"]));
        }
    }
    let all = |spec: &dyn Fn(&(Value, Value)) -> Value| {
        for (at, pair) in pairs.iter().enumerate() {
            kind.replace(ns, &format!("moved-{at}"), &spec(pair));
        }
        for at in 0..PAIRS {
            kind.wait_ready(ns, &format!("moved-{at}"));
        }
    };
    all(&|(a, _)| a.clone());
    all(&|(_, b)| b.clone());
    let of = |name: &str| {
        let parent = ns.get(kind.resource, name).expect("the parent");
        children(ns, &text(&parent, "/metadata/uid"), name)
    };
    for at in 0..PAIRS {
        let moved = format!("moved-{at}");
        let refused = kind.try_replace(ns, &moved, &invalid.to_the_api_server);
        assert!(refused.is_err(), "the API server accepts {}", invalid.to_the_api_server);
        let Some(invalid) = &invalid.to_the_plugin else { continue };
        let before = of(&moved);
        kind.replace(ns, &moved, invalid);
        wait_for(ns, kind.resource, &moved, |parent| condition(parent, "Stalled").reason == "InvalidSpec");
        assert_eq!(of(&moved), before, "an invalid spec changes no child");
    }
    all(&|(a, _)| a.clone());

    for (at, (a, b)) in pairs.iter().enumerate() {
        let (moved, fresh) = (format!("moved-{at}"), format!("fresh-{at}"));
        kind.settle(ns, &fresh, a);
        let fresh = of(&fresh);
        assert!(!fresh.is_empty() || a["replicas"] == 0, "{a}: no children exist");
        let now = || {
            let mut moved = of(&moved);
            moved.retain(|child, _| fresh.contains_key(child) || !may_stay(child));
            moved
        };
        // Deletions may take some time.
        let same = windlass_testbed::until("", TIMEOUT, || Ok((now() == fresh).then_some(())));
        if same.is_err() {
            let of = |children| serde_json::to_string_pretty(&children).unwrap_or_default();
            panic!("{moved}, {a} after {b}: {} is not {}", of(now()), of(fresh));
        }
    }
}

#[test]
fn application_has_the_same_children_whatever_its_earlier_specs() {
    let resources = json!({ "requests": { "cpu": 2 }, "limits": { "cpu": 1 } });
    let invalid = Invalid {
        to_the_api_server: json!({ "image": "" }),
        to_the_plugin: Some(json!({ "image": "nginx", "replicas": 0, "resources": resources })),
    };
    assert_children_depend_only_on_the_current_spec(APPLICATION, application, &invalid, |_| false);
}

#[test]
fn echo_has_the_same_children_whatever_its_earlier_specs() {
    let invalid = Invalid { to_the_api_server: json!({ "replicas": 1001, "image": "nginx" }), to_the_plugin: None };
    assert_children_depend_only_on_the_current_spec(ECHO, echo, &invalid, |_| false);
}

#[test]
fn myapp_has_the_same_children_whatever_its_earlier_specs() {
    let invalid = Invalid { to_the_api_server: json!({ "image": "nginx", "replicas": 0 }), to_the_plugin: None };
    assert_children_depend_only_on_the_current_spec(MYAPP, myapp, &invalid, |_| false);
}

/// Data stays: the volume of a removed server, and the generated password.
#[test]
fn mysqlcluster_has_the_same_children_apart_from_data_whatever_its_earlier_specs() {
    let is_data = |child: &str| child.starts_with("PersistentVolumeClaim ") || child.starts_with("Secret ");
    let with = |replicas: u32, size: &str| json!({ "version": "8.4", "replicas": replicas, "storageSize": size });
    let invalid = Invalid { to_the_api_server: with(10, "1Gi"), to_the_plugin: Some(with(1, "1Mi")) };
    assert_children_depend_only_on_the_current_spec(MYSQLCLUSTER, mysqlcluster, &invalid, is_data);
}
