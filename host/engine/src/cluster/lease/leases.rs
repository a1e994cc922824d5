//! Reads and writes the Lease object, each request with a time limit.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use windlass_core::hosts::lease::{LeaseState, Timing};
use windlass_core::object::names::{ANNOTATION_SHARD, LABEL_SHARD};

use super::super::plain;
use super::shard_of;
use crate::clock;

/// One Lease in the hosts' namespace.
#[derive(Clone)]
pub(in crate::cluster) struct Leases {
    api: Api<Lease>,
    pub(in crate::cluster) namespace: String,
    pub(in crate::cluster) name: String,
    pub(in crate::cluster) timing: Timing,
}

/// Why the Lease was not written.
pub(in crate::cluster) enum Refusal {
    /// The Lease has changed since it was read.
    Outdated,
    Other(String),
}

impl Leases {
    pub(in crate::cluster) fn new(client: Client, namespace: &str, name: &str, timing: Timing) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), name: name.to_owned(), timing }
    }

    /// The Lease, if it exists.
    ///
    /// # Errors
    /// If the API server rejects the request or does not respond. The text is for users.
    pub(in crate::cluster) async fn get(&self) -> Result<Option<Lease>, String> {
        match tokio::time::timeout(self.timing.request_timeout(), self.api.get_opt(&self.name)).await {
            Ok(response) => response.map_err(|error| plain(&error)),
            Err(_) => Err(self.no_response()),
        }
    }

    /// The Lease after each of its changes; none if it was deleted. An error does not end the stream.
    pub(in crate::cluster) fn changes(
        &self,
    ) -> impl Stream<Item = Result<Option<Lease>, watcher::Error>> + Send + use<> {
        watcher::watch_object(self.api.clone(), &self.name).default_backoff().boxed()
    }

    /// Writes the Lease if it still has this version, or creates it if there is none. The Lease of a shard gets its label,
    /// and this announcement.
    pub(in crate::cluster) async fn write(
        &self,
        version: Option<String>,
        spec: LeaseSpec,
        announcement: Option<&str>,
    ) -> Result<Lease, Refusal> {
        let exists = version.is_some();
        let one = |key: &str, value: String| [(key.to_owned(), value)].into();
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            resource_version: version,
            labels: shard_of(&self.name).map(|shard| one(LABEL_SHARD, shard.to_string())),
            annotations: announcement.map(|text| one(ANNOTATION_SHARD, text.to_owned())),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        let params = PostParams::default();
        let sent = async {
            if exists {
                self.api.replace(&self.name, &params, &lease).await
            } else {
                self.api.create(&params, &lease).await
            }
        };
        match tokio::time::timeout(self.timing.request_timeout(), sent).await {
            Ok(Ok(lease)) => Ok(lease),
            // 404 for a create means that the namespace is missing.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 || status.code == 404 && exists => {
                Err(Refusal::Outdated)
            }
            Ok(Err(error)) => Err(Refusal::Other(plain(&error))),
            Err(_) => Err(Refusal::Other(self.no_response())),
        }
    }

    /// The spec of a Lease that this holder renews now.
    pub(in crate::cluster) fn spec(&self, holder: String, acquired: Option<Timestamp>, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder),
            lease_duration_seconds: i32::try_from(self.timing.lease_duration.as_secs()).ok(),
            acquire_time: acquired.map(MicroTime),
            renew_time: Some(MicroTime(clock::date())),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// The state of a Lease. A Lease without a valid duration gets this host's.
    pub(in crate::cluster) fn read(&self, lease: &Lease) -> LeaseState {
        let Some(spec) = &lease.spec else { return LeaseState::default() };
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        LeaseState {
            holder: spec.holder_identity.clone(),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            duration: seconds.filter(|seconds| *seconds > 0).map_or(self.timing.lease_duration, Duration::from_secs),
        }
    }

    fn no_response(&self) -> String {
        format!("no response of the API server within {:.1} s", self.timing.request_timeout().as_secs_f64())
    }
}
