//! Tests against signatures that cosign and OpenSSL made (samples/README.md).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const P256: &str = include_str!("samples/p256.pub");
const OTHER: &str = include_str!("samples/other.pub");
const BUNDLE: &str = include_str!("samples/artifact.sigstore.json");
const PAYLOAD: &str = include_str!("samples/payload.json");
const PAYLOAD_SIGNATURE: &str = include_str!("samples/payload.sig");
const BLOB_BUNDLE: &str = include_str!("samples/blob.sigstore.json");

const BLOB: &[u8] = b"component";

fn trust(keys: &[&str]) -> Trust {
    Trust::of_pem(keys.iter().map(|key| ("a key", key.as_bytes()))).expect("keys")
}

fn artifact() -> Digest {
    "sha256:c0bbd0ea80d6d3bce80d60b15daaa0ff1896c4aa54466546c25339ff62c41540".parse().expect("a digest")
}

/// The result for an artifact's bundle after a change.
fn changed(pointer: &str, value: &Value) -> Result<(), String> {
    let mut bundle: Value = serde_json::from_str(BUNDLE).expect("JSON");
    *bundle.pointer_mut(pointer).expect("a field") = value.clone();
    of_artifact(&trust(&[P256]), bundle.to_string().as_bytes(), artifact())
}

#[test]
fn content_signed_with_one_of_the_keys_is_trusted_in_every_signature_format() {
    for keys in [&[P256][..], &[OTHER, P256]] {
        let trust = trust(keys);
        assert_eq!(of_artifact(&trust, BUNDLE.as_bytes(), artifact()), Ok(()));
        assert_eq!(of_payload(&trust, PAYLOAD.as_bytes(), PAYLOAD_SIGNATURE, artifact()), Ok(()));
        assert_eq!(of_blob(&trust, BLOB_BUNDLE.as_bytes(), BLOB), Ok(()));
    }
}

#[test]
fn signature_by_another_key_or_of_other_content_is_not_trusted() {
    let (ours, others) = (trust(&[P256]), trust(&[OTHER]));
    let no_keys = trust(&[]);
    for trust in [&others, &no_keys] {
        assert!(of_artifact(trust, BUNDLE.as_bytes(), artifact()).is_err());
        assert!(of_payload(trust, PAYLOAD.as_bytes(), PAYLOAD_SIGNATURE, artifact()).is_err());
        assert!(of_blob(trust, BLOB_BUNDLE.as_bytes(), BLOB).is_err());
    }
    let another = Digest::of(b"another");
    let error = of_artifact(&ours, BUNDLE.as_bytes(), another).expect_err("another");
    assert_eq!(error, "the signature is of another artifact");
    let error = of_payload(&ours, PAYLOAD.as_bytes(), PAYLOAD_SIGNATURE, another).expect_err("another");
    assert_eq!(error, "the signature is of another artifact");
    assert!(of_blob(&ours, BLOB_BUNDLE.as_bytes(), b"Component").is_err());
    assert!(of_blob(&ours, BUNDLE.as_bytes(), BLOB).is_err(), "a bundle of an artifact does not verify a file");
    assert!(
        of_artifact(&ours, BLOB_BUNDLE.as_bytes(), artifact()).is_err(),
        "nor does a bundle of a file verify an artifact"
    );
}

#[test]
fn bundle_or_payload_that_changed_after_signing_is_not_trusted() {
    assert_eq!(
        changed("/mediaType", &json!("application/vnd.dev.sigstore.bundle.v0.3+json")),
        Ok(()),
        "the unchanged bundle"
    );
    let statement = |predicate: &str| {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": Digest::of(b"evil").hex()}}],
            "predicateType": predicate,
        });
        json!(STANDARD.encode(statement.to_string()))
    };
    for (pointer, value) in [
        ("/mediaType", json!("application/json")),
        ("/dsseEnvelope", Value::Null),
        ("/dsseEnvelope/payload", statement("https://sigstore.dev/cosign/sign/v1")),
        ("/dsseEnvelope/payloadType", json!("application/vnd.in-toto+jso")),
        ("/dsseEnvelope/signatures", json!([])),
        ("/dsseEnvelope/signatures/0/sig", json!("")),
        ("/dsseEnvelope/signatures/0/sig", json!("%")),
    ] {
        assert!(changed(pointer, &value).is_err(), "{pointer}: {value}");
    }
    let payload = PAYLOAD.replace("c0bb", "c0bc");
    assert!(of_payload(&trust(&[P256]), payload.as_bytes(), PAYLOAD_SIGNATURE, artifact()).is_err());
}

#[test]
fn only_the_first_eight_signatures_of_an_envelope_are_checked() {
    let bundle: Value = serde_json::from_str(BUNDLE).expect("JSON");
    let good = bundle["dsseEnvelope"]["signatures"][0].clone();
    let after = |others: usize| {
        let mut signatures = vec![json!({"sig": ""}); others];
        signatures.push(good.clone());
        changed("/dsseEnvelope/signatures", &signatures.into())
    };
    assert_eq!(after(7), Ok(()));
    after(8).expect_err("the ninth signature is not checked");
}

#[test]
fn every_key_type_that_cosign_generates_is_accepted() {
    for (key, signature) in [
        (include_str!("samples/p384.pub"), include_str!("samples/p384.sig")),
        (include_str!("samples/rsa.pub"), include_str!("samples/rsa.sig")),
        (include_str!("samples/ed25519.pub"), include_str!("samples/ed25519.sig")),
    ] {
        let bundle = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "messageSignature": {"signature": signature},
        });
        let trust = trust(&[key]);
        assert_eq!(of_blob(&trust, bundle.to_string().as_bytes(), BLOB), Ok(()), "{key}");
        assert!(of_blob(&trust, bundle.to_string().as_bytes(), b"another").is_err(), "{key}");
    }
}

#[test]
fn invalid_public_key_is_rejected_with_its_name() {
    let certificate = P256.replace("PUBLIC KEY", "CERTIFICATE");
    for (text, reason) in [
        ("", "holds no public key"),
        ("ssh-ed25519 AAAA", "holds no public key"),
        (&certificate, "holds no public key"),
        (include_str!("samples/p521.pub"), "of a kind that is not supported"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "of a kind that is not supported"),
        ("-----BEGIN PUBLIC KEY-----\n%\n-----END PUBLIC KEY-----\n", "is no public key in PEM"),
    ] {
        let error = Trust::of_pem([("Secret keys, key cosign.pub", text.as_bytes())]).expect_err(reason);
        assert!(error.starts_with("Secret keys, key cosign.pub") && error.contains(reason), "{error}");
    }
}

#[test]
fn fingerprint_depends_on_the_keys_and_not_on_their_order() {
    let both = format!("{OTHER}{P256}");
    assert_eq!(trust(&[P256, OTHER]).fingerprint(), trust(&[&both]).fingerprint());
    assert_ne!(trust(&[P256]).fingerprint(), trust(&[OTHER]).fingerprint());
    assert_ne!(trust(&[P256]).fingerprint(), trust(&[P256, OTHER]).fingerprint());
}

proptest! {
    /// An attacker can change any byte of a bundle. No changed bundle is accepted for content other than the signed
    /// content.
    #[test]
    fn altered_bundle_never_verifies_other_content(
        at in any::<prop::sample::Index>(),
        bits in 1..=u8::MAX,
        inserted in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        for (sample, is_artifact) in [(BUNDLE, true), (BLOB_BUNDLE, false)] {
            let mut bundle = sample.as_bytes().to_vec();
            let at = at.index(bundle.len());
            bundle[at] ^= bits;
            bundle.splice(at..at, inserted.iter().copied());
            let trust = trust(&[P256]);
            let verified = if is_artifact {
                of_artifact(&trust, &bundle, Digest::of(b"another"))
            } else {
                of_blob(&trust, &bundle, b"another")
            };
            prop_assert!(verified.is_err());
        }
    }
}
