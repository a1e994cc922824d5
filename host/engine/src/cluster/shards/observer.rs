//! Follows the Leases of all shards.

use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use windlass_core::hosts::lease::Timing;
use windlass_core::object::names::LABEL_SHARD;

use super::table::Table;

type Events = Pin<Box<dyn Stream<Item = Result<Event<Lease>, watcher::Error>> + Send>>;

/// The Leases of all shards, not older than this call.
pub(super) async fn list(api: &Api<Lease>, timing: Timing) -> Result<Vec<Lease>, String> {
    let params = ListParams::default().labels(LABEL_SHARD);
    match tokio::time::timeout(timing.request_timeout(), api.list(&params)).await {
        Ok(Ok(list)) => Ok(list.items),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no response of the API server".to_owned()),
    }
}

/// Follows the Leases of all shards.
pub(super) struct Observer {
    api: Api<Lease>,
    events: Events,
    timing: Timing,
    pub(super) table: Table,
    /// The Leases of a list that is being received.
    listed: Vec<Lease>,
}

impl Observer {
    pub(super) fn new(api: Api<Lease>, timing: Timing) -> Self {
        let config = watcher::Config::default().labels(LABEL_SHARD);
        let events = watcher(api.clone(), config).default_backoff().boxed();
        Self { api, events, timing, table: Table::default(), listed: Vec::new() }
    }

    /// Reads all Leases now.
    pub(super) async fn list(&mut self) -> Result<(), String> {
        self.table.note_list(list(&self.api, self.timing).await?);
        Ok(())
    }

    /// Waits for the next change of a Lease.
    pub(super) async fn next(&mut self) {
        loop {
            match self.events.next().await {
                Some(Ok(Event::Init)) => self.listed.clear(),
                Some(Ok(Event::InitApply(lease))) => self.listed.push(lease),
                Some(Ok(Event::InitDone)) => return self.table.note_list(std::mem::take(&mut self.listed)),
                Some(Ok(Event::Apply(lease))) => return self.table.note(lease),
                Some(Ok(Event::Delete(lease))) => return self.table.note_deleted(&lease),
                Some(Err(error)) => tracing::debug!(%error, "the watch of the shards was interrupted"),
                None => std::future::pending().await,
            }
        }
    }
}
