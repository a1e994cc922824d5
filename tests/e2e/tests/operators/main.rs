//! The shipped operators on a real control plane: specs determine the children, the children's state determines the
//! status, and deletions leave nothing.
//!
//! One control plane and one host run all of them; every test has a namespace of its own. [`together`] and [`languages`]
//! have hosts of their own: they count writes, and hot-swap components. So has [`metacontroller`], which runs plugins for readers.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

mod application;
mod invalid;
mod languages;
mod manifests;
mod metacontroller;
mod myapp;
mod mysqlcluster;
mod namespaceguard;
mod policies;
mod postgres;
mod together;
mod transitions;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};
use windlass_e2e::{Env, Host, Namespace, TIMEOUT, condition, guest, text, wait};

/// The Plugins.
const PLUGINS: [&str; 6] = ["application", "echo", "myapp", "mysqlcluster", "namespaceguard", "postgres"];

/// A custom kind of one of them.
#[derive(Debug, Clone, Copy)]
struct Kind {
    api_version: &'static str,
    name: &'static str,
    /// Its resource name for kubectl.
    resource: &'static str,
}

const APPLICATION: Kind =
    Kind { api_version: "apps.example.com/v1alpha1", name: "Application", resource: "applications.apps.example.com" };
const ECHO: Kind = Kind { api_version: "my-operator.dev/v1", name: "Echo", resource: "echoes.my-operator.dev" };
const MYAPP: Kind = Kind { api_version: "example.com/v1", name: "MyApp", resource: "myapps.example.com" };
const MYSQLCLUSTER: Kind = Kind {
    api_version: "database.example.com/v1",
    name: "MySQLCluster",
    resource: "mysqlclusters.database.example.com",
};

const POSTGRESCLUSTER: Kind = Kind {
    api_version: "postgres.example.com/v1",
    name: "PostgresCluster",
    resource: "postgresclusters.postgres.example.com",
};

impl Kind {
    fn manifest(self, ns: &Namespace, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.name,
            "metadata": { "name": name, "namespace": ns.name() },
            "spec": spec,
        })
    }

    /// Replaces the spec, as `kubectl replace` does: fields that are not in it are removed. The error is the API server's
    /// message.
    fn try_replace(self, ns: &Namespace, name: &str, spec: &Value) -> Result<(), String> {
        let mut manifest = self.manifest(ns, name, spec);
        let verb = match ns.get(self.resource, name) {
            Some(found) => {
                manifest["metadata"] = found["metadata"].clone();
                "replace"
            }
            None => "create",
        };
        let cluster = ns.env().cluster();
        let sent = cluster.kubectl_with_input(&[verb, "-f", "-"], &manifest.to_string());
        sent.map(drop).map_err(|error| format!("{error:#}"))
    }

    #[track_caller]
    fn replace(self, ns: &Namespace, name: &str, spec: &Value) {
        // The status may have been written in between.
        wait("the spec to be accepted", TIMEOUT, || match self.try_replace(ns, name, spec) {
            Ok(()) => Some(()),
            Err(error) if error.contains("the object has been modified") => None,
            Err(error) => panic!("{error}"),
        });
    }

    /// Waits until the newest generation is Ready.
    #[track_caller]
    fn wait_ready(self, ns: &Namespace, name: &str) -> Value {
        ns.env().wait_object(self.resource, ns.name(), name, is_ready)
    }

    /// [`Kind::replace`] and [`Kind::wait_ready`].
    #[track_caller]
    fn settle(self, ns: &Namespace, name: &str, spec: &Value) -> Value {
        self.replace(ns, name, spec);
        self.wait_ready(ns, name)
    }

    #[track_caller]
    fn delete(self, ns: &Namespace, name: &str) {
        ns.kubectl(&["delete", self.resource, name, "--wait=true", "--timeout=180s"]);
    }
}

/// Whether a parent's newest generation is Ready, also by its own `isReady` if it has one.
fn is_ready(parent: &Value) -> bool {
    let ready = condition(parent, "Ready");
    ready.is_true()
        && ready.observed_generation == parent["metadata"]["generation"].as_i64()
        && parent["status"]["observedGeneration"] == parent["metadata"]["generation"]
        && parent["status"]["isReady"] != false
}

/// The control plane with all of them, live.
struct Stage {
    env: Env,
    _host: Host,
}

#[track_caller]
fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let env = Env::with_bodies();
        let host = start(&env);
        Stage { env, _host: host }
    })
}

/// A host on this control plane that runs all of them, with the admission policies in force.
#[track_caller]
fn start(env: &Env) -> Host {
    env.apply(STORAGE);
    env.apply(&env.windlass(&["generate", "admission-policies"]));
    let host = env.start_host();
    for plugin in PLUGINS {
        env.push_granted(&component(plugin), plugin);
    }
    for plugin in PLUGINS {
        env.wait_live(plugin, &component(plugin));
    }
    host
}

/// The component of a Plugin.
#[track_caller]
fn component(plugin: &str) -> PathBuf {
    // There is one in Go alone.
    guest(if plugin == "postgres" { "languages/postgres-go" } else { plugin })
}

/// A class of storage whose volumes the tests make by hand; they can grow.
const STORAGE: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: by-hand, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
allowVolumeExpansion: true
"#;

/// A volume for the claim of this name alone.
#[track_caller]
fn volume(ns: &Namespace, claim: &str, modes: &[&str]) {
    another_volume(ns, claim, "first", modes);
}

/// Another volume, for a recreated claim of the same name.
#[track_caller]
fn another_volume(ns: &Namespace, claim: &str, which: &str, modes: &[&str]) {
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": format!("{}-{claim}-{which}", ns.name()) },
        "spec": {
            "storageClassName": "by-hand",
            "capacity": { "storage": "100Gi" },
            "accessModes": modes,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": ns.name(), "name": claim },
            "hostPath": { "path": format!("/tmp/{}/{claim}", ns.name()) },
        },
    });
    ns.env().apply(&volume.to_string());
}

/// Waits until an object in the namespace satisfies a condition.
#[track_caller]
fn wait_for(ns: &Namespace, resource: &str, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
    ns.env().wait_object(resource, ns.name(), name, condition)
}

/// The repository's root folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A sample by its name in `manifests/samples`.
#[track_caller]
fn sample(name: &str) -> String {
    let path = root().join("manifests/samples").join(name).with_extension("yaml");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Events on an object: their reasons.
#[track_caller]
fn event_reasons(ns: &Namespace, name: &str) -> Vec<String> {
    let events = ns.env().list("events.events.k8s.io", ns.name());
    let mut of: Vec<_> = events.iter().filter(|event| text(event, "/regarding/name") == name).collect();
    of.sort_by_key(|event| text(event, "/eventTime"));
    of.iter().map(|event| text(event, "/reason")).collect()
}
