//! The Plugin resource's own reconcile: delivered → compiled → granted → published → said in the status.
//!
//! The only writer of the registry. Whatever fails on the way leaves the live logic as it is.

mod bring;
mod courtesy;
mod crd;
mod discovery;
mod estate;
mod farewell;
mod foresight;
mod grants;
mod kinds;
mod load;
mod logic;
mod lost;
mod mark_key;
mod parent;
mod publish;
mod refusal;
mod rights;
mod settings;
mod status;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;
use windlass_core::events::Occasion;
use windlass_core::guard::HeldParents;
use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::names::{ANNOTATION_ALLOW_DELETION, plugin_reason as reason};
use windlass_core::object::Object;
use windlass_core::outcome::{Requeue, UNAVAILABLE};
use windlass_core::parent::ParentRef;
use windlass_sandbox::registry::{Publisher, Registry};
use windlass_sandbox::{Component, Sandbox};

use crate::caps::Caps;
use crate::delivery::Sources;
use crate::live::{Live, ParentIndex, ParentKey};
use crate::memo::Memo;
use crate::queue::{Job, Queue, Trigger};
use crate::related::Interests;
use crate::report::Recorder;
use crate::rights::Accounts;
use crate::rights::review::Ask;
use crate::watch::{AllProgress, Watch, Watches};
use windlass_api::Plugin;

use self::courtesy::Courtesy;
use self::discovery::Discovery;
use self::estate::Estate;
use self::farewell::Farewell;
use self::lost::Lost;
use self::mark_key::MarkKeys;
use self::refusal::Refusal;
use self::settings::Settings;
use self::status::Standing;
pub use crd::narrowings as crd_narrowings;
pub use kinds::Kinds;
pub use load::{Problem, Step};
pub use status::had_no_parents;
pub use tally::Tally;

/// Key of the queue of Plugins: all of them take turns in one group.
pub type PluginQueue = Queue<(), PluginName>;

/// Time between looks at whether anything still runs for a Plugin that is being deleted.
const DRAIN: Duration = Duration::from_millis(100);
/// Time until a look at a Plugin of which runs of the logic before may still have made children.
const UNSETTLED: Duration = Duration::from_secs(10);
/// Time until a look at a Plugin whose component has caused more requests than its rate allows.
const LIMITED: Duration = Duration::from_mins(1);
/// Time between looks that nothing caused: a missed event is made good.
const RESYNC: Duration = Duration::from_mins(10);

/// What the Plugin resources' reconcile needs.
pub struct Plugins {
    client: Client,
    own: Arc<Watch>,
    sandbox: Sandbox,
    watches: Arc<Watches>,
    sources: Sources,
    registry: Registry<Live>,
    publisher: Mutex<Publisher<Live>>,
    index: ParentIndex,
    kinds: Kinds,
    discovery: Discovery,
    accounts: Accounts,
    mark_keys: MarkKeys,
    ask: Ask,
    caps: Caps,
    queue: PluginQueue,
    parents: Queue<PluginName, ParentKey>,
    interests: Interests,
    recorder: Recorder,
    known: Mutex<HashMap<PluginName, Known>>,
    courtesy: Courtesy,
}

/// Where a Plugin's reconcile puts its results.
pub struct Outlets {
    /// Where the watch of the definitions says that it makes progress.
    pub progress: AllProgress,
    /// The live logic.
    pub publisher: Publisher<Live>,
    /// The same by what its parents are.
    pub index: ParentIndex,
    /// Which kinds the Plugins rest on.
    pub kinds: Kinds,
    /// Plugins to look at again.
    pub queue: PluginQueue,
    /// Parents to reconcile with new logic.
    pub parents: Queue<PluginName, ParentKey>,
    /// What parents require.
    pub interests: Interests,
    /// Events on the Plugins.
    pub recorder: Recorder,
}

/// What a Plugin is brought up with.
pub struct Supplies {
    /// Where its logic runs.
    pub sandbox: Sandbox,
    /// Where its kinds are followed.
    pub watches: Arc<Watches>,
    /// Where its logic comes from.
    pub sources: Sources,
    /// As whom it writes.
    pub accounts: Accounts,
    /// Who knows what that one may do.
    pub ask: Ask,
    /// The most that it gets of each limit.
    pub caps: Caps,
}

/// What the host remembers of a Plugin beside its live logic.
#[derive(Default)]
struct Known {
    /// Whether it was tried since the host started.
    tried: bool,
    /// The last look, if all was well.
    look: Option<Look>,
    /// Logic that the last look mapped or found: a step after it failed, and is tried again.
    candidate: Option<Arc<Component>>,
    /// What of a registry could not be loaded.
    refused: Option<Refusal>,
    /// Watches that the last look wanted, while it is not live.
    held: Vec<Arc<Watch>>,
    tally: Option<Arc<Tally>>,
    held_parents: Arc<Mutex<HeldParents>>,
    memo: Arc<Memo>,
    lost: Lost,
}

/// A look at a Plugin that found its logic live.
struct Look {
    generation: Option<i64>,
    findings: load::Findings,
    /// When the next one is due by itself.
    next: Instant,
}

impl Plugins {
    /// With the watch of the Plugins and everything that loading one takes.
    pub fn new(client: Client, own: Arc<Watch>, supplies: Supplies, outlets: Outlets) -> Self {
        let Supplies { sandbox, watches, sources, accounts, ask, caps } = supplies;
        let mark_keys = MarkKeys::new(client.clone(), accounts.namespace());
        let Outlets { progress, publisher, index, kinds, queue, parents, interests, recorder } = outlets;
        tokio::spawn(kinds.clone().watch_definitions(client.clone(), progress));
        Self {
            discovery: Discovery::new(client.clone()),
            client,
            own,
            sandbox,
            watches,
            sources,
            registry: publisher.registry(),
            publisher: Mutex::new(publisher),
            index,
            kinds,
            queue,
            parents,
            interests,
            recorder,
            accounts,
            mark_keys,
            ask,
            caps,
            known: Mutex::default(),
            courtesy: Courtesy::new(),
        }
    }

    /// The kind of the Plugins.
    pub fn kind() -> Gvk {
        Gvk::from_api_version("windlass.dev/v1alpha1", "Plugin")
    }

    /// Forgets what no Plugin names, once all were tried.
    pub async fn tidy(&self) {
        if !self.all_tried() {
            return;
        }
        let (sandbox, used) = (self.sandbox.clone(), self.in_use());
        self.sources.tidy(&used).await;
        match tokio::task::spawn_blocking(move || sandbox.retain(&used)).await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(removed)) => tracing::info!(removed, "compiled files that no Plugin uses were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "the folder of compiled components could not be cleaned"),
        }
    }

    /// Whether every Plugin that exists was tried at least once since the start.
    pub fn all_tried(&self) -> bool {
        let known = self.known.lock();
        // Those that are being deleted are not brought up.
        let names = self.own.store.pick(|plugin| (!plugin.deleting).then(|| plugin.key.name.clone()));
        names
            .iter()
            .all(|name| name.parse::<PluginName>().is_ok_and(|name| known.get(&name).is_some_and(|known| known.tried)))
    }

    /// Brings one Plugin to what its resource says.
    pub async fn reconcile(&self, job: &Job<(), PluginName>) -> (Requeue, Duration) {
        let _urgent = job.trigger.is_urgent().then(|| self.courtesy.urgent());
        if job.trigger == Trigger::Sweep {
            self.courtesy.give_way().await;
        }
        let name = &job.key;
        let key = ObjectKey::new(None, name.as_str());
        let requeue = match self.own.store.get(&key) {
            Some(object) if !object.deleting => match self.rest_of_look(job, &object) {
                Some((findings, rest)) => self.say(name, &object, &Ok(findings), Requeue::Pause(rest)).await,
                None => self.bring_up(name, &object).await,
            },
            Some(object) => self.say_farewell(name, &object).await,
            None => {
                self.take_down(name);
                self.inherit();
                Requeue::WhenChanged
            }
        };
        (requeue, RESYNC)
    }

    /// What the last look found and how long it is good, if nothing but the count of its parents brings the Plugin here:
    /// then only its status is looked at.
    fn rest_of_look(&self, job: &Job<(), PluginName>, object: &Object) -> Option<(load::Findings, Duration)> {
        let known = self.known.lock();
        let look = known.get(&job.key)?.look.as_ref()?;
        let rest = look.next.checked_duration_since(Instant::now())?;
        let unprompted = job.trigger == Trigger::Resync && look.generation == object.generation;
        unprompted.then(|| (look.findings.clone(), rest))
    }

    async fn bring_up(&self, name: &PluginName, object: &Arc<Object>) -> Requeue {
        let result = match parse(object) {
            Ok(plugin) => {
                self.adjust(name, &plugin);
                match self.load(name, object, &plugin).await {
                    Err(problem) => self.go_on(name, object, &plugin, &problem).await.and(Err(problem)),
                    loaded => loaded,
                }
            }
            Err(message) => {
                self.sources.forget(name);
                Err(Problem::new(Step::Fetched, reason::INVALID_SPEC, message))
            }
        };
        if result.is_err() && self.sandbox.is_stopped() {
            // The next host says what becomes of it.
            return Requeue::WhenChanged;
        }
        // Also while something newer is waited for: the word is for what is live.
        self.hear_allowed(name, object);
        let is_unsettled = self.find_lost(name, object).await;
        let requeue = match &result {
            // Nobody tells of rights that are granted.
            Ok(findings) if findings.lacking.is_some() => Requeue::Backoff(Duration::ZERO),
            Ok(_) if is_unsettled => Requeue::Pause(UNSETTLED),
            // Nothing tells when the tokens are back.
            Ok(_) if self.is_limited(name) => Requeue::Pause(LIMITED),
            Ok(_) => Requeue::Settled(None),
            Err(problem) => problem.requeue,
        };
        self.remember(name, object, &result, requeue == Requeue::Settled(None));
        if let Err(problem) = &result {
            // What is live goes on meanwhile, and there is nothing to tell.
            if problem.is_pending() && self.registry.get(name).is_some() {
                return requeue;
            }
            tracing::warn!(plugin = %name, reason = problem.reason, message = problem.message, "plugin not brought up to date");
            if let Some(stored) = &problem.stored_as {
                self.withdraw(name, stored);
            }
        }
        self.say(name, object, &result, requeue).await
    }

    /// Whether a live component has caused more requests than its rate allows.
    fn is_limited(&self, name: &PluginName) -> bool {
        self.registry.get(name).is_some_and(|live| live.budget.lock().empty(jiff::Timestamp::now()).is_some())
    }

    /// `is_good`: nothing is waited for.
    fn remember(&self, name: &PluginName, object: &Object, result: &Result<load::Findings, Problem>, is_good: bool) {
        let mut known = self.known.lock();
        let entry = known.entry(name.clone()).or_default();
        entry.tried = true;
        entry.look = result.as_ref().ok().map(|findings| Look {
            generation: object.generation,
            findings: findings.clone(),
            // Before the queue's own time comes, which has a jitter of a tenth.
            next: Instant::now() + if is_good { RESYNC.mul_f64(0.9) } else { Duration::ZERO },
        });
    }

    /// Brings the Plugin's status to what was found; answers with when to look again.
    async fn say(
        &self,
        name: &PluginName,
        object: &Object,
        result: &Result<load::Findings, Problem>,
        requeue: Requeue,
    ) -> Requeue {
        let live = self.registry.get(name);
        let lost = self.known.lock().get(name).map(|known| known.lost.clone()).unwrap_or_default();
        let standing = Standing { live: live.as_deref(), lost: &lost, result };
        match status::write(&self.client, &self.own.resource, object, standing).await {
            Ok(notes) => {
                let plugin = ParentRef::of(name, object, None);
                self.recorder.record(name, &plugin, notes, Occasion::Changed);
                requeue
            }
            Err(error) => {
                tracing::warn!(plugin = %name, %error, "the Plugin's status was not written");
                UNAVAILABLE
            }
        }
    }

    /// Lets go what a person allows to be deleted.
    fn hear_allowed(&self, name: &PluginName, object: &Object) {
        let Some(live) = self.registry.get(name) else { return };
        for parent in live.conduct.allow(object.marks.get(ANNOTATION_ALLOW_DELETION)).parents {
            self.parents.add(name, &parent, Trigger::Event);
        }
    }

    /// Puts the settings in force that need no other logic, whatever becomes of the rest.
    fn adjust(&self, name: &PluginName, plugin: &Plugin) {
        let mut publisher = self.publisher.lock();
        let Some(live) = self.registry.get(name) else { return };
        // Loading says what is wrong with them.
        let Ok(wanted) = Settings::of(plugin, live.component.descriptor()) else { return };
        let before = Settings::of_live(&live);
        if wanted == before {
            return;
        }
        tracing::info!(plugin = %name, ?wanted, "settings");
        let concerns_parents = wanted.concerns_parents(&before);
        let guard = wanted.guard;
        let mut next = Live::clone(&live);
        wanted.put(&mut next);
        self.parents.set_concurrency(name, next.concurrency);
        publisher.publish(name.clone(), Arc::new(next));
        drop(publisher);
        if concerns_parents {
            live.conduct.adjust(guard);
            // An event: it waits for backoffs, which are not the settings' to end.
            self.enqueue_parents(&live, Trigger::Event);
        }
    }

    /// Keeps the watches that a Plugin wants, in place of those that it wanted before.
    fn hold(&self, name: &PluginName, watches: Vec<Arc<Watch>>) {
        let before = std::mem::replace(&mut self.known.lock().entry(name.clone()).or_default().held, watches);
        // Outside the lock: the last holder of a watch ends it.
        drop(before);
    }

    /// The ledger of a Plugin's failing parents.
    fn tally(&self, name: &PluginName) -> Arc<Tally> {
        let mut known = self.known.lock();
        let tally = known.entry(name.clone()).or_default().tally.get_or_insert_with(|| {
            let (queue, name) = (self.queue.clone(), name.clone());
            Arc::new(Tally::new(move |wait| queue.add_after(&(), &name, Trigger::Resync, wait)))
        });
        tally.clone()
    }

    /// The parents of a Plugin whose deletions are held.
    fn held_parents(&self, name: &PluginName) -> Arc<Mutex<HeldParents>> {
        self.known.lock().entry(name.clone()).or_default().held_parents.clone()
    }

    /// The parents of a Plugin that need nothing.
    fn memo(&self, name: &PluginName) -> Arc<Memo> {
        self.known.lock().entry(name.clone()).or_default().memo.clone()
    }

    /// A Plugin is being deleted: once nothing runs for it any more, what waits for the host is done and its finalizer
    /// goes.
    async fn say_farewell(&self, name: &PluginName, object: &Object) -> Requeue {
        if self.known.lock().contains_key(name) {
            self.take_down(name);
        }
        if !farewell::is_awaited(object) {
            return Requeue::WhenChanged;
        }
        if self.parents.is_running(name) {
            // One that runs may set a finalizer, or make a child.
            return Requeue::Pause(DRAIN);
        }
        let ended = match self.end(name, object).await {
            Err(problem) if farewell::is_given_up(object) => {
                tracing::warn!(plugin = %name, message = problem.message, "given up, as a person asked");
                Ok(())
            }
            ended => ended,
        };
        let ended = match ended {
            Ok(()) => farewell::set_awaited(&self.client, &self.own.resource, object, false).await,
            Err(problem) => Err(problem),
        };
        match ended {
            Ok(()) => Requeue::WhenChanged,
            Err(problem) => {
                tracing::warn!(plugin = %name, message = problem.message, "the Plugin cannot go yet");
                let requeue = problem.requeue;
                self.say(name, object, &Err(problem), requeue).await
            }
        }
    }

    async fn end(&self, name: &PluginName, object: &Object) -> Result<(), Problem> {
        let plugin = parse(object).map_err(|message| Problem::new(Step::Fetched, reason::INVALID_SPEC, message))?;
        let account = self.accounts.of(name, plugin.spec.service_account_name.as_deref()).await;
        let farewell = Farewell { estate: self.estate(name), account };
        farewell.say(&plugin, farewell::is_given_up(object)).await
    }

    fn estate<'a>(&'a self, name: &'a PluginName) -> Estate<'a> {
        Estate { client: &self.client, discovery: &self.discovery, mark_keys: &self.mark_keys, name }
    }
}

fn parse(object: &Object) -> Result<Plugin, String> {
    let plugin: Plugin =
        serde_json::from_slice(&object.json.bytes()).map_err(|error| format!("the Plugin cannot be read: {error}"))?;
    plugin.spec.check_replaced_fields()?;
    Ok(plugin)
}
