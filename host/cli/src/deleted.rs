//! Deletes the objects that a command has found.

use std::fmt::Debug;

use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use serde::de::DeserializeOwned;

use super::connect::plain;
use super::output::DryRun;

/// Flags of a command that deletes objects.
#[derive(Debug, clap::Args)]
pub struct DeletionArgs {
    /// Print which objects would be deleted and which would be kept, and delete nothing; client and server do the same
    #[arg(long, value_name = "WHERE", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
}

/// Response of the API server to a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It deletes the object.
    Accepted,
    /// The object does not exist.
    Gone,
    /// Another object has the name now; it is left alone.
    Replaced,
}

/// Deletes an object if it has this uid: since it was found, another object may have got its name.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>, params: DeleteParams) -> anyhow::Result<Deletion>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.delete(name, &params.preconditions(Preconditions { uid, resource_version: None })).await {
        Ok(_) => Ok(Deletion::Accepted),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Deletion::Gone),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Deletion::Replaced),
        Err(error) => Err(plain(error)),
    }
}
