//! A namespace of one test, with helpers for Echoes and Pods.

use serde_json::{Value, json};

use crate::{Env, Puppet, TIMEOUT, condition, text, wait};

/// The resource name of Echoes.
const ECHOES: &str = "echoes.my-operator.dev";

/// A namespace. It exists until the end of its cluster: deleting it would take longer than most tests.
pub struct Namespace<'a> {
    env: &'a Env,
    name: String,
}

impl<'a> Namespace<'a> {
    pub(crate) fn new(env: &'a Env, name: String) -> Self {
        Self { env, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its control plane.
    pub fn env(&self) -> &'a Env {
        self.env
    }

    /// Applies an Echo as a user would.
    #[track_caller]
    pub fn echo(&self, name: &str, replicas: u32, image: &str) {
        self.env.apply(&self.echo_manifest(name, replicas, image).to_string());
    }

    /// The manifest that [`Namespace::echo`] applies.
    pub fn echo_manifest(&self, name: &str, replicas: u32, image: &str) -> Value {
        json!({
            "apiVersion": "my-operator.dev/v1", "kind": "Echo",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {"replicas": replicas, "image": image},
        })
    }

    /// The `Puppet` of this name, to be applied.
    pub fn puppet(&self, name: &str) -> Puppet<'a> {
        self.puppet_of("Puppet", name)
    }

    /// A scripted parent of another kind.
    pub fn puppet_of(&self, kind: &'static str, name: &str) -> Puppet<'a> {
        Puppet::new(self.env, kind, &self.name, name)
    }

    /// Runs kubectl in this namespace.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        let mut all = vec!["-n", &self.name];
        all.extend(args);
        self.env.kubectl(&all)
    }

    /// An object of this namespace, or `None`.
    #[track_caller]
    pub fn get(&self, resource: &str, name: &str) -> Option<Value> {
        self.env.get(resource, &self.name, name)
    }

    /// The Pods that are not being deleted.
    #[track_caller]
    pub fn pods(&self) -> Vec<Value> {
        let mut pods = self.env.list("pods", &self.name);
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// The names of [`Namespace::pods`], sorted.
    #[track_caller]
    pub fn pod_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.pods().iter().map(|pod| text(pod, "/metadata/name")).collect();
        names.sort();
        names
    }

    /// A Pod that must exist.
    #[track_caller]
    pub fn pod(&self, name: &str) -> Value {
        self.get("pods", name).unwrap_or_else(|| panic!("no Pod {name} in {}", self.name))
    }

    /// Waits until exactly these Pods exist (in the order of their names), none of them being deleted.
    #[track_caller]
    pub fn wait_pods(&self, names: &[&str]) {
        wait(&format!("exactly the Pods {names:?} in {}", self.name), TIMEOUT, || {
            let pods = self.env.list("pods", &self.name);
            let mut found: Vec<_> = pods.iter().map(|pod| text(pod, "/metadata/name")).collect();
            found.sort();
            (found == names).then_some(())
        });
    }

    /// Waits until an object in it no longer exists.
    #[track_caller]
    pub fn wait_gone(&self, resource: &str, name: &str) {
        self.env.wait_gone(resource, &self.name, name);
    }

    /// Waits until an Echo satisfies a condition.
    #[track_caller]
    pub fn wait_echo(&self, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.env.wait_object(ECHOES, &self.name, name, condition)
    }

    /// Waits until an Echo has converged: its status reports all Pods of its newest generation as Ready.
    #[track_caller]
    pub fn wait_settled(&self, name: &str) -> Value {
        self.wait_echo(name, is_settled)
    }

    /// Waits until an Echo's `Ready` is False for this reason.
    #[track_caller]
    pub fn wait_not_ready(&self, name: &str, reason: &str) -> Value {
        self.wait_echo(name, |echo| condition(echo, "Ready").is_false(reason))
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // The shared host keeps running, so its log about this namespace is printed here.
        if std::thread::panicking() {
            eprintln!("log lines of hosts about {}:\n{}", self.name, self.env.host_log_about(&self.name));
        }
    }
}

/// Whether an Echo's status reports all Pods of its newest generation as Ready.
pub fn is_settled(echo: &Value) -> bool {
    let generation = &echo["metadata"]["generation"];
    let status = &echo["status"];
    condition(echo, "Ready").is_true()
        && status["observedGeneration"] == *generation
        && status["isReady"] == true
        && status["currentReplicas"] == echo["spec"]["replicas"]
}
