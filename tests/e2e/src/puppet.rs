//! Parents whose spec is a script that the guests in `tests/guests/puppets` execute.

use serde_json::{Value, json};

use crate::{Condition, Env, condition};

const GROUP: &str = "puppets.example";

/// One scripted parent; `tests/guests/src/puppet.rs` defines the fields of its spec.
pub struct Puppet<'a> {
    env: &'a Env,
    kind: &'static str,
    resource: String,
    namespace: String,
    name: String,
}

impl<'a> Puppet<'a> {
    /// A parent of this kind (`Puppet`, `FinalizingPuppet`…); `namespace` is empty for a cluster-scoped one.
    pub fn new(env: &'a Env, kind: &'static str, namespace: &str, name: &str) -> Self {
        let resource = format!("{}s.{GROUP}", kind.to_lowercase());
        Self { env, kind, resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Applies it as a user would.
    #[track_caller]
    pub fn apply(&self, spec: &Value) {
        let mut metadata = json!({ "name": self.name });
        if !self.namespace.is_empty() {
            metadata["namespace"] = self.namespace.as_str().into();
        }
        let puppet =
            json!({ "apiVersion": format!("{GROUP}/v1"), "kind": self.kind, "metadata": metadata, "spec": spec });
        self.env.apply(&puppet.to_string());
    }

    /// [`Puppet::apply`], and waits until it has converged.
    #[track_caller]
    pub fn play(&self, spec: &Value) -> Value {
        self.apply(spec);
        self.wait_done()
    }

    /// The object, or `None`.
    #[track_caller]
    pub fn get(&self) -> Option<Value> {
        self.env.get(&self.resource, &self.namespace, &self.name)
    }

    /// Its uid.
    #[track_caller]
    pub fn uid(&self) -> String {
        self.get().map(|puppet| crate::text(&puppet, "/metadata/uid")).unwrap_or_default()
    }

    /// Waits until it satisfies a condition.
    #[track_caller]
    pub fn wait(&self, condition: impl Fn(&Value) -> bool) -> Value {
        self.env.wait_object(&self.resource, &self.namespace, &self.name, condition)
    }

    /// Waits until its newest generation is applied.
    #[track_caller]
    pub fn wait_done(&self) -> Value {
        self.wait(is_done)
    }

    /// Waits until `Ready` has this reason, with any status, and returns the condition.
    #[track_caller]
    pub fn wait_reason(&self, reason: &str) -> Condition {
        condition(&self.wait(|puppet| condition(puppet, "Ready").reason == reason), "Ready")
    }

    /// Runs `kubectl <verb> <this object> <arguments>`.
    #[track_caller]
    pub fn kubectl(&self, verb: &str, args: &[&str]) -> String {
        let mut all = vec!["-n", &self.namespace, verb, &self.resource, &self.name];
        all.extend(args);
        self.env.kubectl(&all)
    }

    /// The number of calls of the plugin for it, in all hosts of this environment.
    pub fn calls(&self) -> usize {
        let object = format!(" {}/{} ", self.namespace, self.name);
        let is_call = |line: &&String| line.contains("windlass::guest") && line.contains(&object);
        self.env.host_log_lines("puppet called:").iter().filter(is_call).count()
    }
}

/// Whether a parent's status reports its newest generation as applied.
pub fn is_done(parent: &Value) -> bool {
    condition(parent, "Ready").is_true()
        && condition(parent, "Reconciling").status != "True"
        && parent["status"]["observedGeneration"] == parent["metadata"]["generation"]
}
