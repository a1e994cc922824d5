//! Fuzz tests with arbitrary ConfigMaps and packed bytes, and mutations of the corpus: the result is a whole component
//! within its limits, or none.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::ConfigMapSource;
use windlass_core::value::ids::is_dns_subdomain;
use windlass_fuzz::Target;

use super::*;

const CONFIG_MAPS: &str = "/api/v1/namespaces/n/configmaps/";

/// The content of the API server.
#[derive(Clone)]
enum Stored {
    /// ConfigMaps by name.
    Maps(serde_json::Map<String, Value>),
    /// The same bytes for every name.
    Anything(Vec<u8>),
}

impl Stored {
    fn of(input: &[u8]) -> Self {
        match serde_json::from_slice(input) {
            Ok(Value::Object(maps)) => Self::Maps(maps),
            _ => Self::Anything(input.to_vec()),
        }
    }

    fn get(&self, name: &str) -> (u16, Vec<u8>) {
        match self {
            Self::Anything(response) => (200, response.clone()),
            Self::Maps(maps) => maps.get(name).map_or_else(
                || (404, json!({"kind": "Status", "reason": "NotFound", "code": 404}).to_string().into_bytes()),
                |map| (200, map.to_string().into_bytes()),
            ),
        }
    }

    /// The digest that the head gives, if there is a head.
    fn digest(&self) -> Option<&str> {
        let Self::Maps(maps) = self else { return None };
        let data = maps.get("echo")?.get("data")?;
        data.get("parts")?;
        data.get("digest")?.as_str()
    }
}

/// The component that is delivered from such an API server, and the requests that were sent.
async fn delivered(stored: &Stored) -> (Result<Delivered, DeliveryError>, Vec<String>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (stored, seen) = (stored.clone(), requests.clone());
    let api_server = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let (code, response) = stored.get(uri.strip_prefix(CONFIG_MAPS).unwrap_or_default());
        seen.lock().push(uri);
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(response)).expect("a response")) }
    });
    let source = ConfigMapSource { namespace: "n".to_owned(), name: "echo".to_owned() };
    let packed = fetch(&Client::new(api_server, "n"), &source).await;
    let requests = requests.lock().clone();
    (packed.and_then(config_map::Packed::unpack), requests)
}

#[test]
fn fuzz_chunks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    Target::new("chunks", 8_000).attack(0.03, |input| {
        let stored = Stored::of(input);
        let (found, sent) = runtime.block_on(delivered(&stored));
        assert!(sent.len() <= 129, "{} requests", sent.len());
        for uri in &sent {
            let name = uri.strip_prefix(CONFIG_MAPS).unwrap_or_else(|| panic!("{uri}"));
            assert!(is_dns_subdomain(name), "{uri}");
        }
        match found {
            Ok(found) => {
                let Delivered { digest, bytes, .. } = &found;
                assert_eq!(*digest, Digest::of(bytes));
                assert!(bytes.len() as u64 <= MAX_COMPONENT_BYTES);
                if let Some(expected) = stored.digest() {
                    assert_eq!(digest.to_string(), expected.trim());
                }
                let pinned = Digest::of(b"another");
                let not_pinned = found.check(Some(pinned), None).expect_err("another digest is pinned");
                assert_eq!((not_pinned.reason, not_pinned.candidate), (PluginReason::DigestMismatch, Some(*digest)));
                assert_eq!(not_pinned.to_string(), format!("the source has {digest}, but spec.digest pins {pinned}"));
                true
            }
            Err(error) => {
                assert!(error.to_string().starts_with("ConfigMap n/"), "{error}");
                assert_eq!(error.candidate, None);
                false
            }
        }
    });
}

#[test]
fn fuzz_packed() {
    const LIMIT: u64 = 64 * 1024;
    Target::new("packed", 20_000).attack(0.1, |packed| {
        let unpack = |encoding: Encoding, limit| encoding.unpack(packed.to_vec(), limit);
        let mut is_accepted = false;
        for encoding in [Encoding::Zstd, Encoding::Gzip] {
            match unpack(encoding, LIMIT) {
                Ok(bytes) => {
                    let length = bytes.len() as u64;
                    assert!(length <= LIMIT && bytes.capacity() as u64 <= 2 * LIMIT + 64, "{}", bytes.capacity());
                    // The limit is exact to the byte.
                    if let Some(less) = length.checked_sub(1) {
                        assert!(unpack(encoding, less).expect_err("too large").contains("larger than the limit"));
                    }
                    assert_eq!(unpack(encoding, length), Ok(bytes));
                    // Empty input unpacks to empty output, and does not count as accepted.
                    is_accepted |= !packed.is_empty();
                }
                Err(message) => {
                    assert!(message.contains("is broken") || message.contains("larger than the limit"), "{message}");
                }
            }
        }
        is_accepted
    });
}
