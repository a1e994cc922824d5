//! The Lease that lets one host act at a time: acquired before any other work, renewed while the host works, released
//! at the end.

mod gate;
mod identity;

use std::time::{Duration, Instant};

use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_core::lease::{self, Found, Seen, Step};

pub use gate::{GateLayer, WriteGate};
pub use identity::Instance;

/// Name of the Lease, in the host's namespace.
pub const NAME: &str = "windlass";
/// Timeout of one request for the Lease.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two log lines while the host waits for the Lease.
const PROGRESS: Duration = Duration::from_secs(5);

/// Whether a request is for the existing Lease, to read, acquire, renew or release it. A create has another path.
pub fn is_of_lease<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let rest = path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/");
    rest.and_then(|rest| rest.split_once('/')).is_some_and(|(_, rest)| rest == format!("leases/{NAME}"))
}

/// Why this host may not act.
#[derive(Debug, thiserror::Error)]
pub enum NotHolder {
    /// Another host holds the Lease.
    #[error(
        "another host is running: Lease {namespace}/{NAME} is held by {holder}. Only one host may run: stop that one; if it no \
         longer runs, start this one again in {} s",
        expires_in.as_secs()
    )]
    Refused {
        /// Namespace of the Lease.
        namespace: String,
        /// Identity of the holder.
        holder: String,
        /// Time until the Lease expires.
        expires_in: Duration,
    },
    /// Another host acquired the Lease, because this host could not renew it in time.
    #[error(
        "this host stops, because Lease {namespace}/{NAME} is held by {holder} now: it was not renewed in time, or another client \
         changed it"
    )]
    Lost {
        /// Namespace of the Lease.
        namespace: String,
        /// Identity of the holder.
        holder: String,
    },
}

/// The Lease that this host holds.
pub struct HeldLease {
    api: Api<Lease>,
    namespace: String,
    instance: Instance,
    gate: WriteGate,
    /// The last seen state of the Lease; none if it must be read again.
    lease: Option<Lease>,
}

impl std::fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lease {}/{NAME} of {}", self.namespace, self.instance.identity)
    }
}

/// Whether the Lease is released or expires when the host stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Released: no request is in flight, so another host may start at once.
    Release,
    /// Left to expire: requests may be in flight, so another host must wait for the expiry.
    Expire,
}

/// Why a renewal failed.
enum Failure {
    /// Another host holds the Lease.
    Lost(String),
    /// A temporary failure; the renewal is retried.
    Passing(String),
}

impl HeldLease {
    /// Acquires the Lease, and waits for it if its holder may have ended. Returns none if `stop` is cancelled
    /// meanwhile.
    ///
    /// # Errors
    /// If another host holds the Lease.
    pub async fn acquire(
        client: Client,
        namespace: &str,
        instance: Instance,
        gate: WriteGate,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, NotHolder> {
        let api = Api::namespaced(client, namespace);
        let mut held = Self { api, namespace: namespace.to_owned(), instance, gate, lease: None };
        let mut watched: Option<(Option<Timestamp>, Instant)> = None;
        let mut logged: Option<Instant> = None;
        loop {
            let problem = match held.attempt(&mut watched).await {
                Ok(Attempt::Acquired) => {
                    tracing::info!(%namespace, name = NAME, holder = %held.instance.identity, "Lease acquired");
                    return Ok(Some(held));
                }
                Ok(Attempt::Again) => continue,
                Ok(Attempt::Wait { holder, at_most }) => {
                    let seconds = at_most.as_secs();
                    format!(
                        "Lease {namespace}/{NAME} is held by {holder}, which may have ended: waiting {seconds} s at most"
                    )
                }
                Ok(Attempt::Refuse { holder, expires_in }) => {
                    return Err(NotHolder::Refused { namespace: namespace.to_owned(), holder, expires_in });
                }
                Err(error) => format!(
                    "Lease {namespace}/{NAME} cannot be taken yet: {error}. The host's permissions are printed by `windlass \
                     generate rbac --namespace {namespace}`"
                ),
            };
            if logged.is_none_or(|logged| logged.elapsed() >= PROGRESS) {
                tracing::warn!("{problem}");
                logged = Some(Instant::now());
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(lease::RETRY) => {}
            }
        }
    }

    /// Reads the Lease once, and acquires it if that is allowed. `watched` is the renewal time that this host first saw
    /// in the Lease, and when it saw it.
    async fn attempt(&mut self, watched: &mut Option<(Option<Timestamp>, Instant)>) -> Result<Attempt, String> {
        let found = in_time(self.api.get_opt(NAME)).await?;
        let now = Instant::now();
        let (lease_now, version) = match &found {
            Some(lease) => (read(lease), lease.metadata.resource_version.clone()),
            None => (Found::default(), None),
        };
        let seen = match watched {
            Some((renewed, _)) if *renewed != lease_now.renewed => Seen::Renewed,
            Some((_, since)) => Seen::Silent(now.saturating_duration_since(*since)),
            None => {
                *watched = Some((lease_now.renewed, now));
                Seen::Silent(Duration::ZERO)
            }
        };
        let holder = lease_now.holder.clone().unwrap_or_default();
        match lease_now.step(&self.instance.identity, Timestamp::now(), seen) {
            Step::Wait { at_most } => return Ok(Attempt::Wait { holder, at_most }),
            Step::Refuse { expires_in } => return Ok(Attempt::Refuse { holder, expires_in }),
            Step::Take => {}
        }
        let transitions = found.and_then(|lease| lease.spec?.lease_transitions).unwrap_or_default();
        let is_new = holder != self.instance.identity.to_string();
        let spec = self.spec(Some(Timestamp::now()), transitions.saturating_add(i32::from(is_new)));
        match self.write(version, spec).await {
            Ok(lease) => {
                self.lease = Some(lease);
                self.gate.open_since(now);
                Ok(Attempt::Acquired)
            }
            // Another host wrote the Lease first, or it is gone: read it again.
            Err(Refusal::Outdated) => Ok(Attempt::Again),
            Err(Refusal::Other(message)) => Err(message),
        }
    }

    /// Renews the Lease until `end` receives a value. Then closes the gate, and releases the Lease or lets it expire.
    ///
    /// # Errors
    /// If another host acquired the Lease. `stop` is then cancelled, and the gate is closed.
    pub async fn keep(mut self, mut end: oneshot::Receiver<End>, stop: CancellationToken) -> Result<(), NotHolder> {
        let mut delay = lease::RENEW;
        loop {
            tokio::select! {
                end = &mut end => {
                    self.gate.close();
                    match end {
                        Ok(End::Release) => self.release().await,
                        // The sender was dropped: requests may be in flight.
                        Ok(End::Expire) | Err(_) => tracing::warn!(
                            namespace = self.namespace, name = NAME, seconds = lease::DURATION.as_secs(),
                            "Lease not released, because writes may be under way: it expires"
                        ),
                    }
                    return Ok(());
                }
                () = tokio::time::sleep(delay) => {}
            }
            let sent = Instant::now();
            delay = match self.renew().await {
                Ok(()) => {
                    self.gate.open_since(sent);
                    lease::RENEW
                }
                Err(Failure::Passing(message)) => {
                    let writes = self.gate.is_open();
                    tracing::warn!(namespace = self.namespace, name = NAME, writes, message, "Lease not renewed");
                    lease::RETRY
                }
                Err(Failure::Lost(holder)) => {
                    self.gate.close();
                    stop.cancel();
                    return Err(NotHolder::Lost { namespace: self.namespace, holder });
                }
            };
        }
    }

    async fn renew(&mut self) -> Result<(), Failure> {
        let lease = match self.lease.take() {
            Some(lease) => Some(lease),
            None => in_time(self.api.get_opt(NAME)).await.map_err(Failure::Passing)?,
        };
        let lease_now = lease.as_ref().map(read).unwrap_or_default();
        let own = self.instance.identity.to_string();
        if let Some(holder) = lease_now.holder.filter(|holder| *holder != own && !holder.is_empty()) {
            return Err(Failure::Lost(holder));
        }
        let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
        let acquired = spec.and_then(|spec| spec.acquire_time.as_ref()).map(|time| time.0);
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let version = lease.and_then(|lease| lease.metadata.resource_version);
        match self.write(version, self.spec(acquired, transitions)).await {
            Ok(lease) => {
                self.lease = Some(lease);
                Ok(())
            }
            Err(Refusal::Outdated) => Err(Failure::Passing("it was changed".to_owned())),
            Err(Refusal::Other(message)) => Err(Failure::Passing(message)),
        }
    }

    /// Releases the Lease, so that the next host can start at once. If that fails, the next host waits until the Lease
    /// expires.
    async fn release(mut self) {
        let Some(lease) = self.lease.take() else { return };
        let spec = lease.spec.unwrap_or_default();
        let spec = LeaseSpec { holder_identity: None, ..spec };
        match self.write(lease.metadata.resource_version, spec).await {
            Ok(_) => tracing::info!(namespace = self.namespace, name = NAME, "Lease released"),
            Err(Refusal::Outdated) => {}
            Err(Refusal::Other(message)) => {
                tracing::warn!(namespace = self.namespace, name = NAME, message, "Lease not released");
            }
        }
    }

    fn spec(&self, acquired: Option<Timestamp>, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.instance.identity.to_string()),
            lease_duration_seconds: i32::try_from(lease::DURATION.as_secs()).ok(),
            acquire_time: acquired.map(MicroTime),
            renew_time: Some(MicroTime(Timestamp::now())),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Writes the Lease if it still has this version, or creates it if there is none.
    async fn write(&self, version: Option<String>, spec: LeaseSpec) -> Result<Lease, Refusal> {
        let exists = version.is_some();
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), resource_version: version, ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec) };
        let params = PostParams::default();
        let sent = async {
            if exists { self.api.replace(NAME, &params, &lease).await } else { self.api.create(&params, &lease).await }
        };
        match tokio::time::timeout(TIMEOUT, sent).await {
            Ok(Ok(lease)) => Ok(lease),
            // 404 for a create means that the namespace is missing.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 || status.code == 404 && exists => {
                Err(Refusal::Outdated)
            }
            Ok(Err(error)) => Err(Refusal::Other(message_of(&error))),
            Err(_) => Err(Refusal::Other(no_response())),
        }
    }
}

/// Result of one read of the Lease.
enum Attempt {
    Acquired,
    Again,
    Wait { holder: String, at_most: Duration },
    Refuse { holder: String, expires_in: Duration },
}

/// Why the Lease was not written.
enum Refusal {
    /// The Lease has changed since it was read.
    Outdated,
    Other(String),
}

fn read(lease: &Lease) -> Found {
    let Some(spec) = &lease.spec else { return Found::default() };
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Found {
        holder: spec.holder_identity.clone(),
        renewed: spec.renew_time.as_ref().map(|time| time.0),
        duration: seconds.map_or(lease::DURATION, Duration::from_secs),
    }
}

async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(response) => response.map_err(|error| message_of(&error)),
        Err(_) => Err(no_response()),
    }
}

fn no_response() -> String {
    format!("no response of the API server within {} s", TIMEOUT.as_secs())
}

fn message_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}
