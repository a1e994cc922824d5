//! Fuzz tests with arbitrary signatures and signed bytes, and mutations of the corpus: only signed content is trusted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};
use windlass_fuzz::{Target, as_others_read};

use super::*;

const P256: &str = include_str!("samples/p256.pub");
const OTHER: &str = include_str!("samples/other.pub");
const BUNDLE: &str = include_str!("samples/artifact.sigstore.json");
const BLOB_BUNDLE: &str = include_str!("samples/blob.sigstore.json");
const BLOB: &[u8] = b"component";

const IN_TOTO: &str = "application/vnd.in-toto+json";

fn trust(key: &str) -> Trust {
    Trust::of_pem([("a key", key.as_bytes())]).expect("a key")
}

fn artifact() -> Digest {
    "sha256:c0bbd0ea80d6d3bce80d60b15daaa0ff1896c4aa54466546c25339ff62c41540".parse().expect("a digest")
}

/// A signer of arbitrary content.
struct Signer(KeyPair);

impl Signer {
    fn new() -> Self {
        Self(KeyPair::generate().expect("a key"))
    }

    fn trust(&self) -> Trust {
        trust(&self.0.public_key_pem())
    }

    fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(self.0.sign(message).expect("a signature"))
    }
}

/// Payload and payload type of a bundle's envelope.
fn payload(bundle: &Value) -> Option<(Vec<u8>, String)> {
    let envelope = &bundle["dsseEnvelope"];
    let payload = STANDARD.decode(envelope["payload"].as_str()?).ok()?;
    Some((payload, envelope["payloadType"].as_str()?.to_owned()))
}

#[test]
fn fuzz_bundles() {
    let (ours, others, another) = (trust(P256), trust(OTHER), Digest::of(b"another"));
    let signed = as_others_read(BUNDLE.as_bytes()).as_ref().and_then(payload).expect("a payload");
    let target = Target::new("bundles", 8_000)
        .with("good-artifact", BUNDLE.as_bytes())
        .with("good-file", BLOB_BUNDLE.as_bytes());
    target.attack(0.05, |bundle| {
        let is_of_artifact = of_artifact(&ours, bundle, artifact()).is_ok();
        let is_of_blob = of_blob(&ours, bundle, BLOB).is_ok();
        if let Some(found) = as_others_read(bundle).as_ref().and_then(payload).filter(|_| is_of_artifact) {
            // The private key was deleted, so it signed nothing else.
            assert_eq!(found, signed);
        }
        assert!(of_artifact(&ours, bundle, another).is_err());
        assert!(of_blob(&ours, bundle, b"another").is_err());
        assert!(of_artifact(&others, bundle, artifact()).is_err());
        assert!(of_blob(&others, bundle, BLOB).is_err());
        is_of_artifact || is_of_blob
    });
}

#[test]
fn fuzz_statements() {
    let signer = Signer::new();
    let (trust, other) = (signer.trust(), Signer::new().trust());
    Target::new("statements", 4_000).attack(0.05, |statement| {
        let before = format!("DSSEv1 {} {IN_TOTO} {} ", IN_TOTO.len(), statement.len());
        let sign = |bytes: &[u8]| {
            let envelope = json!({
                "payload": STANDARD.encode(statement), "payloadType": IN_TOTO,
                "signatures": [{"sig": signer.sign(bytes)}],
            });
            let media_type = "application/vnd.dev.sigstore.bundle.v0.3+json";
            json!({"mediaType": media_type, "dsseEnvelope": envelope}).to_string().into_bytes()
        };
        let bundle = sign(&[before.as_bytes(), statement].concat());
        let unframed = sign(statement);
        assert!(
            of_artifact(&trust, &unframed, artifact()).is_err(),
            "a signature of the bare statement does not count"
        );
        assert!(of_artifact(&other, &bundle, artifact()).is_err());
        if of_artifact(&trust, &bundle, artifact()).is_err() {
            return false;
        }
        let Some(parsed) = as_others_read(statement) else { return true };
        assert_eq!(parsed["predicateType"], "https://sigstore.dev/cosign/sign/v1");
        let subjects = parsed["subject"].as_array().expect("subjects");
        assert!(subjects.iter().any(|subject| {
            let digest = &subject["digest"];
            !digest.is_object() || digest["sha256"] == artifact().hex()
        }));
        true
    });
}

#[test]
fn fuzz_payloads() {
    let signer = Signer::new();
    let (trust, other) = (signer.trust(), Signer::new().trust());
    Target::new("payloads", 4_000).attack(0.05, |payload| {
        let signature = signer.sign(payload);
        assert!(of_payload(&other, payload, &signature, artifact()).is_err());
        assert!(
            of_payload(&trust, &[payload, b" "].concat(), &signature, artifact()).is_err(),
            "the payload was changed"
        );
        if of_payload(&trust, payload, &signature, artifact()).is_err() {
            return false;
        }
        let Some(parsed) = as_others_read(payload).filter(|parsed| parsed["critical"]["image"].is_object()) else {
            return true;
        };
        assert_eq!(parsed["critical"]["type"], "cosign container image signature");
        assert_eq!(parsed["critical"]["image"]["docker-manifest-digest"], artifact().to_string());
        true
    });
}
