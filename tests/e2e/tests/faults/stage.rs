//! One control plane with one host behind the proxy, for all tests of this binary, one at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use windlass_e2e::{Env, Host, HostOptions, guest, text};
use windlass_faults::Faults;
use windlass_testbed::Collector;

use crate::life::LIVES;

/// A storage class whose volumes the tests create.
const STORAGE: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: by-hand, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
"#;

/// The control plane, and the running host.
pub struct Stage {
    pub env: Env,
    pub faults: Faults,
    collector: Collector,
    host: Mutex<Option<Host>>,
    versions: BTreeMap<&'static str, Versions>,
}

/// Two components with the same behaviour.
struct Versions {
    files: [PathBuf; 2],
    /// The output of `windlass inspect` for each, which contains the digest.
    inspected: [String; 2],
    live: AtomicUsize,
}

/// The stage, for one test at a time.
pub fn stage() -> MutexGuard<'static, Stage> {
    static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
    STAGE.get_or_init(|| Mutex::new(Stage::set())).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Options of a host that exports its metrics every second.
fn options(collector: &Collector) -> HostOptions {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1000".to_owned()),
        ("OTEL_TRACES_EXPORTER", "none".to_owned()),
    ];
    HostOptions { env: variables.map(|(name, value)| (name.to_owned(), value)).into(), ..HostOptions::default() }
}

impl Stage {
    fn set() -> Self {
        let env = Env::start();
        env.apply(STORAGE);
        let faults = env.faults(windlass_faults::seed());
        let collector = Collector::start(&env.cluster().dir().join("collector")).expect("a collector");
        let host = env.start_host_through(&faults, options(&collector));
        let mut versions = BTreeMap::new();
        for life in &LIVES {
            let first = guest(life.component);
            let files = [first.clone(), env.variant(&first, &format!("{}-next", life.plugin))];
            let inspected = files.each_ref().map(|file| env.windlass(&["inspect", &file.to_string_lossy()]));
            env.push_granted(&first, life.plugin);
            versions.insert(life.plugin, Versions { files, inspected, live: AtomicUsize::new(0) });
        }
        for life in &LIVES {
            env.wait_live(life.plugin, &guest(life.component));
        }
        Self { env, faults, collector, host: Mutex::new(Some(host)), versions }
    }

    fn host(&self) -> MutexGuard<'_, Option<Host>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A function that kills the running host from another thread.
    pub fn killer(&self) -> impl FnOnce() + Send + use<> {
        let id = self.host().as_ref().map(Host::id).and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        move || {
            if let Some(id) = id {
                kill_process(id, Signal::KILL).expect("the host can be killed");
            }
        }
    }

    /// Kills the running host.
    pub fn kill_host(&self) {
        if let Some(host) = self.host().take() {
            host.kill();
        }
    }

    /// Starts a host if none runs, without waiting for it.
    pub fn ensure_host(&self) {
        let mut host = self.host();
        if !host.as_ref().is_some_and(Host::is_running) {
            // The previous host is gone before the next one starts.
            drop(host.take());
            *host = Some(self.env.spawn_host_through(&self.faults, options(&self.collector)));
        }
    }

    /// Waits until the running host is ready.
    pub fn wait_ready(&self) {
        if let Some(host) = self.host().as_ref() {
            host.wait_ready();
        }
    }

    /// The HTTP status of a GET at the health address of the running host; `None` without a response.
    pub fn http_status(&self, path: &str) -> Option<u16> {
        self.host().as_ref()?.http_status(path)
    }

    /// [`Stage::http_status`] and the body.
    pub fn http(&self, path: &str) -> Option<(u16, String)> {
        self.host().as_ref()?.http(path)
    }

    /// The time since the watch of a kind made progress, by the host's last measurement.
    pub fn watch_age(&self, kind: &str) -> Option<Duration> {
        let metrics = self.collector.metrics().expect("readable metrics");
        let ages = metrics.iter().filter(|metric| metric.name == "windlass_watch_progress_age_seconds");
        let mut points = ages.flat_map(|metric| &metric.points).filter(|(labels, _)| labels["windlass.kind"] == kind);
        Some(Duration::from_secs_f64(points.next_back()?.1["asDouble"].as_f64()?))
    }

    /// Pushes the one of a Plugin's two components that is not live.
    pub fn push_next(&self, plugin: &str) {
        let versions = &self.versions[plugin];
        let next = 1 - versions.live.load(Ordering::Relaxed);
        versions.live.store(next, Ordering::Relaxed);
        self.env.push(&versions.files[next], plugin, &[]);
    }

    /// Whether the component that was pushed last is live.
    pub fn is_live(&self, plugin: &str) -> bool {
        let versions = &self.versions[plugin];
        let inspected = &versions.inspected[versions.live.load(Ordering::Relaxed)];
        let found = self.env.get("plugins.windlass.dev", "", plugin).unwrap_or(Value::Null);
        let digest = text(&found, "/status/activeDigest");
        !digest.is_empty() && inspected.contains(&digest)
    }
}
