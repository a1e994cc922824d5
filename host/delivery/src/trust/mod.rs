//! Verifies cosign signatures of components with the public keys in a Plugin's `spec.verify`. Verification needs no
//! network and no transparency log.

mod bundle;
mod payload;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::ring::{
    ECDSA_P256_SHA256, ECDSA_P256_SHA384, ECDSA_P384_SHA256, ECDSA_P384_SHA384, ED25519, RSA_PKCS1_2048_8192_SHA256,
};
use webpki::{Error, RawPublicKeyEntity};
use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;

pub use bundle::{BUNDLE_TYPE, may_be_signature, of_artifact, of_blob};
pub use payload::{PAYLOAD_TYPE, of_payload};

use crate::DeliveryError;

/// What is wrong with a signature.
const BY_ANOTHER: &str = "the signature is by another key, or of something else";
const OF_ANOTHER: &str = "the signature is of another artifact";

/// The signature algorithms of cosign, whose default is P-256.
static ALGORITHMS: [&dyn SignatureVerificationAlgorithm; 6] =
    [ECDSA_P256_SHA256, ECDSA_P256_SHA384, ECDSA_P384_SHA256, ECDSA_P384_SHA384, ED25519, RSA_PKCS1_2048_8192_SHA256];

/// Public keys, one of which must have signed a component.
#[derive(Clone, PartialEq, Eq)]
pub struct Trust {
    /// Each key as DER (`SubjectPublicKeyInfo`, RFC 5280), sorted and without duplicates.
    keys: Arc<[Vec<u8>]>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({})", self.fingerprint())
    }
}

/// The error for a component or artifact (`what`) without a signature. `how`: an instruction for signing it.
pub(crate) fn unsigned(what: &str, how: &str) -> DeliveryError {
    DeliveryError::distrust(PluginReason::NotSigned, format!("{what} has no signature; {how}"))
}

/// The error for a component or artifact (`what`) that has signatures, but none by a trusted key. `why`: what is wrong with the last one.
pub(crate) fn not_by_keys(what: &str, why: &str) -> DeliveryError {
    let message = format!("no signature of {what} is by one of the keys of spec.verify: {why}");
    DeliveryError::distrust(PluginReason::SignatureInvalid, message)
}

impl Trust {
    /// Parses public keys in PEM from pairs of a name and a text; each text may contain several keys.
    ///
    /// # Errors
    /// If a text contains no key, or a key that is not supported. The message has the text's name and is for users.
    pub fn of_pem<'a>(texts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (name, text) in texts {
            let before = keys.len();
            for key in SubjectPublicKeyInfoDer::pem_slice_iter(text) {
                let key = key.map_err(|error| format!("{name} is no public key in PEM: {error}"))?;
                if !is_usable(&key) {
                    return Err(format!(
                        "{name} is a key of a kind that is not supported; use ECDSA on P-256 or P-384, RSA of 2048 bits or \
                         more, or Ed25519"
                    ));
                }
                keys.push(key.to_vec());
            }
            if keys.len() == before {
                return Err(format!("{name} holds no public key in PEM (BEGIN PUBLIC KEY)"));
            }
        }
        keys.sort();
        keys.dedup();
        Ok(Self { keys: keys.into() })
    }

    #[cfg(test)]
    pub(crate) fn of_keys(keys: &[&[u8]]) -> Self {
        Self { keys: keys.iter().map(|key| key.to_vec()).collect() }
    }

    /// Hash that identifies this set of keys.
    pub fn fingerprint(&self) -> Digest {
        let digests: Vec<u8> = self.keys.iter().flat_map(|key| *Digest::of(key).as_bytes()).collect();
        Digest::of(&digests)
    }

    fn check(&self, message: &[u8], signature: &[u8]) -> Result<(), String> {
        if self.signed(message, signature) { Ok(()) } else { Err(BY_ANOTHER.to_owned()) }
    }

    /// Whether one of the keys signed this message.
    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.keys.iter().any(|key| {
            let key = SubjectPublicKeyInfoDer::from(key.as_slice());
            let key = RawPublicKeyEntity::try_from(&key);
            key.is_ok_and(|key| {
                ALGORITHMS.into_iter().any(|algorithm| key.verify_signature(algorithm, message, signature).is_ok())
            })
        })
    }
}

fn decode(signature: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(signature).map_err(|error| format!("invalid signature: not base64: {error}"))
}

/// Whether an algorithm supports the key. With a supported key, the check of an invalid signature fails with the error
/// for invalid signatures; with other keys, it fails with another error.
fn is_usable(key: &SubjectPublicKeyInfoDer<'_>) -> bool {
    let Ok(key) = RawPublicKeyEntity::try_from(key) else { return false };
    ALGORITHMS.into_iter().any(|algorithm| {
        matches!(key.verify_signature(algorithm, b"", b""), Ok(()) | Err(Error::InvalidSignatureForPublicKey))
    })
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
