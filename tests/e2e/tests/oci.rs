//! Components in a registry: a real one, and signatures that cosign made.

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
use windlass_e2e::{Env, HOST_USER, HostOptions, SOON, SYSTEM_NAMESPACE, condition, guest, text};
use windlass_testbed::{Cosign, Proxy, REGISTRY_PASSWORD, REGISTRY_USER, Registry, SignatureLayout};

/// A registry that lets everybody in, with its files beside the cluster's.
fn registry(env: &Env) -> Registry {
    Registry::start(&env.cluster().dir().join("registry")).expect("a registry")
}

fn keys(env: &Env, name: &str) -> Cosign {
    Cosign::new(&env.cluster().dir().join(name)).expect("a pair of keys")
}

/// Puts a component into a registry; answers with the artifact's name by its digest.
fn push_artifact(env: &Env, component: &Path, reference: &str) -> String {
    // Where components are built and signed there may be no cluster.
    let nowhere = ["WINDLASS_KUBECONFIG", "KUBECONFIG"].map(|name| (name.to_owned(), "/nonexistent".to_owned()));
    let args = ["push", &component.to_string_lossy(), "--oci", reference, "--artifact-only"];
    let said = env.try_windlass_with(&args, &nowhere).expect("pushed");
    let named = said.trim().rsplit(' ').next().expect("the artifact");
    assert!(named.contains("@sha256:"), "{said}");
    named.to_owned()
}

/// The rights and the Plugin of echo, with this source, and these keys if it is given any.
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

/// Waits until a step of the Plugin as it is now has failed for this reason, and returns the message.
#[track_caller]
fn wait_failed(env: &Env, name: &str, step: &str, reason: &str) -> String {
    let plugin = env.wait_plugin(name, |plugin| {
        let condition = condition(plugin, step);
        condition.is_false(reason) && condition.observed_generation == plugin["metadata"]["generation"].as_i64()
    });
    condition(&plugin, step).message
}

#[test]
fn a_component_is_pushed_and_pulled_by_tag_and_by_digest_and_a_tag_is_followed() {
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

    // By a tag that moves, without anything happening to the Plugin.
    env.patch_plugin("echo", &json!({"source": oci(&reference)}));
    let second = env.variant(&guest("echo"), "second");
    let pinned = push_artifact(&env, &second, &reference);
    env.wait_live("echo", &second);

    // By a digest, whatever the tag becomes.
    env.patch_plugin("echo", &json!({"source": oci(&pinned)}));
    push_artifact(&env, &guest("echo"), &reference);
    env.patch_plugin("echo", &json!({"resync": "5m"}));
    env.wait_live("echo", &second);
    ns.wait_settled("web");

    // And where it is to be something else than what the Plugin pins.
    env.patch_plugin("echo", &json!({"digest": first, "source": oci(&pinned)}));
    let said = wait_failed(&env, "echo", "Fetched", "DigestMismatch");
    assert!(said.contains("spec.digest pins"), "{said}");
    env.patch_plugin("echo", &json!({"source": oci(&reference)}));
    env.wait_live("echo", &guest("echo"));
}

#[test]
fn a_push_that_is_refused_leaves_the_registry_as_it_was() {
    let env = Env::start();
    let registry = registry(&env);
    let reference = format!("{}/team/echo:1", registry.address());
    // A host may follow this tag already, for another Plugin.
    push_artifact(&env, &guest("echo"), &reference);
    let before = env.windlass(&["inspect", &format!("oci://{reference}")]);

    env.kubectl(&["create", "clusterrole", "windlass-plugin-taken", "--verb=get", "--resource=pods"]);
    let other = env.variant(&guest("echo"), "other");
    let push = ["push", &other.to_string_lossy(), "--name", "taken", "--oci", &reference, "--create-rbac"];
    let said = env.try_windlass(&push).expect_err("the role is somebody else's");
    assert!(said.contains("windlass-plugin-taken") && said.contains("--overwrite"), "{said}");
    assert_eq!(env.windlass(&["inspect", &format!("oci://{reference}")]), before);
    assert_eq!(env.get("plugins.windlass.dev", "", "taken"), None);
}

#[test]
fn the_older_layout_is_pulled_and_what_is_no_component_says_what_it_is() {
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
    let said = wait_failed(&env, "echo", "Fetched", "SourceInvalid");
    assert!(said.contains("application/wasm") && said.contains("tar+gzip"), "{said}");
    env.patch_plugin("echo", &json!({"source": oci(&format!("{}/echo:none", registry.address()))}));
    wait_failed(&env, "echo", "Fetched", "SourceNotFound");
    let said = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_false("SourceNotFound"));
    assert!(condition(&said, "Available").is_true(), "what was live stays so: {said:#}");
}

#[test]
fn a_changed_layer_is_refused_and_nothing_of_it_goes_live() {
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
    let said = wait_failed(&env, "echo", "Fetched", "DigestMismatch");
    assert!(said.contains(&digest) && said.contains("changed after it was pushed"), "{said}");
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert!(plugin["status"]["activeDigest"].is_null(), "{plugin:#}");
}

#[test]
fn what_the_keys_did_not_sign_never_goes_live_in_either_layout() {
    let env = Env::start();
    let host = env.start_host();
    let mut registry = registry(&env);
    let (ours, theirs) = (keys(&env, "ours"), keys(&env, "theirs"));
    let reference = |tag: &str| format!("{}/echo:{tag}", registry.address());
    let component = |name: &str| env.variant(&guest("echo"), name);

    let artifact = push_artifact(&env, &component("plain"), &reference("plain"));
    plugin(&env, "echo", &oci(&reference("plain")), Some(&ours));
    let said = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(said.contains("cosign sign --key KEY") && said.contains(&format!("{artifact}`")), "{said}");

    let mut live = Value::Null;
    for layout in [SignatureLayout::Bundle, SignatureLayout::Payload] {
        let tag = format!("{layout:?}").to_lowercase();
        let artifact = push_artifact(&env, &component(&tag), &reference(&tag));
        theirs.sign(&artifact, layout).expect("signed");
        env.patch_plugin("echo", &json!({"source": oci(&reference(&tag))}));
        let said = wait_failed(&env, "echo", "Verified", "SignatureInvalid");
        assert!(said.contains(&artifact) && said.contains("another key"), "{said}");
        let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
        assert_eq!(plugin["status"]["activeDigest"], live, "as before");

        // Nothing but the signature is new, and nobody touches the Plugin.
        ours.sign(&artifact, layout).expect("signed");
        live = env.wait_live("echo", &component(&tag)).into();
        let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Verified").is_true());
        assert!(condition(&plugin, "Compiled").is_true(), "{plugin:#}");
    }

    // A signature is of one artifact: another one's lies beside it under its name.
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
    let said = wait_failed(&env, "echo", "Verified", "SignatureInvalid");
    assert!(said.contains("of another artifact"), "{said}");

    // It is known whose keys signed what is live, also to a host that cannot ask.
    registry.stop();
    host.terminate();
    let _host = env.start_host();
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_false("SourceUnavailable"));
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
    assert_eq!(plugin["status"]["activeDigest"], live);
}

#[test]
fn a_host_that_wants_signatures_runs_nothing_without_in_config_maps_either() {
    let env = Env::start();
    let host =
        env.start_host_with(HostOptions { args: vec!["--require-signatures".to_owned()], ..HostOptions::default() });
    let keys = keys(&env, "keys");
    let public_key = keys.public_key().to_string_lossy().into_owned();
    env.push(&guest("echo"), "echo", &[]);
    let said = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(said.contains("spec.verify.publicKeys"), "{said}");

    env.push(&guest("echo"), "echo", &["--public-key", &public_key]);
    let said = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(said.contains("cosign sign-blob"), "{said}");

    let other = keys.sign_blob(&env.variant(&guest("echo"), "other")).expect("signed");
    env.push(&guest("echo"), "echo", &["--public-key", &public_key, "--signature", &other.to_string_lossy()]);
    wait_failed(&env, "echo", "Verified", "SignatureInvalid");
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert!(plugin["status"]["activeDigest"].is_null(), "{plugin:#}");

    let signature = keys.sign_blob(&guest("echo")).expect("signed");
    env.push(&guest("echo"), "echo", &["--public-key", &public_key, "--signature", &signature.to_string_lossy()]);
    env.wait_live("echo", &guest("echo"));

    // A push that says nothing of keys takes none away, and other logic needs a signature as before.
    env.push(&env.variant(&guest("echo"), "unsigned"), "echo", &[]);
    let said = wait_failed(&env, "echo", "Verified", "NotSigned");
    assert!(said.contains("cosign sign-blob"), "{said}");
    env.push(&guest("echo"), "echo", &["--signature", &signature.to_string_lossy()]);
    env.wait_plugin("echo", |plugin| condition(plugin, "Verified").is_true());

    // A start that finds no source goes on with what was live, since it was signed; and with other keys it does not.
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
fn a_registry_with_accounts_is_asked_with_the_pull_secret_alone() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = Registry::with_accounts(&env.cluster().dir().join("registry")).expect("a registry");
    let reference = format!("{}/echo:1", registry.address());
    let refused = env.try_windlass(&["push", &guest("echo").to_string_lossy(), "--oci", &reference, "--artifact-only"]);
    let refused = refused.expect_err("nobody is let in");
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
    // The host may read no Secret unless it is told to.
    let source = json!({"oci": {"reference": reference, "interval": "1s", "pullSecretRef": {"name": "regcred"}}});
    env.patch_plugin("echo", &json!({"source": source}));
    let said = wait_failed(&env, "echo", "Fetched", "InvalidPullSecret");
    assert!(said.contains("may not read Secret regcred"), "{said}");
    env.push(&guest("echo"), "echo", &["--oci", &reference, "--pull-secret", "regcred"]);
    env.wait_live("echo", &guest("echo"));

    let log = env.host_log_lines("");
    assert!(log.iter().all(|line| !line.contains(REGISTRY_PASSWORD)), "no password in the log");
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin").to_string();
    assert!(!plugin.contains(REGISTRY_PASSWORD), "nor in the status");
}

#[test]
fn what_is_live_stays_so_while_the_registry_is_down_also_over_a_restart() {
    let env = Env::start();
    let host = env.start_host();
    let mut registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    push_artifact(&env, &guest("echo"), &reference);
    plugin(&env, "echo", &oci(&reference), None);
    env.wait_live("echo", &guest("echo"));
    registry.stop();
    let said = wait_failed(&env, "echo", "Fetched", "SourceUnavailable");
    assert!(said.contains(&reference), "{said}");
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
fn a_registry_is_reached_over_tls_through_a_proxy_and_the_api_server_past_it() {
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

    let refused = env.try_windlass_with(&push, &variables(false, "127.0.0.1")).expect_err("an unknown certificate");
    assert!(refused.contains("registry.test/team/echo:1") && refused.contains("certificate"), "{refused}");
    assert!(proxy.asked().iter().all(|host| host == "registry.test:443"));

    env.try_windlass_with(&push, &variables(true, "127.0.0.1")).expect("pushed");
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|host| host == "registry.test:443"), "{asked:?}");
    env.try_windlass_with(&push, &variables(true, "")).expect("pushed");
    let asked = proxy.asked();
    assert!(
        asked.iter().any(|host| host.starts_with("127.0.0.1:")),
        "the API server, too, if nothing excepts it: {asked:?}"
    );

    let _host = env.start_host_with(HostOptions { env: variables(true, "127.0.0.1").into(), ..HostOptions::default() });
    env.wait_live("echo", &component);
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|host| host == "registry.test:443"), "{asked:?}");
}

#[test]
fn what_could_not_be_kept_for_a_moment_goes_live_though_nobody_touches_its_plugin() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    push_artifact(&env, &guest("echo"), &reference);
    // As good as a disk that is full: nothing can be written there.
    let cache = env.cluster().dir().join("windlass-cache");
    let away = cache.with_extension("away");
    fs::rename(&cache, &away).expect("a folder");
    plugin(&env, "echo", &oci(&reference), None);
    let said = wait_failed(&env, "echo", "Fetched", "SourceUnavailable");
    assert!(said.contains("cannot be stored in the host's --cache-dir"), "{said}");
    fs::rename(&away, &cache).expect("a folder");
    env.wait_live("echo", &guest("echo"));
}

#[test]
fn nobody_waits_for_a_registry_that_does_not_answer() {
    let env = Env::start();
    let _host = env.start_host();
    // It takes connections and says nothing. More Plugins than are brought up at once.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    for number in 0..8 {
        plugin(&env, &format!("slow-{number}"), &oci(&format!("{address}/echo:{number}")), None);
    }
    for number in 0..8 {
        let said = wait_failed(&env, &format!("slow-{number}"), "Fetched", "Progressing");
        assert!(said.contains("is being looked up"), "{said}");
    }
    let mark = env.mark();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("slow");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    let slow = env.audit().since(mark).expect("a log").by_user(HOST_USER).writes();
    let slow = slow.filter(|write| write.name.starts_with("slow-"));
    assert_eq!(slow.to_vec(), [], "they were still waiting");
}

/// A registry that says at once what it has, and gives that a byte a second. It tells of each component that it begins to
/// give.
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

/// Answers requests until the caller hangs up.
fn trickle(caller: &TcpStream, begun: &Sender<()>) -> Option<()> {
    let (mut requests, mut answers) = (BufReader::new(caller).lines(), caller);
    while let Some(Ok(request)) = requests.next() {
        while !requests.next()?.ok()?.is_empty() {}
        if request.contains("/blobs/") {
            begun.send(()).ok()?;
            write!(answers, "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").ok()?;
            while answers.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_secs(1));
            }
            return None;
        }
        // Another component for each path.
        let digest = request.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let layer =
            json!({"mediaType": "application/wasm", "digest": format!("sha256:{digest:064x}"), "size": 1_000_000});
        let manifest =
            json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [layer]}).to_string();
        write!(answers, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{manifest}", manifest.len()).ok()?;
    }
    None
}

#[test]
fn a_registry_that_gives_a_byte_at_a_time_keeps_nobody_from_another() {
    let env = Env::start();
    let _host = env.start_host();
    let registry = registry(&env);
    let reference = format!("{}/echo:1", registry.address());
    push_artifact(&env, &guest("echo"), &reference);
    let (begun, beginnings) = channel();
    // More Plugins than components are fetched at once.
    for _ in 0..2 {
        let address = trickling_registry(&begun);
        for number in 0..6 {
            let name = format!("slow-{}-{number}", address.rsplit(':').next().expect("a port"));
            plugin(&env, &name, &oci(&format!("{address}/echo:{number}")), None);
        }
    }
    // As many as may be of each.
    for _ in 0..8 {
        beginnings.recv_timeout(SOON).expect("another download begins");
    }
    plugin(&env, "echo", &oci(&reference), None);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("trickle");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    for slow in env.list("plugins.windlass.dev", "").iter().filter(|plugin| text(plugin, "/metadata/name") != "echo") {
        assert!(condition(slow, "Fetched").is_false("Progressing"), "it was still fetched: {slow:#}");
    }
}
