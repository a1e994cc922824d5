//! Verifies simple signing payloads of cosign 1 and 2 (containers/image, "signature" format).

use serde::Deserialize;
use windlass_core::value::digest::Digest;

use super::{OF_ANOTHER, Trust, decode};

/// Media type of a layer that is a payload.
pub const PAYLOAD_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// The `type` that a payload must have.
const SIGNED: &str = "cosign container image signature";

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

/// Checks that a payload and its signature are for this artifact and by one of the keys.
///
/// # Errors
/// If the payload or the signature is invalid; the message is for users.
pub fn of_payload(trust: &Trust, payload: &[u8], signature: &str, artifact: Digest) -> Result<(), String> {
    // The payload is parsed only after its signature was verified.
    trust.check(payload, &decode(signature)?)?;
    let payload: Payload = serde_json::from_slice(payload)
        .map_err(|error| format!("the signed content is not a valid cosign payload: {error}"))?;
    let Critical { image, kind } = payload.critical;
    if kind != SIGNED {
        return Err(format!("what was signed is a {kind:?} and not a {SIGNED:?}"));
    }
    if image.docker_manifest_digest == artifact.to_string() { Ok(()) } else { Err(OF_ANOTHER.to_owned()) }
}
