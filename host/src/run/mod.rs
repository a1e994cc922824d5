//! Wires the parts of the host, starts their tasks, and stops them.

mod parent_work;
mod plugin_work;
mod share;

use std::fmt::Debug;
use std::hash::Hash;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::select_all;
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
use windlass_core::shards::Shard;
use windlass_delivery::{Needs, Sources};
use windlass_sandbox::registry::{Publisher, Registry};
use windlass_sandbox::{Options, Sandbox};

use self::parent_work::ParentWork;
use self::plugin_work::PluginWork;
use crate::cluster::access_review::{self, Ask};
use crate::cluster::account::Accounts;
use crate::cluster::events::{EventWriter, Recorder};
use crate::cluster::lease::{Candidate, Election, End, HeldLease, Instance, NotHolder, WriteGate};
use crate::cluster::secret_key::SecretKey;
use crate::cluster::shards::Shards;
use crate::cluster::watch::{AllProgress, Change, HealthListener, Watch, WatchId, Watches, follow_config_maps};
use crate::live::interests::Interests;
use crate::live::record::FailureCounts;
use crate::live::{Live, ParentIndex, ParentKey, calls_at_once, calls_of_one};
use crate::plugins::caps::Caps;
use crate::plugins::rbac::RNG_KEY_SECRET;
use crate::plugins::{Dependencies, Kinds, Plugins};
use crate::queue::{Busy, PluginQueue, Queue, Run, Trigger};
use crate::recent::Recent;
use crate::reconcile::Reconciler;
use crate::reconcile::apply::Applier;
use crate::reconcile::call::{Caller, QuarantineListener};
use crate::reconcile::related::Related;
use crate::reconcile::report::Reporter;
use crate::reconcile::rng_seed::RngSeeds;
use crate::reconcile::triggers::Triggers;
use crate::serve::{Liveness, Readiness, listen, serve_debug, serve_health, serve_metrics};
use crate::telemetry::{self, PluginState, Scrape};

/// Number of Plugins that are reconciled at once. Compilation has its own limit; the rest is waiting for the API
/// server.
const PLUGIN_WORKERS: usize = 4;
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
    /// Address of the recent calls; none if they are not served.
    pub debug_addr: Option<SocketAddr>,
    /// Memory for recent calls, in bytes; 0 keeps none.
    pub recent_calls_memory: u64,
    /// Number of parents that are reconciled at once.
    pub workers: usize,
    /// Upper bound of each limit of a Plugin.
    pub caps: Caps,
    /// The host's namespace, which contains the Plugins' ServiceAccounts.
    pub namespace: String,
    /// How the host takes part in the leader election.
    pub election: Election,
    /// Number of hosts that share the parents; with one, the leader has all of them.
    pub shards: Shard,
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
/// one stands by: it fills its caches and compiles components. If hosts share the parents, it takes a shard first.
///
/// # Errors
/// If the host cannot start, or another host holds the Lease. Once started, only `stop`, the loss of a Lease or a
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
    let recent = Recent::new(settings.recent_calls_memory);
    let debug = match settings.debug_addr {
        Some(address) => Some((listen("--debug-addr", address).await?, recent.clone())),
        None => None,
    };
    if settings.shards > 1 {
        gate.need_shard();
    }
    let readiness = Readiness::new(base.progress.clone(), gate.clone());
    let liveness = Liveness::new(Handle::current());
    let closing = CancellationToken::new();
    let health = serve_health(listener, readiness.clone(), liveness.clone(), closing.clone());
    let serving = tokio::spawn(serve_all(health, metrics, debug, closing.clone()));
    let leads = gate.clone();
    telemetry::observe_leader(move || leads.leads());
    let tasks = Tasks { running: TaskTracker::new(), readiness: readiness.clone(), liveness };
    let host = Host::wire(base, &settings, (tasks, recent), &gate, &stop);
    let instance = Arc::new(Instance::of(&settings.cache_dir));
    let (client, namespace) = (host.client.clone(), &settings.namespace);
    let candidate = Candidate::new(client, namespace, settings.election, instance.clone(), gate.clone());
    let sandbox = host.working.sandbox.clone();
    let mut serving = serving;
    let started = async {
        if settings.shards > 1 {
            Ok(host.share(candidate, instance, gate, &stop).await)
        } else {
            host.lead_alone(candidate, &stop).await
        }
    };
    let started = tokio::select! {
        started = started => started?,
        served = &mut serving => {
            stop.cancel();
            sandbox.stop();
            return served.map_err(anyhow::Error::from).flatten();
        }
    };
    let Some((keepers, working)) = started else {
        sandbox.stop();
        return Ok(());
    };
    Running { keepers, serving, closing, readiness, working }.until(stop).await
}

/// Serves the health address, and the addresses of metrics and of recent calls if there are any, until `stop` is cancelled.
async fn serve_all(
    health: impl Future<Output = anyhow::Result<()>>,
    metrics: Option<(TcpListener, Scrape)>,
    debug: Option<(TcpListener, Recent)>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let scrapes = async {
        match metrics {
            Some((listener, scrape)) => serve_metrics(listener, scrape, stop.clone()).await,
            None => Ok(()),
        }
    };
    let calls = async {
        match debug {
            Some((listener, recent)) => serve_debug(listener, recent, stop.clone()).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(health, scrapes, calls).map(|_| ())
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

/// Where the host's tasks run, and where their progress shows.
#[derive(Clone)]
struct Tasks {
    running: TaskTracker,
    readiness: Readiness,
    liveness: Liveness,
}

/// The wired parts of the host. No Plugin and no parent is reconciled yet.
struct Host {
    client: Client,
    shards: Shards,
    plugins: PluginWork,
    parents: ParentWork,
    working: Working,
}

impl Host {
    fn wire(
        base: Base,
        settings: &Settings,
        (tasks, recent): (Tasks, Recent),
        gate: &WriteGate,
        stop: &CancellationToken,
    ) -> Self {
        let Base { client, sandbox, progress, plugins: plugin_queue, sources } = base;
        let publisher = Publisher::<Live>::new();
        let registry = publisher.registry();
        let parents = Queue::new(settings.workers, settings.workers, busy_max());
        let shards = Shards::new(client.clone(), &settings.namespace, settings.election.timing, settings.shards);
        observe(&parents, &registry, (&shards, gate));
        let (index, interests) = (ParentIndex::default(), Interests::default());
        let queues = (parents.clone(), plugin_queue.clone());
        let triggers = Triggers::new(registry.clone(), index.clone(), interests.clone(), queues, shards.clone());
        let kinds = Kinds::new(plugin_queue.clone());
        let on_health = health_listener(kinds.clone(), interests.clone(), plugin_queue.clone());
        let on_change = Arc::new(move |watch: &WatchId, change: &Change| triggers.on_change(watch, change));
        let watches = Arc::new(Watches::new(client.clone(), on_change, on_health, progress.clone()));
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
            shards: shards.clone(),
        }));
        let (stopped, stalls) = (stop.clone(), watches.clone());
        tasks.running.spawn(async move { stopped.run_until_cancelled(stalls.look_for_stalls()).await });
        let rng_key = SecretKey::new(client.clone(), &settings.namespace, RNG_KEY_SECRET);
        let reconciler = reconciler(
            registry,
            (parents.clone(), plugin_queue.clone(), shards.clone()),
            (watches, interests, ask, recent),
            (client.clone(), recorder),
        );
        let working = Working { tasks: tasks.running.clone(), sandbox, events };
        let plugins = PluginWork { own, plugins, queue: plugin_queue, tasks: tasks.clone() };
        let parents = ParentWork { rng_key, reconciler, workers: settings.workers, queue: parents, tasks };
        Self { client, shards, plugins, parents, working }
    }

    /// Leads, and reconciles all parents, once this host holds the Lease. Returns none if `stop` is cancelled before.
    ///
    /// # Errors
    /// If another host holds the Lease, and this one does not stand by.
    async fn lead_alone(
        self,
        candidate: Candidate,
        stop: &CancellationToken,
    ) -> Result<Option<(Vec<Keeper>, Working)>, NotHolder> {
        let standby = stop.child_token();
        let acquired = candidate.acquire(|| self.plugins.stand_by(&standby), stop).await?;
        standby.cancel();
        let Some(held) = acquired else { return Ok(None) };
        let keeper = Keeper::of(held, stop);
        self.plugins.lead(stop);
        let stopped = stop.clone();
        self.working.tasks.spawn(async move { self.parents.start(&stopped).await });
        Ok(Some((vec![keeper], self.working)))
    }
}

/// Creates the reconciler of parents, once the seeds are known.
fn reconciler(
    registry: Registry<Live>,
    (parents, plugins, shards): (Queue<PluginName, ParentKey>, PluginQueue, Shards),
    (watches, interests, ask, recent): (Arc<Watches>, Interests, Ask, Recent),
    (client, recorder): (Client, Recorder),
) -> Box<dyn FnOnce(RngSeeds) -> Reconciler + Send> {
    Box::new(move |seeds| {
        let quarantine = quarantine_listener(parents.clone(), plugins.clone());
        let related = Related::new(registry.clone(), watches, interests, ask);
        let (caller, applier) = (Caller::new(seeds, quarantine), Applier::new(client.clone()));
        let reporter = Reporter::new(client, recorder);
        Reconciler::new(registry, parents, (plugins, shards), (related, recent), caller, applier, reporter)
    })
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
        self.tasks.close();
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

/// A task that keeps a Lease.
struct Keeper {
    /// Tells the task whether to release the Lease.
    end: oneshot::Sender<End>,
    keeping: JoinHandle<Result<(), NotHolder>>,
}

impl Keeper {
    fn of(held: HeldLease, stop: &CancellationToken) -> Self {
        let (end, ended) = oneshot::channel();
        Self { end, keeping: tokio::spawn(held.keep(ended, stop.clone())) }
    }
}

/// A working host that holds its Leases.
struct Running {
    keepers: Vec<Keeper>,
    serving: JoinHandle<anyhow::Result<()>>,
    closing: CancellationToken,
    readiness: Readiness,
    working: Working,
}

impl Running {
    /// Waits until `stop` is cancelled, a Lease is lost or the health address fails, and then stops the host.
    async fn until(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Self { mut keepers, mut serving, closing, readiness, working } = self;
        let (mut failed, mut kept) = (None, None);
        let any_lost = select_all(keepers.iter_mut().map(|keeper| &mut keeper.keeping));
        tokio::select! {
            () = stop.cancelled() => {}
            served = &mut serving => failed = served.map_err(anyhow::Error::from).flatten().err(),
            (lost, at, _) = any_lost => kept = Some((lost, at)),
        }
        stop.cancel();
        readiness.stopping();
        let is_idle = working.end().await;
        let mut results = Vec::new();
        if let Some((lost, at)) = kept {
            keepers.remove(at);
            results.push(lost);
        }
        for Keeper { end, keeping } in keepers {
            // The task may have ended by itself meanwhile.
            let _ = end.send(if is_idle { End::Release } else { End::Expire });
            results.push(keeping.await);
        }
        closing.cancel();
        for kept in results {
            kept??;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Exports the states of the parents' queue and of the live components.
fn observe(parents: &Queue<PluginName, ParentKey>, registry: &Registry<Live>, (shards, gate): (&Shards, &WriteGate)) {
    let (queue, live, shards, gate) = (parents.clone(), registry.clone(), shards.clone(), gate.clone());
    telemetry::observe_queues(move || {
        queue.groups().into_iter().map(|(plugin, state)| (plugin.to_string(), state)).collect()
    });
    telemetry::observe_plugins(move || {
        let states = live.names().into_iter().filter_map(|name| {
            let live = live.get(&name)?;
            let (parents, failures) = counts(&live, &shards);
            Some(PluginState {
                plugin: name.to_string(),
                digest: live.digest().to_string(),
                version: live.version.clone(),
                parents,
                failing: failures.failing,
                blocked: failures.blocked,
                // A sum over all hosts counts each child once.
                children: if live.state.share().is_none() || gate.leads() {
                    let of = |watch: &Arc<Watch>| (watch.id.kind.to_string(), watch.store.children_of(name.as_str()));
                    live.children.values().map(of).collect()
                } else {
                    Vec::new()
                },
                quarantined: live.state.is_quarantined(),
            })
        });
        states.collect()
    });
}

/// Number of a plugin's parents that this host reconciles, and how many of them fail.
fn counts(live: &Live, shards: &Shards) -> (usize, FailureCounts) {
    let Some(share) = live.state.share() else {
        return (live.parents.store.size(), live.records.failure_counts(|_| true));
    };
    let is_ours = |parent: &ParentKey| shards.may_reconcile(&live.name, &share.hash, parent);
    let parents = live.parents.store.keys().iter().filter(|parent| is_ours(parent)).count();
    (parents, live.records.failure_counts(is_ours))
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

/// The number of calls that can run at once; further busy workers would wait for a call.
fn busy_max() -> Busy {
    Busy { of_all: calls_at_once(), of_group: calls_of_one() }
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
