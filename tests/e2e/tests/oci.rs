//! Components in a real registry, with signatures by cosign.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Env, HOST_USER, HostOptions, SYSTEM_NAMESPACE, TIMEOUT, condition, guest, text};
use windlass_testbed::{Cosign, Proxy, REGISTRY_PASSWORD, REGISTRY_USER, Registry, SignatureLayout};

/// A registry without authentication, with its files in the cluster's folder.
fn registry(env: &Env) -> Registry {
    Registry::start(&env.cluster().dir().join("registry")).expect("a registry")
}

fn keys(env: &Env, name: &str) -> Cosign {
    Cosign::new(&env.cluster().dir().join(name)).expect("a pair of keys")
}

/// Pushes a component into a registry, and returns the artifact's reference with its digest.
fn push_artifact(env: &Env, component: &Path, reference: &str) -> String {
    // Pushing an artifact needs no cluster.
    let nowhere = ["WINDLASS_KUBECONFIG", "KUBECONFIG"].map(|name| (name.to_owned(), "/nonexistent".to_owned()));
    let args = ["push", &component.to_string_lossy(), "--oci", reference, "--artifact-only"];
    let message = env.try_windlass_with(&args, &nowhere).expect("pushed");
    let named = message.trim().rsplit(' ').next().expect("the artifact");
    assert!(named.contains("@sha256:"), "{message}");
    named.to_owned()
}

/// Applies the RBAC and a Plugin of echo with this source and, if given, these keys.
fn plugin(env: &Env, name: &str, source: &Value, verify: Option<&Cosign>) {
    let echo = guest("echo");
    let args = ["push", &echo.to_string_lossy(), "--name", name, "--create-rbac", "--dry-run=client", "-o", "json"];
    let mut list: Value = serde_json::from_str(&env.windlass(&args)).expect("JSON");
    for object in list["items"].as_array_mut().expect("a list") {
        if object["kind"] == "Plugin" {
            object["spec"]["source"] = source.clone();
            if let Some(keys) = verify {
                let key = fs::read_to_string(keys.public_key()).expect("a key");
                object["spec"]["verify"] = json!({"publicKeys": [{"inline": key}]});
            }
        }
        if object["kind"] != "ConfigMap" {
            env.apply(&object.to_string());
        }
    }
}

fn oci(reference: &str) -> Value {
    json!({"oci": {"reference": reference, "interval": "1s"}})
}

/// Waits until a condition of the Plugin's current generation is False for this reason, and returns its message.
#[track_caller]
fn wait_failed(env: &Env, name: &str, step: &str, reason: &str) -> String {
    let plugin = env.wait_plugin(name, |plugin| {
        let condition = condition(plugin, step);
        condition.is_false(reason) && condition.observed_generation == plugin["metadata"]["generation"].as_i64()
    });
    condition(&plugin, step).message
}

#[test]
fn component_is_pushed_and_pulled_by_tag_and_by_digest_and_a_moved_tag_is_followed() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let reference = format!("{}/team/echo:1", registry.address());
    env.push(&guest("echo"), "echo", &["--oci", &reference]);
    let first = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("oci");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let inspected = env.windlass(&["inspect", &format!("oci://{reference}")]);
    assert!(inspected.contains(&first), "{inspected}");

    // By a tag that is moved, without a change of the Plugin.
    env.patch_plugin("echo", &json!({"source": oci(&reference)}));
    let second = env.variant(&guest("echo"), "second");
    let pinned = push_artifact(&env, &second, &reference);
    env.wait_live("echo", &second);

    // By a digest, which a moved tag does not change.
    env.patch_plugin("echo", &json!({"source": oci(&pinned)}));
    push_artifact(&env, &guest("echo"), &reference);
    env.patch_plugin("echo", &json!({"resync": "5m"}));
    env.wait_live("echo", &second);
    ns.wait_settled("web");

    // With a digest other than the one that the Plugin pins.
    env.patch_plugin("echo", &json!({"digest": first, "source": oci(&pinned)}));
    let message = wait_failed(&env, "echo", "Fetched", "DigestMismatch");
    assert!(message.contains("spec.digest pins"), "{message}");
    env.patch_plugin("echo", &json!({"source": oci(&reference)}));
    env.wait_live("echo", &guest("echo"));
}

#[test]
fn rejected_push_leaves_the_registry_unchanged() {
    let env = Env::start();
    let registry = registry(&env);
    let reference = format!("{}/team/echo:1", registry.address());
    // A host may already follow this tag for another Plugin.
    push_artifact(&env, &guest("echo"), &reference);
    let before = env.windlass(&["inspect", &format!("oci://{reference}")]);

    env.kubectl(&["create", "clusterrole", "windlass-plugin-taken", "--verb=get", "--resource=pods"]);
    let other = env.variant(&guest("echo"), "other");
    let push = ["push", &other.to_string_lossy(), "--name", "taken", "--oci", &reference, "--create-rbac"];
    let message = env.try_windlass(&push).expect_err("the role was not written by push");
    assert!(message.contains("windlass-plugin-taken") && message.contains("--overwrite"), "{message}");
    assert_eq!(env.windlass(&["inspect", &format!("oci://{reference}")]), before);
    assert_eq!(env.get("plugins.windlass.dev", "", "taken"), None);
}

#[test]
fn older_artifact_layout_is_pulled_and_an_artifact_that_is_not_a_component_is_rejected() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let named = push_artifact(&env, &guest("echo"), &format!("{}/echo:new", registry.address()));
    let digest = named.split_once('@').expect("a digest").1;
    let manifest = fs::read_to_string(registry.blob(digest)).expect("the manifest");
    let older = manifest
        .replace("\"application/wasm\"", "\"application/vnd.wasm.content.layer.v1+wasm\"")
        .replace("application/vnd.wasm.config.v0+json", "application/vnd.wasm.config.v1+json");
    registry.put_manifest("echo", "older", &older).expect("pushed");
    plugin(&env, "echo", &oci(&format!("{}/echo:older", registry.address())), None);
    env.wait_live("echo", &guest("echo"));

    let image = manifest.replace("\"application/wasm\"", "\"application/vnd.oci.image.layer.v1.tar+gzip\"");
    registry.put_manifest("echo", "image", &image).expect("pushed");
    env.patch_plugin("echo", &json!({"source": oci(&format!("{}/echo:image", registry.address()))}));
    let message = wait_failed(&env, "echo", "Fetched", "SourceInvalid");
    assert!(message.contains("application/wasm") && message.contains("tar+gzip"), "{message}");
    env.patch_plugin("echo", &json!({"source": oci(&format!("{}/echo:none", registry.address()))}));
    wait_failed(&env, "echo", "Fetched", "SourceNotFound");
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_false("SourceNotFound"));
    assert!(condition(&plugin, "Available").is_true(), "the live component keeps running: {plugin:#}");
}

#[test]
fn layer_that_differs_from_its_digest_is_rejected_and_does_not_become_live() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    let digest = {
        push_artifact(&env, &guest("echo"), &reference);
        let inspected = env.windlass(&["inspect", &guest("echo").to_string_lossy(), "-o", "json"]);
        text(&serde_json::from_str(&inspected).expect("JSON"), "/digest")
    };
    let blob = registry.blob(&digest);
    let mut bytes = fs::read(&blob).expect("the layer");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, bytes).expect("changed");
    plugin(&env, "echo", &oci(&reference), None);
    let message = wait_failed(&env, "echo", "Fetched", "DigestMismatch");
    assert!(message.contains(&digest) && message.contains("changed after it was pushed"), "{message}");
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert!(plugin["status"]["activeDigest"].is_null(), "{plugin:#}");
}

#[test]
fn component_without_a_signature_by_a_trusted_key_never_becomes_live_in_either_layout() {
    let env = Env::start();
    let host = env.start_host();
    let mut registry = registry(&env);
    let (ours, theirs) = (keys(&env, "ours"), keys(&env, "theirs"));
    let reference = |tag: &str| format!("{}/echo:{tag}", registry.address());
    let component = |name: &str| env.variant(&guest("echo"), name);

    let artifact = push_artifact(&env, &component("plain"), &reference("plain"));
    plugin(&env, "echo", &oci(&reference("plain")), Some(&ours));
    let message = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(message.contains("cosign sign --key KEY") && message.contains(&format!("{artifact}`")), "{message}");

    let mut live = Value::Null;
    for layout in [SignatureLayout::Bundle, SignatureLayout::Payload] {
        let tag = format!("{layout:?}").to_lowercase();
        let artifact = push_artifact(&env, &component(&tag), &reference(&tag));
        theirs.sign(&artifact, layout).expect("signed");
        env.patch_plugin("echo", &json!({"source": oci(&reference(&tag))}));
        let message = wait_failed(&env, "echo", "Verified", "SignatureInvalid");
        assert!(message.contains(&artifact) && message.contains("another key"), "{message}");
        let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
        assert_eq!(plugin["status"]["activeDigest"], live, "the live component did not change");

        // Only a signature is added; the Plugin does not change.
        ours.sign(&artifact, layout).expect("signed");
        live = env.wait_live("echo", &component(&tag)).into();
        let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Verified").is_true());
        assert!(condition(&plugin, "Compiled").is_true(), "{plugin:#}");
    }

    // The signature of another artifact is stored under the name of this one's signature.
    let evil = push_artifact(&env, &component("evil"), &reference("evil"));
    let hex = |artifact: &str| artifact.rsplit(':').next().expect("hex").to_owned();
    let good = push_artifact(&env, &component("payload"), &reference("payload"));
    for suffix in ["", ".sig"] {
        let tag = |artifact: &str| format!("sha256-{}{suffix}", hex(artifact));
        if let Some(signature) = registry.manifest("echo", &tag(&good)).expect("the registry") {
            registry.put_manifest("echo", &tag(&evil), &signature).expect("pushed");
        }
    }
    env.patch_plugin("echo", &json!({"source": oci(&reference("evil"))}));
    let message = wait_failed(&env, "echo", "Verified", "SignatureInvalid");
    assert!(message.contains("of another artifact"), "{message}");

    // A host that cannot reach the registry still knows that the live component is signed.
    registry.stop();
    host.terminate();
    let _host = env.start_host();
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_false("SourceUnavailable"));
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
    assert_eq!(plugin["status"]["activeDigest"], live);
}

#[test]
fn host_with_require_signatures_rejects_unsigned_components_in_config_maps_too() {
    let env = Env::start();
    let host =
        env.start_host_with(HostOptions { args: vec!["--require-signatures".to_owned()], ..HostOptions::default() });
    let keys = keys(&env, "keys");
    let public_key = keys.public_key().to_string_lossy().into_owned();
    env.push(&guest("echo"), "echo", &[]);
    let message = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(message.contains("spec.verify.publicKeys"), "{message}");

    env.push(&guest("echo"), "echo", &["--public-key", &public_key]);
    let message = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(message.contains("cosign sign-blob"), "{message}");

    let other = keys.sign_blob(&env.variant(&guest("echo"), "other")).expect("signed");
    env.push(&guest("echo"), "echo", &["--public-key", &public_key, "--signature", &other.to_string_lossy()]);
    wait_failed(&env, "echo", "Verified", "SignatureInvalid");
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert!(plugin["status"]["activeDigest"].is_null(), "{plugin:#}");

    let signature = keys.sign_blob(&guest("echo")).expect("signed");
    env.push(&guest("echo"), "echo", &["--public-key", &public_key, "--signature", &signature.to_string_lossy()]);
    env.wait_live("echo", &guest("echo"));

    // A push without --public-key keeps the keys, and another component still needs a signature.
    env.push(&env.variant(&guest("echo"), "unsigned"), "echo", &[]);
    let message = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(message.contains("cosign sign-blob"), "{message}");
    env.push(&guest("echo"), "echo", &["--signature", &signature.to_string_lossy()]);
    env.wait_plugin("echo", |plugin| condition(plugin, "Verified").is_true());

    // A restarted host without the source runs the previous component because it was signed, but not with other keys.
    host.terminate();
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "delete", "configmap", "echo"]);
    let host = env.start_host();
    env.wait_plugin("echo", |plugin| {
        condition(plugin, "Available").is_true() && condition(plugin, "Fetched").is_false("SourceNotFound")
    });
    host.terminate();
    let others = self::keys(&env, "others");
    let key = fs::read_to_string(others.public_key()).expect("a key");
    let patch = json!({"spec": {"verify": {"publicKeys": [{"inline": key}]}}}).to_string();
    env.kubectl(&["patch", "plugins.windlass.dev", "echo", "--type=merge", "-p", &patch]);
    let _host = env.start_host();
    env.wait_plugin("echo", |plugin| condition(plugin, "Available").is_false("SourceNotFound"));
}

#[test]
fn component_in_a_private_registry_is_pulled_only_with_the_pull_secret() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = Registry::with_accounts(&env.cluster().dir().join("registry")).expect("a registry");
    let reference = format!("{}/echo:1", registry.address());
    let refused = env.try_windlass(&["push", &guest("echo").to_string_lossy(), "--oci", &reference, "--artifact-only"]);
    let refused = refused.expect_err("the registry requires credentials");
    assert!(refused.contains(&reference) && refused.contains("user name and a password"), "{refused}");

    let secret = ["create", "secret", "docker-registry", "regcred", "-n", SYSTEM_NAMESPACE];
    let server = format!("--docker-server={}", registry.address());
    let user = format!("--docker-username={REGISTRY_USER}");
    let password = format!("--docker-password={REGISTRY_PASSWORD}");
    let mut args = secret.to_vec();
    args.extend([server.as_str(), &user, &password]);
    env.kubectl(&args);
    let config = env.get("secrets", SYSTEM_NAMESPACE, "regcred").expect("the Secret");
    let config = text(&config, "/data/.dockerconfigjson");
    env.log_in_to_registries(&STANDARD.decode(config).expect("base64"));
    push_artifact(&env, &guest("echo"), &reference);

    plugin(&env, "echo", &oci(&reference), None);
    wait_failed(&env, "echo", "Fetched", "SourceForbidden");
    // The host needs a permission to read the pull Secret.
    let source = json!({"oci": {"reference": reference, "interval": "1s", "pullSecretRef": {"name": "regcred"}}});
    env.patch_plugin("echo", &json!({"source": source}));
    let message = wait_failed(&env, "echo", "Fetched", "InvalidPullSecret");
    assert!(message.contains("may not read Secret regcred"), "{message}");
    env.push(&guest("echo"), "echo", &["--oci", &reference, "--pull-secret", "regcred"]);
    env.wait_live("echo", &guest("echo"));

    let log = env.host_log_lines("");
    assert!(log.iter().all(|line| !line.contains(REGISTRY_PASSWORD)), "the password is not in the log");
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin").to_string();
    assert!(!plugin.contains(REGISTRY_PASSWORD), "the password is not in the Plugin");
}

#[test]
fn live_component_keeps_running_while_the_registry_is_down_also_across_a_restart() {
    let env = Env::start();
    let host = env.start_host();
    let mut registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    push_artifact(&env, &guest("echo"), &reference);
    plugin(&env, "echo", &oci(&reference), None);
    env.wait_live("echo", &guest("echo"));
    registry.stop();
    let message = wait_failed(&env, "echo", "Fetched", "SourceUnavailable");
    assert!(message.contains(&reference), "{message}");
    let ns = env.namespace("down");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    host.terminate();
    let _host = env.start_host();
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    registry.restart().expect("the registry");
    env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_true());
}

#[test]
fn registry_is_reached_with_tls_through_a_proxy_and_the_api_server_directly() {
    let env = Env::start();
    let registry = Registry::with_tls(&env.cluster().dir().join("registry"), "registry.test").expect("a registry");
    let proxy = Proxy::start(&[("registry.test:443", registry.address())]).expect("a proxy");
    let variables = |ca: bool, no_proxy: &str| {
        let ca = if ca { registry.ca() } else { env.cluster().dir().join("ca.crt") };
        [("HTTPS_PROXY", proxy.url()), ("NO_PROXY", no_proxy.to_owned()), ("SSL_CERT_FILE", ca.display().to_string())]
            .map(|(name, value)| (name.to_owned(), value))
    };
    let component = guest("echo");
    let file = component.to_string_lossy();
    let push = ["push", &file, "--name", "echo", "--oci", "registry.test/team/echo:1", "--create-rbac", "--no-wait"];

    let refused = env
        .try_windlass_with(&push, &variables(false, "127.0.0.1"))
        .expect_err("the certificate's authority is unknown");
    assert!(refused.contains("registry.test/team/echo:1") && refused.contains("certificate"), "{refused}");
    assert!(proxy.asked().iter().all(|host| host == "registry.test:443"));

    env.try_windlass_with(&push, &variables(true, "127.0.0.1")).expect("pushed");
    let requested_hosts = proxy.asked();
    assert!(
        !requested_hosts.is_empty() && requested_hosts.iter().all(|host| host == "registry.test:443"),
        "{requested_hosts:?}"
    );
    env.try_windlass_with(&push, &variables(true, "")).expect("pushed");
    let requested_hosts = proxy.asked();
    assert!(
        requested_hosts.iter().any(|host| host.starts_with("127.0.0.1:")),
        "the API server is reached through the proxy, too, without NO_PROXY: {requested_hosts:?}"
    );

    let _host = env.start_host_with(HostOptions { env: variables(true, "127.0.0.1").into(), ..HostOptions::default() });
    env.wait_live("echo", &component);
    let requested_hosts = proxy.asked();
    assert!(
        !requested_hosts.is_empty() && requested_hosts.iter().all(|host| host == "registry.test:443"),
        "{requested_hosts:?}"
    );
}

#[test]
fn component_that_could_not_be_cached_becomes_live_later_without_a_change_of_its_plugin() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    push_artifact(&env, &guest("echo"), &reference);
    // As with a full disk, the host cannot write there.
    let cache = env.cluster().dir().join("windlass-cache");
    let away = cache.with_extension("away");
    fs::rename(&cache, &away).expect("a folder");
    plugin(&env, "echo", &oci(&reference), None);
    let message = wait_failed(&env, "echo", "Fetched", "SourceUnavailable");
    assert!(message.contains("cannot be stored in the host's --cache-dir"), "{message}");
    fs::rename(&away, &cache).expect("a folder");
    env.wait_live("echo", &guest("echo"));
}

#[test]
fn registry_that_does_not_respond_delays_no_other_plugin() {
    let env = Env::start();
    let _host = env.start_host();
    // It accepts connections and sends nothing. There are more Plugins than the host activates at once.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    for number in 0..8 {
        plugin(&env, &format!("slow-{number}"), &oci(&format!("{address}/echo:{number}")), None);
    }
    for number in 0..8 {
        let message = wait_failed(&env, &format!("slow-{number}"), "Fetched", "Progressing");
        assert!(message.contains("is being looked up"), "{message}");
    }
    let mark = env.mark();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("slow");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    let slow = env.audit().since(mark).expect("a log").by_user(HOST_USER).writes();
    let slow = slow.filter(|write| write.name.starts_with("slow-"));
    assert_eq!(slow.to_vec(), [], "the other Plugins still waited");
}

/// A registry that sends manifests at once, and components at one byte a second. It signals the begin of each download
/// of a component.
fn trickling_registry(begun: &Sender<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let begun = begun.clone();
    thread::spawn(move || {
        for caller in listener.incoming().flatten() {
            let begun = begun.clone();
            thread::spawn(move || trickle(&caller, &begun));
        }
    });
    address
}

/// Responds to requests until the caller closes the connection.
fn trickle(caller: &TcpStream, begun: &Sender<()>) -> Option<()> {
    let (mut requests, mut responses) = (BufReader::new(caller).lines(), caller);
    while let Some(Ok(request)) = requests.next() {
        while !requests.next()?.ok()?.is_empty() {}
        if request.contains("/blobs/") {
            begun.send(()).ok()?;
            write!(responses, "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").ok()?;
            while responses.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_secs(1));
            }
            return None;
        }
        // Each path has another component.
        let digest = request.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let layer =
            json!({"mediaType": "application/wasm", "digest": format!("sha256:{digest:064x}"), "size": 1_000_000});
        let manifest =
            json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [layer]}).to_string();
        write!(responses, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{manifest}", manifest.len()).ok()?;
    }
    None
}

#[test]
fn registry_that_sends_one_byte_a_second_delays_no_plugin_of_another_registry() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    push_artifact(&env, &guest("echo"), &reference);
    let (begun, beginnings) = channel();
    // There are more Plugins than concurrent downloads.
    for _ in 0..2 {
        let address = trickling_registry(&begun);
        for number in 0..6 {
            let name = format!("slow-{}-{number}", address.rsplit(':').next().expect("a port"));
            plugin(&env, &name, &oci(&format!("{address}/echo:{number}")), None);
        }
    }
    // All downloads that may run at once have begun.
    for _ in 0..8 {
        beginnings.recv_timeout(TIMEOUT).expect("another download begins");
    }
    plugin(&env, "echo", &oci(&reference), None);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("trickle");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    for slow in env.list("plugins.windlass.dev", "").iter().filter(|plugin| text(plugin, "/metadata/name") != "echo") {
        assert!(condition(slow, "Fetched").is_false("Progressing"), "the other Plugins still fetched: {slow:#}");
    }
}
