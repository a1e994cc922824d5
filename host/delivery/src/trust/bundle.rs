//! Verifies Sigstore bundles of cosign 3: of an artifact (DSSE around an in-toto statement), or of a file.

use serde::Deserialize;
use windlass_core::value::digest::Digest;

use super::{BY_ANOTHER, OF_ANOTHER, Trust, decode};
use crate::oci::manifest::Descriptor;

/// Maximum number of signatures that are checked per envelope. Cosign writes one. An envelope may have thousands, and
/// each check hashes the signed bytes.
const MAX_SIGNATURES: usize = 8;

/// Media type of bundles, without its version (`.v0.3+json`).
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle";

/// Payload type of a DSSE envelope of cosign.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// Predicate type of a statement that is a signature. Statements of other types contain, for example, the findings of a
/// scanner.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

/// Whether content that refers to an artifact may be its signature. Content with another predicate type, such as an
/// attestation, is not a signature.
pub fn may_be_signature(descriptor: &Descriptor) -> bool {
    descriptor.annotations.predicate_type.as_ref().is_none_or(|predicate| predicate == SIGNED)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    #[serde(default)]
    media_type: String,
    dsse_envelope: Option<Envelope>,
    message_signature: Option<MessageSignature>,
}

/// Dead simple signing envelope, version 1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
struct MessageSignature {
    signature: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    subject: Vec<Subject>,
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

/// Checks that a bundle has a signature of this artifact by one of the keys.
///
/// # Errors
/// If the bundle is invalid; the message is for users.
pub fn of_artifact(trust: &Trust, bundle: &[u8], artifact: Digest) -> Result<(), String> {
    let bundle = parse(bundle)?;
    let envelope = bundle.dsse_envelope.ok_or("its bundle has no signature of an artifact")?;
    let payload = decode(&envelope.payload)?;
    let signed = pre_authentication(&envelope.payload_type, &payload);
    let mut signatures = envelope.signatures.iter().take(MAX_SIGNATURES);
    // The payload is parsed only after its signature was verified.
    if !signatures.any(|signature| decode(&signature.sig).is_ok_and(|signature| trust.signed(&signed, &signature))) {
        return Err(BY_ANOTHER.to_owned());
    }
    if envelope.payload_type != IN_TOTO {
        return Err(format!("the signature is of {:?} and not of {IN_TOTO:?}", envelope.payload_type));
    }
    let statement: Statement = serde_json::from_slice(&payload)
        .map_err(|error| format!("the signed content is not a valid in-toto statement: {error}"))?;
    if statement.predicate_type != SIGNED {
        return Err(format!("the statement is a {:?} and not a {SIGNED:?}", statement.predicate_type));
    }
    let wanted = artifact.hex();
    let mut subjects = statement.subject.iter();
    let is_it = |subject: &Subject| subject.digest.sha256.as_deref() == Some(&wanted);
    if subjects.any(is_it) { Ok(()) } else { Err(OF_ANOTHER.to_owned()) }
}

/// Checks that a bundle has a signature of these bytes by one of the keys (`cosign sign-blob --bundle`).
///
/// # Errors
/// If the bundle is invalid; the message is for users.
pub fn of_blob(trust: &Trust, bundle: &[u8], bytes: &[u8]) -> Result<(), String> {
    let message = parse(bundle)?.message_signature.ok_or("its bundle has no signature of a file")?;
    trust.check(bytes, &decode(&message.signature)?)
}

fn parse(bundle: &[u8]) -> Result<Bundle, String> {
    let bundle: Bundle = serde_json::from_slice(bundle)
        .map_err(|error| format!("the signature is not a valid sigstore bundle: {error}"))?;
    if bundle.media_type.starts_with(BUNDLE_TYPE) {
        return Ok(bundle);
    }
    Err(format!("the signature is a {:?} and not a sigstore bundle", bundle.media_type))
}

/// The bytes that a DSSE signature signs (its specification, "Protocol": PAE).
fn pre_authentication(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend_from_slice(payload);
    signed
}
