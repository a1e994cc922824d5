//! Watches the metadata of ConfigMaps with components, for the delivery crate.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use windlass_core::value::ids::Gvk;
use windlass_delivery::{FollowConfigMaps, Signal};

use super::{AllProgress, WatchProgress, events};

/// Time until an interrupted watch lists again. Meanwhile the versions of ConfigMaps are unknown, and each reconcile of
/// a Plugin fetches its source.
const REST: Duration = Duration::from_secs(5);

/// Watches the ConfigMaps of namespaces with this client, one task per namespace.
pub fn follow_config_maps(client: Client, all: AllProgress) -> FollowConfigMaps {
    Arc::new(move |namespace, on_signal| {
        let progress = all.track(&Gvk::from_api_version("v1", "ConfigMap"));
        let api = Api::namespaced(progress.of_client(client.clone()), namespace);
        let on_signal: Arc<dyn Fn(Signal) + Send + Sync> = on_signal.into();
        let task = async move {
            progress.supervise(|| follow(api.clone(), progress.clone(), on_signal.clone())).await;
        };
        tokio::spawn(task).abort_handle()
    })
}

async fn follow(
    api: Api<PartialObjectMeta<ConfigMap>>,
    progress: Arc<WatchProgress>,
    on_signal: Arc<dyn Fn(Signal) + Send + Sync>,
) {
    on_signal(Signal::Begun);
    loop {
        let mut events = pin!(events(api.clone(), None, progress.clone()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => on_signal(Signal::Event(Box::new(event))),
                Err(error) => {
                    tracing::debug!(%error, "the watch of ConfigMaps was interrupted");
                    break;
                }
            }
        }
        on_signal(Signal::Interrupted);
        tokio::time::sleep(REST).await;
    }
}
