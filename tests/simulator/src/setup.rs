//! The cluster before a history begins, and the compiled component that all hosts run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_api::Plugin;
use windlass_api_model::{ApiServer, Call, Response};
use windlass_engine::plugins::rbac::RNG_KEY_SECRET;
use windlass_sandbox::{CompilerCommand, Options, Sandbox};

use crate::history::{History, Version};

/// A Plugin of the simulation.
#[derive(Debug)]
pub struct Operator {
    /// Name of the Plugin, of its component, and of its source.
    pub name: &'static str,
    /// The account that writes its children.
    pub account: &'static str,
    /// The kind of its parents.
    pub parents: &'static str,
    /// Whether every cluster has it; the others only if the history names them.
    is_usual: bool,
    /// The kind of its parents, if it exists without the Plugin. The host writes no status of theirs.
    pub existing: Option<&'static str>,
}

/// The Plugins: one whose parents have no finalizer, one whose parents have one, and one whose children change one after the other; and
/// for some histories one that owns Roles, too, one whose parents are cluster-scoped, one whose parents are of a kind that exists
/// without it, one whose children have stages, and one that waits for a time.
pub const OPERATORS: [Operator; 8] = [
    Operator {
        name: "puppet",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet",
        parents: "puppets.puppets.example",
        is_usual: true,
        existing: None,
    },
    Operator {
        name: "puppet-finalizes",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-finalizes",
        parents: "finalizingpuppets.puppets.example",
        is_usual: true,
        existing: None,
    },
    Operator {
        name: "puppet-rolling",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-rolling",
        parents: "rollingpuppets.puppets.example",
        is_usual: true,
        existing: None,
    },
    Operator {
        name: "puppet-rbac",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-rbac",
        parents: "rbacpuppets.puppets.example",
        is_usual: false,
        existing: None,
    },
    Operator {
        name: "puppet-cluster",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-cluster",
        parents: "clusterpuppets.puppets.example",
        is_usual: false,
        existing: None,
    },
    Operator {
        name: "puppet-existing",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-existing",
        parents: "marionettes.puppets.example",
        is_usual: false,
        existing: Some("Marionette"),
    },
    Operator {
        name: "puppet-staged",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-staged",
        parents: "stagedpuppets.puppets.example",
        is_usual: false,
        existing: None,
    },
    Operator {
        name: "puppet-scheduled",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-scheduled",
        parents: "scheduledpuppets.puppets.example",
        is_usual: false,
        existing: None,
    },
];

/// Other components of the first Plugin.
const VERSIONS: [&str; 2] = ["puppet-empty", "puppet-narrow"];

/// The kinds of children. Only histories that somebody writes have Deployments, Roles and `RoleBindings`.
pub const CHILDREN: [&str; 8] = [
    "configmaps",
    "secrets",
    "services",
    "deployments.apps",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    DOLLS,
    MASKS,
];
/// Children that are ready a while after each change.
pub const DOLLS: &str = "dolls.puppets.example";
/// The same, and they are replaced instead of changed.
pub const MASKS: &str = "masks.puppets.example";
/// The namespace of hosts.
pub const HOST_NAMESPACE: &str = "windlass-system";
/// The namespace of parents.
pub const NAMESPACE: &str = "shop";
/// The ConfigMap that parents may require.
pub const SHARED: &str = "shared";
/// The type of a Secret with the token of a ServiceAccount.
pub const TOKEN: &str = "kubernetes.io/service-account-token";
/// What the names of children begin with when the Plugin's config renames them.
pub const RENAMED: &str = "renamed-";
/// A user.
pub const USER: &str = "ann";

/// When each history begins.
///
/// # Panics
/// Never: the time is valid.
#[must_use]
pub fn beginning() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap_or_default()
}

/// The components, compiled once for all histories of a process.
pub struct Compiled {
    folder: PathBuf,
    /// The bytes of each component, by its name.
    bytes: BTreeMap<&'static str, Vec<u8>>,
    /// The folders of the hosts of this process. Their names are no chance of a history.
    hosts: TempDir,
}

impl Compiled {
    /// Compiles the components, unless an earlier process has done so.
    ///
    /// # Errors
    /// If a file cannot be read, or is no component.
    pub fn new() -> anyhow::Result<Self> {
        let folder = target().join("simulator");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // One process at a time: a sandbox takes a compilation that another one has begun for one that was cut off.
        let lock = fs::File::create(target().join("simulator.lock"))?;
        lock.lock()?;
        let found = Self::in_folder(&folder)?;
        let sandbox = Sandbox::new(Options { compiler: compiler(), ..Options::new(&folder) })?;
        for bytes in found.bytes.values() {
            sandbox.load(bytes)?;
        }
        Ok(found)
    }

    /// The components that another process has compiled into this folder.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let guests = target().join("guests/puppets");
        let read = |name: &'static str| {
            let file = guests.join(format!("{name}.wasm"));
            let bytes = fs::read(&file);
            let bytes =
                bytes.with_context(|| format!("{}: build the guests with `cargo xtask guests`", file.display()))?;
            Ok((name, bytes))
        };
        let names = OPERATORS.iter().map(|operator| operator.name).chain(VERSIONS);
        let bytes = names.map(read).collect::<anyhow::Result<_>>()?;
        Ok(Self { folder: folder.to_owned(), bytes, hosts: tempfile::tempdir_in(folder)? })
    }

    /// What a ConfigMap has to contain for a component to be that of a Plugin.
    pub fn source(&self, version: Version) -> Value {
        let name = match version {
            Version::Whole => OPERATORS[0].name,
            Version::Empty => VERSIONS[0],
            Version::Narrow => VERSIONS[1],
            Version::Missing => return json!({ "binaryData": null }),
        };
        self.source_of(name)
    }

    fn source_of(&self, name: &str) -> Value {
        json!({ "binaryData": { "plugin.wasm": self.bytes.get(name).map(|bytes| BASE64_STANDARD.encode(bytes)) } })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// A folder for a host, with the compiled component. Each host has its own, as each Pod has.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn folder_of(&self, host: usize) -> anyhow::Result<PathBuf> {
        let folder = self.hosts.path().join(host.to_string());
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::hard_link(entry.path(), folder.join(entry.file_name()))?;
            }
        }
        // With a lock file, the identity of the host would contain the number of an inode. Without one it follows from the seed.
        let lock = folder.join("lease.lock");
        let _ = fs::remove_file(&lock);
        fs::create_dir(lock)?;
        Ok(folder)
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// This binary compiles, too.
#[must_use]
pub fn compiler() -> CompilerCommand {
    CompilerCommand::own()
}

/// A request of a user, who applies nothing server-side.
#[must_use]
pub fn by_user(method: &str, path: &str, body: Option<Value>, now: Timestamp) -> Call {
    Call {
        method: method.to_owned(),
        path: path.to_owned(),
        query: "fieldManager=kubectl-edit".to_owned(),
        content_type: "application/merge-patch+json".to_owned(),
        metadata_only: false,
        user: USER.to_owned(),
        body,
        now,
    }
}

/// The CRD of a kind that no Plugin installs. Its objects may have any fields; each item of `spec.parts` has a default.
fn definition_of(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let open = |properties: Value| json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties });
    let parts = json!({ "type": "array", "items": open(json!({ "weight": { "type": "integer", "default": 1 } })) });
    let schema = open(json!({ "spec": open(json!({ "parts": parts })) }));
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": schema },
    });
    json!({
        "metadata": { "name": format!("{plural}.puppets.example") },
        "spec": {
            "group": "puppets.example", "scope": "Namespaced", "versions": [version],
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
        },
    })
}

/// A cluster with the usual Plugins, these ones, and their components, and without parents.
#[must_use]
pub fn cluster(compiled: &Compiled, history: &History) -> ApiServer {
    let mut server = ApiServer::default();
    let now = beginning();
    let mut create = |path: &str, object: Value| {
        let Response { code, body } = server.respond(&by_user("POST", path, Some(object), now));
        assert_eq!(code, 201, "{path}: {body}");
    };
    for namespace in ["default", "windlass-system", NAMESPACE] {
        create("/api/v1/namespaces", json!({ "metadata": { "name": namespace } }));
    }
    let definition = serde_json::to_value(Plugin::crd()).unwrap_or_default();
    let is_there = |of: &&Operator| of.is_usual || history.plugins.iter().any(|name| *name == of.name);
    let operators: Vec<_> = OPERATORS.iter().filter(is_there).collect();
    let kinds = ["Doll", "Mask"].into_iter().chain(operators.iter().filter_map(|of| of.existing));
    for definition in std::iter::once(definition).chain(kinds.map(definition_of)) {
        create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    }
    let own = "/api/v1/namespaces/windlass-system";
    // A key of its own would differ between two runs of one seed.
    let key = json!({ "metadata": { "name": RNG_KEY_SECRET }, "data": { "key": BASE64_STANDARD.encode([7; 32]) } });
    create(&format!("{own}/secrets"), key);
    for Operator { name, .. } in operators {
        let mut source = compiled.source_of(name);
        source["metadata"] = json!({ "name": name });
        create(&format!("{own}/configmaps"), source);
        let account = json!({ "metadata": { "name": format!("windlass-plugin-{name}") } });
        create(&format!("{own}/serviceaccounts"), account);
        let plugin = json!({
            "metadata": { "name": name },
            "spec": {
                "source": { "configMap": { "namespace": "windlass-system", "name": name } },
                "installCRD": true,
                "resync": history.resync,
            },
        });
        create("/apis/windlass.dev/v1alpha1/plugins", plugin);
    }
    server
}
