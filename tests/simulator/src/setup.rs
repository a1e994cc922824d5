//! The cluster before a history begins, and the compiled component that all hosts run.

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
use windlass_api_model::{Answer, ApiServer, Call};
use windlass_engine::plugins::rbac::RNG_KEY_SECRET;
use windlass_sandbox::{CompilerCommand, Options, Sandbox};

/// Name of the leader's Lease.
pub const LEASE: &str = "windlass";
/// A Plugin of the simulation.
#[derive(Debug)]
pub struct Operator {
    /// Name of the Plugin, of its component, and of its source.
    pub name: &'static str,
    /// The account that writes its children.
    pub account: &'static str,
    /// The kind of its parents.
    pub parents: &'static str,
}

/// The Plugins: one whose parents have no finalizer, and one whose parents have one.
pub const OPERATORS: [Operator; 2] = [
    Operator {
        name: "puppet",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet",
        parents: "puppets.puppets.example",
    },
    Operator {
        name: "puppet-finalizes",
        account: "system:serviceaccount:windlass-system:windlass-plugin-puppet-finalizes",
        parents: "finalizingpuppets.puppets.example",
    },
];

/// The kinds of children.
pub const CHILDREN: [&str; 5] = ["configmaps", "secrets", "services", "pods", "deployments.apps"];
/// The namespace of parents.
pub const NAMESPACE: &str = "shop";
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
    /// The bytes of each component, in the order of [`OPERATORS`].
    bytes: Vec<Vec<u8>>,
    /// The folders of the hosts of this process. Their names are no chance of a history.
    hosts: TempDir,
    /// The folder, if this process made it.
    _made: Option<TempDir>,
}

impl Compiled {
    /// Compiles the components into a new folder.
    ///
    /// # Errors
    /// If a file cannot be read, or is no component.
    pub fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let found = Self::in_folder(folder.path())?;
        let sandbox = Sandbox::new(Options { compiler: compiler(), ..Options::new(folder.path()) })?;
        for bytes in &found.bytes {
            sandbox.load(bytes)?;
        }
        Ok(Self { _made: Some(folder), ..found })
    }

    /// The components that another process has compiled into this folder.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests/puppets");
        let read = |operator: &Operator| {
            let file = guests.join(format!("{}.wasm", operator.name));
            fs::read(&file).with_context(|| format!("{}: build the guests with `cargo xtask guests`", file.display()))
        };
        let bytes = OPERATORS.iter().map(read).collect::<anyhow::Result<_>>()?;
        Ok(Self { folder: folder.to_owned(), bytes, hosts: tempfile::tempdir_in(folder)?, _made: None })
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

/// A cluster with the Plugins and their components, and without parents.
#[must_use]
pub fn cluster(compiled: &Compiled) -> ApiServer {
    let mut server = ApiServer::default();
    let now = beginning();
    let mut create = |path: &str, object: Value| {
        let Answer { code, body } = server.respond(&by_user("POST", path, Some(object), now));
        assert_eq!(code, 201, "{path}: {body}");
    };
    for namespace in ["default", "windlass-system", NAMESPACE] {
        create("/api/v1/namespaces", json!({ "metadata": { "name": namespace } }));
    }
    let definition = serde_json::to_value(Plugin::crd()).unwrap_or_default();
    create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    let own = "/api/v1/namespaces/windlass-system";
    // A key of its own would differ between two runs of one seed.
    let key = json!({ "metadata": { "name": RNG_KEY_SECRET }, "data": { "key": BASE64_STANDARD.encode([7; 32]) } });
    create(&format!("{own}/secrets"), key);
    for (Operator { name, .. }, bytes) in OPERATORS.iter().zip(&compiled.bytes) {
        let component = BASE64_STANDARD.encode(bytes);
        let source = json!({ "metadata": { "name": name }, "binaryData": { "plugin.wasm": component } });
        create(&format!("{own}/configmaps"), source);
        let account = json!({ "metadata": { "name": format!("windlass-plugin-{name}") } });
        create(&format!("{own}/serviceaccounts"), account);
        let plugin = json!({
            "metadata": { "name": name },
            "spec": { "source": { "configMap": { "namespace": "windlass-system", "name": name } }, "installCRD": true },
        });
        create("/apis/windlass.dev/v1alpha1/plugins", plugin);
    }
    server
}
