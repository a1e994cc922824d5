//! Hot swap: a new component replaces the live one completely or not at all, without a restart of the host.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_e2e::{Env, Namespace, SYSTEM_NAMESPACE, TIMEOUT, condition, guest, is_settled, text, wait};

fn read(component: &str) -> Vec<u8> {
    std::fs::read(guest(component)).expect("a guest")
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Makes the ConfigMap `echo` hold this and nothing else, as `kubectl replace` does.
#[track_caller]
fn replace_source(env: &Env, data: &[(&str, &[u8])]) {
    let data: serde_json::Map<_, _> =
        data.iter().map(|(key, bytes)| ((*key).to_owned(), STANDARD.encode(bytes).into())).collect();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "echo", "namespace": SYSTEM_NAMESPACE},
        "binaryData": data,
    });
    env.cluster().kubectl_with_input(&["replace", "-f", "-"], &map.to_string()).expect("the ConfigMap is replaced");
}

/// Waits until this component is live and the Plugin is Ready.
#[track_caller]
fn wait_active(env: &Env, digest: &str) {
    env.wait_plugin("echo", |plugin| {
        plugin["status"]["activeDigest"] == digest && condition(plugin, "Ready").is_true()
    });
}

/// Waits until the Plugin is not Ready for this reason, while the component `active` is live.
#[track_caller]
fn wait_not_ready(env: &Env, active: &str, step: &str, reason: &str, words: &str) -> Value {
    let plugin = env.wait_plugin("echo", |plugin| {
        condition(plugin, "Ready").is_false(reason)
            && condition(plugin, step).is_false(reason)
            && condition(plugin, step).message.contains(words)
    });
    assert_eq!(plugin["status"]["activeDigest"], active, "{plugin:#}");
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
    // kstatus: either the host retries by itself, or a user must change something.
    let [reconciling, stalled] = ["Reconciling", "Stalled"].map(|kind| condition(&plugin, kind));
    assert!(reconciling.is_true() != stalled.is_true(), "{plugin:#}");
    let ready = condition(&plugin, "Ready");
    assert!(ready.message.ends_with(&format!("Still running {active}")), "{ready:?}");
    plugin
}

fn is_v2(pod: &Value) -> bool {
    text(pod, "/metadata/labels/logic") == "v2"
}

/// Checks by the Pods of a new Echo which component is live.
#[track_caller]
fn assert_reconciled_by(ns: &Namespace, name: &str, v2: bool) {
    ns.echo(name, 1, "nginx:1");
    ns.wait_settled(name);
    assert_eq!(is_v2(&ns.pod(&format!("{name}-0"))), v2, "{name}");
}

#[track_caller]
fn wait_all_v2(ns: &Namespace) {
    wait("all Pods with the label of the new component", TIMEOUT, || ns.pods().iter().all(is_v2).then_some(()));
}

#[test]
fn hot_swap_under_load_reaches_every_parent_and_creates_each_child_once() {
    const BATCH: usize = 10;
    let env = Env::with_bodies();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("load");
    let mark = env.mark();
    let v2 = digest(&read("echo-v2"));
    let batch = |number: usize| {
        let echo = |at: usize| ns.echo_manifest(&format!("echo-{number}-{at}"), 2, "nginx:1").to_string();
        env.apply(&(0..BATCH).map(echo).collect::<Vec<_>>().join("\n---\n"));
    };
    batch(0);
    wait("the first Pods", TIMEOUT, || (!ns.pods().is_empty()).then_some(()));

    // Echoes are created without a pause from before the push until the new component is live.
    let batches = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut live = false;
            let mut number = 1;
            loop {
                batch(number);
                number += 1;
                if live && number >= 10 {
                    return number;
                }
                assert!(number < 100, "the new component does not become live");
                let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
                live = plugin["status"]["activeDigest"] == v2.as_str();
            }
        });
        env.push(&guest("echo-v2"), "echo", &[]);
        load.join().expect("the load")
    });
    wait_active(&env, &v2);
    let echoes = batches * BATCH;
    wait("all Echoes settled", TIMEOUT, || {
        let found = env.list("echoes", ns.name());
        (found.len() == echoes && found.iter().all(is_settled)).then_some(())
    });
    wait_all_v2(&ns);

    assert_eq!(ns.pods().len(), 2 * echoes);
    let pods = env.host_requests(mark).attempted_writes().namespace(ns.name()).resource("pods");
    let deleted = pods.clone().filter(|write| write.verb.starts_with("delete"));
    assert_eq!(deleted.to_vec(), [], "a new component changes Pods in place");
    let created = pods.filter(|write| write.verb == "create");
    assert_eq!(created.len(), 2 * echoes, "each Pod was created once");
    let by_new = |body: &Option<Value>| body.as_ref().is_some_and(is_v2);
    let new = created.iter().filter(|write| by_new(&write.request_object)).count();
    assert!(new > 0 && new < created.len(), "both components created Pods: {new} of {} by the new one", created.len());
    assert!(host.is_running());
    eprintln!("hot swap under load: {echoes} Echoes, {new} of {} Pods created by the new component", created.len());
}

#[test]
fn components_of_two_contracts_replace_each_other_under_load_and_write_nothing() {
    const SETTLED: usize = 20;
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let (ns, load) = (env.namespace("settled"), env.namespace("load"));
    let echo = |at: usize| ns.echo_manifest(&format!("echo-{at}"), 2, "nginx:1").to_string();
    env.apply(&(0..SETTLED).map(echo).collect::<Vec<_>>().join("\n---\n"));
    wait("all Echoes settled", TIMEOUT, || {
        let found = env.list("echoes", ns.name());
        (found.len() == SETTLED && found.iter().all(is_settled)).then_some(())
    });
    let mark = env.mark();
    // From contract 0.2 to 0.1 and back, twice. Others are created meanwhile.
    for (at, component) in ["contract/older", "echo", "contract/older", "echo"].into_iter().enumerate() {
        env.push(&guest(component), "echo", &[]);
        load.echo(&format!("echo-{at}"), 1, "nginx:1");
        let digest = digest(&read(component));
        env.wait_plugin("echo", |plugin| plugin["status"]["reconciledDigest"] == digest.as_str());
        load.wait_settled(&format!("echo-{at}"));
    }
    assert_eq!(env.host_writes(mark).namespace(ns.name()).to_vec(), []);
    assert_eq!(load.pods().len(), 4);
}

#[test]
fn broken_component_is_rejected_and_the_live_one_keeps_running() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let good = env.wait_live("echo", &guest("echo"));
    assert_eq!(good, digest(&read("echo")));
    let ns = env.namespace("broken");
    assert_reconciled_by(&ns, "before", false);

    let echo = read("echo");
    let half = &echo[..echo.len() / 2];
    let broken: [(&str, &[u8], &str, &str); 5] = [
        ("trap-in-describe", &read("echo-broken"), "InvalidDescriptor", "unreachable"),
        ("garbage", b"this is no component", "NotAComponent", "not WebAssembly"),
        ("core-module", b"\0asm\x01\0\0\0", "NotAComponent", "core module"),
        ("half", half, "NotAComponent", "cut off"),
        ("of-no-contract", b"\0asm\x0d\0\x01\0", "UnsupportedContract", "windlass:plugin"),
    ];
    for (name, bytes, reason, words) in broken {
        replace_source(&env, &[("plugin.wasm", bytes)]);
        let plugin = wait_not_ready(&env, &good, "Compiled", reason, words);
        assert_eq!(plugin["status"]["candidateDigest"], digest(bytes), "{name}");
        assert!(condition(&plugin, "Fetched").is_true(), "{name}: {plugin:#}");
        assert_reconciled_by(&ns, name, false);
    }
    replace_source(&env, &[("other.wasm", b"")]);
    wait_not_ready(&env, &good, "Fetched", "SourceInvalid", "plugin.wasm");
    assert_reconciled_by(&ns, "no-key", false);
    env.kubectl(&["delete", "configmap", "echo", "-n", SYSTEM_NAMESPACE]);
    wait_not_ready(&env, &good, "Fetched", "SourceNotFound", "windlass-system/echo");
    assert_reconciled_by(&ns, "no-source", false);

    env.push(&guest("echo-v2"), "echo", &[]);
    wait_active(&env, &digest(&read("echo-v2")));
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert_eq!(plugin["status"]["previousDigest"], good);
    assert_eq!(plugin["status"]["candidateDigest"], Value::Null);
    wait_all_v2(&ns);
    assert!(host.is_running());
}

/// A component that does not compress well: random bytes in a custom section, which does not change its behaviour.
fn large(component: &str, seed: u64, folder: &Path) -> PathBuf {
    let mut state = seed;
    let mut noise = || {
        // Steele and Vigna's SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut section = b"\x05noise".to_vec();
    section.extend((0..170_000).flat_map(|_| noise().to_le_bytes()));
    let mut bytes = read(component);
    bytes.push(0);
    let mut rest = section.len();
    loop {
        // LEB128, as the binary format writes lengths.
        let low = u8::try_from(rest & 0x7f).expect("7 bits");
        rest >>= 7;
        bytes.push(if rest == 0 { low } else { low | 0x80 });
        if rest == 0 {
            break;
        }
    }
    bytes.extend(section);
    let path = folder.join(format!("{component}-large.wasm"));
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}

/// The ConfigMaps that `windlass push` would write: parts first and the head last.
fn config_maps(env: &Env, component: &Path) -> Vec<Value> {
    let printed =
        env.windlass(&["push", &component.to_string_lossy(), "--name", "echo", "--dry-run=client", "-o", "json"]);
    let mut list: Value = serde_json::from_str(&printed).expect("JSON");
    let Value::Array(mut objects) = list["items"].take() else { panic!("no list: {printed}") };
    objects.retain(|object| object["kind"] == "ConfigMap");
    objects
}

/// Applies a ConfigMap and forces ownership of the fields that `windlass push` applied.
#[track_caller]
fn apply(env: &Env, map: &Value) {
    let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    env.cluster().kubectl_with_input(&args, &map.to_string()).expect("applied");
}

#[test]
fn component_in_parts_becomes_live_only_when_all_its_parts_exist() {
    let env = Env::with_bodies();
    let host = env.start_host();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (old, new) = (large("echo", 1, folder.path()), large("echo-v2", 2, folder.path()));
    let [d1, d2] = [&old, &new].map(|path| digest(&std::fs::read(path).expect("a component")));
    let mark = env.mark();
    env.push(&old, "echo", &[]);
    wait_active(&env, &d1);
    let ns = env.namespace("parts");
    assert_reconciled_by(&ns, "before", false);

    let old_maps = config_maps(&env, &old);
    let maps = config_maps(&env, &new);
    let [part0, part1, head] = maps.as_slice() else { panic!("two parts and a head, not {}", maps.len()) };
    let name_of = |map: &Value| text(map, "/metadata/name");

    // The head comes first: no part exists.
    apply(&env, head);
    wait_not_ready(&env, &d1, "Fetched", "PartsIncomplete", &name_of(part0));
    assert_reconciled_by(&ns, "head-only", false);

    // One part is missing.
    apply(&env, part0);
    wait_not_ready(&env, &d1, "Fetched", "PartsIncomplete", &name_of(part1));
    assert_reconciled_by(&ns, "one-part-missing", false);

    // A part of the old component replaces the missing one.
    let mut mixed = head.clone();
    mixed["data"]["parts"] = format!("{}\n{}", name_of(part0), name_of(&old_maps[1])).into();
    apply(&env, &mixed);
    // All listed parts exist, so the message names none.
    env.wait_plugin("echo", |plugin| {
        let fetched = condition(plugin, "Fetched");
        fetched.is_false("PartsIncomplete") && !fetched.message.contains(&name_of(part1))
    });
    wait_not_ready(&env, &d1, "Fetched", "PartsIncomplete", "nothing of it is loaded");
    assert_reconciled_by(&ns, "parts-of-two", false);

    // All parts of the old component under the new one's digest.
    let mut lying = head.clone();
    lying["data"]["parts"] = old_maps[2]["data"]["parts"].clone();
    apply(&env, &lying);
    wait_not_ready(&env, &d1, "Fetched", "PartsIncomplete", &d2);
    assert_reconciled_by(&ns, "another-digest", false);

    // The correct head again, and then the missing part, with which the new component becomes live.
    apply(&env, head);
    wait_not_ready(&env, &d1, "Fetched", "PartsIncomplete", &name_of(part1));
    apply(&env, part1);
    wait_active(&env, &d2);
    wait_all_v2(&ns);
    assert_reconciled_by(&ns, "after", true);

    // Deleting a part of the live component does not unload it.
    env.kubectl(&["delete", "configmap", &name_of(part1), "-n", SYSTEM_NAMESPACE]);
    wait_not_ready(&env, &d2, "Fetched", "PartsIncomplete", &name_of(part1));
    assert_reconciled_by(&ns, "part-deleted", true);
    apply(&env, part1);
    wait_active(&env, &d2);

    // According to the audit log, only the two complete components were ever live.
    let statuses = env.host_writes(mark).resource("plugins").filter(|write| write.subresource == "status");
    let mut live: Vec<_> = statuses
        .iter()
        .filter_map(|write| write.request_object.as_ref()?.pointer("/status/activeDigest")?.as_str())
        .collect();
    live.dedup();
    assert_eq!(live, [&d1, &d2]);
    assert!(host.is_running());
}

#[test]
fn component_with_another_digest_than_the_pinned_one_does_not_become_live() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let d1 = env.wait_live("echo", &guest("echo"));
    let d2 = digest(&read("echo-v2"));
    let pin = |digest: &str| {
        let patch = json!({"spec": {"digest": digest}}).to_string();
        env.kubectl(&["patch", "plugin", "echo", "--type=merge", "-p", &patch]);
    };
    pin(&d1);
    env.wait_plugin("echo", |plugin| plugin["status"]["observedGeneration"] == plugin["metadata"]["generation"]);
    let ns = env.namespace("pinned");
    assert_reconciled_by(&ns, "before", false);

    replace_source(&env, &[("plugin.wasm", &read("echo-v2"))]);
    let plugin = wait_not_ready(&env, &d1, "Fetched", "DigestMismatch", &d2);
    assert_eq!(plugin["status"]["candidateDigest"], d2);
    assert_reconciled_by(&ns, "refused", false);

    pin(&d2);
    wait_active(&env, &d2);
    wait_all_v2(&ns);
}

#[test]
fn plain_and_compressed_config_maps_are_accepted_as_sources() {
    let env = Env::start();
    let _host = env.start_host();
    // `windlass push` provides only the RBAC and the Plugin; kubectl creates the ConfigMap.
    let (echo, v2) = (guest("echo"), guest("echo-v2"));
    let args = ["push", &echo.to_string_lossy(), "--name", "echo", "--create-rbac", "--dry-run=client", "-o", "json"];
    let mut list: Value = serde_json::from_str(&env.windlass(&args)).expect("JSON");
    if let Some(items) = list["items"].as_array_mut() {
        items.retain(|object| object["kind"] != "ConfigMap");
    }
    env.apply(&list.to_string());
    env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_false("SourceNotFound"));
    let file = format!("--from-file=plugin.wasm={}", echo.display());
    env.kubectl(&["create", "configmap", "echo", "-n", SYSTEM_NAMESPACE, &file]);
    let d1 = env.wait_live("echo", &echo);
    let ns = env.namespace("packed");
    assert_reconciled_by(&ns, "plain", false);

    let zstd = zstd::stream::encode_all(&*read("echo-v2"), 0).expect("the component is compressed");
    replace_source(&env, &[("plugin.wasm.zst", &zstd)]);
    env.wait_live("echo", &v2);
    wait_all_v2(&ns);
    assert_reconciled_by(&ns, "zstd", true);

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &read("echo")).expect("the component is compressed");
    let gzip = gzip.finish().expect("the component is compressed");
    replace_source(&env, &[("plugin.wasm.gz", &gzip)]);
    env.wait_live("echo", &echo);
    assert_reconciled_by(&ns, "gzip", false);

    replace_source(&env, &[("plugin.wasm.gz", &gzip), ("plugin.wasm.zst", &zstd)]);
    wait_not_ready(&env, &d1, "Fetched", "SourceInvalid", "several forms");
    replace_source(&env, &[("plugin.wasm.zst", &zstd[..zstd.len() / 2])]);
    wait_not_ready(&env, &d1, "Fetched", "SourceInvalid", "zstd");
}

#[test]
fn rollback_annotation_restores_the_previous_component_and_a_newer_one_still_becomes_live() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let d1 = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("back");
    assert_reconciled_by(&ns, "first", false);
    let annotate =
        |annotation: &str| env.kubectl(&["annotate", "plugins.windlass.dev", "echo", "--overwrite", annotation]);
    annotate("windlass.dev/rollback=true");
    env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_false("NothingToRollBackTo"));
    annotate("windlass.dev/rollback-");

    env.push(&guest("echo-v2"), "echo", &[]);
    let d2 = env.wait_live("echo", &guest("echo-v2"));
    wait_all_v2(&ns);
    let rolled_back =
        |plugin: &Value| condition(plugin, "Ready").is_false("RolledBack") && plugin["status"]["activeDigest"] == d1;
    annotate("windlass.dev/rollback=true");
    let plugin = env.wait_plugin("echo", rolled_back);
    assert_eq!(plugin["status"]["rolledBackFrom"], d2, "{plugin:#}");
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
    wait("the Pod of the old component", TIMEOUT, || (!is_v2(&ns.pod("first-0"))).then_some(()));
    // The rollback stays in effect after a restart, although the source contains the newer component.
    assert!(host.terminate().success());
    let _host = env.start_host();
    assert_reconciled_by(&ns, "second", false);
    env.wait_plugin("echo", rolled_back);

    // A component newer than the one that was rolled back becomes live.
    let fixed = env.variant(&guest("echo-v2"), "fixed");
    env.push(&fixed, "echo", &[]);
    env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_true());
    wait_all_v2(&ns);
    annotate("windlass.dev/rollback-");
    env.wait_plugin("echo", |plugin| plugin["status"]["rolledBackFrom"].is_null());
    assert_reconciled_by(&ns, "third", true);
}

#[test]
fn digest_pin_to_the_previous_component_restores_it_also_across_a_restart() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let d1 = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("pinned-back");
    assert_reconciled_by(&ns, "first", false);
    env.push(&guest("echo-v2"), "echo", &[]);
    let d2 = env.wait_live("echo", &guest("echo-v2"));
    wait_all_v2(&ns);
    let pin = |digest: Option<&str>| {
        let patch = json!({"spec": {"digest": digest}}).to_string();
        env.kubectl(&["patch", "plugin", "echo", "--type=merge", "-p", &patch]);
    };

    pin(Some(&d1));
    let plugin = wait_not_ready(&env, &d1, "Fetched", "DigestMismatch", &d2);
    assert_eq!(plugin["status"]["previousDigest"], d2, "{plugin:#}");
    wait("the Pod of the old component", TIMEOUT, || (!is_v2(&ns.pod("first-0"))).then_some(()));
    assert!(host.terminate().success());
    let host = env.start_host();
    assert_reconciled_by(&ns, "second", false);
    wait_not_ready(&env, &d1, "Fetched", "DigestMismatch", &d2);

    // A digest that this Plugin never had is rejected, and the live component stays.
    pin(Some(&digest(b"something else")));
    wait_not_ready(&env, &d1, "Fetched", "DigestMismatch", &digest(b"something else"));
    pin(None);
    wait_active(&env, &d2);
    wait_all_v2(&ns);

    // The pin is set while no host runs.
    assert!(host.terminate().success());
    pin(Some(&d1));
    let _host = env.start_host();
    wait_not_ready(&env, &d1, "Fetched", "DigestMismatch", &d2);
    assert_reconciled_by(&ns, "third", false);
}

#[test]
fn host_that_finds_a_broken_component_at_its_start_runs_the_previous_one() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let d1 = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("restored");
    assert_reconciled_by(&ns, "before", false);
    assert!(host.terminate().success());
    replace_source(&env, &[("plugin.wasm", b"\0asm\x0d\0\x01\0 and then something else")]);
    let host = env.start_host();
    wait_not_ready(&env, &d1, "Compiled", "NotAComponent", "damaged");
    assert_reconciled_by(&ns, "after", false);

    // The host runs the previous component even without its source.
    assert!(host.terminate().success());
    env.kubectl(&["delete", "configmap", "echo", "-n", SYSTEM_NAMESPACE]);
    let _host = env.start_host();
    wait_not_ready(&env, &d1, "Fetched", "SourceNotFound", "");
    assert_reconciled_by(&ns, "without", false);
}
