//! Looks up kinds in the discovery API of the cluster.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, pinned_kind};
use parking_lot::Mutex;
use windlass_core::value::ids::Gvk;

use super::in_time;
use crate::clock;

/// How long the discovery of kinds without a CRD is cached: they change only when another API server starts.
const FRESH: Duration = Duration::from_mins(1);

/// Looks up kinds, and caches those without a CRD.
pub struct Discovery {
    client: Client,
    own: Mutex<HashMap<Gvk, (Instant, Found)>>,
}

/// Whether the error means that the cluster does not serve the kind.
pub fn is_missing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Discovery(_) => true,
        kube::Error::Api(status) => status.code == 404,
        _ => false,
    }
}

type Found = (ApiResource, ApiCapabilities);

impl Discovery {
    /// Discovery with an empty cache.
    pub fn new(client: Client) -> Self {
        Self { client, own: Mutex::default() }
    }

    /// The resource and capabilities of a kind.
    pub async fn find(&self, kind: &Gvk) -> kube::Result<Found> {
        if let Some(found) = self.remembered(kind) {
            return Ok(found);
        }
        let wanted = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let found = in_time(pinned_kind(&self.client, &wanted)).await?;
        // The group of a custom kind contains a dot; the API server enforces that.
        if !kind.group.contains('.') {
            self.own.lock().insert(kind.clone(), (clock::now(), found.clone()));
        }
        Ok(found)
    }

    /// The resource and capabilities of a kind, in its version or another one. None if the cluster does not serve the
    /// kind, so that it has no objects.
    pub async fn find_any_version(&self, kind: &Gvk) -> kube::Result<Option<Found>> {
        match self.find(kind).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) if !is_missing(&error) => return Err(error),
            Err(_) => {}
        }
        let group = match in_time(kube::discovery::group(&self.client, &kind.group)).await {
            Ok(group) => group,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(group.resources_by_stability().into_iter().find(|(resource, _)| *resource.kind == *kind.kind))
    }

    fn remembered(&self, kind: &Gvk) -> Option<Found> {
        let own = self.own.lock();
        own.get(kind).filter(|(asked, _)| clock::since(*asked) < FRESH).map(|(_, found)| found.clone())
    }
}

/// An API server that accepts every request and never responds.
#[cfg(test)]
pub fn silent_api_server() -> Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, kube::Error>>()
    });
    Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn discovery_without_a_response_times_out_and_does_not_report_a_missing_kind() {
        let discovery = Discovery::new(silent_api_server());
        for kind in ["v1", "my-operator.dev/v1"].map(|version| Gvk::from_api_version(version, "Echo")) {
            let found = tokio::time::timeout(Duration::from_mins(5), discovery.find_any_version(&kind)).await;
            let Err(error) = found.expect("discovery ends") else { panic!("without a response") };
            assert!(!is_missing(&error), "{error}");
        }
    }
}
