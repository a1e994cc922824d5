//! Reads Secrets of the host's namespace: registry credentials, and public keys.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use windlass_api::{SecretRef, Verify};
use windlass_core::object::reason::PluginReason;

use super::DeliveryError;
use super::config_map::child_mark;
use super::oci::{Credentials, DOCKER_CONFIG_KEY, Reference, of_docker_config};
use super::trust::Trust;
use crate::in_time;

/// The value of a Secret's key; an error if the Secret is a plugin's child, or does not have the key.
fn value_of(name: &str, mut secret: Secret, key: &str) -> Result<Vec<u8>, String> {
    if let Some(mark) = child_mark(&secret.metadata) {
        return Err(format!(
            "Secret {name} has the mark of a plugin's child ({mark}), and no child can be a key or credentials; name another \
             Secret"
        ));
    }
    let value = secret.data.as_mut().and_then(|data| data.remove(key));
    value.map(|value| value.0).ok_or_else(|| format!("Secret {name} has no key {key}"))
}

/// The Secrets of a namespace.
#[derive(Clone)]
pub struct Secrets(Api<Secret>);

impl Secrets {
    /// The Secrets of the host's namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self(Api::namespaced(client, namespace))
    }

    /// The public keys of a Plugin's `spec.verify`; `None` if it is not set.
    ///
    /// # Errors
    /// If a key cannot be read, or is not a supported public key.
    pub async fn trust(&self, verify: Option<&Verify>) -> Result<Option<Trust>, DeliveryError> {
        let Some(verify) = verify else { return Ok(None) };
        let invalid = |message: String| DeliveryError::distrust(PluginReason::InvalidKeys, message);
        let mut texts = Vec::new();
        for (index, key) in verify.public_keys.iter().enumerate() {
            match (&key.inline, &key.secret) {
                (Some(text), None) => {
                    texts.push((format!("spec.verify.publicKeys[{index}]"), text.clone().into_bytes()));
                }
                (None, Some(secret)) => {
                    let text = self.get(&secret.name, &secret.key).await.map_err(invalid)?;
                    texts.push((format!("Secret {}, key {}", secret.name, secret.key), text));
                }
                _ => {
                    let problem = "must be exactly one of inline and secret";
                    return Err(invalid(format!("spec.verify.publicKeys[{index}] {problem}")));
                }
            }
        }
        Trust::of_pem(texts.iter().map(|(name, text)| (name.as_str(), text.as_slice()))).map(Some).map_err(invalid)
    }

    /// The credentials for a repository; `None` if no Secret is named, or it has no entry for the repository.
    ///
    /// # Errors
    /// If the Secret cannot be read, or has no valid Docker configuration.
    pub async fn credentials(
        &self,
        secret: Option<&SecretRef>,
        reference: &Reference,
    ) -> Result<Option<Credentials>, DeliveryError> {
        let Some(secret) = secret else { return Ok(None) };
        let unusable = |problem: String| {
            let message = format!("the pull secret {} cannot be used: {problem}", secret.name);
            DeliveryError::new(PluginReason::InvalidPullSecret, message)
        };
        let config = self.get(&secret.name, DOCKER_CONFIG_KEY).await.map_err(unusable)?;
        of_docker_config(&config, reference).map_err(unusable)
    }

    async fn get(&self, name: &str, key: &str) -> Result<Vec<u8>, String> {
        let secret = in_time(self.0.get_opt(name)).await.map_err(|error| match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => format!(
                "the host may not read Secret {name}: {}. Allow it by a Role in the host's namespace (docs/permissions.md)",
                status.message
            ),
            error => format!("Secret {name} cannot be read: {error}"),
        })?;
        let secret = secret.ok_or_else(|| format!("there is no Secret {name} in the host's namespace"))?;
        value_of(name, secret, key)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    #[test]
    fn s13_secret_that_is_a_child_of_a_plugin_is_rejected_as_key_and_credential() {
        let secret = |label: &str| Secret {
            metadata: ObjectMeta {
                labels: Some([(label.to_owned(), "guard".to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some([("key".to_owned(), ByteString(b"value".to_vec()))].into()),
            ..Secret::default()
        };
        assert_eq!(value_of("signer", secret("app"), "key"), Ok(b"value".to_vec()));
        for mark in ["windlass.dev/plugin", "windlass.dev/parent-uid"] {
            let message = value_of("signer", secret(mark), "key").expect_err("refused");
            assert!(message.contains("Secret signer has the mark of a plugin's child (guard)"), "{mark}: {message}");
        }
    }
}
