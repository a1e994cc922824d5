//! A key in a Secret of the host's namespace. It is created once and never overwritten, and all hosts share it.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::account::HOST;
use super::{in_time, plain};

/// Length of a key in bytes, as for HMAC-SHA-256.
pub const LENGTH: usize = 32;

/// Key in the Secret's data.
const FIELD: &str = "key";

/// The Secret of a key.
#[derive(Debug)]
pub struct SecretKey {
    secrets: Api<Secret>,
    /// The host's namespace.
    pub namespace: String,
    name: &'static str,
}

/// Why a key is not available.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    /// The API server rejects the request, or does not respond.
    #[error(
        "the host cannot {verb} Secret {name} in its namespace {namespace}: {error}. The Role {HOST} in that namespace must \
         allow it: apply what `windlass generate rbac --namespace {namespace}` prints"
    )]
    Api {
        /// `get` or `create`.
        verb: &'static str,
        /// Name of the Secret.
        name: &'static str,
        /// The host's namespace.
        namespace: String,
        /// Why.
        error: String,
    },
    /// The Secret exists, and holds no key.
    #[error("Secret {name} in namespace {namespace} holds no {FIELD:?} of {LENGTH} bytes")]
    Malformed {
        /// Name of the Secret.
        name: &'static str,
        /// The host's namespace.
        namespace: String,
    },
    /// No key can be created.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

impl SecretKey {
    /// The key in the Secret of this name, in the host's namespace.
    pub fn new(client: Client, namespace: &str, name: &'static str) -> Self {
        Self { secrets: Api::namespaced(client, namespace), namespace: namespace.to_owned(), name }
    }

    /// The key, if its Secret exists.
    ///
    /// # Errors
    /// If the Secret cannot be read, or holds no key.
    pub async fn read(&self) -> Result<Option<[u8; LENGTH]>, SecretKeyError> {
        let found = in_time(self.secrets.get_opt(self.name)).await.map_err(|error| self.failed("get", &error))?;
        found.map(|secret| self.key_in(secret)).transpose()
    }

    /// The key, which is created if its Secret does not exist.
    ///
    /// # Errors
    /// If the Secret cannot be read or created, or holds no key.
    pub async fn read_or_create(&self) -> Result<[u8; LENGTH], SecretKeyError> {
        if let Some(key) = self.read().await? {
            return Ok(key);
        }
        let mut key = [0; LENGTH];
        SystemRandom::new().fill(&mut key).map_err(|_| SecretKeyError::NoRandomNumbers)?;
        match in_time(self.secrets.create(&PostParams::default(), &self.secret_of(&key))).await {
            Ok(_) => {
                tracing::info!(secret = self.name, namespace = self.namespace, "key created");
                Ok(key)
            }
            // Another host created the key first; both use that key.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let secret = in_time(self.secrets.get(self.name)).await;
                self.key_in(secret.map_err(|error| self.failed("get", &error))?)
            }
            Err(error) => Err(self.failed("create", &error)),
        }
    }

    fn secret_of(&self, key: &[u8]) -> Secret {
        Secret {
            metadata: ObjectMeta { name: Some(self.name.to_owned()), ..ObjectMeta::default() },
            data: Some([(FIELD.to_owned(), ByteString(key.to_vec()))].into()),
            immutable: Some(true),
            ..Secret::default()
        }
    }

    fn key_in(&self, secret: Secret) -> Result<[u8; LENGTH], SecretKeyError> {
        let key = secret.data.and_then(|mut data| data.remove(FIELD)).and_then(|key| key.0.try_into().ok());
        key.ok_or_else(|| SecretKeyError::Malformed { name: self.name, namespace: self.namespace.clone() })
    }

    fn failed(&self, verb: &'static str, error: &kube::Error) -> SecretKeyError {
        SecretKeyError::Api { verb, name: self.name, namespace: self.namespace.clone(), error: plain(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn s02_secret_without_a_valid_key_is_rejected_and_one_that_the_host_wrote_is_read() {
        let service =
            tower::service_fn(async |_| Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("")));
        let key = SecretKey::new(Client::new(service, "default"), "windlass-system", "windlass-mark-key");
        assert_eq!(key.key_in(key.secret_of(&[7; LENGTH])).ok(), Some([7; LENGTH]));
        for wrong in [Secret::default(), key.secret_of(b""), key.secret_of(&[7; LENGTH - 1])] {
            let error = key.key_in(wrong).expect_err("no key").to_string();
            assert!(error.contains("windlass-mark-key in namespace windlass-system"), "{error}");
        }
    }
}
