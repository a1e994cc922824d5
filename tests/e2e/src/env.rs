//! One control plane with Windlass installed on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_faults::Faults;
use windlass_testbed::{Audit, AuditEvent, AuditEvents, AuditLevel, Cluster, Mark, Options};

use crate::api::Api;
use crate::binaries::compiled;
use crate::host::excerpt;
use crate::slot::Slot;
use crate::{Host, HostOptions, Namespace, TIMEOUT, condition, wait, windlass};

/// The namespace of the host and of ConfigMaps with components.
pub const SYSTEM_NAMESPACE: &str = "windlass-system";
/// The host's user name in the audit log.
pub const HOST_USER: &str = "system:serviceaccount:windlass-system:windlass";

/// The user name of the default ServiceAccount of a Plugin in the audit log.
pub fn account(plugin: &str) -> String {
    format!("system:serviceaccount:{SYSTEM_NAMESPACE}:windlass-plugin-{plugin}")
}

/// The API group of Events.
const EVENTS_GROUP: &str = "events.k8s.io";

/// A control plane with Windlass' CRDs, `ServiceAccount` and roles.
pub struct Env {
    // Dropped before the slot, so a cluster has ended before the next one starts.
    cluster: Cluster,
    kubeconfig: OnceLock<PathBuf>,
    api: OnceLock<Api>,
    hosts: AtomicUsize,
    /// The other hosts that share the parents: see [`shards`].
    companions: Mutex<Vec<Host>>,
    namespaces: AtomicUsize,
    _slot: Slot,
}

/// Number of hosts that share the parents in every test whose hosts do not name a number: `WINDLASS_TEST_SHARDS`. With
/// more than one, tests fail that count requests or stop the only host.
fn shards() -> usize {
    std::env::var("WINDLASS_TEST_SHARDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

impl Env {
    /// Starts a control plane and installs Windlass, without a host.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    /// A control plane without Windlass.
    #[track_caller]
    pub fn empty() -> Self {
        Self::empty_with(Options::default())
    }

    /// [`Env::empty`] with options.
    #[track_caller]
    pub fn empty_with(options: Options) -> Self {
        let slot = Slot::take();
        Self {
            cluster: Cluster::start(options).expect("a control plane"),
            kubeconfig: OnceLock::new(),
            api: OnceLock::new(),
            hosts: AtomicUsize::new(0),
            companions: Mutex::default(),
            namespaces: AtomicUsize::new(0),
            _slot: slot,
        }
    }

    /// [`Env::start`] on a control plane with options.
    #[track_caller]
    pub fn with(options: Options) -> Self {
        let env = Self::empty_with(options);
        for args in [["crd"].as_slice(), &["generate", "rbac"]] {
            env.apply(&env.windlass(args));
        }
        env.kubectl(&["wait", "--for=condition=Established", "crd/plugins.windlass.dev", "--timeout=180s"]);
        env
    }

    /// A control plane whose audit log also contains request bodies ([`windlass_testbed::AuditEvent::request_object`]).
    #[track_caller]
    pub fn with_bodies() -> Self {
        Self::with(Options { audit: AuditLevel::Request, ..Options::default() })
    }

    /// The control plane.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Starts a host and waits until it is ready.
    #[track_caller]
    pub fn start_host(&self) -> Host {
        self.start_host_with(HostOptions::default())
    }

    /// [`Env::start_host`] with flags and variables.
    #[track_caller]
    pub fn start_host_with(&self, mut options: HostOptions) -> Host {
        let shards = shards();
        if shards > 1 && !options.args.iter().any(|arg| arg.starts_with("--shards")) {
            options.args.push(format!("--shards={shards}"));
            let mut companions = self.companions.lock().unwrap_or_else(PoisonError::into_inner);
            for at in companions.len() + 1..shards {
                let cache_dir = Some(self.cluster.dir().join(format!("companion-{at}-cache")));
                companions.push(self.spawn_host(HostOptions { cache_dir, ..options.clone() }));
            }
        }
        let host = self.spawn_host(options);
        host.wait_ready();
        host
    }

    /// Starts a host without waiting for anything.
    #[track_caller]
    pub fn spawn_host(&self, mut options: HostOptions) -> Host {
        self.spawn_host_as(self.host_kubeconfig(), &mut options)
    }

    pub(crate) fn spawn_host_as(&self, kubeconfig: &Path, options: &mut HostOptions) -> Host {
        // Kept between hosts of one environment, as a volume of the Pod would be.
        options.cache_dir.get_or_insert_with(|| self.host_cache());
        let number = self.hosts.fetch_add(1, Ordering::Relaxed);
        Host::spawn(kubeconfig, self.host_log(number), options)
    }

    /// The cache folder of hosts that are started without one.
    fn host_cache(&self) -> PathBuf {
        self.cluster.dir().join("windlass-cache")
    }

    /// Puts a compiled component into the cache of a host that is running: for tests with components that compile for half a
    /// minute, and that are not about their compilation.
    #[track_caller]
    pub fn compile_for_host(&self, component: &Path) {
        let inspected = self.windlass(&["inspect", "-o", "json", &component.to_string_lossy()]);
        let inspected: Value = serde_json::from_str(&inspected).expect("JSON");
        let digest = crate::text(&inspected, "/digest");
        let digest = digest.strip_prefix("sha256:").expect("a digest");
        for entry in fs::read_dir(compiled()).expect("the folder of compiled components") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(digest) {
                // Renamed into place, because the host may have mapped the file that is there: if that file were rewritten,
                // calls would trap, or the host would end with SIGBUS.
                let fresh = self.host_cache().join("fresh");
                fs::copy(entry.path(), &fresh).expect("a file in the host's cache");
                fs::rename(&fresh, self.host_cache().join(name)).expect("a file in the place of the other");
            }
        }
    }

    #[track_caller]
    fn host_kubeconfig(&self) -> &Path {
        self.kubeconfig.get_or_init(|| {
            self.cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "windlass").expect("the host's kubeconfig")
        })
    }

    /// A proxy in front of the API server that injects faults: see tests/faults/README.md.
    #[track_caller]
    pub fn faults(&self, seed: u64) -> Faults {
        let server = self.kubectl(&["config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"]);
        let ca = fs::read(self.cluster.dir().join("ca.crt")).expect("the cluster's CA");
        Faults::start(&server, &ca, seed).expect("a proxy in front of the API server")
    }

    /// [`Env::start_host_with`], with a proxy between the host and the API server.
    #[track_caller]
    pub fn start_host_through(&self, faults: &Faults, options: HostOptions) -> Host {
        let host = self.spawn_host_through(faults, options);
        host.wait_ready();
        host
    }

    /// [`Env::start_host_through`], without waiting for anything.
    #[track_caller]
    pub fn spawn_host_through(&self, faults: &Faults, mut options: HostOptions) -> Host {
        let path = self.kubeconfig_through(faults, self.host_kubeconfig());
        self.spawn_host_as(&path, &mut options)
    }

    /// A copy of a kubeconfig that names a proxy as its server.
    #[track_caller]
    pub(crate) fn kubeconfig_through(&self, faults: &Faults, original: &Path) -> PathBuf {
        let direct = fs::read_to_string(original).expect("a kubeconfig");
        let is_kept = |line: &&str| {
            !["server:", "certificate-authority-data:"].iter().any(|key| line.trim_start().starts_with(key))
        };
        let mut through: Vec<_> = direct.lines().filter(is_kept).map(str::to_owned).collect();
        let at = through.iter().position(|line| line.trim() == "cluster:").expect("a cluster in the kubeconfig");
        through.insert(at + 1, format!("    server: {}", faults.url()));
        let name = faults.url().replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let path = self.cluster.dir().join(format!("{name}.kubeconfig"));
        // The file contains a token. The copy keeps the mode of the original, which only its owner can read.
        fs::copy(original, &path).expect("a file in the cluster's folder");
        fs::write(&path, through.join("\n") + "\n").expect("a file in the cluster's folder");
        path
    }

    /// Runs `windlass` as the administrator and returns its output.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn windlass(&self, args: &[&str]) -> String {
        self.try_windlass(args).unwrap_or_else(|error| panic!("windlass {}: {error}", args.join(" ")))
    }

    /// [`Env::windlass`]; the error is its exit status and standard error.
    pub fn try_windlass(&self, args: &[&str]) -> Result<String, String> {
        self.try_windlass_with(args, &[])
    }

    /// [`Env::try_windlass`] with environment variables.
    pub fn try_windlass_with(&self, args: &[&str], variables: &[(String, String)]) -> Result<String, String> {
        let mut command = windlass();
        command.args(args).env("WINDLASS_KUBECONFIG", self.cluster.kubeconfig());
        command.env("DOCKER_CONFIG", self.docker_config());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// Gives `windlass` credentials of registries, as `docker login` stores them.
    #[track_caller]
    pub fn log_in_to_registries(&self, config: &[u8]) {
        let folder = self.docker_config();
        fs::create_dir_all(&folder).expect("a folder in the cluster's");
        fs::write(folder.join("config.json"), config).expect("a file in the cluster's folder");
    }

    /// A folder other than the user's own.
    fn docker_config(&self) -> PathBuf {
        self.cluster.dir().join("docker")
    }

    /// Pushes a component as a Plugin with its permissions. Returns when it is written, not when it is live: see
    /// [`Env::wait_plugin`] and [`Env::wait_live`].
    #[track_caller]
    pub fn push(&self, component: &Path, name: &str, args: &[&str]) {
        let component = component.to_string_lossy();
        let mut all = vec!["push", &component, "--name", name, "--create-rbac", "--no-wait"];
        all.extend(args);
        self.windlass(&all);
    }

    /// Pushes a component of this repository's plugins and guests as [`Env::push`] does, with the grant of its parent kind if
    /// that is an existing one: all of them that decorate add children to Namespaces.
    pub fn push_granted(&self, component: &Path, name: &str) {
        let decorates = ["namespaceguard", "decorator", "decorator-finalizes"].contains(&name);
        self.push(component, name, if decorates { &["--grant", "Namespace"] } else { &[] });
    }

    /// Waits until a component is live, and returns the digest in the Plugin's status.
    #[track_caller]
    pub fn wait_live(&self, name: &str, component: &Path) -> String {
        let inspected = self.windlass(&["inspect", &component.to_string_lossy()]);
        let plugin = self.wait_plugin(name, |plugin| {
            let digest = plugin["status"]["activeDigest"].as_str();
            condition(plugin, "Available").is_true() && digest.is_some_and(|digest| inspected.contains(digest))
        });
        crate::text(&plugin, "/status/activeDigest")
    }

    /// Merges into a Plugin's spec, and waits until the host has observed it.
    #[track_caller]
    pub fn patch_plugin(&self, name: &str, spec: &Value) -> Value {
        let patch = json!({ "spec": spec }).to_string();
        self.kubectl(&["patch", "plugins.windlass.dev", name, "--type=merge", "-p", &patch]);
        self.wait_plugin(name, |plugin| plugin["status"]["observedGeneration"] == plugin["metadata"]["generation"])
    }

    /// A component that behaves like this one and has another digest, by a custom section of this name.
    #[track_caller]
    pub fn variant(&self, component: &Path, name: &str) -> PathBuf {
        let mut bytes = fs::read(component).expect("a component");
        let length = u8::try_from(name.len()).expect("a short name");
        bytes.extend([0, length + 1, length]);
        bytes.extend(name.as_bytes());
        let path = self.cluster.dir().join(format!("{name}.wasm"));
        fs::write(&path, bytes).expect("a file in the cluster's folder");
        path
    }

    /// Waits until a Plugin satisfies a condition.
    #[track_caller]
    pub fn wait_plugin(&self, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.wait_object("plugins.windlass.dev", "", name, condition)
    }

    /// Waits until an object satisfies a condition.
    ///
    /// # Panics
    /// When it does not within [`TIMEOUT`]; the message has the last state of the object.
    #[track_caller]
    pub fn wait_object(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = None;
        let found = windlass_testbed::until("", TIMEOUT, || {
            last = self.get(resource, namespace, name);
            Ok(last.clone().filter(&condition))
        });
        let Ok(found) = found else {
            panic!("{resource} {namespace}/{name} did not satisfy the condition within {TIMEOUT:?}; it is {last:#?}");
        };
        found
    }

    /// Waits until an object no longer exists. `namespace` is empty for a cluster-scoped resource.
    ///
    /// # Panics
    /// When it still exists after [`TIMEOUT`]; the message has its last state.
    #[track_caller]
    pub fn wait_gone(&self, resource: &str, namespace: &str, name: &str) {
        let mut last = None;
        let gone = windlass_testbed::until("", TIMEOUT, || {
            last = self.get(resource, namespace, name);
            Ok(last.is_none().then_some(()))
        });
        assert!(gone.is_ok(), "{resource} {namespace}/{name} still exists after {TIMEOUT:?}; it is {last:#?}");
    }

    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.try_kubectl(args).unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`Env::kubectl`]; the error is its message.
    pub fn try_kubectl(&self, args: &[&str]) -> Result<String, String> {
        self.cluster.kubectl(args).map_err(|error| format!("{error:#}"))
    }

    /// Lets the cluster serve a namespaced kind with any fields (`Doll`), by its CRD (`dolls.puppets.example`).
    #[track_caller]
    pub fn serve_kind(&self, kind: &str, definition: &str) {
        let (plural, group) = definition.split_once('.').expect("a plural and a group");
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": any}});
        let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
        let spec = json!({"group": group, "scope": "Namespaced", "names": names, "versions": [version]});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": definition}, "spec": spec,
        });
        self.apply(&crd.to_string());
        // The API server serves it a moment after it says so.
        self.wait("the kind to be served", TIMEOUT, || self.try_kubectl(&["get", definition, "--all-namespaces"]).ok());
    }

    /// Applies manifests (YAML or JSON) server-side as the administrator.
    #[track_caller]
    pub fn apply(&self, manifests: &str) {
        self.try_apply(manifests).unwrap_or_else(|error| panic!("{error}"));
    }

    /// [`Env::apply`]; the error is the API server's message.
    pub fn try_apply(&self, manifests: &str) -> Result<(), String> {
        self.api().apply(&PatchParams::apply("kubectl"), manifests).map_err(|error| format!("{error:#}"))
    }

    /// [`Env::apply`] as another field manager, by force.
    #[track_caller]
    pub fn apply_as(&self, manager: &str, manifests: &str) {
        self.try_apply_as(manager, manifests).unwrap_or_else(|error| panic!("{error}"));
    }

    /// [`Env::apply_as`]; the error is the API server's message.
    pub fn try_apply_as(&self, manager: &str, manifests: &str) -> Result<(), String> {
        let parameters = PatchParams::apply(manager).force();
        self.api().apply(&parameters, manifests).map_err(|error| format!("{error:#}"))
    }

    /// Patches an object as this field manager; the error is the API server's message.
    pub fn try_patch_as(
        &self,
        manager: &str,
        (resource, namespace, name): (&str, &str, &str),
        patch: &Patch<Value>,
    ) -> Result<(), String> {
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        self.api().patch(&parameters, (resource, namespace, name), patch).map_err(|error| format!("{error:#}"))
    }

    /// An object, or `None` if it does not exist. `resource` is the plural, with or without its group: `echoes`,
    /// `echoes.my-operator.dev`. `namespace` is empty for a cluster-scoped resource.
    #[track_caller]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.api().get(resource, namespace, name).unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn api(&self) -> &Api {
        self.api.get_or_init(|| Api::connect(self.cluster.kubeconfig()))
    }

    /// All objects of some resources (plurals, separated by commas) in a namespace, or in all where it is empty.
    #[track_caller]
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        self.api().list(resource, namespace).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// A namespace of its own for a test, named after it.
    #[track_caller]
    pub fn namespace(&self, name: &str) -> Namespace<'_> {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{number}");
        self.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }).to_string());
        Namespace::new(self, name)
    }

    /// The audit log.
    #[track_caller]
    pub fn audit(&self) -> Audit {
        self.cluster.audit().expect("an audit log")
    }

    /// The current end of the audit log.
    #[track_caller]
    pub fn mark(&self) -> Mark {
        self.audit().mark().expect("a readable audit log")
    }

    /// The host's requests since then, except for Leases and Events, which are written at any time (see
    /// [`Env::host_events`]).
    #[track_caller]
    pub fn host_requests(&self, since: Mark) -> AuditEvents {
        // An Event that is written with impersonation is not the host's own.
        let is_event = |request: &AuditEvent| request.group == EVENTS_GROUP && request.impersonated.is_none();
        self.all_host_requests(since).except_leases().filter(|request| !is_event(request))
    }

    /// The host's attempts to write Events since then, successful or not.
    #[track_caller]
    pub fn host_events(&self, since: Mark) -> AuditEvents {
        self.all_host_requests(since).attempted_writes().filter(|request| request.group == EVENTS_GROUP)
    }

    #[track_caller]
    fn all_host_requests(&self, since: Mark) -> AuditEvents {
        let requests = self.audit().since(since).expect("a readable audit log").by_user(HOST_USER);
        // Checked in every test: as itself, the host writes only objects that are not children.
        let own =
            requests.clone().attempted_writes().filter(|write| write.impersonated.is_none() && !is_the_hosts(write));
        assert_eq!(own.to_vec(), [], "the host writes children only with impersonation");
        requests
    }

    /// The host's successful writes since then, except for Leases and Events, even if they changed nothing.
    #[track_caller]
    pub fn host_writes(&self, since: Mark) -> AuditEvents {
        self.host_requests(since).writes()
    }

    /// The last lines with `word` in the logs of all hosts of this environment.
    pub fn host_log_about(&self, word: &str) -> String {
        excerpt(self.host_log_lines(word).iter().map(String::as_str))
    }

    /// All lines with `word` in the logs of all hosts of this environment.
    pub fn host_log_lines(&self, word: &str) -> Vec<String> {
        let logs = (0..self.hosts.load(Ordering::Relaxed)).map(|number| self.host_log(number));
        let logs: Vec<_> = logs.filter_map(|path| fs::read(path).ok()).collect();
        let logs = String::from_utf8_lossy(&logs.concat()).into_owned();
        logs.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
    }

    fn host_log(&self, number: usize) -> PathBuf {
        self.cluster.dir().join(format!("windlass-{number}.log"))
    }

    /// [`wait`] as a method.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, timeout: Duration, condition: impl FnMut() -> Option<T>) -> T {
        wait(what, timeout, condition)
    }
}

/// Whether the host writes this as itself: statuses, finalizers of parents, CRDs, Events, Leases, and its keys.
fn is_the_hosts(write: &AuditEvent) -> bool {
    let is_key = write.resource == "secrets" && write.namespace == SYSTEM_NAMESPACE && write.verb == "create";
    let of_its_own = ["customresourcedefinitions", "events", "leases"];
    write.subresource == "status"
        || of_its_own.contains(&write.resource.as_str())
        || is_key
        || (write.verb == "patch" && write.query("fieldManager") == Some("windlass-finalizer"))
}
