//! A claim for each server, which outlives the server: the data of a server that is scaled away is there when it comes back.

use std::collections::BTreeMap;

use windlass_plugin::{Failure, Quantity, Request, Value, json, kinds::PersistentVolumeClaim};

use crate::MySQLCluster;

/// The claims that exist, by the index of their server.
pub(crate) struct Volumes(BTreeMap<u32, Quantity>);

pub(crate) fn name(cluster: &str, server: u32) -> String {
    format!("{cluster}-data-{server}")
}

impl Volumes {
    /// Those that exist.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`] when one is larger than what is asked for: a volume cannot shrink.
    pub(crate) fn of(request: &Request<MySQLCluster>) -> Result<Self, Failure> {
        let wanted = &request.spec.storage_size;
        let mut sizes = BTreeMap::new();
        for claim in request.children_of::<PersistentVolumeClaim>() {
            // One that is on its way out is nobody's data any more.
            if claim.is_being_deleted() {
                continue;
            }
            let index = claim.name().strip_prefix(request.name()).and_then(|rest| rest.strip_prefix("-data-"));
            let Some(index) = index.and_then(|index| index.parse().ok()) else { continue };
            let claimed = claim.claimed()?;
            claimed.check_size("spec.storageSize", wanted, claim.name())?;
            sizes.insert(index, claimed.size);
        }
        Ok(Self(sizes))
    }

    /// Whether there are any.
    pub(crate) fn exist(&self) -> bool {
        !self.0.is_empty()
    }

    /// One for each server, and those of servers that were scaled away, as they are.
    pub(crate) fn wanted(self, request: &Request<MySQLCluster>) -> Vec<Value> {
        let mut sizes = self.0;
        for server in 0..request.spec.replicas {
            sizes.insert(server, request.spec.storage_size.clone());
        }
        let claim = |(server, size): (u32, Quantity)| {
            json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": { "name": name(request.name(), server), "labels": { "app": request.name() } },
                "spec": {
                    // Two servers cannot share a data directory.
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": size } },
                },
            })
        };
        sizes.into_iter().map(claim).collect()
    }
}
