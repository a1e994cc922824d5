//! SHA-256 digests: the identity of a component's bytes, and of a call's inputs.

use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; written `sha256:<64 hex digits>` as in the OCI image spec.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, derive_more::Display)]
#[debug("{self}")]
#[display("sha256:{}", self.hex())]
pub struct Digest([u8; 32]);

/// The error for a text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: write sha256: and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest(String);

impl Digest {
    /// Computes the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Wraps a finished hash.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits without the algorithm's name.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// The first 12 hexadecimal digits: enough for messages, and for the names of the ConfigMaps that hold a
    /// component's parts.
    pub fn short(&self) -> String {
        let mut hex = self.hex();
        hex.truncate(12);
        hex
    }
}

/// HMAC-SHA-256 (RFC 2104) over parts. Each is prefixed by its length, so that different lists of parts never yield the same. RFC 2104 allows
/// keys of any length, so there is always a result.
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> Option<Digest> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    Some(Digest(mac.finalize().into_bytes().into()))
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0; 32];
        let hex = text.strip_prefix("sha256:").filter(|hex| !hex.contains(|c: char| c.is_ascii_uppercase()));
        let is_read = hex.is_some_and(|hex| hex::decode_to_slice(hex, &mut bytes).is_ok());
        if is_read { Ok(Self(bytes)) } else { Err(InvalidDigest(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_parses_only_the_text_that_it_prints() {
        let digest = Digest::of(b"windlass");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(digest.short().len(), 12);
        for bad in ["", "sha256:", "sha512:00", &digest.hex(), &digest.to_string().to_uppercase()] {
            let error = bad.parse::<Digest>().expect_err(bad).to_string();
            assert!(error.contains("64 lower-case hexadecimal digits"), "{error}");
        }
    }
}
