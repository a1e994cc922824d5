//! Reconciles Plugins: deliver, compile, grant, publish, and write the status.
//!
//! It is the only writer of the registry. If a step fails, the live component stays as it is, unless its kind has
//! another storage version now.

mod activate;
pub mod admission_policies;
mod caches;
pub mod caps;
mod claim;
mod component;
mod crd;
mod deletion;
mod findings;
mod former_kinds;
mod grants;
mod kinds;
mod leftovers;
mod load;
mod mark_key;
mod parent;
mod permissions;
mod preflight;
mod problem;
mod publish;
pub mod rbac;
mod refusal;
mod resource;
mod settings;
mod shared;
mod sharing;
mod standby;
mod startup_order;
mod status;

use std::sync::Arc;
use std::time::Duration;

use windlass_api::Plugin;
use windlass_core::object::Object;
use windlass_core::object::names::{ANNOTATION_ALLOW_DELETION, LABEL_PLUGIN};
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::events::Occasion;
use windlass_core::reconcile::outcome::{Requeue, UNAVAILABLE};
use windlass_core::value::ids::{ObjectKey, PluginName};
use windlass_delivery::blocking;

use self::deletion::Deletion;
use self::findings::Findings;
use self::problem::{Problem, RESYNC};
use self::publish::Wave;
use self::resource::parse;
use self::shared::LastReconcile;
use self::status::Standing;
use crate::clock;
use crate::live::Live;
use crate::queue::{Job, Trigger};
pub use crd::{narrowings as crd_narrowings, sanitized as sanitized_crd, shape_of as status_shape};
pub use grants::{resolve as resolve_grants, resolve_reads};
pub use kinds::Kinds;
pub use mark_key::MarkKeys;
pub use resource::config_of;
pub use settings::settings_of;
pub use shared::{Plugins, State};

/// Time between checks whether a reconcile still runs for a deleted Plugin.
const DRAIN: Duration = Duration::from_millis(100);
/// Time until the next reconcile of a Plugin while reconciles with an earlier component may still create children.
const UNSETTLED: Duration = Duration::from_secs(10);
/// Time within which the API server serves the kind of a CRD that changed.
const SERVED_WITHIN: Duration = Duration::from_mins(1);
/// Time until the next reconcile of a Plugin whose component exceeds its request rate.
const LIMITED: Duration = Duration::from_mins(1);

impl Plugins {
    /// Removes data that no Plugin uses, once every Plugin was reconciled, or prepared by a standby.
    pub async fn tidy(&self) {
        if !self.all_known(|known| known.tried || known.prepared) {
            return;
        }
        let (sandbox, used) = (self.sandbox.clone(), self.in_use());
        self.sources.tidy(&used).await;
        match blocking(move || sandbox.retain(&used)).await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(removed)) => tracing::info!(removed, "compiled files that no Plugin uses were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "the folder of compiled components could not be cleaned"),
        }
    }

    /// Whether every existing Plugin was reconciled at least once since this host leads.
    pub fn all_tried(&self) -> bool {
        self.all_known(|known| known.tried)
    }

    /// Reconciles one Plugin.
    pub async fn reconcile(&self, job: &Job<(), PluginName>) -> (Requeue, Duration) {
        let _urgent = job.trigger.is_urgent().then(|| self.state.startup_order.urgent());
        if job.trigger == Trigger::Sweep {
            self.state.startup_order.give_way().await;
        }
        let name = &job.key;
        let key = ObjectKey::new(None, name.as_str());
        let object = self.own.store.get(&key);
        if let Some(object) = object.as_ref().filter(|_| self.stood_by(name))
            && let Some(requeue) = self.catch_up(object).await
        {
            return (requeue, RESYNC);
        }
        let requeue = match object {
            Some(object) if !object.deleting => match self.findings_still_valid(job, &object) {
                Some((findings, rest)) => {
                    let again = self.balance(name, &object).await;
                    self.report(name, &object, &Ok(findings), again.unwrap_or(Requeue::Pause(rest))).await
                }
                None => Box::pin(self.bring_up(name, &object)).await,
            },
            Some(object) => self.handle_deletion(name, &object).await,
            None => {
                self.unpublish(name);
                self.inherit();
                Requeue::WhenChanged
            }
        };
        (requeue, RESYNC)
    }

    /// Whether this host stood by, and has not reconciled the Plugin since.
    fn stood_by(&self, name: &PluginName) -> bool {
        let known = self.state.known.lock();
        let known = known.get(name);
        // A host that had a share stood by as well, even if it could not prepare the Plugin.
        known.map_or(self.shards.are_used(), |known| !known.tried && (known.prepared || self.shards.are_used()))
    }

    /// The findings of the last reconcile and their remaining validity. None unless only the counts of parents have
    /// changed: then only the status is updated.
    fn findings_still_valid(&self, job: &Job<(), PluginName>, object: &Object) -> Option<(Findings, Duration)> {
        let known = self.state.known.lock();
        let last = known.get(&job.key)?.last.as_ref()?;
        let rest = last.next.checked_duration_since(clock::now()).filter(|rest| !rest.is_zero())?;
        let unprompted = job.trigger.is_time() && last.generation == object.generation;
        unprompted.then(|| (last.findings.clone(), rest))
    }

    async fn bring_up(&self, name: &PluginName, object: &Arc<Object>) -> Requeue {
        let result = match parse(object) {
            Ok(plugin) => {
                self.revoke(name, &plugin);
                self.adjust(name, &plugin);
                match self.load(name, object, &plugin).await {
                    Err(problem) => self.keep_or_restore(name, object, &plugin, &problem).await.and(Err(problem)),
                    loaded => loaded,
                }
            }
            Err(problem) => {
                self.sources.forget(name);
                Err(problem)
            }
        };
        if result.is_err() && self.sandbox.is_stopped() {
            // The host is stopping: the next host reports the outcome.
            return Requeue::WhenChanged;
        }
        // Also done while a newer component is pending: the annotation is about the live component.
        self.apply_allowed_deletions(name, object);
        let is_unsettled = self.find_former_children(name, object).await;
        let requeue = match &result {
            // Granting permissions causes no event, so retry with a backoff.
            Ok(findings) if findings.lacking.is_some() => Requeue::Backoff(Duration::ZERO),
            Ok(_) if is_unsettled => Requeue::Pause(UNSETTLED),
            // New tokens of the request budget cause no event.
            Ok(_) if self.is_limited(name) => Requeue::Pause(LIMITED),
            Ok(_) => self.until_served(name).map_or(Requeue::Settled(None), Requeue::Pause),
            Err(problem) => problem.requeue,
        };
        self.remember(name, object, &result, requeue == Requeue::Settled(None));
        if let Err(problem) = &result {
            // The live component continues to run, and there is nothing to report.
            if problem.is_pending()
                && let Some(live) = self.registry.get(name)
            {
                self.work_on_share(&live);
                return requeue;
            }
            tracing::warn!(plugin = %name, reason = problem.reason.as_str(), message = problem.message, "plugin not brought up to date");
            if let Some(stored) = &problem.stored_as {
                self.withdraw(name, stored);
            }
        }
        let requeue = self.balance(name, object).await.unwrap_or(requeue);
        self.report(name, object, &result, requeue).await
    }

    /// When to look again for optional kinds, if a CRD has changed that may define one: the API server serves a kind, or no longer, a moment
    /// after the CRD says so, which causes no event. Each wait is as long as all before it.
    pub(super) fn until_served(&self, name: &PluginName) -> Option<Duration> {
        let has_optional = |live: Arc<Live>| !live.component.descriptor().optional.is_empty();
        let since = self.kinds.since_change(name).filter(|since| *since < SERVED_WITHIN)?;
        self.registry.get(name).is_some_and(has_optional).then(|| since.max(Duration::from_secs(1)))
    }

    /// Whether a live component exceeds its request rate.
    fn is_limited(&self, name: &PluginName) -> bool {
        self.registry.get(name).is_some_and(|live| live.shared.budget.lock().empty(clock::date()).is_some())
    }

    /// Records the findings. `is_good`: the reconcile waits for nothing.
    fn remember(&self, name: &PluginName, object: &Object, result: &Result<Findings, Problem>, is_good: bool) {
        let mut known = self.state.known.lock();
        let entry = known.entry(name.clone()).or_default();
        entry.tried = true;
        entry.last = result.as_ref().ok().map(|findings| LastReconcile {
            generation: object.generation,
            findings: findings.clone(),
            // Ends before the queue's resync, which has a jitter of a tenth.
            next: clock::now() + if is_good { RESYNC.mul_f64(0.9) } else { Duration::ZERO },
        });
    }

    /// Updates the Plugin's status; returns when to reconcile again.
    async fn report(
        &self,
        name: &PluginName,
        object: &Object,
        result: &Result<Findings, Problem>,
        requeue: Requeue,
    ) -> Requeue {
        let live = self.registry.get(name);
        let (former_kinds, reported_in) = {
            let known = self.state.known.lock();
            known.get(name).map(|known| (known.former_kinds.clone(), known.reported_in)).unwrap_or_default()
        };
        let elsewhere = self.shards.failing_elsewhere(name);
        let is_taken_back = self.is_taken_back(name);
        let decisions = live.as_ref().map(|live| live.shared.state.decisions());
        let standing = Standing {
            live: live.as_deref(),
            decisions: decisions.as_ref(),
            elsewhere: &elsewhere,
            is_taken_back,
            former_kinds: &former_kinds,
            result,
        };
        let before_sharing = || self.note_shared(name);
        let is_behind = reported_in > object.resource_version;
        let own = &self.own.resource;
        match status::write(&self.client, own, object, is_behind, standing, before_sharing).await {
            Ok((notes, version)) => {
                if let Some(version) = version {
                    self.note_reported(name, version);
                }
                let plugin = ParentRef::of(name, object, None);
                self.recorder.record(name, &plugin, notes, Occasion::Changed);
                requeue
            }
            Err(error) => {
                tracing::warn!(plugin = %name, %error, "the Plugin's status was not written");
                self.note_reported(name, u64::MAX);
                UNAVAILABLE
            }
        }
    }

    fn note_reported(&self, name: &PluginName, version: u64) {
        // A Plugin that is being deleted may be forgotten already.
        if let Some(known) = self.state.known.lock().get_mut(name) {
            known.reported_in = version;
        }
    }

    /// Releases the deletions that a user allowed by annotation.
    fn apply_allowed_deletions(&self, name: &PluginName, object: &Object) {
        let Some(live) = self.registry.get(name) else { return };
        for parent in live.shared.state.allow(object.marks.get(ANNOTATION_ALLOW_DELETION)).parents {
            self.parents.add(name, &parent, Trigger::Event);
        }
    }

    /// Applies the settings that need no new component, even if another step failed.
    fn adjust(&self, name: &PluginName, plugin: &Plugin) {
        let mut publisher = self.state.publisher.lock();
        let Some(live) = self.registry.get(name) else { return };
        // Invalid settings are reported when the component is loaded.
        let Ok(wanted) = settings_of(plugin, live.component.descriptor()) else { return };
        let before = live.terms.settings;
        if wanted == before {
            return;
        }
        tracing::info!(plugin = %name, ?wanted, "settings of the plugin changed");
        let mut next = Live::clone(&live);
        next.terms.settings = wanted;
        self.parents.set_concurrency(name, wanted.concurrency);
        publisher.publish(name.clone(), Arc::new(next));
        drop(publisher);
        if wanted.concern_parents(before) {
            live.shared.state.adjust(wanted.guard);
            // An event waits for backoffs: a change of settings does not end them.
            self.enqueue_parents(&live, Trigger::Event, Wave::Changed);
        }
    }

    /// Handles the deletion of a Plugin: waits until none of its reconciles runs, does the host's work, and removes the
    /// host's finalizer.
    async fn handle_deletion(&self, name: &PluginName, object: &Object) -> Requeue {
        if self.state.known.lock().get(name).is_some_and(|known| known.tried || known.prepared) {
            self.unpublish(name);
        }
        if !deletion::is_awaited(object) {
            return Requeue::WhenChanged;
        }
        if self.parents.is_running(name) {
            // A running reconcile may set a finalizer or create a child.
            return Requeue::Pause(DRAIN);
        }
        // Reconciles of other hosts may do so as well.
        if let Err(problem) = self.exclude_members(name, object).await {
            return problem.requeue;
        }
        let mut ended = self.end(name, object).await;
        if let Err(problem) = &ended
            && deletion::is_given_up(object)
        {
            tracing::warn!(plugin = %name, message = problem.message, "cleanup of the Plugin skipped, as its annotation says");
            ended = Ok(());
        }
        if ended.is_ok() {
            ended = deletion::set_awaited(&self.client, &self.own.resource, object, false).await;
        }
        let Err(problem) = ended else { return Requeue::WhenChanged };
        tracing::warn!(plugin = %name, message = problem.message, "deletion of the Plugin blocked");
        let requeue = problem.requeue;
        self.report(name, object, &Err(problem), requeue).await
    }

    async fn end(&self, name: &PluginName, object: &Object) -> Result<(), Problem> {
        let plugin = parse(object)?;
        let account = self.accounts.of(name, plugin.spec.service_account_name.as_deref()).await;
        let cleanup = Deletion { leftovers: self.leftovers(name), account };
        cleanup.run(&plugin, deletion::is_given_up(object)).await
    }

    /// Finds the former kinds of which children exist. Returns whether to check again soon: while a reconcile of the
    /// plugin runs, it may use an earlier component and create such a child.
    async fn find_former_children(&self, name: &PluginName, object: &Object) -> bool {
        let Some(live) = self.registry.get(name) else { return false };
        let former = {
            let mut known = self.state.known.lock();
            let kinds = &mut known.entry(name.clone()).or_default().former_kinds;
            let child_kinds = kinds.known.get_or_insert_with(|| {
                let status = parse(object).ok().and_then(|plugin| plugin.status);
                status.unwrap_or_default().known_child_kinds()
            });
            child_kinds.add(live.terms.grants.kinds());
            child_kinds.not_granted(&live.terms.grants.kinds())
        };
        let is_running = self.parents.is_running(name);
        let (mut left, mut is_unsettled) = (Vec::new(), false);
        for kind in former {
            match self.leftovers(name).has_no_children(&kind, &live.terms.parents).await {
                Ok(true) if is_running => is_unsettled = true,
                Ok(true) => {
                    if let Some(child_kinds) =
                        self.state.known.lock().get_mut(name).and_then(|known| known.former_kinds.known.as_mut())
                    {
                        child_kinds.forget(&kind);
                    }
                }
                Ok(false) => left.push(kind),
                Err(why) => {
                    tracing::warn!(plugin = %name, why, "whether children of a former kind are left is not known");
                    left.push(kind);
                }
            }
        }
        if let Some(known) = self.state.known.lock().get_mut(name) {
            known.former_kinds.left = left;
            known.former_kinds.selector = format!("{LABEL_PLUGIN}={name}");
        }
        is_unsettled
    }
}
