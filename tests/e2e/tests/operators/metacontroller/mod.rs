//! The examples of metacontroller as plugins (plugins/examples): each runs the steps of metacontroller's own test script, all side by
//! side in one host, which then writes nothing.

mod catset;
mod clusteredparent;
mod configmaps;
mod indexedjob;
mod service_per_pod;

use std::path::PathBuf;
use std::thread::{self, sleep};
use std::time::Duration;

use serde_json::Value;
use windlass_e2e::{Env, Mark, account, guest};

use crate::STORAGE;

/// How long the host must write nothing.
const OBSERVATION: Duration = Duration::from_secs(10);

/// A plugin, the flags that a cluster admin pushes it with, and the steps.
type Example = (&'static str, &'static [&'static str], fn(&Env));

/// All of them. Each leaves one parent.
const EXAMPLES: [Example; 6] = [
    ("catset", &[], catset::steps),
    ("clusteredparent", &["--grant", "ClusterRole", "--grant", "RoleBinding"], clusteredparent::steps),
    ("configmappropagation", &[], configmaps::steps_of_propagation),
    ("globalconfigmap", &["--grant", "Namespace"], configmaps::steps_of_global),
    ("indexedjob", &[], indexedjob::steps),
    ("service-per-pod", &["--grant", "StatefulSet"], service_per_pod::steps),
];

#[track_caller]
fn component(plugin: &str) -> PathBuf {
    guest(&format!("examples/{plugin}"))
}

#[test]
fn examples_of_metacontroller_run_the_steps_of_their_scripts_and_then_nothing_is_written() {
    let env = &Env::start();
    env.apply(STORAGE);
    env.apply(clusteredparent::MAY_BIND);
    let host = env.start_host();
    for (plugin, flags, _) in EXAMPLES {
        env.push(&component(plugin), plugin, flags);
    }
    thread::scope(|scope| {
        for (plugin, _, steps) in EXAMPLES {
            let run = move || {
                env.wait_live(plugin, &component(plugin));
                steps(env);
            };
            thread::Builder::new().name(plugin.to_owned()).spawn_scoped(scope, run).expect("a thread");
        }
    });

    // The host updates these counts some seconds later.
    for (plugin, ..) in EXAMPLES {
        env.wait_plugin(plugin, |plugin| plugin["status"]["parents"] == 1 && plugin["status"]["failing"] == 0);
    }
    let mark = env.mark();
    // Not a synchronization: the test shows that nothing happens for this time.
    sleep(OBSERVATION);
    assert_eq!(env.host_requests(mark).attempted_writes().to_vec(), [], "the host writes nothing in the steady state");
    assert!(host.is_running());
}

/// What the host wrote for a plugin since then, in order: the verb, the namespace and the name of each object of a resource.
#[track_caller]
fn written(env: &Env, mark: Mark, plugin: &str, resource: &str) -> Vec<(String, String, String)> {
    let mut writes = env.host_writes(mark).on_behalf_of(&account(plugin)).resource(resource);
    writes.0.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    writes.into_iter().map(|write| (write.verb, write.namespace, write.name)).collect()
}

/// The names that the host wrote with this verb, in order.
#[track_caller]
fn names(env: &Env, mark: Mark, plugin: &str, resource: &str, verb: &str, prefix: &str) -> Vec<String> {
    let writes = written(env, mark, plugin, resource).into_iter();
    writes.filter(|(done, _, name)| done == verb && name.starts_with(prefix)).map(|(.., name)| name).collect()
}

/// The finalizers of an object.
fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A finalizer of the test's own, by which a deleted object stays to be read.
const FINALIZER: &str = "porting.example.com/test";

/// Appends it.
#[track_caller]
fn hold(env: &Env, resource: &str, namespace: &str, name: &str) {
    let patch = format!(r#"[{{"op": "add", "path": "/metadata/finalizers/-", "value": "{FINALIZER}"}}]"#);
    env.kubectl(&["patch", resource, name, "-n", namespace, "--type=json", "-p", &patch]);
}

/// Removes it, the only one that is left.
#[track_caller]
fn release(env: &Env, resource: &str, namespace: &str, name: &str) {
    env.wait_object(resource, namespace, name, |object| finalizers(object) == [FINALIZER]);
    let none = r#"{"metadata": {"finalizers": []}}"#;
    env.kubectl(&["patch", resource, name, "-n", namespace, "--type=merge", "-p", none]);
    env.wait_gone(resource, namespace, name);
}
