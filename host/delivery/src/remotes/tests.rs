//! Tests with a registry that responds at once.

use std::collections::HashSet;
use std::convert::Infallible;

use futures::FutureExt as _;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::oci::tests::Server;

const KEY: &str = include_str!("../trust/samples/p256.pub");
const COMPONENT: &[u8] = b"component";

/// A registry with one artifact, and the dependencies of its resolution.
struct Fixture {
    server: Server,
    artifact: Artifact,
    folder: TempDir,
}

impl Fixture {
    async fn start() -> Self {
        let server = Server::start().await;
        let component = server.blob(COMPONENT);
        let size = COMPONENT.len() as u64;
        let layer = json!({"mediaType": "application/wasm", "digest": component.to_string(), "size": size});
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = server.manifest("1", &json!({"mediaType": kind, "layers": [layer]}));
        let headers = vec![("docker-content-digest", manifest.to_string())];
        server.set_response("HEAD /v2/echo/manifests/1", (200, headers, Vec::new()));
        let artifact = Artifact { manifest, component, size };
        Self { server, artifact, folder: tempfile::tempdir().expect("a folder") }
    }

    fn lookup(&self) -> Lookup {
        let api_server = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::builder().status(404).body(Body::empty()).expect("a response"))
        });
        Lookup {
            secrets: Secrets::new(Client::new(api_server, "n"), "n"),
            http: Http::default(),
            plain_http: Vec::new(),
            facts: Facts::open(self.folder.path()),
            folder: self.folder.path().to_owned(),
            places: Places::default(),
        }
    }

    fn wanted(&self, verify: Option<Verify>) -> Wanted {
        let reference = format!("{}/echo:1", self.server.address);
        Wanted { source: OciSource { reference, ..OciSource::default() }, pinned: None, verify, pushed_at: None }
    }
}

fn plugin() -> PluginName {
    "echo".parse().expect("a name")
}

/// Remotes, and the Plugins that they report as changed.
fn remotes(lookup: Lookup) -> (Remotes, UnboundedReceiver<PluginName>) {
    let (sender, receiver) = unbounded_channel();
    let changed = Arc::new(move |plugin: &PluginName| drop(sender.send(plugin.clone())));
    (Remotes::new(lookup, changed), receiver)
}

#[tokio::test]
async fn an_unchanged_artifact_is_recorded_as_verified_again() {
    let fixture = Fixture::start().await;
    let verify: Verify = serde_json::from_value(json!({"publicKeys": [{"inline": KEY}]})).expect("keys");
    let lookup = fixture.lookup();
    let trust = lookup.secrets.trust(Some(&verify)).await.expect("a key");
    let Artifact { component, .. } = fixture.artifact;
    lookup.facts.note_verified(component, trust.as_ref()).await;
    lookup.facts.retain(HashSet::new(), &HashSet::new()).await;
    let before = (fixture.artifact, trust.clone());
    let seen = lookup.resolve(&fixture.wanted(Some(verify)), Some(&before), false).await.expect("the artifact");
    assert_eq!(seen.artifact, fixture.artifact);
    assert!(
        trust.is_some() && lookup.facts.is_verified(component, trust.as_ref()),
        "the verification is found after a restart without the registry"
    );
}

#[tokio::test]
async fn component_that_is_being_fetched_counts_as_in_use() {
    let fixture = Fixture::start().await;
    let (remotes, mut changes) = remotes(fixture.lookup());
    let (plugin, wanted) = (plugin(), fixture.wanted(None));
    let component = fixture.artifact.component;
    assert!(matches!(remotes.take_resolution(&plugin, &wanted), Resolution::Pending) && remotes.found().is_empty());
    changes.recv().await.expect("found");
    assert!(matches!(remotes.take_resolution(&plugin, &wanted), Resolution::Found(found, None) if found == component));
    remotes.fetch(&plugin);
    assert!(matches!(remotes.take_resolution(&plugin, &wanted), Resolution::Pending));
    assert_eq!(remotes.found(), [component]);
    changes.recv().await.expect("fetched");
    let Resolution::Found(found, Some(fetched)) = remotes.take_resolution(&plugin, &wanted) else { panic!("no bytes") };
    assert_eq!((found, fetched.bytes.as_slice()), (component, COMPONENT));
    assert_eq!(remotes.found(), [component]);
}

#[tokio::test]
async fn fetched_bytes_that_no_plugin_takes_are_dropped_after_a_while() {
    let fixture = Fixture::start().await;
    let lookup = fixture.lookup();
    let places = lookup.places.held.clone();
    let (remotes, mut changes) = remotes(lookup);
    let (plugin, wanted) = (plugin(), fixture.wanted(None));
    remotes.take_resolution(&plugin, &wanted);
    changes.recv().await.expect("found");
    remotes.fetch(&plugin);
    changes.recv().await.expect("fetched");
    assert_eq!(places.available_permits(), HELD - 1);
    tokio::time::pause();
    tokio::time::sleep(UNTAKEN + Duration::from_secs(1)).await;
    assert_eq!(places.available_permits(), HELD);
    assert!(
        matches!(remotes.take_resolution(&plugin, &wanted), Resolution::Found(_, None)),
        "the plugin can request them again"
    );
}

#[test]
fn registry_with_all_its_downloads_in_progress_does_not_delay_other_registries() {
    let places = Places::default();
    let place = |registry| places.to_download(registry).now_or_never();
    let taken: Vec<_> = (0..DOWNLOADS).map(|_| place("slow.example").expect("a free place")).collect();
    assert!(place("slow.example").is_none(), "all places are taken");
    assert!(place("other.example").is_some());
    drop(taken);
    assert!(place("slow.example").is_some(), "a place is free again");
    assert!(place("third.example").is_some());
    let known: Vec<_> = places.of_registries.lock().keys().cloned().collect();
    assert_eq!(known, ["third.example"], "registries without downloads are forgotten");
}
