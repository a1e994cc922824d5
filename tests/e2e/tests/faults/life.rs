//! The life cycle ("life") of one parent of each operator, step by step.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_e2e::{TIMEOUT, condition, is_done, text};

use crate::children::{Children, RESOURCES, children, differences};
use crate::stage::Stage;

/// A step of a life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Create,
    Scale,
    Change,
    NewComponent,
    Delete,
}

/// All steps, in order.
pub const STEPS: [Step; 5] = [Step::Create, Step::Scale, Step::Change, Step::NewComponent, Step::Delete];

/// An operator and the life cycle of one of its parents.
pub struct Life {
    pub plugin: &'static str,
    /// The file in `target/guests`.
    pub component: &'static str,
    api_version: &'static str,
    kind: &'static str,
    /// The parents' resource name for kubectl.
    pub resource: &'static str,
    /// The spec from a step on.
    spec: fn(Step) -> Value,
}

/// The name of every parent but the guarded Namespaces.
const NAME: &str = "web";

pub const LIVES: [Life; 6] = [
    Life {
        plugin: "echo",
        component: "echo",
        api_version: "my-operator.dev/v1",
        kind: "Echo",
        resource: "echoes.my-operator.dev",
        spec: |step| json!({ "replicas": replicas(step), "image": image(step) }),
    },
    Life {
        plugin: "myapp",
        component: "myapp",
        api_version: "example.com/v1",
        kind: "MyApp",
        resource: "myapps.example.com",
        spec: |step| json!({ "replicas": replicas(step), "image": image(step), "ingressHost": format!("{}.example.com", image(step).replace(':', "-")) }),
    },
    Life {
        plugin: "mysqlcluster",
        component: "mysqlcluster",
        api_version: "database.example.com/v1",
        kind: "MySQLCluster",
        resource: "mysqlclusters.database.example.com",
        spec: |step| {
            let version = if step < Step::Change { "8.4" } else { "8.4.3" };
            json!({ "version": version, "replicas": replicas(step), "storageSize": "1Gi", "deleteData": true })
        },
    },
    Life {
        plugin: "application",
        component: "application",
        api_version: "apps.example.com/v1alpha1",
        kind: "Application",
        resource: "applications.apps.example.com",
        spec: |step| {
            let security = if step < Step::Change { json!({}) } else { json!({ "networkPolicy": true }) };
            json!({ "replicas": replicas(step), "image": image(step), "security": security })
        },
    },
    Life {
        plugin: "namespaceguard",
        component: "namespaceguard",
        api_version: "v1",
        kind: "Namespace",
        resource: "namespaces",
        spec: |_| Value::Null,
    },
    Life {
        plugin: "puppet-finalizes",
        component: "puppets/puppet-finalizes",
        api_version: "puppets.example/v1",
        kind: "FinalizingPuppet",
        resource: "finalizingpuppets.puppets.example",
        spec: |step| {
            let maps = (0..replicas(step)).map(|at| {
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("part-{at}") }, "data": { "image": image(step) } })
            });
            let container = json!({ "name": "main", "image": "clean:1" });
            let job = json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "clean" },
                "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [container] } } },
            });
            json!({ "children": maps.collect::<Vec<_>>(), "finalize": { "children": [job], "finalizedWhen": "jobComplete" } })
        },
    },
];

fn replicas(step: Step) -> u32 {
    if step < Step::Scale { 1 } else { 2 }
}

fn image(step: Step) -> &'static str {
    if step < Step::Change { "nginx:1" } else { "nginx:2" }
}

/// The children at the end of each step of an undisturbed life.
pub type Course = BTreeMap<Step, Children>;

/// One life in a namespace of its own.
pub struct Run<'a> {
    stage: &'a Stage,
    life: &'a Life,
    namespace: String,
    /// The parent's uid.
    uid: String,
    /// The data of each Secret when it was first observed.
    generated: BTreeMap<String, Value>,
    /// Violations that were found.
    pub wrong: Vec<String>,
}

impl<'a> Run<'a> {
    pub fn new(stage: &'a Stage, life: &'a Life) -> Self {
        let namespace = stage.env.namespace(life.plugin).name().to_owned();
        if life.plugin == "mysqlcluster" {
            (0..2).for_each(|at| volume(stage, &namespace, &format!("{NAME}-data-{at}")));
        }
        let run = Self { stage, life, namespace, uid: String::new(), generated: BTreeMap::new(), wrong: Vec::new() };
        if run.guards() {
            run.configure(Step::Create);
        }
        run
    }

    fn guards(&self) -> bool {
        self.life.kind == "Namespace"
    }

    fn configure(&self, step: Step) {
        let pods = if step < Step::Change { "50" } else { "20" };
        let patch = json!({ "spec": { "config": { "quota": { "pods": pods } } } }).to_string();
        self.stage.env.kubectl(&["patch", "plugins.windlass.dev", self.life.plugin, "--type=merge", "-p", &patch]);
    }

    /// Does a user's part of a step, without waiting for the host.
    pub fn start(&self, step: Step) {
        let env = &self.stage.env;
        match (step, self.guards()) {
            (Step::NewComponent, _) => self.stage.push_next(self.life.plugin),
            (Step::Create, true) => {
                env.kubectl(&["label", "namespace", &self.namespace, "windlass.dev/guard=true"]);
            }
            (Step::Scale, true) => {
                env.kubectl(&["delete", "networkpolicy", "default-deny", "-n", &self.namespace]);
            }
            (Step::Change, true) => self.configure(step),
            (Step::Delete, true) => {
                env.kubectl(&["label", "namespace", &self.namespace, "windlass.dev/guard-"]);
            }
            (Step::Delete, false) => {
                env.kubectl(&["delete", self.life.resource, NAME, "-n", &self.namespace, "--wait=false"]);
            }
            (Step::Create | Step::Scale | Step::Change, false) => {
                let parent = json!({
                    "apiVersion": self.life.api_version, "kind": self.life.kind,
                    "metadata": { "name": NAME, "namespace": self.namespace },
                    "spec": (self.life.spec)(step),
                });
                env.apply(&parent.to_string());
            }
        }
    }

    /// The objects of the namespace, with the parent. Records a violation if a generated value changed.
    pub fn observe(&mut self) -> Vec<Value> {
        let resources =
            if self.guards() { RESOURCES.to_owned() } else { format!("{},{RESOURCES}", self.life.resource) };
        let objects = self.stage.env.list(&resources, &self.namespace);
        for object in objects.iter().filter(|object| object["kind"] == "Secret" && !object["data"].is_null()) {
            let name = text(object, "/metadata/name");
            let first = self.generated.entry(name.clone()).or_insert_with(|| object["data"].clone());
            if *first != object["data"] {
                first.clone_from(&object["data"]);
                self.wrong.push(format!("Secret {name}: a generated value was replaced"));
            }
        }
        objects
    }

    /// Whether the step has ended (or why not), and the current children.
    fn end(&mut self, step: Step) -> (Result<(), String>, Children) {
        let objects = self.observe();
        let parent = if self.guards() {
            self.stage.env.get("namespaces", "", &self.namespace)
        } else {
            objects.iter().find(|object| object["kind"] == self.life.kind).cloned()
        };
        if let Some(parent) = &parent {
            self.uid = text(parent, "/metadata/uid");
        }
        let found = children(&objects, &self.uid, &self.namespace);
        let is_going = |object: &&Value| !object["metadata"]["deletionTimestamp"].is_null();
        let going = objects.iter().find(|object| crate::children::is_child(object) && is_going(object));
        let state = match (&parent, step) {
            (_, Step::Delete) if self.guards() && !found.is_empty() => {
                Err("the guard's children still exist".to_owned())
            }
            (_, Step::Delete) if self.guards() => Ok(()),
            (Some(_), Step::Delete) => Err("the parent still exists".to_owned()),
            // The garbage collector still deletes children.
            (None, Step::Delete)
                if objects.iter().any(|object| text(object, "/metadata/ownerReferences/0/uid") == self.uid) =>
            {
                Err("children of the parent still exist".to_owned())
            }
            (None, Step::Delete) => Ok(()),
            (None, _) => Err("the parent is missing".to_owned()),
            (Some(_), _) if self.guards() => guarded(&objects, step),
            (Some(parent), _) if is_done(parent) && parent["status"]["isReady"] != false => Ok(()),
            (Some(parent), _) => Err(format!("the status is {} ({:?})", parent["status"], condition(parent, "Ready"))),
        };
        let state = state.and_then(|()| {
            going.map_or(Ok(()), |child| Err(format!("{} is being deleted", text(child, "/metadata/name"))))
        });
        let state = match step {
            Step::NewComponent if state.is_ok() && !self.stage.is_live(self.life.plugin) => {
                Err("the new component is not live".to_owned())
            }
            _ => state,
        };
        (state, found)
    }

    /// Waits for the end of a step, and calls `tend` before each poll. Returns the children and the duration, or records
    /// a violation with the reason why the step does not end.
    pub fn wait(
        &mut self,
        step: Step,
        expected: Option<&Children>,
        mut tend: impl FnMut(&mut Self),
    ) -> Option<(Children, Duration)> {
        let begin = Instant::now();
        let mut before = None;
        let mut last = String::new();
        let found = windlass_testbed::until("", TIMEOUT, || {
            tend(self);
            let (state, found) = self.end(step);
            let wrong = expected.map(|expected| differences(expected, &found)).unwrap_or_default();
            if let Err(error) = state {
                last = error;
                before = None;
                return Ok(None);
            }
            if expected.is_some() {
                last = wrong.join("; ");
                return Ok(wrong.is_empty().then_some(found));
            }
            // Without expected children, the step ends when two polls are equal.
            "the children change".clone_into(&mut last);
            let is_steady = before.as_ref() == Some(&found);
            before = Some(found.clone());
            Ok(is_steady.then_some(found))
        });
        if let Ok(found) = found {
            return Some((found, begin.elapsed()));
        }
        self.wrong.push(format!("{} {} {step:?}: stuck: {last}", self.life.plugin, self.namespace));
        None
    }
}

fn guarded(objects: &[Value], step: Step) -> Result<(), String> {
    let found: Vec<_> = objects.iter().filter(|object| crate::children::is_child(object)).collect();
    let pods = if step < Step::Change { "50" } else { "20" };
    let has_quota = found.iter().any(|object| object["spec"]["hard"]["pods"] == pods);
    if found.len() == 3 && has_quota { Ok(()) } else { Err(format!("{} children, quota {has_quota}", found.len())) }
}

fn volume(stage: &Stage, namespace: &str, claim: &str) {
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": format!("{namespace}-{claim}") },
        "spec": {
            "storageClassName": "by-hand",
            "capacity": { "storage": "100Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim },
            "hostPath": { "path": format!("/tmp/{namespace}/{claim}") },
        },
    });
    stage.env.apply(&volume.to_string());
}
