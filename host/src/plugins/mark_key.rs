//! The key of the marks on children of cluster-scoped parents, stored in a Secret in the host's namespace.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::OnceCell;
use windlass_core::mark::MarkKey;
use windlass_core::reason::PluginReason;

use super::problem::{Problem, Step};
use super::rbac::MARK_KEY_SECRET;
use crate::cluster::account::HOST;
use crate::cluster::in_time;

/// Key in the Secret's data.
const FIELD: &str = "key";

/// The mark key, read when a Plugin with cluster-scoped parents first needs it.
pub(super) struct MarkKeys {
    secrets: Api<Secret>,
    namespace: String,
    key: OnceCell<MarkKey>,
}

impl MarkKeys {
    /// The mark key of a host in this namespace, not read yet.
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self { secrets: Api::namespaced(client, namespace), namespace: namespace.to_owned(), key: OnceCell::new() }
    }

    /// The key, which is created if there is none. An existing key is never overwritten: with another key no child
    /// would be recognized.
    ///
    /// # Errors
    /// If the key cannot be read or created.
    pub(super) async fn get(&self) -> Result<&MarkKey, Problem> {
        self.key.get_or_try_init(|| self.read_or_make()).await
    }

    /// The existing key, with which earlier children were marked. No key is created: no child would have a mark by a
    /// new key.
    ///
    /// # Errors
    /// If the key cannot be read, or is gone.
    pub(super) async fn existing(&self) -> Result<&MarkKey, Problem> {
        let read = async || {
            self.read().await?.ok_or_else(|| {
                let message = format!(
                    "Secret {MARK_KEY_SECRET} in namespace {}, by which children of cluster-scoped parents are known, is gone. \
                     Restore it; or annotate the Plugin with windlass.dev/skip-finalize=true, and delete the children by hand",
                    self.namespace
                );
                Problem::new(Step::Granted, PluginReason::MarkKeyUnavailable, message)
            })
        };
        self.key.get_or_try_init(read).await
    }

    async fn read(&self) -> Result<Option<MarkKey>, Problem> {
        let found =
            in_time(self.secrets.get_opt(MARK_KEY_SECRET)).await.map_err(|error| self.failed("read", &error))?;
        found.map(|secret| self.key_in(secret)).transpose()
    }

    async fn read_or_make(&self) -> Result<MarkKey, Problem> {
        if let Some(key) = self.read().await? {
            return Ok(key);
        }
        let mut bytes = [0; MarkKey::LENGTH];
        SystemRandom::new().fill(&mut bytes).map_err(|_| {
            Problem::new(Step::Granted, PluginReason::ApiError, "the system gives no random numbers".to_owned())
        })?;
        let made = in_time(self.secrets.create(&PostParams::default(), &secret_of(&bytes))).await;
        match made {
            Ok(_) => {
                tracing::info!(
                    secret = MARK_KEY_SECRET,
                    namespace = self.namespace,
                    "made the key of children's marks"
                );
                Ok(MarkKey::new(bytes))
            }
            // Another host created the key first; both use that key.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let secret = in_time(self.secrets.get(MARK_KEY_SECRET)).await;
                self.key_in(secret.map_err(|error| self.failed("read", &error))?)
            }
            Err(error) => Err(self.failed("create", &error)),
        }
    }

    fn key_in(&self, secret: Secret) -> Result<MarkKey, Problem> {
        key_of(secret).ok_or_else(|| {
            let message = format!(
                "Secret {MARK_KEY_SECRET} in namespace {} holds no {FIELD:?} of {} bytes. Restore it; or delete it for the \
                 host to make another, and set spec.adopt for the children of before to be taken over",
                self.namespace,
                MarkKey::LENGTH
            );
            Problem::new(Step::Granted, PluginReason::MarkKeyUnavailable, message)
        })
    }

    fn failed(&self, effect: &str, error: &kube::Error) -> Problem {
        let message = format!(
            "the parents are cluster-scoped, and the host cannot {effect} Secret {MARK_KEY_SECRET} in its namespace {}, which \
             holds the key of their children's marks: {error}. The Role {HOST} in that namespace must allow it: apply what \
             `windlass generate rbac --namespace {0}` prints",
            self.namespace
        );
        Problem::new(Step::Granted, PluginReason::MarkKeyUnavailable, message)
    }
}

fn secret_of(bytes: &[u8]) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(MARK_KEY_SECRET.to_owned()), ..ObjectMeta::default() },
        data: Some([(FIELD.to_owned(), ByteString(bytes.to_vec()))].into()),
        immutable: Some(true),
        ..Secret::default()
    }
}

fn key_of(secret: Secret) -> Option<MarkKey> {
    let bytes = secret.data?.remove(FIELD)?.0;
    bytes.try_into().ok().map(MarkKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s02_secret_without_a_valid_key_is_rejected_and_one_that_the_host_wrote_is_read() {
        assert!(key_of(secret_of(&[7; MarkKey::LENGTH])) == Some(MarkKey::new([7; MarkKey::LENGTH])));
        for wrong in [Secret::default(), secret_of(b""), secret_of(&[7; MarkKey::LENGTH - 1])] {
            assert!(key_of(wrong).is_none());
        }
    }
}
