//! Resolves the artifacts of Plugins in registries. One task per Plugin resolves the artifact at the Plugin's interval,
//! independent of the reconciles of the Plugin: no reconcile waits for a slow registry.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use windlass_api::{OciSource, Verify, positive};
use windlass_core::guard::backoff::{self, backoff_between};
use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;

use super::facts::Facts;
use super::oci::{self, Artifact, Http, Registry};
use super::secrets::Secrets;
use super::trust::Trust;
use super::{Delivered, DeliveryError, check_pin};
use crate::Changed;

/// Time between two resolutions of a tag, unless the Plugin sets `interval`.
const INTERVAL: Duration = Duration::from_mins(5);
/// Time between the first failed resolution and the next one, before jitter.
const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum time for which the host waits because a registry asks for it.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// Minimum time between two resolutions.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of components that are downloaded from one registry at the same time. Downloads go to files, and a
/// slow registry delays only its own artifacts.
const DOWNLOADS: usize = 4;
/// Maximum number of downloaded components in memory until they are compiled; it bounds the memory that delivery takes.
const HELD: usize = 2;
/// Time after which bytes are dropped if the reconcile that requested them does not take them. The Plugin may fail for
/// another reason meanwhile, and other Plugins wait for the place.
const UNTAKEN: Duration = Duration::from_mins(2);

/// An artifact that a Plugin requests of a registry.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The artifact's source.
    pub source: OciSource,
    /// The digest that the component must have; `None` accepts any digest.
    pub pinned: Option<Digest>,
    /// Keys, one of which must have signed the artifact; `None` if signatures are not checked.
    pub verify: Option<Verify>,
    /// Time of the Plugin's last push. A new push is resolved at once.
    pub pushed_at: Option<String>,
}

/// Result of the last resolution of an artifact.
#[derive(Debug)]
pub enum Resolution {
    /// The artifact is not resolved yet, or its requested bytes are not downloaded yet; `changed` is called when they
    /// are.
    Pending,
    /// Digest of the artifact's component, and the component's bytes if they were requested (`Remotes::fetch`) and not
    /// taken yet.
    Found(Digest, Option<Fetched>),
    /// The artifact gives no component.
    Failed(DeliveryError),
}

/// A component's bytes. They occupy a place in memory until this value is dropped.
#[derive(Debug)]
pub struct Fetched {
    /// The bytes, whose digest was checked.
    pub bytes: Vec<u8>,
    /// A place among [`HELD`].
    _place: OwnedSemaphorePermit,
}

/// Resolves the artifacts of all Plugins. Clones share the state.
#[derive(Clone)]
pub struct Remotes {
    lookup: Arc<Lookup>,
    followed: Arc<Mutex<HashMap<PluginName, Followed>>>,
    changed: Changed,
}

/// Dependencies of a resolution.
pub struct Lookup {
    /// Pull secrets and public keys.
    pub secrets: Secrets,
    /// HTTP clients.
    pub http: Http,
    /// Registries that are reached without TLS.
    pub plain_http: Vec<String>,
    /// The record of the components that were verified, and of the keys.
    pub facts: Facts,
    /// Folder for downloads; no other user may have write access to it.
    pub folder: PathBuf,
    /// Places for downloads and for downloaded components.
    pub places: Places,
}

/// Limits the numbers of downloads and of downloaded components.
pub struct Places {
    /// [`DOWNLOADS`] places for each registry in use.
    of_registries: Mutex<HashMap<String, Weak<Semaphore>>>,
    held: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { of_registries: Mutex::default(), held: Arc::new(Semaphore::new(HELD)) }
    }
}

impl Places {
    /// A place for a download from a registry; waits until one is free.
    async fn to_download(&self, registry: &str) -> Result<OwnedSemaphorePermit, AcquireError> {
        let places = {
            let mut all = self.of_registries.lock();
            let known = all.get(registry).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let places = Arc::new(Semaphore::new(DOWNLOADS));
                // Registries that are not in use are removed.
                all.retain(|_, places| places.strong_count() > 0);
                all.insert(registry.to_owned(), Arc::downgrade(&places));
                places
            })
        };
        places.acquire_owned().await
    }
}

struct Followed {
    wanted: Wanted,
    task: AbortHandle,
    /// Makes the task resolve the artifact at once.
    again: Arc<Notify>,
    /// Result of the last resolution; `None` until the first one ends, and while requested bytes are downloaded. It is
    /// replaced as a whole, so the bytes always belong to this resolution.
    found: Option<Result<Found, DeliveryError>>,
    /// Digest of the component whose bytes were requested, until they are downloaded.
    fetching: Option<Digest>,
    wants_bytes: bool,
}

struct Found {
    digest: Digest,
    fetched: Option<Fetched>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Remotes {
    /// Creates the resolver. It calls `changed` after every resolution that has another result than the last one, or
    /// that downloaded requested bytes.
    pub fn new(lookup: Lookup, changed: Changed) -> Self {
        Self { lookup: Arc::new(lookup), followed: Arc::default(), changed }
    }

    /// Takes the last result for a Plugin's artifact; its bytes are in one result only. The first call, and every call with a changed `wanted`, starts a
    /// resolution.
    pub fn take_resolution(&self, plugin: &PluginName, wanted: &Wanted) -> Resolution {
        let mut followed = self.followed.lock();
        match followed.entry(plugin.clone()) {
            Entry::Occupied(mut entry) if entry.get().wanted == *wanted => match &mut entry.get_mut().found {
                None => Resolution::Pending,
                Some(Ok(found)) => Resolution::Found(found.digest, found.fetched.take()),
                Some(Err(error)) => Resolution::Failed(error.clone()),
            },
            entry => {
                let again = Arc::new(Notify::new());
                let task = Task {
                    plugin: plugin.clone(),
                    wanted: wanted.clone(),
                    remotes: self.clone(),
                    again: again.clone(),
                };
                let task = tokio::spawn(task.run()).abort_handle();
                let wanted = wanted.clone();
                entry.insert_entry(Followed { wanted, task, again, found: None, fetching: None, wants_bytes: false });
                Resolution::Pending
            }
        }
    }

    /// Requests the bytes of the resolved artifact; `changed` is called when they are downloaded.
    pub fn fetch(&self, plugin: &PluginName) {
        if let Some(followed) = self.followed.lock().get_mut(plugin) {
            followed.fetching = followed.found.take().and_then(Result::ok).map(|found| found.digest);
            followed.wants_bytes = true;
            followed.again.notify_one();
        }
    }

    /// Digests of the components of all resolved artifacts, including components that are being downloaded.
    pub fn found(&self) -> Vec<Digest> {
        let digest = |followed: &Followed| match &followed.found {
            Some(found) => found.as_ref().ok().map(|found| found.digest),
            None => followed.fetching,
        };
        self.followed.lock().values().filter_map(digest).collect()
    }

    /// Stops following the Plugin's artifact: the Plugin is deleted, or has another kind of source.
    pub fn forget(&self, plugin: &PluginName) {
        self.followed.lock().remove(plugin);
    }
}

/// The task that follows one artifact.
struct Task {
    plugin: PluginName,
    wanted: Wanted,
    remotes: Remotes,
    again: Arc<Notify>,
}

impl Task {
    async fn run(self) {
        let interval = self.wanted.source.interval.as_ref().and_then(|interval| positive(interval).ok());
        let interval = interval.unwrap_or(INTERVAL).max(SHORTEST_INTERVAL);
        let (mut before, mut failures) = (None, 0);
        loop {
            let wants_bytes = self.mine(|entry| entry.wants_bytes).unwrap_or_default();
            let pause = match self.remotes.lookup.resolve(&self.wanted, before.as_ref(), wants_bytes).await {
                Ok(Seen { artifact, trust, fetched }) => {
                    self.take(Ok(Found { digest: artifact.component, fetched }));
                    before = Some((artifact, trust));
                    failures = 0;
                    interval
                }
                Err(error) => {
                    tracing::debug!(plugin = %self.plugin, %error, "nothing from the registry");
                    let asked = error.wait.unwrap_or_default().min(LONGEST_WAIT);
                    self.take(Err(error));
                    before = None;
                    let pause = backoff_between(FIRST_BACKOFF, backoff::LONGEST, failures, fastrand::f64());
                    failures = failures.saturating_add(1);
                    pause.max(asked)
                }
            };
            // Jitter: hundreds of Plugins must not send their requests at the same time.
            let pause = pause.mul_f64(1.0 + 0.1 * fastrand::f64());
            tokio::select! {
                () = self.rest(pause) => {}
                () = self.again.notified() => {}
            }
        }
    }

    /// Waits for the time between two resolutions, and meanwhile drops bytes that no reconcile took.
    async fn rest(&self, pause: Duration) {
        let at_first = pause.min(UNTAKEN);
        tokio::time::sleep(at_first).await;
        let let_go = |entry: &mut Followed| entry.found.as_mut().and_then(|found| found.as_mut().ok()?.fetched.take());
        // The bytes are dropped outside the lock, because the drop gives their place to another task.
        drop(self.mine(let_go));
        tokio::time::sleep(pause.saturating_sub(at_first)).await;
    }

    /// Accesses the entry of the Plugin; `None` if another task has replaced this task.
    fn mine<T>(&self, access: impl FnOnce(&mut Followed) -> T) -> Option<T> {
        let mut followed = self.remotes.followed.lock();
        let mine = followed.get_mut(&self.plugin).filter(|entry| Arc::ptr_eq(&entry.again, &self.again));
        mine.map(access)
    }

    fn take(&self, found: Result<Found, DeliveryError>) {
        let is_news = self.mine(|entry| {
            let is_fetched = found.as_ref().is_ok_and(|found| found.fetched.is_some());
            let is_as_before = match (&entry.found, &found) {
                (Some(Ok(before)), Ok(found)) => before.digest == found.digest,
                (Some(Err(before)), Err(error)) => before == error,
                _ => false,
            };
            entry.wants_bytes &= !is_fetched;
            entry.found = Some(found);
            is_fetched || !is_as_before
        });
        if is_news == Some(true) {
            (self.remotes.changed)(&self.plugin);
        }
    }
}

/// Result of one resolution.
struct Seen {
    artifact: Artifact,
    trust: Option<Trust>,
    fetched: Option<Fetched>,
}

impl Lookup {
    /// Resolves the artifact once. An artifact that is still the same as `before` is not verified again; unless its
    /// bytes are wanted, one HEAD request suffices.
    async fn resolve(
        &self,
        wanted: &Wanted,
        before: Option<&(Artifact, Option<Trust>)>,
        wants_bytes: bool,
    ) -> Result<Seen, DeliveryError> {
        let named = &wanted.source.reference;
        let invalid = |problem: String| {
            DeliveryError::new(PluginReason::InvalidSpec, format!("spec.source.oci.reference: {problem}"))
        };
        let reference: oci::Reference = named.parse().map_err(invalid)?;
        let of = |component| move |error| of_artifact(named, component, error);
        let credentials = self.secrets.credentials(wanted.source.pull_secret_ref.as_ref(), &reference).await?;
        let trust = self.secrets.trust(wanted.verify.as_ref()).await?;
        let before = before.filter(|(_, keys)| *keys == trust).map(|(artifact, _)| artifact);
        let registry = Registry::new(&self.http, reference, credentials, &self.plain_http);
        let registry = registry.map_err(of(None))?;
        if let Some(artifact) = before.filter(|_| !wants_bytes)
            && oci::is_still(&registry, artifact).await.map_err(of(None))?
        {
            // The record of the verification may have been removed while no Plugin used the component.
            self.facts.note_verified(artifact.component, trust.as_ref()).await;
            return Ok(Seen { artifact: *artifact, trust, fetched: None });
        }
        let artifact = oci::resolve(&registry).await.map_err(of(None))?;
        let found = artifact.component;
        check_pin(found, wanted.pinned)?;
        if let Some(trust) = trust.as_ref().filter(|_| before != Some(&artifact)) {
            oci::verify(&registry, artifact.manifest, trust).await.map_err(of(Some(found)))?;
        }
        self.facts.note_verified(found, trust.as_ref()).await;
        let fetched =
            if wants_bytes { Some(self.fetch(&registry, artifact).await.map_err(of(Some(found)))?) } else { None };
        Ok(Seen { artifact, trust, fetched })
    }

    /// Downloads the component into a file, and reads the file when a place in memory is free. A slow registry
    /// therefore never occupies memory.
    async fn fetch(&self, registry: &Registry, artifact: Artifact) -> Result<Fetched, DeliveryError> {
        // The semaphores are never closed.
        let closed = |error: AcquireError| DeliveryError::new(PluginReason::SourceInvalid, error.to_string());
        // The place is kept until the file is read, so that the space on disk is bounded as well.
        let _download = self.places.to_download(&registry.reference.registry).await.map_err(closed)?;
        let spooled = oci::pull_to(&self.folder, registry, artifact).await?;
        let place = self.places.held.clone().acquire_owned().await.map_err(closed)?;
        Ok(Fetched { bytes: spooled.read().await?, _place: place })
    }
}

/// Resolves and downloads an artifact once, for commands. Checks no signature.
///
/// # Errors
/// If the artifact gives no component.
pub async fn fetch_once(
    http: &Http,
    reference: &oci::Reference,
    credentials: Option<oci::Credentials>,
    plain_http: &[String],
) -> Result<Delivered, DeliveryError> {
    let of = |error| of_artifact(reference, None, error);
    let registry = Registry::new(http, reference.clone(), credentials, plain_http).map_err(of)?;
    let artifact = oci::resolve(&registry).await.map_err(of)?;
    let bytes = registry.blob(artifact.component, artifact.size).await.map_err(of)?;
    Ok(Delivered { digest: artifact.component, bytes, signature: None })
}

/// The error of an artifact, whose component is known or not.
fn of_artifact(reference: &impl Display, candidate: Option<Digest>, mut error: DeliveryError) -> DeliveryError {
    error.message = format!("{reference}: {error}");
    error.candidate = candidate;
    error
}

#[cfg(test)]
mod tests;
