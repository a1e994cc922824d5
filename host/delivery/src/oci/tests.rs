//! Registries that respond as real ones do, and as malicious ones could. `tests/e2e/tests/oci.rs` tests a real
//! registry.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::json;

use super::*;

const BUNDLE: &str = include_str!("../trust/samples/artifact.sigstore.json");
const PAYLOAD: &str = include_str!("../trust/samples/payload.json");
const PAYLOAD_SIGNATURE: &str = include_str!("../trust/samples/payload.sig");
const KEY: &str = include_str!("../trust/samples/p256.pub");
const OTHER_KEY: &str = include_str!("../trust/samples/other.pub");
/// The artifact that the samples sign.
const ARTIFACT: &str = "sha256:c0bbd0ea80d6d3bce80d60b15daaa0ff1896c4aa54466546c25339ff62c41540";

/// A response: status, headers, body.
type StoredResponse = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// A server that returns these responses by method and path, 404 otherwise, and records the credentials it receives.
pub(crate) struct Server {
    pub address: SocketAddr,
    responses: Arc<Mutex<HashMap<String, StoredResponse>>>,
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    pub async fn start() -> Self {
        let responses: Arc<Mutex<HashMap<String, StoredResponse>>> = Arc::default();
        let requests: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let (known, received) = (responses.clone(), requests.clone());
        let router = axum::Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap| {
            let authorization = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
            received.lock().push((format!("{method} {uri}"), authorization.to_owned()));
            let known = known.lock();
            let key = format!("{method} {}", uri.path());
            let authorized = known.get(&format!("{key} {authorization}")).cloned();
            let (status, headers, body) =
                authorized.or_else(|| known.get(&key).cloned()).unwrap_or((404, Vec::new(), Vec::new()));
            let response = headers
                .iter()
                .fold(Response::builder().status(status), |response, (name, value)| response.header(*name, value));
            async move { response.body(Body::from(body)).expect("a response") }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async { axum::serve(listener, router).await });
        Self { address, responses, requests }
    }

    pub fn set_response(&self, request: &str, response: StoredResponse) {
        self.responses.lock().insert(request.to_owned(), response);
    }

    /// Adds a manifest, or a list of manifests, under its digest and this name.
    pub fn manifest(&self, name: &str, manifest: &serde_json::Value) -> Digest {
        let bytes = manifest.to_string().into_bytes();
        let digest = Digest::of(&bytes);
        let kind = manifest["mediaType"].as_str().expect("a type").to_owned();
        for name in [name.to_owned(), digest.to_string()] {
            self.set_response(
                &format!("GET /v2/echo/manifests/{name}"),
                (200, vec![("content-type", kind.clone())], bytes.clone()),
            );
        }
        digest
    }

    pub fn blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.set_response(&format!("GET /v2/echo/blobs/{digest}"), (200, Vec::new(), bytes.to_vec()));
        digest
    }

    fn registry(&self, credentials: Option<Credentials>) -> Registry {
        let reference = format!("{}/echo:1", self.address).parse().expect("a reference");
        Registry::new(&Http::default(), reference, credentials, &[]).expect("a client")
    }

    fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().clone()
    }
}

fn ann() -> Credentials {
    Credentials::Basic { user: "ann".to_owned(), password: "secret".to_owned() }
}

fn basic() -> String {
    format!("Basic {}", STANDARD.encode("ann:secret"))
}

fn trust(key: &str) -> Trust {
    Trust::of_pem([("a key", key.as_bytes())]).expect("a key")
}

fn artifact() -> Digest {
    ARTIFACT.parse().expect("a digest")
}

#[tokio::test]
async fn token_is_requested_from_the_registrys_token_server_with_the_credentials() {
    let server = Server::start().await;
    let blob = server.blob(b"component");
    let path = format!("GET /v2/echo/blobs/{blob}");
    let challenge =
        format!("Bearer realm=\"http://{}/token\",service=\"r\",scope=\"repository:echo:pull\"", server.address);
    let good = server.responses.lock().get(&path).cloned().expect("the blob");
    server.set_response(&path, (401, vec![("www-authenticate", challenge)], Vec::new()));
    server.set_response(&format!("{path} Bearer t0k3n"), good);
    server.set_response(
        &format!("GET /token {}", basic()),
        (200, Vec::new(), br#"{"token":"","access_token":"t0k3n"}"#.to_vec()),
    );
    let bytes = server.registry(Some(ann())).blob(blob, 100).await.expect("the blob");
    assert_eq!(bytes, b"component");
    let requests = server.requests();
    assert_eq!(requests[0].1, "", "no credentials are sent before the registry requests them");
    assert_eq!(requests[1], ("GET /token?service=r&scope=repository%3Aecho%3Apull".to_owned(), basic()));

    let refused = server.registry(None).blob(blob, 100).await.expect_err("no credentials");
    assert!(refused.reason == PluginReason::SourceNotFound, "the token server rejects anonymous requests: {refused}");
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_server_after_a_redirect_or_challenge() {
    let (server, evil) = (Server::start().await, Server::start().await);
    let blob = Digest::of(b"component");
    let path = format!("GET /v2/echo/blobs/{blob}");
    server.set_response(&path, (401, vec![("www-authenticate", "Basic realm=\"r\"".to_owned())], Vec::new()));
    let elsewhere = format!("http://localhost:{}/stolen", evil.address.port());
    server.set_response(&format!("{path} {}", basic()), (307, vec![("location", elsewhere)], Vec::new()));
    let challenge = format!("Bearer realm=\"http://{}/token\"", evil.address);
    evil.set_response("GET /stolen", (401, vec![("www-authenticate", challenge)], Vec::new()));
    let error = server.registry(Some(ann())).blob(blob, 100).await.expect_err("refused");
    assert!(error.reason == PluginReason::SourceForbidden, "{error}");
    assert_eq!(evil.requests(), [("GET /stolen".to_owned(), String::new())]);

    // Redirects of a token server are not followed: the credentials are for that server only.
    let challenge = format!("Bearer realm=\"http://{}/token\"", server.address);
    server.set_response(&path, (401, vec![("www-authenticate", challenge)], Vec::new()));
    let stolen = format!("http://{}/stolen", evil.address);
    server.set_response("POST /token", (307, vec![("location", stolen)], Vec::new()));
    let identity = Some(Credentials::Identity("refresh".to_owned()));
    server.registry(identity).blob(blob, 100).await.expect_err("no token");
    assert_eq!(evil.requests().len(), 1);
}

#[tokio::test]
async fn registry_cannot_lead_the_host_to_a_server_in_a_network_that_is_not_its_own() {
    let server = Server::start().await;
    let registry = server.registry(None);
    let (blob, begin) = (Digest::of(b"component"), "POST /v2/echo/blobs/uploads/");
    let path = format!("GET /v2/echo/blobs/{blob}");
    for internal in ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "168.63.129.16"] {
        let refers = |error: &DeliveryError| {
            let message = error.to_string();
            assert!(
                message.contains(&format!(
                    "it refers to the server {}",
                    internal.replace("169.254.169.254]", "a9fe:a9fe]")
                )),
                "{message}"
            );
            assert!(
                message.contains("a link-local address, while the registry has an address of this machine"),
                "{message}"
            );
        };
        let challenge = format!("Bearer realm=\"http://{internal}/token\"");
        server.set_response(&path, (401, vec![("www-authenticate", challenge)], Vec::new()));
        refers(&registry.blob(blob, 100).await.expect_err("a token server"));
        for status in [301, 302, 303, 307, 308] {
            server.set_response(&path, (status, vec![("location", format!("http://{internal}/blob"))], Vec::new()));
            refers(&registry.blob(blob, 100).await.expect_err("a redirect"));
        }
        server.set_response(begin, (202, vec![("location", format!("http://{internal}/upload"))], Vec::new()));
        refers(&registry.put_blob(b"x".to_vec()).await.expect_err("a place for uploads"));
    }
    // A redirect of another server leads no further than the registry itself.
    let other = Server::start().await;
    let step = format!("http://localhost:{}/step", other.address.port());
    server.set_response(&path, (307, vec![("location", step)], Vec::new()));
    other.set_response("GET /step", (307, vec![("location", "http://169.254.169.254/blob".to_owned())], Vec::new()));
    let error = registry.blob(blob, 100).await.expect_err("two redirects");
    assert!(error.to_string().contains("it refers to the server 169.254.169.254"), "{error}");
    assert_eq!(other.requests().len(), 1);
    // Nor does a list of referrers, which is read from the registry alone.
    let kind = ("content-type", manifest::INDEX.to_owned());
    let link = ("link", "<http://169.254.169.254/more>; rel=\"next\"".to_owned());
    let list = json!({"mediaType": manifest::INDEX, "manifests": []}).to_string().into_bytes();
    server.set_response(&format!("GET /v2/echo/referrers/{ARTIFACT}"), (200, vec![kind, link], list));
    let mut pages = 0;
    registry.referrers(artifact(), |_| pages += 1).await.expect("one page");
    assert_eq!(pages, 1);
}

#[tokio::test]
async fn redirects_to_other_servers_are_followed_a_few_times_without_the_credentials() {
    let (server, other) = (Server::start().await, Server::start().await);
    let (blob, registry) = (Digest::of(b"component"), server.registry(Some(ann())));
    let path = format!("GET /v2/echo/blobs/{blob}");
    server.set_response(&path, (401, vec![("www-authenticate", "Basic realm=\"r\"".to_owned())], Vec::new()));
    let place =
        |address: SocketAddr, path: &str| vec![("location", format!("http://localhost:{}{path}", address.port()))];
    server.set_response(&format!("{path} {}", basic()), (307, vec![("location", "/moved".to_owned())], Vec::new()));
    server.set_response(&format!("GET /moved {}", basic()), (302, place(other.address, "/blob"), Vec::new()));
    other.set_response("GET /blob", (200, Vec::new(), b"component".to_vec()));
    assert_eq!(registry.blob(blob, 100).await.expect("the blob"), b"component");
    assert_eq!(other.requests(), [("GET /blob".to_owned(), String::new())]);
    other.set_response("GET /blob", (307, place(other.address, "/blob"), Vec::new()));
    let error = registry.blob(blob, 100).await.expect_err("a loop");
    assert!(error.to_string().contains("too many redirections"), "{error}");
    // A redirect of an upload without its method is followed without its body.
    let begin = "POST /v2/echo/blobs/uploads/";
    server.set_response(begin, (303, place(other.address, "/begun"), Vec::new()));
    other.set_response("GET /begun", (200, place(other.address, "/upload"), Vec::new()));
    other.set_response("PUT /upload", (201, Vec::new(), Vec::new()));
    registry.put_blob(b"x".to_vec()).await.expect("uploaded");
    let error = registry.blob(Digest::of(b"gone"), 100).await.expect_err("no such blob");
    assert!(error.reason == PluginReason::SourceNotFound, "{error}");
}

#[tokio::test]
async fn content_that_is_too_large_or_has_another_digest_is_rejected() {
    let server = Server::start().await;
    let blob = server.blob(&[7; 1000]);
    let registry = server.registry(None);
    let error = registry.blob(blob, 999).await.expect_err("too large");
    assert!(error.to_string().contains("larger than 999 bytes"), "{error}");
    let wanted = Digest::of(b"wanted");
    server.set_response(&format!("GET /v2/echo/blobs/{wanted}"), (200, Vec::new(), b"other".to_vec()));
    let error = registry.blob(wanted, 100).await.expect_err("another digest");
    assert_eq!(error, DeliveryError::tampered(wanted, Digest::of(b"other")));
    let headers = vec![("docker-content-digest", wanted.to_string())];
    server.set_response("GET /v2/echo/manifests/1", (200, headers, b"{}".to_vec()));
    let error = registry.manifest(&registry.reference.version).await.expect_err("another digest");
    assert_eq!(error, DeliveryError::tampered(wanted, Digest::of(b"{}")));
}

#[tokio::test]
async fn content_downloaded_to_a_file_is_checked_for_size_and_digest() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().expect("a folder"));
    let registry = server.registry(None);
    let bytes = vec![7; 300_000];
    let component = server.blob(&bytes);
    let pull = async |component: Digest, size: u64| {
        pull_to(folder.path(), &registry, Artifact { manifest: component, component, size }).await
    };
    let spooled = pull(component, 300_000).await.expect("downloaded");
    assert!(spooled.read().await.expect("the component") == bytes);
    let error = pull(component, 299_999).await.expect_err("too large");
    assert!(error.to_string().contains("larger than 299999 bytes"), "{error}");
    let wanted = Digest::of(b"wanted");
    server.set_response(&format!("GET /v2/echo/blobs/{wanted}"), (200, Vec::new(), b"other".to_vec()));
    let error = pull(wanted, 100).await.expect("downloaded").read().await.expect_err("another digest");
    assert_eq!(error, DeliveryError::tampered(wanted, Digest::of(b"other")));
    std::fs::remove_dir(folder.path()).expect("the folder is empty");
    let error = pull(component, 300_000).await.expect_err("no folder");
    assert!(error.to_string().contains("--cache-dir") && error.reason == PluginReason::SourceUnavailable, "{error}");
}

#[tokio::test]
async fn retry_after_of_a_busy_registry_is_honoured_and_an_invalid_one_is_ignored() {
    let server = Server::start().await;
    for (header, wait) in [("7", Some(Duration::from_secs(7))), ("18446744073709551615", None), ("soon", None)] {
        let body = br#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#.to_vec();
        server.set_response("GET /v2/echo/manifests/1", (429, vec![("retry-after", header.to_owned())], body));
        let error = resolve(&server.registry(None)).await.expect_err("busy");
        let found = (error.reason, error.wait, error.to_string().contains("slow down (TOOMANYREQUESTS)"));
        assert_eq!(found, (PluginReason::SourceUnavailable, wait, true), "{header}: {error}");
    }
}

#[tokio::test]
async fn upload_needs_a_location_and_sends_no_credentials_to_another_server() {
    let (server, other) = (Server::start().await, Server::start().await);
    let begin = "POST /v2/echo/blobs/uploads/";
    server.set_response(begin, (202, Vec::new(), Vec::new()));
    let error = server.registry(Some(ann())).put_blob(b"x".to_vec()).await.expect_err("no location");
    assert!(error.to_string().contains("invalid upload location"), "{error}");
    let upload_url = format!("http://{}/upload?state=1", other.address);
    let challenge = vec![("www-authenticate", "Basic realm=\"r\"".to_owned())];
    server.set_response(begin, (401, challenge, Vec::new()));
    server.set_response(&format!("{begin} {}", basic()), (202, vec![("location", upload_url)], Vec::new()));
    other.set_response("PUT /upload", (201, Vec::new(), Vec::new()));
    server.registry(Some(ann())).put_blob(b"x".to_vec()).await.expect("uploaded");
    let digest = Digest::of(b"x").to_string().replace(':', "%3A");
    assert_eq!(other.requests(), [(format!("PUT /upload?state=1&digest={digest}"), String::new())]);
}

/// A manifest with one layer.
fn signature(kind: &str, blob: Digest, size: usize, annotations: &serde_json::Value) -> serde_json::Value {
    json!({
        "mediaType": manifest::MANIFEST,
        "layers": [{"mediaType": kind, "digest": blob.to_string(), "size": size, "annotations": annotations}],
    })
}

const BUNDLE_KIND: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

#[tokio::test]
async fn valid_signature_is_found_among_other_referrers_of_the_artifact() {
    let server = Server::start().await;
    let fallback = format!("sha256-{}", artifact().hex());
    let blob = server.blob(BUNDLE.as_bytes());
    let good = server.manifest("good", &signature(BUNDLE_KIND, blob, BUNDLE.len(), &json!({})));
    let junk = server.blob(b"junk");
    let junk = server.manifest("junk", &signature(BUNDLE_KIND, junk, 4, &json!({})));
    let entry = |digest: Digest, kind: &str, predicate: &str| {
        json!({
            "mediaType": manifest::MANIFEST, "digest": digest.to_string(), "size": 1, "artifactType": kind,
            "annotations": {"dev.sigstore.bundle.predicateType": predicate},
        })
    };
    let signed = "https://sigstore.dev/cosign/sign/v1";
    let attestation = entry(junk, BUNDLE_KIND, "https://slsa.dev/provenance/v1");
    let mut entries = vec![attestation; 40];
    entries.push(entry(junk, BUNDLE_KIND, signed));
    entries.push(entry(Digest::of(b"gone"), BUNDLE_KIND, signed));
    // An entry by a client that does not know the type of bundles.
    entries.push(entry(good, "application/vnd.oci.empty.v1+json", signed));
    let list = json!({"mediaType": manifest::INDEX, "manifests": entries});
    server.manifest(&fallback, &list);
    let found = verify(&server.registry(None), artifact(), &trust(KEY)).await;
    assert_eq!(found, Ok(()));
    let error = verify(&server.registry(None), artifact(), &trust(OTHER_KEY)).await.expect_err("another key");
    assert!(error.reason == PluginReason::SignatureInvalid, "{error}");
    let error =
        verify(&server.registry(None), Digest::of(b"another"), &trust(KEY)).await.expect_err("another artifact");
    assert!(error.reason == PluginReason::NotSigned, "{error}");
}

#[tokio::test]
async fn referrers_are_read_in_pages_and_by_the_fallback_tag_where_the_api_is_missing() {
    let server = Server::start().await;
    let blob = server.blob(BUNDLE.as_bytes());
    let good = server.manifest("good", &signature(BUNDLE_KIND, blob, BUNDLE.len(), &json!({})));
    let list = |entries: serde_json::Value| json!({"mediaType": manifest::INDEX, "manifests": entries}).to_string();
    let entry = json!({"digest": good.to_string(), "artifactType": BUNDLE_KIND});
    let first = format!("GET /v2/echo/referrers/{ARTIFACT}");
    let kind = ("content-type", manifest::INDEX.to_owned());
    let next = ("link", "</v2/echo/more>; rel=\"next\"".to_owned());
    server.set_response(&first, (200, vec![kind.clone(), next], list(json!([])).into_bytes()));
    server.set_response("GET /v2/echo/more", (200, vec![kind.clone()], list(json!([entry])).into_bytes()));
    assert_eq!(
        verify(&server.registry(None), artifact(), &trust(KEY)).await,
        Ok(()),
        "the signature is on the second page"
    );

    server.manifest(
        &format!("sha256-{}", artifact().hex()),
        &json!({"mediaType": manifest::INDEX, "manifests": [entry]}),
    );
    for (status, kind) in [(400, "text/plain"), (405, "text/plain"), (404, "text/plain"), (200, "text/html")] {
        server.set_response(&first, (status, vec![("content-type", kind.to_owned())], b"<html>".to_vec()));
        assert_eq!(verify(&server.registry(None), artifact(), &trust(KEY)).await, Ok(()), "{status}");
    }
    server.set_response(&first, (503, Vec::new(), Vec::new()));
    let error = verify(&server.registry(None), artifact(), &trust(KEY)).await.expect_err("the registry is unavailable");
    assert!(error.reason == PluginReason::SourceUnavailable, "{error}");

    // An unreadable signature does not invalidate another, valid signature.
    let blob = server.blob(PAYLOAD.as_bytes());
    let annotations = json!({"dev.cosignproject.cosign/signature": PAYLOAD_SIGNATURE});
    let payload = signature(trust::PAYLOAD_TYPE, blob, PAYLOAD.len(), &annotations);
    server.manifest(&format!("sha256-{}.sig", artifact().hex()), &payload);
    assert_eq!(verify(&server.registry(None), artifact(), &trust(KEY)).await, Ok(()));
}

#[tokio::test]
async fn oversized_documents_are_rejected_and_long_referrer_lists_hide_no_signature() {
    let server = Server::start().await;
    let huge = json!({"mediaType": manifest::MANIFEST, "annotations": {"x": "y".repeat(300_000)}});
    server.manifest("1", &huge);
    let error = resolve(&server.registry(None)).await.expect_err("too large").to_string();
    assert!(error.contains("larger than 262144 bytes"), "{error}");
    let quoted = json!({"mediaType": manifest::MANIFEST, "layers": [{"mediaType": "x".repeat(200_000)}]});
    server.manifest("1", &quoted);
    let error = resolve(&server.registry(None)).await.expect_err("no component").to_string();
    assert!(error.len() < 2000, "the quoted media type is shortened: {}", error.len());

    let blob = server.blob(BUNDLE.as_bytes());
    let good = server.manifest("good", &signature(BUNDLE_KIND, blob, BUNDLE.len(), &json!({})));
    let junk = json!({"digest": Digest::of(b"junk").to_string(), "artifactType": "application/vnd.oci.empty.v1+json"});
    let pages = [
        vec![json!({}); 1001],
        vec![junk; 900],
        vec![json!({"digest": good.to_string(), "artifactType": BUNDLE_KIND})],
    ];
    let mut request = format!("GET /v2/echo/referrers/{ARTIFACT}");
    for (at, entries) in pages.into_iter().enumerate() {
        let headers =
            vec![("content-type", manifest::INDEX.to_owned()), ("link", format!("</v2/echo/page{at}>; rel=\"next\""))];
        server.set_response(&request, (200, headers, json!({"manifests": entries}).to_string().into_bytes()));
        request = format!("GET /v2/echo/page{at}");
    }
    assert_eq!(verify(&server.registry(None), artifact(), &trust(KEY)).await, Ok(()));
    let requests = server.requests();
    let junk = Digest::of(b"junk").to_string();
    assert!(!requests.iter().any(|(request, _)| request.contains(&junk)), "declared signatures are read first");
    let error = verify(&server.registry(None), artifact(), &trust(OTHER_KEY)).await.expect_err("another key");
    assert!(error.reason == PluginReason::SignatureInvalid, "{error}");
    let reads = server.requests().iter().filter(|(request, _)| request.contains(&junk)).count();
    assert_eq!(reads, MAX_SIGNATURES - 1, "the number of signatures that are read is bounded");
}

#[tokio::test]
async fn unchanged_tag_is_checked_without_fetching_the_manifest() {
    let server = Server::start().await;
    let layer = json!({"mediaType": "application/wasm", "digest": Digest::of(b"c").to_string(), "size": 1});
    let digest = server.manifest("1", &json!({"mediaType": manifest::MANIFEST, "layers": [layer]}));
    let artifact = resolve(&server.registry(None)).await.expect("an artifact");
    let head = |digest: Digest| (200, vec![("docker-content-digest", digest.to_string())], Vec::new());
    server.set_response("HEAD /v2/echo/manifests/1", head(digest));
    assert_eq!(is_still(&server.registry(None), &artifact).await, Ok(true));
    server.set_response("HEAD /v2/echo/manifests/1", head(Digest::of(b"moved")));
    assert_eq!(is_still(&server.registry(None), &artifact).await, Ok(false));
    server.set_response("HEAD /v2/echo/manifests/1", (200, Vec::new(), Vec::new()));
    assert_eq!(is_still(&server.registry(None), &artifact).await, Ok(false), "the response names no digest");
    let gets = server.requests().iter().filter(|(request, _)| request.starts_with("GET")).count();
    assert_eq!(gets, 1);
}
