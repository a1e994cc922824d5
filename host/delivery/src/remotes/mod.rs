//! Artifacts in registries that Plugins name, each looked up on its interval by a task of its own, beside the Plugins'
//! reconcile: nobody waits for a slow registry, and a registry that is down costs nobody anything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use windlass_core::digest::Digest;
use windlass_core::ids::PluginName;

use super::oci::{self, Artifact, Http, Registry};
use super::secrets::Secrets;
use super::trust::{Trust, VerifiedDigests};
use super::{Delivered, DeliveryError};
use crate::Changed;
use windlass_api::{OciSource, Verify, positive};

/// Time between looks at what a tag names, unless the Plugin says otherwise.
const INTERVAL: Duration = Duration::from_mins(5);
/// Time before a look that failed is repeated, doubled each time it fails again.
const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// The longest such time, unless the registry asks for more.
const LAST_BACKOFF: Duration = Duration::from_mins(5);
/// The longest time that a registry may ask for.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// The shortest time between looks.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Components that are fetched from one registry at once. None of them takes memory: a registry that is slow holds up its
/// own artifacts alone.
const DOWNLOADS: usize = 4;
/// Components that were fetched and wait to be compiled, at once: all of them together are the memory that this takes.
const HELD: usize = 2;
/// How long bytes wait for the Plugin that wanted them. Something else may be wrong with it by now, and others wait for their
/// place.
const UNTAKEN: Duration = Duration::from_mins(2);

/// What a Plugin wants of a registry.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Where.
    pub source: OciSource,
    /// The one component that it takes, if it says so.
    pub pinned: Option<Digest>,
    /// Whose signatures it wants.
    pub verify: Option<Verify>,
    /// When the Plugin was pushed last: a person who pushes waits for no interval.
    pub pushed_at: Option<String>,
}

/// What the last look at a registry found.
#[derive(Debug)]
pub enum Look {
    /// None has ended yet: the Plugin is told when one has.
    Pending,
    /// The component that the artifact is now, and its bytes if somebody wanted them ([`Remotes::fetch`]) and nobody took
    /// them yet.
    Found(Digest, Option<Fetched>),
    /// No component that may be taken.
    Failed(DeliveryError),
}

/// A component's bytes. Others are read once this is dropped.
#[derive(Debug)]
pub struct Fetched {
    /// The bytes, which are those of the digest.
    pub bytes: Vec<u8>,
    /// A place among [`HELD`].
    _place: OwnedSemaphorePermit,
}

/// Looks artifacts up.
pub struct Remotes {
    lookup: Arc<Lookup>,
    followed: Arc<Mutex<HashMap<PluginName, Followed>>>,
    changed: Changed,
}

/// What a look takes.
pub struct Lookup {
    /// Pull secrets and keys.
    pub secrets: Secrets,
    /// The HTTP client.
    pub http: Http,
    /// Registries that are spoken to without TLS.
    pub plain_http: Vec<String>,
    /// Where it is taken down what was found to be signed.
    pub verified_digests: VerifiedDigests,
    /// Where components are put while they come: nobody else may write there.
    pub folder: PathBuf,
    /// Places for downloads, and for what they brought.
    pub places: Places,
}

/// Places for components on their way.
pub struct Places {
    /// [`DOWNLOADS`] of each registry that something comes from.
    of_registries: Mutex<HashMap<String, Weak<Semaphore>>>,
    held: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { of_registries: Mutex::default(), held: Arc::new(Semaphore::new(HELD)) }
    }
}

impl Places {
    /// A place for a download from a registry, as soon as there is one.
    async fn to_download(&self, registry: &str) -> Result<OwnedSemaphorePermit, AcquireError> {
        let places = {
            let mut all = self.of_registries.lock();
            let known = all.get(registry).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let places = Arc::new(Semaphore::new(DOWNLOADS));
                // Those that nobody uses need not be known.
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
    /// Wakes the task before its time.
    again: Arc<Notify>,
    /// What the last look found, as a whole: bytes are never those of another look.
    found: Option<Result<Found, DeliveryError>>,
    /// What it found, while the bytes of that are being fetched.
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
    /// Tells `changed` of every look that finds something else than the one before.
    pub fn new(lookup: Lookup, changed: Changed) -> Self {
        Self { lookup: Arc::new(lookup), followed: Arc::default(), changed }
    }

    /// What is known of a Plugin's artifact. The first time, and whenever the Plugin wants something else, a look begins.
    pub fn look(&self, plugin: &PluginName, wanted: &Wanted) -> Look {
        let mut followed = self.followed.lock();
        match followed.entry(plugin.clone()) {
            Entry::Occupied(mut entry) if entry.get().wanted == *wanted => match &mut entry.get_mut().found {
                None => Look::Pending,
                Some(Ok(found)) => Look::Found(found.digest, found.fetched.take()),
                Some(Err(error)) => Look::Failed(error.clone()),
            },
            entry => {
                let again = Arc::new(Notify::new());
                let task = Task {
                    plugin: plugin.clone(),
                    wanted: wanted.clone(),
                    lookup: self.lookup.clone(),
                    followed: self.followed.clone(),
                    changed: self.changed.clone(),
                    again: again.clone(),
                };
                let task = tokio::spawn(task.run()).abort_handle();
                let wanted = wanted.clone();
                entry.insert_entry(Followed { wanted, task, again, found: None, fetching: None, wants_bytes: false });
                Look::Pending
            }
        }
    }

    /// The bytes of what was found are needed: the Plugin is told when they are there.
    pub fn fetch(&self, plugin: &PluginName) {
        if let Some(followed) = self.followed.lock().get_mut(plugin) {
            followed.fetching = followed.found.take().and_then(Result::ok).map(|found| found.digest);
            followed.wants_bytes = true;
            followed.again.notify_one();
        }
    }

    /// The components that artifacts are now, also while they are being fetched.
    pub fn found(&self) -> Vec<Digest> {
        let digest = |followed: &Followed| match &followed.found {
            Some(found) => found.as_ref().ok().map(|found| found.digest),
            None => followed.fetching,
        };
        self.followed.lock().values().filter_map(digest).collect()
    }

    /// A Plugin is gone, or wants nothing of a registry any more.
    pub fn forget(&self, plugin: &PluginName) {
        self.followed.lock().remove(plugin);
    }
}

/// What follows one artifact.
struct Task {
    plugin: PluginName,
    wanted: Wanted,
    lookup: Arc<Lookup>,
    followed: Arc<Mutex<HashMap<PluginName, Followed>>>,
    changed: Changed,
    again: Arc<Notify>,
}

impl Task {
    async fn run(self) {
        let interval = self.wanted.source.interval.as_ref().and_then(|interval| positive(interval).ok());
        let interval = interval.unwrap_or(INTERVAL).max(SHORTEST_INTERVAL);
        let (mut before, mut backoff) = (None, FIRST_BACKOFF);
        loop {
            let wants_bytes = self.mine(|entry| entry.wants_bytes).unwrap_or_default();
            let pause = match self.lookup.look(&self.wanted, before.as_ref(), wants_bytes).await {
                Ok(Seen { artifact, trust, fetched }) => {
                    self.take(Ok(Found { digest: artifact.component, fetched }));
                    before = Some((artifact, trust));
                    backoff = FIRST_BACKOFF;
                    interval
                }
                Err(error) => {
                    tracing::debug!(plugin = %self.plugin, %error, "nothing from the registry");
                    let asked = error.wait().unwrap_or_default().min(LONGEST_WAIT);
                    self.take(Err(error));
                    before = None;
                    let pause = backoff.max(asked);
                    backoff = (2 * backoff).min(LAST_BACKOFF);
                    pause
                }
            };
            // Hundreds of Plugins must not ask in step.
            let pause = pause.mul_f64(1.0 + 0.1 * fastrand::f64());
            tokio::select! {
                () = self.rest(pause) => {}
                () = self.again.notified() => {}
            }
        }
    }

    /// Waits for the next look, and lets go of bytes meanwhile that nobody takes.
    async fn rest(&self, pause: Duration) {
        let at_first = pause.min(UNTAKEN);
        tokio::time::sleep(at_first).await;
        let let_go = |entry: &mut Followed| entry.found.as_mut().and_then(|found| found.as_mut().ok()?.fetched.take());
        // Outside the lock: its place goes to another task.
        drop(self.mine(let_go));
        tokio::time::sleep(pause.saturating_sub(at_first)).await;
    }

    /// What is known of the artifact, unless another task came in this one's place.
    fn mine<T>(&self, access: impl FnOnce(&mut Followed) -> T) -> Option<T> {
        let mut followed = self.followed.lock();
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
            (self.changed)(&self.plugin);
        }
    }
}

/// What a look saw.
struct Seen {
    artifact: Artifact,
    trust: Option<Trust>,
    fetched: Option<Fetched>,
}

impl Lookup {
    /// Looks once. What is as it was `before` is not verified again, and costs a registry at most the head of an answer.
    async fn look(
        &self,
        wanted: &Wanted,
        before: Option<&(Artifact, Option<Trust>)>,
        wants_bytes: bool,
    ) -> Result<Seen, DeliveryError> {
        let named = &wanted.source.reference;
        let reference: oci::Reference = named.parse().map_err(DeliveryError::Reference)?;
        let of = |component: Option<Digest>| {
            move |error: oci::OciError| DeliveryError::Oci { reference: named.clone(), component, error: error.into() }
        };
        let credentials = match &wanted.source.pull_secret_ref {
            Some(secret) => self.secrets.credentials(secret, &reference).await?,
            None => None,
        };
        let trust = match &wanted.verify {
            Some(verify) => Some(self.secrets.trust(verify).await?),
            None => None,
        };
        let before = before.filter(|(_, keys)| *keys == trust).map(|(artifact, _)| artifact);
        let registry = Registry::new(&self.http, reference, credentials, &self.plain_http);
        let registry = registry.map_err(|error| of(None)(error.into()))?;
        if let Some(artifact) = before.filter(|_| !wants_bytes)
            && oci::is_still(&registry, artifact).await.map_err(of(None))?
        {
            // It may have been forgotten, while no Plugin named the component yet.
            if let Some(trust) = &trust {
                self.verified_digests.keep(artifact.component, trust).await;
            }
            return Ok(Seen { artifact: *artifact, trust, fetched: None });
        }
        let artifact = oci::resolve(&registry).await.map_err(of(None))?;
        let found = artifact.component;
        if let Some(pinned) = wanted.pinned.filter(|pinned| *pinned != found) {
            return Err(DeliveryError::NotPinned { found, pinned });
        }
        if let Some(trust) = &trust {
            if before != Some(&artifact) {
                oci::verify(&registry, artifact.manifest, trust).await.map_err(of(Some(found)))?;
            }
            self.verified_digests.keep(found, trust).await;
        }
        let fetched =
            if wants_bytes { Some(self.fetch(&registry, artifact).await.map_err(of(Some(found)))?) } else { None };
        Ok(Seen { artifact, trust, fetched })
    }

    /// Fetches it into a file, and reads that once there is room: whatever a registry does, it holds no memory meanwhile.
    async fn fetch(&self, registry: &Registry, artifact: Artifact) -> Result<Fetched, oci::OciError> {
        // Nobody closes these.
        let closed = |error: AcquireError| oci::OciError::NoComponent(error.to_string());
        // Until it is read: what lies on the disk is bounded as well.
        let _download = self.places.to_download(&registry.reference().registry).await.map_err(closed)?;
        let spooled = oci::pull_to(&self.folder, registry, artifact).await?;
        let place = self.places.held.clone().acquire_owned().await.map_err(closed)?;
        Ok(Fetched { bytes: spooled.read().await?, _place: place })
    }
}

/// An artifact's bytes, once and at once: for commands.
///
/// # Errors
/// If there is no component.
pub async fn fetch_once(
    http: &Http,
    reference: &oci::Reference,
    credentials: Option<oci::Credentials>,
    plain_http: &[String],
) -> Result<Delivered, DeliveryError> {
    let of = |error: oci::OciError| DeliveryError::Oci {
        reference: reference.to_string(),
        component: None,
        error: error.into(),
    };
    let registry = Registry::new(http, reference.clone(), credentials, plain_http);
    let registry = registry.map_err(|error| of(error.into()))?;
    let artifact = oci::resolve(&registry).await.map_err(of)?;
    let bytes = oci::pull(&registry, artifact).await.map_err(of)?;
    Ok(Delivered { digest: artifact.component, bytes, signature: None })
}

#[cfg(test)]
mod tests;
