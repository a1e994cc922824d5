//! Wires the parts of the host, starts their tasks, and stops them.

mod plugin_work;

use std::fmt::Debug;
use std::hash::Hash;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::ids::PluginName;
use windlass_core::quarantine::QuarantineChange;
use windlass_delivery::{Needs, Sources};
use windlass_sandbox::registry::{Publisher, Registry};
use windlass_sandbox::{Options, Sandbox};

use self::plugin_work::{BringUp, Prepare};
use crate::cluster::access_review;
use crate::cluster::account::Accounts;
use crate::cluster::events::{EventWriter, Recorder};
use crate::cluster::lease::{Candidate, Election, End, Instance, NotHolder, WriteGate};
use crate::cluster::secret_key::SecretKey;
use crate::cluster::watch::{AllProgress, HealthListener, Watch, Watches, follow_config_maps};
use crate::live::interests::Interests;
use crate::live::{Live, ParentIndex, ParentKey, calls_at_once, calls_of_one};
use crate::plugins::caps::Caps;
use crate::plugins::rbac::RNG_KEY_SECRET;
use crate::plugins::{Dependencies, Kinds, Plugins};
use crate::queue::{Busy, PluginQueue, Queue, Run, Trigger};
use crate::reconcile::Reconciler;
use crate::reconcile::apply::Applier;
use crate::reconcile::call::{Caller, QuarantineListener};
use crate::reconcile::related::Related;
use crate::reconcile::report::Reporter;
use crate::reconcile::rng_seed::RngSeeds;
use crate::reconcile::triggers::Triggers;
use crate::serve::{Liveness, Readiness, listen, serve_health, serve_metrics};
use crate::telemetry::{self, PluginState, Scrape};

/// Number of Plugins that are reconciled at once. Compilation has its own limit; the rest is waiting for the API
/// server.
const PLUGIN_WORKERS: usize = 4;
/// Time between removals of data that no Plugin uses.
const TIDY: Duration = Duration::from_hours(1);
/// Time until the host tries again to read the key of random seeds.
const KEY_RETRY: Duration = Duration::from_secs(5);
/// Time for running reconciles to end after SIGTERM; Kubernetes kills the process after 45 s (manifests/kustomize/base).
const GRACE: Duration = Duration::from_secs(20);

/// Settings of a host.
#[derive(Clone)]
pub struct Settings {
    /// Folder of compiled components.
    pub cache_dir: PathBuf,
    /// Address of `/healthz` and `/readyz`.
    pub health_addr: SocketAddr,
    /// Address of `/metrics`, and what it serves; none if metrics are not served.
    pub metrics: Option<(SocketAddr, Scrape)>,
    /// Number of parents that are reconciled at once.
    pub workers: usize,
    /// Upper bound of each limit of a Plugin.
    pub caps: Caps,
    /// The host's namespace, which contains the Plugins' ServiceAccounts.
    pub namespace: String,
    /// How the host takes part in the leader election.
    pub election: Election,
    /// Registries that are reached without TLS.
    pub plain_http: Vec<String>,
    /// Whether components must be signed.
    pub require_signatures: bool,
    /// Memory limit of one compilation, in bytes; derived from the container's limit if not set.
    pub compile_memory: Option<u64>,
    /// Folder of components that take precedence over all sources.
    pub plugins: Option<PathBuf>,
}

/// Runs the host until `stop` is cancelled, then lets running reconciles end. While another host holds the Lease, this
/// one stands by: it fills its caches and compiles components.
///
/// # Errors
/// If the host cannot start, or another host holds the Lease. Once started, only `stop`, the loss of the Lease or a
/// failure of the health address ends it.
pub async fn run(client: Client, gate: WriteGate, settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    // Errors that keep this host from starting are found before it acquires the Lease, because another host may be
    // waiting for it.
    let base = Base::new(client, &settings)?;
    let listener = listen("--health-addr", settings.health_addr).await?;
    let metrics = match &settings.metrics {
        Some((address, scrape)) => Some((listen("--metrics-addr", *address).await?, scrape.clone())),
        None => None,
    };
    let readiness = Readiness::new(base.progress.clone(), gate.clone());
    let liveness = Liveness::new(Handle::current());
    let closing = CancellationToken::new();
    let health = serve_health(listener, readiness.clone(), liveness.clone(), closing.clone());
    let serving = tokio::spawn(serve_all(health, metrics, closing.clone()));
    let leads = gate.clone();
    telemetry::observe_leader(move || leads.is_open());
    let host = Host::wire(base, &settings, &stop);
    let instance = Instance::of(&settings.cache_dir);
    let candidate = Candidate::new(host.client.clone(), &settings.namespace, settings.election, instance, gate);
    let standby = stop.child_token();
    let mut serving = serving;
    let acquired = tokio::select! {
        acquired = candidate.acquire(|| host.stand_by(&readiness, &liveness, &standby), &stop) => acquired?,
        served = &mut serving => {
            stop.cancel();
            host.sandbox.stop();
            return served.map_err(anyhow::Error::from).flatten();
        }
    };
    standby.cancel();
    let Some(held) = acquired else {
        host.sandbox.stop();
        return Ok(());
    };
    let (end, ended) = oneshot::channel();
    let keeping = tokio::spawn(held.keep(ended, stop.clone()));
    let working = host.lead(&readiness, &liveness, &stop);
    Running { end, keeping, serving, closing, readiness, working }.until(stop).await
}

/// Serves the health address, and the metrics address if there is one, until `stop` is cancelled.
async fn serve_all(
    health: impl Future<Output = anyhow::Result<()>>,
    metrics: Option<(TcpListener, Scrape)>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let scrapes = async {
        match metrics {
            Some((listener, scrape)) => serve_metrics(listener, scrape, stop.clone()).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(health, scrapes).map(|_| ())
}

/// Parts that need no Lease.
struct Base {
    client: Client,
    sandbox: Sandbox,
    progress: AllProgress,
    plugins: PluginQueue,
    sources: Sources,
}

impl Base {
    fn new(client: Client, settings: &Settings) -> anyhow::Result<Self> {
        let sandbox = sandbox(settings)?;
        let progress = AllProgress::default();
        let ages = progress.clone();
        telemetry::observe_watches(move || ages.ages(Instant::now()));
        // There is one group only, and a group may take half of the workers.
        let plugins = PluginQueue::new(2 * PLUGIN_WORKERS, PLUGIN_WORKERS, busy_max());
        let sources = sources(&client, settings, &progress, plugins.clone())?;
        Ok(Self { client, sandbox, progress, plugins, sources })
    }
}

/// The wired parts of the host. No Plugin and no parent is reconciled yet.
struct Host {
    client: Client,
    sandbox: Sandbox,
    workers: usize,
    own: Arc<Watch>,
    plugins: Arc<Plugins>,
    plugin_queue: PluginQueue,
    parents: Queue<PluginName, ParentKey>,
    rng_key: SecretKey,
    /// Creates the reconciler of parents, once the seeds are known.
    reconciler: Box<dyn FnOnce(RngSeeds) -> Reconciler + Send>,
    events: EventWriter,
    tasks: TaskTracker,
}

impl Host {
    fn wire(base: Base, settings: &Settings, stop: &CancellationToken) -> Self {
        let Base { client, sandbox, progress, plugins: plugin_queue, sources } = base;
        let publisher = Publisher::<Live>::new();
        let registry = publisher.registry();
        let parents = Queue::new(settings.workers, settings.workers, busy_max());
        observe(&parents, &registry);
        let (index, interests) = (ParentIndex::default(), Interests::default());
        let queues = (parents.clone(), plugin_queue.clone());
        let triggers = Triggers::new(registry.clone(), index.clone(), interests.clone(), queues);
        let kinds = Kinds::new(plugin_queue.clone());
        let watches = Arc::new(Watches::new(
            client.clone(),
            Arc::new(move |watch, change| triggers.on_change(watch, change)),
            health_listener(kinds.clone(), interests.clone(), plugin_queue.clone()),
            progress.clone(),
        ));
        let own = watch_plugins(&watches);
        let ask = access_review::by_api_server(client.clone());
        let accounts = Accounts::new(&settings.namespace, access_review::own_user(client.clone()));
        let (recorder, events) = Recorder::start(client.clone());
        let plugins = Arc::new(Plugins::new(Dependencies {
            client: client.clone(),
            own: own.clone(),
            sandbox: sandbox.clone(),
            watches: watches.clone(),
            sources,
            accounts,
            ask: ask.clone(),
            caps: settings.caps.clone(),
            progress,
            publisher,
            index,
            kinds,
            queue: plugin_queue.clone(),
            parents: parents.clone(),
            interests: interests.clone(),
            recorder: recorder.clone(),
        }));
        let tasks = TaskTracker::new();
        let (stopped, stalls) = (stop.clone(), watches.clone());
        tasks.spawn(async move { stopped.run_until_cancelled(stalls.look_for_stalls()).await });
        let rng_key = SecretKey::new(client.clone(), &settings.namespace, RNG_KEY_SECRET);
        let (queues, writes) = ((parents.clone(), plugin_queue.clone()), client.clone());
        let reconciler = Box::new(move |seeds| {
            let (parents, plugins) = queues;
            let quarantine = quarantine_listener(parents.clone(), plugins.clone());
            let related = Related::new(registry.clone(), watches, interests, ask);
            let (caller, applier) = (Caller::new(seeds, quarantine), Applier::new(writes.clone()));
            Reconciler::new(registry, parents, plugins, related, caller, applier, Reporter::new(writes, recorder))
        });
        let workers = settings.workers;
        Self { client, sandbox, workers, own, plugins, plugin_queue, parents, rng_key, reconciler, events, tasks }
    }

    /// Starts to prepare Plugins for the moment when this host leads, until `stop` is cancelled.
    fn stand_by(&self, readiness: &Readiness, liveness: &Liveness, stop: &CancellationToken) {
        let prepare = || Prepare { plugins: self.plugins.clone(), readiness: readiness.clone(), stop: stop.clone() };
        work_on(&self.tasks, PLUGIN_WORKERS, &self.plugin_queue, prepare(), stop);
        let queue = self.plugin_queue.clone();
        liveness.follow("Plugins", move || queue.stalled());
        self.tasks.spawn(tidy_now_and_then(self.plugins.clone(), stop.clone()));
        let (own, prepare, stop) = (self.own.clone(), prepare(), stop.clone());
        self.tasks.spawn(async move {
            if listed(&own, &stop).await {
                prepare.check();
            }
        });
    }

    /// Starts the work of the host that holds the Lease; it ends when `stop` is cancelled.
    fn lead(self, readiness: &Readiness, liveness: &Liveness, stop: &CancellationToken) -> Working {
        let Self { sandbox, workers, own, plugins, plugin_queue, parents, rng_key, reconciler, events, tasks, .. } =
            self;
        readiness.leading();
        plugins.begin_to_lead();
        let bring_up = BringUp { plugins: plugins.clone(), readiness: readiness.clone() };
        work_on(&tasks, PLUGIN_WORKERS, &plugin_queue, bring_up, stop);
        liveness.follow("Plugins", move || plugin_queue.stalled());
        tasks.spawn(tidy_now_and_then(plugins.clone(), stop.clone()));
        let bring_up = BringUp { plugins, readiness: readiness.clone() };
        let stopped = stop.clone();
        tasks.spawn(async move {
            if listed(&own, &stopped).await {
                bring_up.check().await;
            }
        });
        let (working, stopped) = (tasks.clone(), stop.clone());
        let (readiness, liveness) = (readiness.clone(), liveness.clone());
        tasks.spawn(async move {
            if let Some(seeds) = rng_seeds(&rng_key, &readiness, &stopped).await {
                work_on(&working, workers, &parents, reconciler(seeds), &stopped);
                liveness.follow("parents", move || parents.stalled());
            }
        });
        tasks.close();
        Working { tasks, sandbox, events }
    }
}

/// The tasks of a working host.
struct Working {
    tasks: TaskTracker,
    sandbox: Sandbox,
    events: EventWriter,
}

impl Working {
    /// Lets running tasks end; returns whether all of them did.
    async fn end(self) -> bool {
        self.sandbox.stop();
        tracing::info!("stopping: running reconciles may end");
        let is_idle = tokio::time::timeout(GRACE, self.tasks.wait()).await.is_ok();
        if !is_idle {
            tracing::warn!("stopped with reconciles in progress; the next start resumes them");
        }
        // An event may still be on its way to the API server.
        self.events.close().await && is_idle
    }
}

/// A working host that holds the Lease.
struct Running {
    /// Tells the task that renews the Lease whether to release it.
    end: oneshot::Sender<End>,
    keeping: JoinHandle<Result<(), NotHolder>>,
    serving: JoinHandle<anyhow::Result<()>>,
    closing: CancellationToken,
    readiness: Readiness,
    working: Working,
}

impl Running {
    /// Waits until `stop` is cancelled, the Lease is lost or the health address fails, and then stops the host.
    async fn until(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Self { end, mut keeping, mut serving, closing, readiness, working } = self;
        let (mut failed, mut kept) = (None, None);
        tokio::select! {
            () = stop.cancelled() => {}
            served = &mut serving => failed = served.map_err(anyhow::Error::from).flatten().err(),
            lost = &mut keeping => kept = Some(lost),
        }
        stop.cancel();
        readiness.stopping();
        let is_idle = working.end().await;
        let kept = if let Some(kept) = kept {
            kept
        } else {
            // The task may have ended by itself meanwhile.
            let _ = end.send(if is_idle { End::Release } else { End::Expire });
            keeping.await
        };
        closing.cancel();
        kept??;
        failed.map_or(Ok(()), Err)
    }
}

/// Exports the states of the parents' queue and of the live components.
fn observe(parents: &Queue<PluginName, ParentKey>, registry: &Registry<Live>) {
    let (queue, live) = (parents.clone(), registry.clone());
    telemetry::observe_queues(move || {
        queue.groups().into_iter().map(|(plugin, state)| (plugin.to_string(), state)).collect()
    });
    telemetry::observe_plugins(move || {
        let states = live.names().into_iter().filter_map(|name| {
            let live = live.get(&name)?;
            Some(PluginState {
                plugin: name.to_string(),
                digest: live.digest().to_string(),
                version: live.version.clone(),
                parents: live.parents.store.size(),
                failing: live.records.failing_count(),
                children: live
                    .children
                    .values()
                    .map(|watch| (watch.id.kind.to_string(), watch.store.children_of(name.as_str())))
                    .collect(),
                quarantined: live.state.is_quarantined(),
            })
        });
        states.collect()
    });
}

/// Queues the Plugins that a change of a watch's health affects: those that use the watch, and those whose parents
/// require its kind.
fn health_listener(kinds: Kinds, interests: Interests, plugins: PluginQueue) -> HealthListener {
    Arc::new(move |watch| {
        kinds.health_changed(watch);
        if watch.labels.is_none() {
            interests.plugins_of(&watch.kind).iter().for_each(|plugin| plugins.add(&(), plugin, Trigger::Changed));
        }
    })
}

fn sources(
    client: &Client,
    settings: &Settings,
    progress: &AllProgress,
    queue: PluginQueue,
) -> anyhow::Result<Sources> {
    let needs = Needs {
        cache_dir: &settings.cache_dir,
        namespace: &settings.namespace,
        plain_http: settings.plain_http.clone(),
        require_signatures: settings.require_signatures,
        plugins: settings.plugins.clone(),
        follow: follow_config_maps(client.clone(), progress.clone()),
    };
    let changed = move |plugin: &PluginName| queue.add(&(), plugin, Trigger::Changed);
    Sources::new(client.clone(), needs, Arc::new(changed)).context("the folder of --plugins cannot be read")
}

/// The sandbox of a host with these settings.
///
/// # Errors
/// If wasmtime does not run here, or the cache folder cannot be used.
pub fn sandbox(settings: &Settings) -> anyhow::Result<Sandbox> {
    let options = Options::new(&settings.cache_dir);
    let compile_memory = settings.compile_memory.unwrap_or(options.compile_memory);
    let options = Options { describe: settings.caps.describe(&options.describe), compile_memory, ..options };
    Sandbox::new(options)
        .with_context(|| format!("the sandbox cannot use --cache-dir {}", settings.cache_dir.display()))
}

fn watch_plugins(watches: &Watches) -> Arc<Watch> {
    let kind = windlass_api::plugin_kind();
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    watches.lease(&Arc::new(kind), &ApiResource::from_gvk_with_plural(&gvk, "plugins"), None)
}

/// The seeds of calls. Tries until the key is available: with another key, plugins would get other random numbers.
/// Returns none if `stop` is cancelled meanwhile.
async fn rng_seeds(key: &SecretKey, readiness: &Readiness, stop: &CancellationToken) -> Option<RngSeeds> {
    loop {
        let error = match stop.run_until_cancelled(key.read_or_create()).await? {
            Ok(key) => {
                readiness.lacks(None);
                return Some(RngSeeds::new(&key));
            }
            Err(error) => error,
        };
        let message = format!("no parent is reconciled, because the key of random numbers is not available: {error}");
        tracing::warn!("{message}");
        readiness.lacks(Some(message));
        stop.run_until_cancelled(tokio::time::sleep(KEY_RETRY)).await?;
    }
}

/// The number of calls that can run at once; further busy workers would wait for a call.
fn busy_max() -> Busy {
    Busy { of_all: calls_at_once(), of_group: calls_of_one() }
}

/// Starts workers on the keys of a queue.
fn work_on<G, K>(
    tasks: &TaskTracker,
    workers: usize,
    queue: &Queue<G, K>,
    work: impl Run<G, K> + 'static,
    stop: &CancellationToken,
) where
    G: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    K: Clone + Debug + Eq + Hash + Send + Sync + 'static,
{
    let work = Arc::new(work);
    for _ in 0..workers {
        let (queue, work, stop) = (queue.clone(), work.clone(), stop.clone());
        tasks.spawn(async move { queue.work(&stop, &*work).await });
    }
}

/// Removes unused data once an hour: each push adds a component, and unused ones must not fill the disk.
async fn tidy_now_and_then(plugins: Arc<Plugins>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TIDY) => plugins.tidy().await,
        }
    }
}

/// Waits until the Plugins are listed. Returns false if `stop` is cancelled before.
async fn listed(own: &Watch, stop: &CancellationToken) -> bool {
    loop {
        match stop.run_until_cancelled(own.synced(Duration::from_secs(10))).await {
            None => return false,
            Some(Ok(())) => return true,
            Some(Err(health)) => tracing::warn!(
                ?health,
                "Plugins cannot be watched yet: are Windlass' CRDs installed (`windlass crd | kubectl apply -f -`), and may \
                 this host watch them?"
            ),
        }
        // The watch retries by itself; this pause only spaces the log lines.
        if stop.run_until_cancelled(tokio::time::sleep(Duration::from_secs(10))).await.is_none() {
            return false;
        }
    }
}

/// Queues the Plugin when its component enters or leaves quarantine, and all its parents when it leaves.
fn quarantine_listener(parents: Queue<PluginName, ParentKey>, plugins: PluginQueue) -> QuarantineListener {
    Box::new(move |live, change| {
        let (plugin, digest) = (&live.name, live.digest());
        match change {
            QuarantineChange::Entered => {
                tracing::warn!(%plugin, %digest, "component in quarantine: its calls failed too often");
            }
            QuarantineChange::Cleared => {
                tracing::info!(%plugin, %digest, "out of quarantine");
                for parent in live.parents.store.keys() {
                    parents.add(plugin, &parent, Trigger::Sweep);
                }
            }
        }
        plugins.add(&(), plugin, Trigger::Changed);
    })
}
