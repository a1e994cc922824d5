//! Selects the component of a Plugin: that of its source, or one that was live before, for a rollback or if the source
//! gives no usable component at a start.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::JoinError;
use windlass_api::{ConfigMapSource, ConfiguredSource, Plugin, PluginStatus};
use windlass_core::object::Object;
use windlass_core::object::names::{ANNOTATION_PUSHED_AT, ANNOTATION_ROLLBACK};
use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;
use windlass_delivery::{self as delivery, Delivered, DeliveryError, Resolution, Trust, Wanted, blocking};
use windlass_sandbox::Component;

use super::problem::{Problem, Step};
use super::refusal::Refusal;
use super::resource::parse;
use super::shared::{Known, Plugins};
use super::{load, resource};
use crate::clock;

/// A rollback that a user requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rollback {
    /// Digest of the component that was live when the user requested the rollback. A component that is newer still goes
    /// live.
    pub from: Digest,
    /// Digest of the component that was live before `from`.
    to: Digest,
}

impl Rollback {
    /// The rollback; none if no user requested one.
    ///
    /// # Errors
    /// If there is no earlier component.
    pub(super) fn of(object: &Object, plugin: &Plugin) -> Result<Option<Self>, Problem> {
        let nothing = || {
            let message = format!(
                "{ANNOTATION_ROLLBACK} is set, but there is no earlier component: status.previousDigest is empty"
            );
            Problem::lasting(Step::Fetched, PluginReason::NothingToRollBackTo, message)
        };
        let is_wanted = object.marks.is_true(ANNOTATION_ROLLBACK);
        is_wanted.then(|| plugin.status.as_ref().and_then(Self::by).ok_or_else(nothing)).transpose()
    }

    fn by(status: &PluginStatus) -> Option<Self> {
        let digest = |text: &Option<String>| text.as_ref()?.parse::<Digest>().ok();
        let (active, previous) = (digest(&status.active_digest), digest(&status.previous_digest));
        match digest(&status.rolled_back_from) {
            Some(from) => Some(Self { from, to: active? }),
            None => Some(Self { from: active?, to: previous? }),
        }
    }
}

/// The component to make live.
pub(super) struct Selected {
    pub component: Arc<Component>,
    /// The rollback, if a user requested one.
    pub rollback: Option<Rollback>,
    /// Whether the component is the result of the rollback.
    pub rolled_back: bool,
}

/// Digest of the component that was live before and that `spec.digest` allows; none if there is none.
fn wanted_of_before(plugin: &Plugin) -> Option<Digest> {
    let status = plugin.status.as_ref()?;
    let digest = |text: &Option<String>| text.as_ref()?.parse::<Digest>().ok();
    let active = digest(&status.active_digest);
    match resource::pinned(plugin).ok()? {
        None => active,
        Some(pinned) => [active, digest(&status.previous_digest)].into_iter().flatten().find(|was| *was == pinned),
    }
}

impl Plugins {
    /// Follows the source that the Plugin names. Returns the digest that the component must have, if pinned, and the rollback, if a user
    /// requested one.
    ///
    /// # Errors
    /// If the spec is invalid, or does not meet the host's requirements. The check needs no request.
    fn follow(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
    ) -> Result<(Option<Digest>, Option<Rollback>), Problem> {
        self.sources.follow(name, resource::configured_source(plugin)?);
        let rollback = Rollback::of(object, plugin)?;
        let pinned = resource::pinned(plugin)?;
        self.sources.check_wanted(plugin.spec.verify.as_ref())?;
        Ok((pinned, rollback))
    }

    /// The component to make live.
    pub(super) async fn component(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
    ) -> Result<Selected, Problem> {
        let followed = self.follow(name, object, plugin).inspect_err(|_| self.sources.remotes.forget(name));
        let (pinned, rollback) = followed?;
        let delivered = self.delivered(name, object, plugin, pinned).await;
        match (rollback, delivered) {
            (None, delivered) => Ok(Selected { component: delivered?, rollback, rolled_back: false }),
            (Some(Rollback { from, .. }), Ok(component)) if component.digest() != from => {
                Ok(Selected { component, rollback, rolled_back: false })
            }
            (Some(Rollback { to, .. }), _) => {
                if let Some(pinned) = pinned.filter(|pinned| *pinned != to) {
                    let message = format!("{ANNOTATION_ROLLBACK} would go back to {to}, but spec.digest pins {pinned}");
                    return Err(Problem::lasting(Step::Fetched, PluginReason::DigestMismatch, message));
                }
                if !self.may_run(plugin, to).await? {
                    let message = format!(
                        "{ANNOTATION_ROLLBACK} would go back to {to}, which none of spec.verify's keys is known to have signed"
                    );
                    return Err(Problem::lasting(Step::Verified, PluginReason::NotSigned, message));
                }
                let known = self.known(name, to).await.ok_or_else(|| {
                    let message =
                        format!("{ANNOTATION_ROLLBACK} is set, but {to} is no longer among the compiled components");
                    Problem::lasting(Step::Fetched, PluginReason::NothingToRollBackTo, message)
                });
                Ok(Selected { component: known?, rollback, rolled_back: true })
            }
        }
    }

    /// The earlier component that is still allowed: the pinned one, or the one that was live when the host stopped.
    /// Used when the source gives no usable component, or another one than the pinned.
    pub(super) async fn last_live(&self, name: &PluginName, plugin: &Plugin) -> Option<Arc<Component>> {
        let wanted = wanted_of_before(plugin)?;
        let may_run = self.may_run(plugin, wanted).await.unwrap_or_default();
        if may_run { self.known(name, wanted).await } else { None }
    }

    /// Whether an earlier component was verified with the Plugin's present keys.
    async fn may_run(&self, plugin: &Plugin, digest: Digest) -> Result<bool, Problem> {
        let trust = self.sources.trust(plugin.spec.verify.as_ref()).await?;
        Ok(self.sources.facts.is_verified(digest, trust.as_ref()))
    }

    /// The component of the Plugin's source.
    async fn delivered(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
        pinned: Option<Digest>,
    ) -> Result<Arc<Component>, Problem> {
        if let Some(file) = self.sources.file(name) {
            self.sources.remotes.forget(name);
            let trust = self.sources.trust(plugin.spec.verify.as_ref()).await?;
            return self.of_bytes(name, move || delivery::read_file(&file), pinned, trust).await;
        }
        match resource::configured_source(plugin)? {
            ConfiguredSource::ConfigMap(source) => self.of_config_map(name, plugin, source, pinned).await,
            ConfiguredSource::Oci(source) => {
                let wanted = Wanted {
                    source: source.clone(),
                    pinned,
                    verify: plugin.spec.verify.clone(),
                    pushed_at: object.marks.get(ANNOTATION_PUSHED_AT).map(str::to_owned),
                };
                self.of_registry(name, &wanted).await
            }
        }
    }

    /// The component of a ConfigMap. A known version is not fetched again, and a component that this Plugin has mapped
    /// is not mapped again.
    async fn of_config_map(
        &self,
        name: &PluginName,
        plugin: &Plugin,
        source: &ConfigMapSource,
        pinned: Option<Digest>,
    ) -> Result<Arc<Component>, Problem> {
        let trust = self.sources.trust(plugin.spec.verify.as_ref()).await?;
        let version = self.sources.version(source).await;
        // The known digest is used only if it passes all checks. Otherwise the component is fetched, and errors are
        // about the fetched component.
        let fetched = version
            .and_then(|version| self.sources.facts.fetched(source, version))
            .filter(|digest| pinned.is_none_or(|pinned| pinned == *digest))
            .filter(|digest| self.sources.facts.is_verified(*digest, trust.as_ref()));
        if let Some(digest) = fetched
            && let Some(component) = self.known(name, digest).await
        {
            return Ok(self.candidate(name, component));
        }
        let packed = delivery::fetch(&self.client, source).await?;
        let component = self.of_bytes(name, move || packed.unpack(), pinned, trust).await?;
        if let Some(version) = version {
            self.sources.facts.note_fetched(source, version, component.digest()).await;
        }
        Ok(component)
    }

    /// The component of delivered bytes, after its digest and signature were checked. Opening and checking block, so
    /// they run outside the runtime's threads.
    async fn of_bytes(
        &self,
        name: &PluginName,
        open: impl FnOnce() -> Result<Delivered, DeliveryError> + Send + 'static,
        pinned: Option<Digest>,
        trust: Option<Trust>,
    ) -> Result<Arc<Component>, Problem> {
        let keys = trust.clone();
        let opened = blocking(move || {
            let delivered = open()?;
            let checked = delivered.check(pinned, keys.as_ref());
            checked.map_err(|error| Problem::from(error).of(delivered.digest)).map(|()| delivered)
        });
        let failed = |error: JoinError| Problem::new(Step::Fetched, PluginReason::SourceInvalid, error.to_string());
        let delivered = opened.await.map_err(failed)??;
        let digest = delivered.digest;
        self.sources.facts.note_verified(digest, trust.as_ref()).await;
        let component = match self.mapped(name, digest) {
            Some(found) => found,
            None => load::map(self, digest, delivered.bytes).await?,
        };
        Ok(self.candidate(name, component))
    }

    /// The component of a registry. A task of `Sources` resolves the artifact, and downloads it if it was not compiled
    /// before.
    async fn of_registry(&self, name: &PluginName, wanted: &Wanted) -> Result<Arc<Component>, Problem> {
        let reference = &wanted.source.reference;
        match self.sources.remotes.take_resolution(name, wanted) {
            Resolution::Pending => Err(Problem::pending(format!("{reference} is being looked up"))),
            // The task retries, and queues the Plugin when it has a new result.
            Resolution::Failed(error) => Err(Problem { requeue: Requeue::Settled(None), ..error.into() }),
            Resolution::Found(digest, fetched) => {
                if let Some(known) = self.known(name, digest).await {
                    return Ok(self.candidate(name, known));
                }
                if let Some(problem) = self.refusal(name, wanted, digest) {
                    return Err(problem);
                }
                let Some(fetched) = fetched else {
                    self.sources.remotes.fetch(name);
                    return Err(Problem::pending(format!("{reference} ({digest}) is being fetched")));
                };
                let mapped = load::map(self, digest, fetched.bytes).await;
                let component = mapped.map_err(|problem| self.refuse(name, wanted, problem))?;
                Ok(self.candidate(name, component))
            }
        }
    }

    /// The problem for which this component was rejected before, if it still applies.
    fn refusal(&self, name: &PluginName, wanted: &Wanted, digest: Digest) -> Option<Problem> {
        self.state.known.lock().get(name)?.refused.as_ref()?.holds(wanted, digest, clock::now())
    }

    /// Records that a component could not be loaded; returns the problem with the time of the next try.
    fn refuse(&self, name: &PluginName, wanted: &Wanted, problem: Problem) -> Problem {
        let mut known = self.state.known.lock();
        let entry = known.entry(name.clone()).or_default();
        let refusal = Refusal::new(wanted, problem, entry.refused.take(), clock::now());
        let problem = refusal.problem.clone();
        entry.refused = Some(refusal);
        problem
    }

    /// The component of this digest, if it is mapped or was compiled before.
    async fn known(&self, name: &PluginName, digest: Digest) -> Option<Arc<Component>> {
        match self.mapped(name, digest) {
            None => load::find(self, digest).await,
            found => found,
        }
    }

    /// The component of this digest, if it is live or mapped.
    fn mapped(&self, name: &PluginName, digest: Digest) -> Option<Arc<Component>> {
        let live = self.registry.get(name).map(|live| live.component.clone());
        let candidate = self.state.known.lock().get(name).and_then(|known| known.candidate.clone());
        [live, candidate].into_iter().flatten().find(|found| found.digest() == digest)
    }

    fn candidate(&self, name: &PluginName, component: Arc<Component>) -> Arc<Component> {
        self.state.known.lock().entry(name.clone()).or_default().candidate = Some(component.clone());
        component
    }

    /// The components whose compiled files must be kept, because Plugins have, had or may get them.
    pub(super) fn in_use(&self) -> HashSet<Digest> {
        // Before those that are live: a candidate may go live meanwhile.
        let candidate = |known: &Known| Some(known.candidate.as_ref()?.digest());
        let mut used: HashSet<_> = self.state.known.lock().values().filter_map(candidate).collect();
        self.registry.for_each(|live| _ = used.insert(live.digest()));
        used.extend(self.sources.remotes.found());
        for key in self.own.store.keys() {
            let plugin = self.own.store.get(&key).and_then(|object| parse(&object).ok());
            let status = plugin.and_then(|plugin| plugin.status).unwrap_or_default();
            let named = [status.active_digest, status.previous_digest, status.candidate_digest];
            used.extend(named.into_iter().flatten().filter_map(|digest| digest.parse::<Digest>().ok()));
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn digest(of: &str) -> String {
        Digest::of(of.as_bytes()).to_string()
    }

    /// The digests from and to which a Plugin with this status rolls back.
    fn rollback(value: Option<&str>, status: &Value) -> Result<Option<(String, String)>, &'static str> {
        let plugin = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin",
            "metadata": {
                "name": "echo", "uid": "1", "resourceVersion": "1", "annotations": {ANNOTATION_ROLLBACK: value},
            },
            "spec": {"source": {"configMap": {"namespace": "n", "name": "echo"}}},
            "status": status,
        });
        let text = plugin.to_string().replace("null", "\"\"");
        let object = Object::from_api(&Arc::new(windlass_api::plugin_kind()), &text).expect("an object");
        let plugin = parse(&object).expect("a Plugin");
        let rollback = Rollback::of(&object, &plugin).map_err(|problem| problem.reason)?;
        Ok(rollback.map(|rollback| (rollback.from.to_string(), rollback.to.to_string())))
    }

    #[test]
    fn rollback_returns_to_the_previous_component_and_stays_there() {
        let (old, bad) = (digest("old"), digest("bad"));
        let before = json!({"activeDigest": bad, "previousDigest": old});
        assert_eq!(rollback(None, &before), Ok(None));
        assert_eq!(rollback(Some("false"), &before), Ok(None));
        let expected = Ok(Some((bad.clone(), old.clone())));
        assert_eq!(rollback(Some("true"), &before), expected);
        let after = json!({"activeDigest": old, "previousDigest": bad, "rolledBackFrom": bad});
        assert_eq!(rollback(Some("true"), &after), expected, "a rollback is not undone");
    }

    #[test]
    fn pin_to_the_active_or_previous_component_restores_it_and_another_pin_restores_none() {
        let [active, previous, other] = ["new", "old", "other"].map(digest);
        let restored = |pin: Option<&str>| {
            let plugin = json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "echo"},
                "spec": {"source": {"configMap": {"namespace": "n", "name": "echo"}}, "digest": pin},
                "status": {"activeDigest": active, "previousDigest": previous},
            });
            let plugin = serde_json::from_value(plugin).expect("a Plugin");
            wanted_of_before(&plugin).map(|digest| digest.to_string())
        };
        assert_eq!(restored(None), Some(active.clone()));
        for pin in [&active, &previous] {
            assert_eq!(restored(Some(pin)).as_ref(), Some(pin));
        }
        assert_eq!(restored(Some(&other)), None);
        assert_eq!(restored(Some("latest")), None);
    }

    #[test]
    fn rollback_without_a_previous_component_is_reported() {
        for status in [json!({}), json!({"activeDigest": digest("only")})] {
            assert_eq!(rollback(Some("true"), &status), Err("NothingToRollBackTo"));
        }
    }
}
