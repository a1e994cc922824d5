//! The Plugin resource's own reconcile: delivered → compiled → granted → published → said in the status.
//!
//! The only writer of the registry. Whatever fails on the way leaves the live logic as it is.

mod courtesy;
mod crd;
mod discovery;
mod farewell;
mod grants;
mod kinds;
mod load;
mod logic;
mod parent;
mod rights;
mod settings;
mod status;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;
use windlass_core::guard::HeldParents;
use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::names::{ANNOTATION_ALLOW_DELETION, plugin_reason as reason};
use windlass_core::object::Object;
use windlass_core::outcome::Requeue;
use windlass_sandbox::registry::{Publisher, Registry};
use windlass_sandbox::{Component, Sandbox};

use crate::api::Plugin;
use crate::caps::Caps;
use crate::delivery::{Sources, Wanted};
use crate::live::{Live, ParentIndex, ParentKey};
use crate::memo::Memo;
use crate::queue::{Job, Queue, Trigger};
use crate::related::Interests;
use crate::rights::Accounts;
use crate::rights::review::Ask;
use crate::watch::{Watch, Watches};

use self::courtesy::Courtesy;
use self::discovery::Discovery;
use self::farewell::Farewell;
use self::logic::Rollback;
use self::rights::Lacking;
use self::settings::Settings;
pub use kinds::Kinds;
pub use load::{Problem, Step};
pub use status::had_no_parents;
pub use tally::Tally;

/// Key of the queue of Plugins: all of them take turns in one group.
pub type PluginQueue = Queue<(), PluginName>;

/// New logic reaches the parents of a Plugin within this time, spread evenly.
const SPREAD: Duration = Duration::from_secs(2);
/// Time between looks at whether anything still runs for a Plugin that is being deleted.
const DRAIN: Duration = Duration::from_millis(100);
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
    ask: Ask,
    caps: Caps,
    queue: PluginQueue,
    parents: Queue<PluginName, ParentKey>,
    interests: Interests,
    known: Mutex<HashMap<PluginName, Known>>,
    courtesy: Courtesy,
}

/// Where a Plugin's reconcile puts its results.
pub struct Outlets {
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
    /// What of a registry could not be loaded, and why.
    refused: Option<(Wanted, Problem)>,
    /// Watches that the last look wanted, while it is not live.
    held: Vec<Arc<Watch>>,
    tally: Option<Arc<Tally>>,
    held_parents: Arc<Mutex<HeldParents>>,
    memo: Arc<Memo>,
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
        let Outlets { publisher, index, kinds, queue, parents, interests } = outlets;
        tokio::spawn(kinds.clone().watch_definitions(client.clone()));
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
            accounts,
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
        self.remember(name, object, &result);
        let requeue = match &result {
            Ok(findings) if findings.lacking.is_none() => Requeue::Settled(None),
            // Nobody tells of rights that are granted.
            Ok(_) => Requeue::Backoff(Duration::ZERO),
            Err(problem) => problem.requeue,
        };
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

    fn remember(&self, name: &PluginName, object: &Object, result: &Result<load::Findings, Problem>) {
        let mut known = self.known.lock();
        let entry = known.entry(name.clone()).or_default();
        entry.tried = true;
        entry.look = result.as_ref().ok().map(|findings| Look {
            generation: object.generation,
            findings: findings.clone(),
            // Before the queue's own time comes, which has a jitter of a tenth.
            next: Instant::now() + if findings.lacking.is_none() { RESYNC.mul_f64(0.9) } else { Duration::ZERO },
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
        if let Some(live) = &live {
            let allowed = object.marks.get(ANNOTATION_ALLOW_DELETION);
            for parent in live.conduct.allow(allowed).parents {
                self.parents.add(name, &parent, Trigger::Event);
            }
        }
        match status::write(&self.client, &self.own.resource, object, live.as_deref(), result).await {
            Ok(()) => requeue,
            Err(error) => {
                tracing::warn!(plugin = %name, %error, "the Plugin's status was not written");
                Requeue::Backoff(Duration::ZERO)
            }
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

    /// Loads what the resource names, and makes it live.
    async fn load(&self, name: &PluginName, object: &Object, plugin: &Plugin) -> Result<load::Findings, Problem> {
        self.sources.follow(name, load::place(plugin)?);
        let rollback = Rollback::of(object, plugin)?;
        let (component, rolled_back) = self.component(name, object, plugin, rollback).await?;
        let rolled_back_from = rollback.map(|rollback| rollback.from);
        let findings = if rolled_back {
            self.bring(name, object, &with_definition_as_it_is(plugin), component).await?
        } else {
            self.bring(name, object, plugin, component).await?
        };
        Ok(load::Findings { rolled_back_from, rolled_back, file: self.sources.file(name), ..findings })
    }

    /// Something is wrong with what is newer: what is live goes on, or what was.
    async fn go_on(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
        problem: &Problem,
    ) -> Result<(), Problem> {
        let live = self.registry.get(name);
        if live.is_none() && problem.stored_as.is_none() && self.restore(name, object, plugin).await {
            return Ok(());
        }
        // What becomes of the children may have been said only now.
        let was_live = plugin.status.as_ref().is_some_and(|status| status.parent_kind.is_some());
        match live {
            Some(live) => self.see_to_end(object, plugin, live.finalizes).await,
            None if was_live => self.see_to_end(object, plugin, false).await,
            None => Ok(()),
        }
    }

    /// At a start, what was live before is better than nothing while something is wrong with what is newer. Answers whether
    /// it is live again.
    async fn restore(&self, name: &PluginName, object: &Object, plugin: &Plugin) -> bool {
        let Some(component) = self.last_live(name, plugin).await else { return false };
        match self.bring(name, object, &with_definition_as_it_is(plugin), component).await {
            Ok(_) => {
                tracing::info!(plugin = %name, "what was live before is live again");
                true
            }
            Err(problem) => {
                tracing::debug!(plugin = %name, message = problem.message, "what was live before cannot be");
                false
            }
        }
    }

    /// Makes logic live, unless it would decide as what is live does.
    async fn bring(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
        component: Arc<Component>,
    ) -> Result<load::Findings, Problem> {
        let digest = component.digest();
        let bring = async {
            let (prepared, capped) = load::prepare(self, name, plugin, component).await?;
            let concern = load::concern_of(&prepared);
            let lacking = self.bring_live(object, plugin, prepared.clone()).await?;
            self.kinds.follow(name, concern);
            Ok(load::Findings::of(&prepared, plugin, capped, lacking))
        };
        let findings = bring.await.map_err(|problem: Problem| problem.of(digest))?;
        let mut known = self.known.lock();
        let entry = known.entry(name.clone()).or_default();
        // Now what is live holds them.
        entry.candidate = None;
        entry.held.clear();
        Ok(findings)
    }

    /// Makes it live, if what is live would not decide alike; answers with what its ServiceAccount may not do.
    async fn bring_live(&self, object: &Object, plugin: &Plugin, prepared: Live) -> Result<Option<Lacking>, Problem> {
        if let Some(live) = self.registry.get(&prepared.name).filter(|live| live.decides_like(&prepared)) {
            self.see_to_end(object, plugin, live.finalizes).await?;
            let lacking = rights::review(&self.ask, &live).await?;
            self.retry_failing(&live, lacking.is_some());
            return Ok(lacking);
        }
        if prepared.owns_kind() {
            // Before its rights: whoever comes too late for a kind need not have any.
            grants::claim(self, &prepared.name, object, &prepared.parents.id.kind)?;
        }
        let status = plugin.status.as_ref();
        let was_live = status.and_then(|status| status.active_digest.as_deref());
        if was_live == Some(prepared.digest().to_string().as_str()) {
            // It worked before this process began, and parents are waiting.
            self.see_to_end(object, plugin, prepared.finalizes).await?;
            self.publish(object, prepared.clone())?;
            return rights::review(&self.ask, &prepared).await;
        }
        let lacking = rights::review(&self.ask, &prepared).await?;
        if let Some(problem) = lacking.as_ref().and_then(Lacking::vital) {
            return Err(problem);
        }
        self.check_kind(plugin, &prepared)?;
        self.see_to_end(object, plugin, prepared.finalizes).await?;
        self.publish(object, prepared)?;
        Ok(lacking)
    }

    /// Whether the logic is for the parents that the Plugin has: those of another kind would be left with their children
    /// and finalizers, and nobody would know of them.
    fn check_kind(&self, plugin: &Plugin, prepared: &Live) -> Result<(), Problem> {
        let (live, status) = (self.registry.get(&prepared.name), plugin.status.as_ref());
        let has_parents = match &live {
            Some(live) => live.parents.store.size() > 0,
            None => status.and_then(|status| status.parents).is_some_and(|parents| parents > 0),
        };
        let said = || status.and_then(|status| status.parent_kind.as_ref()?.parse().ok());
        let before = live.map(|live| Gvk::clone(&live.parents.id.kind)).or_else(said);
        let wanted = &prepared.parents.id.kind;
        match before.filter(|before| has_parents && before.group_kind() != wanted.group_kind()) {
            Some(before) => {
                let message = format!(
                    "the component is for {wanted}, but there are parents of {before}, whose children and finalizers would \
                     be left behind. Make another Plugin for it, or delete those parents, or this Plugin, first"
                );
                Err(Problem::new(Step::Granted, reason::PARENT_KIND_CHANGED, message))
            }
            None => Ok(()),
        }
    }

    /// Sees to it that the host hears of the Plugin's end, where it must.
    async fn see_to_end(&self, object: &Object, plugin: &Plugin, finalizes: bool) -> Result<(), Problem> {
        if farewell::is_wanted(plugin, finalizes) && !farewell::is_awaited(object) {
            farewell::set_awaited(&self.client, &self.own.resource, object, true).await?;
        }
        Ok(())
    }

    /// Has the failing parents reconciled if something stood in this Plugin's way until now: they may fail because of
    /// that alone, and would wait for their backoffs.
    fn retry_failing(&self, live: &Live, is_lacking: bool) {
        let known = self.known.lock();
        let look = known.get(&live.name).and_then(|known| known.look.as_ref());
        // Rights that it lacks still are nothing new.
        if look.is_some_and(|look| look.findings.lacking.is_none() || is_lacking) {
            return;
        }
        drop(known);
        for parent in live.tally.failing() {
            self.parents.add(&live.name, &parent, Trigger::Sweep);
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

    /// Makes it live and has every parent reconciled by it.
    fn publish(&self, object: &Object, live: Live) -> Result<(), Problem> {
        let live = Arc::new(live);
        let name = live.name.clone();
        let mut publisher = self.publisher.lock();
        // A kind of somebody else's may have any number of Plugins.
        let younger =
            if live.owns_kind() { grants::claim(self, &name, object, &live.parents.id.kind)? } else { Vec::new() };
        for younger in younger {
            tracing::warn!(plugin = %name, %younger, "takes the parent kind over from a younger Plugin");
            publisher.retract(&younger);
            self.parents.forget_group(&younger);
            self.interests.forget_plugin(&younger);
            self.known.lock().remove(&younger);
            self.queue.add(&(), &younger, Trigger::Fresh);
        }
        self.parents.set_concurrency(&name, live.concurrency);
        publisher.publish(name.clone(), live.clone());
        self.index_live();
        drop(publisher);
        // Whoever has left since the logic was prepared told the logic before it.
        live.strays.search(&live.parents.store, live.children.values());
        let parents = self.enqueue_parents(&live, Trigger::Sweep);
        live.held.lock().forget_unless(|parent| live.knows(parent));
        live.memo.forget_unless(|parent| live.parents.store.get(parent).is_some());
        // Whoever went since the logic was prepared told the logic before it. A run of their own finds them gone.
        for gone in live.conduct.awaited_in_vain(|parent| live.knows(parent)) {
            self.parents.add(&name, &gone, Trigger::Sweep);
        }
        tracing::info!(plugin = %name, digest = %live.digest(), version = live.version, parents, "live");
        Ok(())
    }

    /// Has every parent reconciled, spread over a moment; answers with how many there are.
    ///
    /// Read now that the logic is live: a parent that comes later finds it in the registry.
    fn enqueue_parents(&self, live: &Live, trigger: Trigger) -> usize {
        let parents = live.parents.store.keys();
        let count = parents.len();
        let spread = SPREAD.min(Duration::from_millis(count as u64));
        let strays = live.strays.all().into_iter().map(|(parent, _)| parent);
        for parent in parents.into_iter().chain(strays) {
            self.parents.add_within(&live.name, &parent, trigger, spread);
        }
        count
    }

    /// Brings the index of parents to what the registry says. Called by who holds the publisher.
    fn index_live(&self) {
        let live = self.registry.names().into_iter().filter_map(|name| {
            let watch = self.registry.get(&name)?.parents.id.clone();
            Some((name, watch))
        });
        self.index.replace(live);
    }

    /// Ends the life of logic that would lose data: its kind is stored in another version by now.
    fn withdraw(&self, name: &PluginName, stored: &Gvk) {
        let is_another = |live: Arc<Live>| {
            let kind = &live.parents.id.kind;
            live.owns_kind() && kind.group_kind() == stored.group_kind() && kind.version != stored.version
        };
        if self.registry.get(name).is_some_and(is_another) {
            tracing::warn!(plugin = %name, %stored, "no longer live: its kind is stored in another version");
            self.retract(name);
        }
    }

    /// A Plugin is gone: its parents are left alone, and so is all that exists because of them.
    fn take_down(&self, name: &PluginName) {
        if self.retract(name) {
            tracing::info!(plugin = %name, "no longer live; its parents and their children are left as they are");
        }
        self.sources.forget(name);
        self.kinds.forget(name);
        self.known.lock().remove(name);
        self.look_again();
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
        let farewell = Farewell { client: &self.client, discovery: &self.discovery, name, account };
        farewell.say(&plugin, farewell::is_given_up(object)).await
    }

    /// A Plugin is gone for good: what it left may be another's by now.
    fn inherit(&self) {
        for name in self.registry.names() {
            if let Some(live) = self.registry.get(&name).filter(|live| live.owns_kind()) {
                self.enqueue_parents(&live, Trigger::Sweep);
            }
        }
    }

    /// Ends the life of logic; answers whether there was any.
    fn retract(&self, name: &PluginName) -> bool {
        let mut publisher = self.publisher.lock();
        let retracted = publisher.retract(name).is_some();
        self.index_live();
        drop(publisher);
        self.parents.forget_group(name);
        self.interests.forget_plugin(name);
        retracted
    }

    /// Has every Plugin looked at again that is not as it should be: one of them may have waited for another's kind.
    fn look_again(&self) {
        let known = self.known.lock();
        for (name, _) in known.iter().filter(|(_, known)| known.look.is_none()) {
            self.queue.add(&(), name, Trigger::Fresh);
        }
    }
}

/// Older logic carries an older definition, under which what newer logic made of the objects would be dropped.
fn with_definition_as_it_is(plugin: &Plugin) -> Plugin {
    let mut plugin = plugin.clone();
    plugin.spec.install_crd = false;
    plugin
}

fn parse(object: &Object) -> Result<Plugin, String> {
    serde_json::from_slice(&object.json.bytes()).map_err(|error| format!("the Plugin cannot be read: {error}"))
}
