//! One claim for each server. A claim is kept when its server is scaled down, so that its data is there when the server returns.

use std::collections::BTreeMap;

use windlass_plugin::{Failure, Quantity, Request, Value, json, kinds::PersistentVolumeClaim};

use crate::MySQLCluster;

/// The sizes of the live claims, by the index of their server.
pub(crate) struct Volumes(BTreeMap<u32, Quantity>);

pub(crate) fn name(cluster: &str, server: u32) -> String {
    format!("{cluster}-data-{server}")
}

impl Volumes {
    /// The live claims.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid_field`] if one is larger than the spec's size: a volume cannot shrink.
    pub(crate) fn of(request: &Request<MySQLCluster>) -> Result<Self, Failure> {
        let mut sizes = BTreeMap::new();
        for claim in request.children_of::<PersistentVolumeClaim>() {
            // The data of a claim that is being deleted is lost.
            if claim.is_being_deleted() {
                continue;
            }
            let index = claim.name().strip_prefix(request.name()).and_then(|rest| rest.strip_prefix("-data-"));
            let Some(index) = index.and_then(|index| index.parse().ok()) else { continue };
            claim.check_not_shrinking("spec.storageSize", &request.spec.storage_size)?;
            sizes.insert(index, claim.requested_storage()?);
        }
        Ok(Self(sizes))
    }

    /// Whether there is any claim.
    pub(crate) fn exist(&self) -> bool {
        !self.0.is_empty()
    }

    /// The desired claims: one for each server, and those of servers that were scaled down, with their live size.
    pub(crate) fn desired(self, request: &Request<MySQLCluster>) -> Vec<Value> {
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
