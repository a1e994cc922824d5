//! Histories of owners and dependents on both: after each step, the controllers of Kubernetes and those of the model come to the same
//! objects.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_api_model::{ApiServer, Call, Id, Target};
use windlass_testbed::Cluster;

use crate::compare::{bare, class, equal};
use crate::connection::{Send, connect, define, response, stop_controllers};
use crate::families::{Act, MEMBERS, Member, Owner, Reference, Step};
use crate::kinds::{Kind, definitions};
use crate::mirror::Mirror;
use crate::run::{call, model};

/// Histories at once; most of them wait.
const WORKERS: usize = 125;
/// How long the garbage collector may take.
const COLLECTED: Duration = Duration::from_secs(15);
/// How long the namespace controller may take: it looks after five seconds, and then each time later.
const EMPTIED: Duration = Duration::from_mins(1);

/// Orders of the garbage collector's work that are tried.
const ORDERS: u64 = 24;

pub struct Bench {
    runtime: Runtime,
    client: Client,
    mirror: Mirror,
    prefix: String,
    count: usize,
}

/// One history, on both sides.
struct Course {
    client: Client,
    mirror: Mirror,
    model: ApiServer,
    home: String,
    /// Each side's uids, with names that are equal on both.
    names: [BTreeMap<String, String>; 2],
    /// Whether the namespace is being deleted.
    is_ending: bool,
}

impl Bench {
    /// Restarts the controllers once the custom kinds are served: otherwise the garbage collector would find them half a minute later.
    pub fn connect(cluster: &Cluster) -> Self {
        stop_controllers(cluster);
        let (runtime, client) = connect(cluster.kubeconfig());
        define(&runtime, &client, &definitions(), &[Kind::Part.collection(None), Kind::Whole.collection(None)]);
        cluster.start_component("kube-controller-manager").expect("a component that starts");
        let kinds = [Kind::ConfigMap, Kind::Secret, Kind::Part, Kind::Whole, Kind::Namespace];
        let mirror = runtime.block_on(Mirror::begin(&client, &kinds));
        let prefix = format!("g{}", Timestamp::now().as_second());
        Self { runtime, client, mirror, prefix, count: 0 }
    }

    /// Makes the histories, and returns the first difference of each, with its step.
    pub fn run(&mut self, histories: &[Vec<Step>]) -> Vec<Option<(usize, String)>> {
        let mut shares: Vec<Vec<_>> = (0..WORKERS).map(|_| Vec::new()).collect();
        for (at, steps) in histories.iter().enumerate() {
            self.count += 1;
            let course = Course {
                client: self.client.clone(),
                mirror: self.mirror.clone(),
                model: model().0,
                home: format!("{}x{}", self.prefix, self.count),
                names: Default::default(),
                is_ending: false,
            };
            shares[at % WORKERS].push((at, steps.clone(), course));
        }
        self.runtime.block_on(async {
            let tasks: Vec<_> = shares.into_iter().map(|share| tokio::spawn(run_share(share))).collect();
            let mut found = BTreeMap::new();
            for task in tasks {
                found.extend(task.await.expect("the end of the histories"));
            }
            found.into_values().collect()
        })
    }
}

async fn run_share(share: Vec<(usize, Vec<Step>, Course)>) -> Vec<(usize, Option<(usize, String)>)> {
    let mut done = Vec::new();
    for (at, steps, mut course) in share {
        done.push((at, course.run(&steps).await));
    }
    done
}

impl Course {
    async fn run(&mut self, steps: &[Step]) -> Option<(usize, String)> {
        for name in [self.home.clone(), format!("{}-b", self.home)] {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let both = [body.clone(), body];
            self.both("POST", &Kind::Namespace.collection(None), "", both).await.expect("a namespace");
        }
        for (index, step) in steps.iter().enumerate() {
            if let Err(text) = self.step(step).await {
                return Some((index, text));
            }
        }
        None
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let member = &MEMBERS[step.member];
        let path = self.path(member);
        match &step.act {
            Act::Create { owners, finalizers } => {
                let bodies = [0, 1].map(|side| {
                    let metadata = json!({
                        "name": self.name(member), "ownerReferences": self.references(owners, side), "finalizers": finalizers,
                    });
                    json!({"apiVersion": member.kind.api_version(), "kind": member.kind.name(), "metadata": metadata})
                });
                self.both("POST", &member.kind.collection(Some(&self.namespace(member))), "", bodies).await?;
            }
            Act::SetOwners(owners) => {
                let bodies = [0, 1].map(|side| match self.references(owners, side) {
                    list if list.is_empty() => json!({"metadata": {"ownerReferences": null}}),
                    list => json!({"metadata": {"ownerReferences": list}}),
                });
                self.both("PATCH", &path, "", bodies).await?;
            }
            Act::SetFinalizers(finalizers) => {
                let list = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
                let body = json!({"metadata": {"finalizers": list}});
                self.both("PATCH", &path, "", [body.clone(), body]).await?;
            }
            Act::Delete(policy) => self.both("DELETE", &path, policy, [Value::Null, Value::Null]).await?,
            Act::DeleteNamespace => {
                self.is_ending = true;
                let path = Kind::Namespace.path("", &self.home);
                self.both("DELETE", &path, "", [Value::Null, Value::Null]).await?;
            }
        }
        self.converge().await
    }

    /// Sends a request to both sides, each with its body, and compares the responses.
    async fn both(&mut self, method: &str, path: &str, policy: &str, bodies: [Value; 2]) -> Result<(), String> {
        let is_patch = method == "PATCH";
        let content_type = if is_patch { "application/merge-patch+json" } else { "application/json" };
        let query =
            if policy.is_empty() { "fieldManager=test".to_owned() } else { format!("propagationPolicy={policy}") };
        let [ours, theirs] = bodies;
        let call = Call {
            content_type: content_type.to_owned(),
            ..call(method, path, &query, Some(ours).filter(|body| !body.is_null()))
        };
        let ours = self.model.respond(&call);
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let send = Send { method, url: format!("{path}?{query}"), content_type, body: theirs, user: None };
        let (code, body) = response(self.client.clone(), send).await;
        if ours.code == 201 && code == 201 {
            let name = format!("uid {}", self.names[0].len());
            for (side, body) in [&ours.body, &body].into_iter().enumerate() {
                self.names[side].insert(text(body, "/metadata/uid"), name.clone());
            }
        }
        let (mut known, mut theirs) = (self.named(0, &ours.body), self.named(1, &body));
        if self.is_ending {
            [&mut known, &mut theirs].into_iter().for_each(hide_managers);
        }
        equal("response", &class(ours.code, &known), &class(code, &theirs))
            .map_err(|text| format!("{text}\nmodel: {}\nAPI server: {body}", ours.body))
    }

    /// Waits until the objects are equal, and the garbage collector has handled an object that came after the step. What becomes of some
    /// objects depends on the order of its work; the history goes on with the order that the API server shows.
    async fn converge(&mut self) -> Result<(), String> {
        self.pass_garbage_collector().await;
        let mut ends: Vec<(Value, ApiServer)> = Vec::new();
        for order in 0..ORDERS {
            let model = collected(self.model.clone(), order);
            let shown = self.shown(0, &model);
            if ends.iter().all(|(other, _)| *other != shown) {
                ends.push((shown, model));
            }
        }
        let theirs = || self.shown(1, &self.model);
        let is_end = || ends.iter().any(|(ours, _)| *ours == theirs());
        let limit = if self.is_ending { EMPTIED } else { COLLECTED };
        self.mirror.until(limit, is_end).await;
        if ends.len() > 1 {
            // One end may come before another.
            self.pass_garbage_collector().await;
            self.mirror.until(limit, is_end).await;
        }
        let theirs = theirs();
        let found = ends.iter().position(|(ours, _)| *ours == theirs);
        let (ours, model) = ends.swap_remove(found.unwrap_or_default());
        self.model = model;
        equal("objects", &ours, &theirs)
    }

    /// Waits until the garbage collector has removed a new object without owner.
    async fn pass_garbage_collector(&self) {
        let uid = format!("{}-none", self.home);
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": uid});
        let metadata = json!({"generateName": "garbage-", "ownerReferences": [owner]});
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let send = Send::json(Method::POST, &Kind::ConfigMap.collection(Some("default")), body);
        let (code, garbage) = response(self.client.clone(), send).await;
        assert_eq!(code, 201, "{garbage}");
        let garbage = text(&garbage, "/metadata/uid");
        assert!(self.mirror.until(EMPTIED, || self.mirror.is_gone(&garbage)).await, "no garbage collector");
    }

    /// The objects of a side, by path.
    fn shown(&self, side: usize, model: &ApiServer) -> Value {
        let paths = MEMBERS.iter().map(|member| self.path(member));
        let namespaces = [self.home.clone(), format!("{}-b", self.home)].map(|name| Kind::Namespace.path("", &name));
        let shown = paths.chain(namespaces).filter_map(|path| {
            let mut object = self.named(side, &self.object(side, model, &path)?);
            if object["kind"] == "Namespace" {
                // The namespace controller writes conditions.
                object["status"].as_object_mut().expect("a status").remove("conditions");
            }
            if self.is_ending {
                hide_managers(&mut object);
            }
            Some((path, bare(&object)))
        });
        Value::Object(shown.collect())
    }

    fn object(&self, side: usize, model: &ApiServer, path: &str) -> Option<Value> {
        if side == 1 {
            return self.mirror.object(path);
        }
        let target = Target::of(path).expect("the path of an object");
        let id = Id::new(&target.resource(), &target.namespace, &target.name);
        model.object(&id).map(|object| (**object).clone())
    }

    /// A value whose uids have names.
    fn named(&self, side: usize, value: &Value) -> Value {
        let mut text = value.to_string();
        for (uid, name) in &self.names[side] {
            text = text.replace(uid, name);
        }
        serde_json::from_str(&text).expect("JSON")
    }

    fn references(&self, owners: &[Owner], side: usize) -> Vec<Value> {
        owners.iter().map(|owner| self.reference(owner, side)).collect()
    }

    fn reference(&self, owner: &Owner, side: usize) -> Value {
        let member = &MEMBERS[owner.member];
        let live = self.object(side, &self.model, &self.path(member));
        let uid = live.filter(|_| owner.is != Reference::WrongUid).map(|live| text(&live, "/metadata/uid"));
        let (api_version, kind) = match owner.is {
            Reference::UnknownKind => ("example.com/v1", "Ghost"),
            Reference::WrongKind if member.kind == Kind::ConfigMap => ("v1", "Secret"),
            Reference::WrongKind => ("v1", "ConfigMap"),
            _ => (member.kind.api_version(), member.kind.name()),
        };
        let name = if owner.is == Reference::WrongName { "missing".to_owned() } else { self.name(member) };
        // The garbage collector takes references with the same uid for references to one object.
        let uid = uid.unwrap_or_else(|| format!("{}-{}-{:?}", self.home, owner.member, owner.is));
        let mut reference = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
        for (field, value) in [("blockOwnerDeletion", owner.blocks), ("controller", owner.controls)] {
            if let Some(value) = value {
                reference[field] = value.into();
            }
        }
        reference
    }

    fn namespace(&self, member: &Member) -> String {
        if member.is_elsewhere { format!("{}-b", self.home) } else { self.home.clone() }
    }

    fn name(&self, member: &Member) -> String {
        if member.kind.is_namespaced() { member.name.to_owned() } else { format!("{}-{}", self.home, member.name) }
    }

    fn path(&self, member: &Member) -> String {
        member.kind.path(&self.namespace(member), &self.name(member))
    }
}

/// A model after the work of its controllers, in an order from a seed; 0 is the order of the changes.
fn collected(mut model: ApiServer, order: u64) -> ApiServer {
    let mut rng = Rng::with_seed(order);
    let mut steps = 0;
    while model.collect(Timestamp::now(), |count| if order == 0 { 0 } else { rng.usize(..count) }) {
        steps += 1;
        assert!(steps < 1000, "the model's controllers do not come to an end");
    }
    model
}

/// Removes the managers of fields: while a namespace is being deleted, chance decides which controller takes which finalizer off.
fn hide_managers(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn text(object: &Value, at: &str) -> String {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
}
