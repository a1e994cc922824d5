//! Wires the parts of the host, starts their tasks, and stops them.

mod exported;
mod parent_work;
mod plugin_work;
mod running;
mod settings;
mod share;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::try_join_all;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::value::ids::PluginName;
use windlass_delivery::{Needs, Sources, blocking};
use windlass_sandbox::Sandbox;

use self::exported::{observe, observe_conditions};
use self::parent_work::ParentWork;
use self::plugin_work::PluginWork;
use self::running::{Keeper, Running, Working};
pub use self::settings::{Settings, sandbox};
use crate::clock;
use crate::cluster::access_review;
use crate::cluster::account::Accounts;
use crate::cluster::discovery::Discovery;
use crate::cluster::events::Recorder;
use crate::cluster::lease::{Candidate, Election, Instance, NotHolder, WriteGate};
use crate::cluster::secret_key::SecretKey;
use crate::cluster::shards::Shards;
use crate::cluster::watch::{AllProgress, Change, HealthListener, Watch, WatchId, Watches, follow_config_maps};
use crate::live::interests::Interests;
use crate::live::registry::Publisher;
use crate::live::{Live, ParentIndex};
use crate::plugins::rbac::RNG_KEY_SECRET;
use crate::plugins::{Kinds, MarkKeys, Plugins, State};
use crate::queue::{Busy, Key, PluginQueue, Queue, Run, Trigger};
use crate::recent::Recent;
use crate::reconcile::Reconciler;
use crate::reconcile::call::Caller;
use crate::reconcile::related::Related;
use crate::reconcile::rng_seed::RngSeeds;
use crate::reconcile::triggers::Triggers;
use crate::reconcile::world::Worlds;
use crate::serve::{Liveness, Readiness, listen, listen_debug, serve_debug, serve_health, serve_metrics};
use crate::telemetry;

/// Number of Plugins that are reconciled at once. Compilation has its own limit; the rest is waiting for the API
/// server.
const PLUGIN_WORKERS: usize = 4;
/// Time between two looks for components without calls. To map the code of one again takes one to two milliseconds, so it matters little
/// that some calls come just after it was released.
const UNUSED: Duration = Duration::from_mins(1);

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
    if settings.election.shards > 1 {
        gate.need_shard();
    }
    let (readiness, liveness) = (Readiness::new(base.progress.clone(), gate.clone()), Liveness::new(Handle::current()));
    let closing = CancellationToken::new();
    let mut serving = serve(&settings, &readiness, &liveness, &closing)?;
    let tasks = Tasks { running: TaskTracker::new(), readiness: readiness.clone(), liveness };
    let host = Host::wire(base, &settings, tasks, &gate, &stop);
    let instance = Arc::new(Instance::of(&settings.cache_dir));
    let (client, namespace) = (host.client.clone(), &settings.namespace);
    let candidate = Candidate::new(client, namespace, settings.election, instance.clone(), gate.clone());
    let sandbox = host.working.sandbox.clone();
    let started = async {
        if settings.election.shards > 1 {
            Ok(host.share(candidate, instance, gate, &stop).await)
        } else {
            host.lead_alone(candidate, &stop).await
        }
    };
    let started = tokio::select! {
        biased;
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

/// Listens on the addresses of the settings, and serves them until `stop` is cancelled.
fn serve(
    settings: &Settings,
    readiness: &Readiness,
    liveness: &Liveness,
    stop: &CancellationToken,
) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
    // Without any address, the task must last until `stop` is cancelled as well: its end ends the host.
    let mut serving = vec![stop.clone().cancelled_owned().map(Ok).boxed()];
    if let Some(address) = settings.health_addr {
        let listener = listen("--health-addr", address)?;
        serving.push(serve_health(listener, readiness.clone(), liveness.clone(), stop.clone()).boxed());
    }
    if let Some((address, scrape)) = &settings.metrics {
        serving.push(serve_metrics(listen("--metrics-addr", *address)?, scrape.clone(), stop.clone()).boxed());
    }
    if let Some(address) = settings.debug_addr {
        serving.push(serve_debug(listen_debug(address)?, settings.recent.clone(), stop.clone()).boxed());
    }
    Ok(tokio::spawn(async { try_join_all(serving).await.map(drop) }))
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
        telemetry::observe_watches(move || ages.ages(clock::now()));
        // There is one group only, and a group may take half of the workers.
        let plugins = PluginQueue::new(2 * PLUGIN_WORKERS, PLUGIN_WORKERS, busy_max());
        let needs = Needs {
            cache_dir: &settings.cache_dir,
            namespace: &settings.namespace,
            plain_http: settings.plain_http.clone(),
            require_signatures: settings.require_signatures,
            plugins: settings.plugins.clone(),
            follow: follow_config_maps(client.clone(), progress.clone()),
        };
        let queue = plugins.clone();
        let changed = Arc::new(move |plugin: &PluginName| queue.add(&(), plugin, Trigger::Changed));
        let sources = Sources::new(client.clone(), needs, changed).context("the folder of --plugins cannot be read")?;
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
    fn wire(base: Base, settings: &Settings, tasks: Tasks, gate: &WriteGate, stop: &CancellationToken) -> Self {
        let Base { client, sandbox, progress, plugins: plugin_queue, sources } = base;
        let publisher = Publisher::<Live>::new();
        let registry = publisher.registry();
        let parents = Queue::new(settings.workers, settings.workers, busy_max());
        let Election { timing, shards, .. } = settings.election;
        let shards = Shards::new(client.clone(), &settings.namespace, timing, shards);
        observe(&parents, &registry, &shards, gate);
        let (index, interests) = (ParentIndex::default(), Interests::new(settings.requirements_memory));
        let (queue, plugins) = (parents.clone(), plugin_queue.clone());
        let triggers =
            Triggers::new(registry.clone(), index.clone(), interests.clone(), queue, plugins, shards.clone());
        let kinds = Kinds::new(plugin_queue.clone());
        let on_health = health_listener(kinds.clone(), interests.clone(), plugin_queue.clone());
        let on_change = Arc::new(move |watch: &WatchId, change: &Change| triggers.on_change(watch, change));
        let watches = Arc::new(Watches::new(client.clone(), on_change, on_health, progress.clone()));
        let own = watch_plugins(&watches);
        observe_conditions(&own);
        let ask = access_review::by_api_server(client.clone());
        let accounts = Accounts::new(&settings.namespace, access_review::own_user(client.clone()));
        let (recorder, events) = Recorder::start(client.clone());
        tokio::spawn(kinds.clone().watch_definitions(client.clone(), progress));
        let plugins = Arc::new(Plugins {
            client: client.clone(),
            own,
            sandbox: sandbox.clone(),
            watches: watches.clone(),
            sources,
            registry,
            index,
            kinds,
            discovery: Discovery::new(client.clone()),
            accounts,
            mark_keys: MarkKeys::new(client.clone(), &settings.namespace),
            ask,
            caps: settings.caps.clone(),
            queue: plugin_queue,
            parents: parents.clone(),
            interests,
            recorder,
            shards: shards.clone(),
            state: State::new(publisher),
        });
        let (stopped, unused) = (stop.clone(), sandbox.clone());
        tasks.running.spawn(async move { stopped.run_until_cancelled(release_unused_now_and_then(unused)).await });
        let stopped = stop.clone();
        tasks.running.spawn(async move { stopped.run_until_cancelled(watches.look_for_stalls()).await });
        let rng_key = SecretKey::new(client.clone(), &settings.namespace, RNG_KEY_SECRET);
        let reconciler = Box::new(reconciler_of(&plugins, settings.recent.clone()));
        let working = Working { tasks: tasks.running.clone(), sandbox, events };
        let plugins = PluginWork { plugins, tasks: tasks.clone() };
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

/// Makes the reconciler of parents, once the seeds are known.
fn reconciler_of(plugins: &Plugins, recent: Recent) -> impl FnOnce(RngSeeds) -> Reconciler + Send + use<> {
    let Plugins { client, registry, watches, interests, ask, recorder, parents, queue, shards, .. } = plugins;
    let related = Related::new(registry.clone(), watches.clone(), interests.clone(), ask.clone());
    let (client, recorder, shards, registry) = (client.clone(), recorder.clone(), shards.clone(), registry.clone());
    let (parents, plugins) = (parents.clone(), queue.clone());
    move |seeds| {
        let caller = Caller::new(seeds);
        let worlds = Worlds { client, related, caller, recorder, parents, plugins, shards };
        Reconciler { registry, worlds, recent }
    }
}

/// Releases the code of a component after one to two minutes without a call, as long as the future is polled.
async fn release_unused_now_and_then(sandbox: Sandbox) {
    loop {
        tokio::time::sleep(UNUSED).await;
        let sandbox = sandbox.clone();
        // An error means that the host ends.
        let _ = blocking(move || sandbox.release_unused()).await;
    }
}

/// Queues the Plugins that a change of a watch's health affects: those that use the watch, and those whose parents
/// require its kind.
fn health_listener(kinds: Kinds, interests: Interests, plugins: PluginQueue) -> HealthListener {
    Arc::new(move |watch| {
        kinds.health_changed(watch);
        if watch.labels.is_none() {
            interests.plugins_of(watch).iter().for_each(|plugin| plugins.add(&(), plugin, Trigger::Changed));
        }
    })
}

fn watch_plugins(watches: &Watches) -> Arc<Watch> {
    let kind = windlass_api::plugin_kind();
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    watches.lease(&Arc::new(kind), &ApiResource::from_gvk_with_plural(&gvk, "plugins"), None)
}

/// The number of runs that keep the cores busy, and one fewer for a single plugin.
fn busy_max() -> Busy {
    let of_all = clock::cores().max(2);
    Busy { of_all, of_group: of_all - 1 }
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
    K: Key + Debug + Send + Sync + 'static,
{
    let work = Arc::new(work);
    for _ in 0..workers {
        let (queue, work, stop) = (queue.clone(), work.clone(), stop.clone());
        tasks.spawn(async move { queue.work(&stop, &*work).await });
    }
}
