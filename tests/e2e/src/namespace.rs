//! A namespace of one test, with the words in which tests speak of Echoes and Pods.

use serde_json::{Value, json};

use crate::{Env, Puppet, SOON, condition, text, wait};

/// The name by which Windlass' own operator of the tests is served.
const ECHOES: &str = "echoes.my-operator.dev";

/// A namespace. It is left to the end of its cluster: deleting one takes longer than most tests.
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

    /// Where it is.
    pub fn env(&self) -> &'a Env {
        self.env
    }

    /// Applies an Echo as a user would.
    #[track_caller]
    pub fn echo(&self, name: &str, replicas: u32, image: &str) {
        self.env.apply(&self.echo_manifest(name, replicas, image).to_string());
    }

    /// What [`Namespace::echo`] applies.
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

    /// An object of this namespace, or nothing.
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

    /// A Pod that must be there.
    #[track_caller]
    pub fn pod(&self, name: &str) -> Value {
        self.get("pods", name).unwrap_or_else(|| panic!("no Pod {name} in {}", self.name))
    }

    /// Waits until exactly these Pods are there (in the order of their names), none of them being deleted.
    #[track_caller]
    pub fn wait_pods(&self, names: &[&str]) {
        wait(&format!("exactly the Pods {names:?} in {}", self.name), SOON, || {
            let pods = self.env.list("pods", &self.name);
            let mut found: Vec<_> = pods.iter().map(|pod| text(pod, "/metadata/name")).collect();
            found.sort();
            (found == names).then_some(())
        });
    }

    /// Waits until an Echo's status is as wanted.
    #[track_caller]
    pub fn wait_echo(&self, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.env.wait_object(ECHOES, &self.name, name, condition)
    }

    /// Waits until an Echo is done: all Pods Ready, and its status says so of its newest generation.
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
        // The host that tests share lives on, so it is here that its log can be seen.
        if std::thread::panicking() {
            eprintln!("what hosts said of {}:\n{}", self.name, self.env.host_log_about(&self.name));
        }
    }
}

/// Whether an Echo's status says of its newest generation that all is there and Ready.
pub fn is_settled(echo: &Value) -> bool {
    let generation = &echo["metadata"]["generation"];
    let status = &echo["status"];
    condition(echo, "Ready").is_true()
        && status["observedGeneration"] == *generation
        && status["isReady"] == true
        && status["currentReplicas"] == echo["spec"]["replicas"]
}
