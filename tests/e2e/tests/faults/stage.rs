//! One control plane with one host behind the proxy, for all tests of this binary, one at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use windlass_e2e::{Env, Host, HostOptions, guest, text};
use windlass_faults::Faults;

use crate::life::LIVES;

/// A class of storage whose volumes the tests make by hand.
const STORAGE: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: by-hand, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
"#;

/// The control plane, and the host that runs now.
pub struct Stage {
    pub env: Env,
    pub faults: Faults,
    host: Mutex<Option<Host>>,
    versions: BTreeMap<&'static str, Versions>,
}

/// Two components that do the same.
struct Versions {
    files: [PathBuf; 2],
    /// What `windlass inspect` prints of each: it holds the digest.
    inspected: [String; 2],
    live: AtomicUsize,
}

/// The stage, for one test at a time.
pub fn stage() -> MutexGuard<'static, Stage> {
    static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
    STAGE.get_or_init(|| Mutex::new(Stage::set())).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    fn set() -> Self {
        let env = Env::start();
        env.apply(STORAGE);
        let faults = env.faults(windlass_faults::seed());
        let host = env.start_host_through(&faults, HostOptions::default());
        let mut versions = BTreeMap::new();
        for life in &LIVES {
            let first = guest(life.component);
            let files = [first.clone(), env.variant(&first, &format!("{}-next", life.plugin))];
            let inspected = files.each_ref().map(|file| env.windlass(&["inspect", &file.to_string_lossy()]));
            env.push(&first, life.plugin, &[]);
            versions.insert(life.plugin, Versions { files, inspected, live: AtomicUsize::new(0) });
        }
        for life in &LIVES {
            env.wait_live(life.plugin, &guest(life.component));
        }
        Self { env, faults, host: Mutex::new(Some(host)), versions }
    }

    fn host(&self) -> MutexGuard<'_, Option<Host>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What kills the host that runs now, from another thread.
    pub fn killer(&self) -> impl FnOnce() + Send + use<> {
        let id = self.host().as_ref().map(Host::id).and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        move || {
            if let Some(id) = id {
                kill_process(id, Signal::KILL).expect("the host can be killed");
            }
        }
    }

    /// Kills the host that runs now.
    pub fn kill_host(&self) {
        if let Some(host) = self.host().take() {
            host.kill();
        }
    }

    /// Starts a host if none runs, without waiting for it.
    pub fn ensure_host(&self) {
        let mut host = self.host();
        if !host.as_ref().is_some_and(Host::is_running) {
            // The one before is gone before the next begins.
            drop(host.take());
            *host = Some(self.env.spawn_host_through(&self.faults, HostOptions::default()));
        }
    }

    /// Waits until the host that runs now is ready.
    pub fn wait_ready(&self) {
        if let Some(host) = self.host().as_ref() {
            host.wait_ready();
        }
    }

    /// Pushes the component of a Plugin that is not live.
    pub fn push_next(&self, plugin: &str) {
        let versions = &self.versions[plugin];
        let next = 1 - versions.live.load(Ordering::Relaxed);
        versions.live.store(next, Ordering::Relaxed);
        self.env.push(&versions.files[next], plugin, &[]);
    }

    /// Whether a Plugin runs what was pushed last.
    pub fn is_live(&self, plugin: &str) -> bool {
        let versions = &self.versions[plugin];
        let inspected = &versions.inspected[versions.live.load(Ordering::Relaxed)];
        let found = self.env.get("plugins.windlass.dev", "", plugin).unwrap_or(Value::Null);
        let digest = text(&found, "/status/activeDigest");
        !digest.is_empty() && inspected.contains(&digest)
    }
}
