//! The key of the marks on children of cluster-scoped parents, stored in a Secret in the host's namespace.

use kube::Client;
use tokio::sync::OnceCell;
use windlass_core::object::mark::MarkKey;
use windlass_core::object::reason::PluginReason;

use super::problem::{Problem, Step};
use super::rbac::MARK_KEY_SECRET;
use crate::cluster::secret_key::{SecretKey, SecretKeyError};

/// The mark key, read when a Plugin with cluster-scoped parents first needs it.
pub struct MarkKeys {
    secret: SecretKey,
    key: OnceCell<MarkKey>,
}

impl MarkKeys {
    /// The mark key of a host in this namespace, not read yet.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { secret: SecretKey::new(client, namespace, MARK_KEY_SECRET), key: OnceCell::new() }
    }

    /// The key, which is created if there is none. An existing key is never overwritten: with another key no child
    /// would be recognized.
    ///
    /// # Errors
    /// If the key cannot be read or created.
    pub(super) async fn get(&self) -> Result<&MarkKey, Problem> {
        let read = async || Ok(MarkKey::new(self.secret.read_or_create().await.map_err(unavailable)?));
        self.key.get_or_try_init(read).await
    }

    /// The existing key, with which earlier children were marked. No key is created: no child would have a mark by a
    /// new key.
    ///
    /// # Errors
    /// If the key cannot be read, or is gone.
    pub(super) async fn existing(&self) -> Result<&MarkKey, Problem> {
        let read = async || {
            let key = self.secret.read().await.map_err(unavailable)?.ok_or_else(|| {
                let message = format!(
                    "Secret {MARK_KEY_SECRET} in namespace {}, by which children of cluster-scoped parents are known, is gone. \
                     Restore it; or annotate the Plugin with windlass.dev/skip-finalize=true, and delete the children by hand",
                    self.secret.namespace
                );
                Problem::new(Step::Granted, PluginReason::MarkKeyUnavailable, message)
            })?;
            Ok(MarkKey::new(key))
        };
        self.key.get_or_try_init(read).await
    }
}

// Takes the error by value for `map_err`.
#[expect(clippy::needless_pass_by_value)]
fn unavailable(error: SecretKeyError) -> Problem {
    let advice = match &error {
        SecretKeyError::Malformed { .. } => {
            ". Restore it; or delete it for the host to create another one, and set spec.adopt to adopt the existing children"
        }
        SecretKeyError::Api { .. } | SecretKeyError::NoRandomNumbers => "",
    };
    let message = format!("the parents are cluster-scoped, and their children's marks need a key: {error}{advice}");
    Problem::new(Step::Granted, PluginReason::MarkKeyUnavailable, message)
}
