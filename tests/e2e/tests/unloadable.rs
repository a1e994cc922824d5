//! Components that must never become live: their Plugins' conditions give the reason, and they have no other effect.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{AuditEvent, Env, SYSTEM_NAMESPACE, TIMEOUT, condition, guest, wait};

/// One row for each file in tests/guests/unloadable, and for each component that [`damaged`] makes: the condition that
/// becomes False, its reason, and words of its message.
const GUESTS: &[(&str, &str, &str, &str)] = &[
    ("cluster-child", "Granted", "NotGranted", "PersistentVolume.v1 is cluster-scoped"),
    ("core-module", "Compiled", "NotAComponent", "core module"),
    ("describe-loop", "Compiled", "InvalidDescriptor", "describe failed: no response within"),
    ("describe-memory-bomb", "Compiled", "InvalidDescriptor", "memory"),
    ("describe-trap", "Compiled", "InvalidDescriptor", "describe failed: trap"),
    ("descriptor-bomb", "Compiled", "InvalidDescriptor", "10000 child kinds"),
    ("endless-definition", "Granted", "InvalidDescriptor", "xxx"),
    ("forged-export", "Compiled", "UnsupportedContract", "FORGED"),
    ("forged-kind", "Compiled", "InvalidDescriptor", "is not a valid kind"),
    ("forged-metric", "Compiled", "InvalidDescriptor", "of the metric made_total needs a name"),
    ("invalid-definition", "Granted", "CRDRejected", "banana"),
    ("memory-from-start", "Compiled", "InvalidDescriptor", "memory"),
    ("module-import", "Compiled", "CompileFailed", "module"),
    ("path-as-definition", "Granted", "InvalidDescriptor", "../plugins"),
    ("plugin-as-parent", "Granted", "NotGranted", "Windlass' own"),
    ("reserved-group", "Granted", "InvalidDescriptor", "hostile.windlass.dev"),
    ("rolling-bomb", "Compiled", "InvalidDescriptor", "longer than 316 bytes"),
    ("start-loop", "Compiled", "InvalidDescriptor", "describe failed: no response within"),
    ("start-trap", "Compiled", "InvalidDescriptor", "describe failed: trap"),
    ("table-bomb", "Compiled", "InvalidDescriptor", "table"),
    ("taken-kind", "Granted", "ParentKindTaken", "Plugin echo"),
    ("threads", "Compiled", "CompileFailed", "threads"),
    ("type-bomb", "Compiled", "CompileFailed", "type size"),
    ("wrong-contract", "Compiled", "UnsupportedContract", "windlass:plugin/reconciler@0.9.0"),
    ("wrong-types", "Compiled", "InvalidDescriptor", "expected 1-tuple"),
    ("noise", "Compiled", "NotAComponent", "damaged"),
    ("truncated", "Compiled", "NotAComponent", "damaged or cut off"),
];

/// The memory that calls of `describe` can use, in MiB: four at once, each up to the limit of `describe`
/// (docs/limits.md).
const MEMORY_CAP: u64 = 4 * 287;

/// Components that are in no file: bytes that are not a component, or only a part of one.
fn damaged(name: &str) -> Option<Vec<u8>> {
    let whole = || fs::read(guest("echo")).expect("a component");
    let noise = |length: usize| {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .take(length)
    };
    match name {
        "truncated" => {
            let mut bytes = whole();
            bytes.truncate(bytes.len() / 2);
            Some(bytes)
        }
        // After a valid header, without which the host would not parse it.
        "noise" => Some(whole().into_iter().take(8).chain(noise(50_000)).collect()),
        _ => None,
    }
}

/// Delivers bytes without `windlass push`, which would reject most of these.
fn deliver(env: &Env, name: &str) {
    let bytes = damaged(name).unwrap_or_else(|| fs::read(guest(&format!("unloadable/{name}"))).expect("a guest"));
    let mut spec = json!({"source": {"configMap": {"namespace": SYSTEM_NAMESPACE, "name": name}}, "installCRD": true});
    if name == "cluster-child" {
        // A Plugin that does not name this kind is not granted it, and then its scope would not be checked.
        spec["grants"]["children"] = json!([{"apiVersion": "v1", "kind": "PersistentVolume"}]);
    }
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
            "binaryData": {"plugin.wasm": STANDARD.encode(bytes)},
        }),
        json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": name},
            "spec": spec,
        }),
    ];
    env.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
}

/// Whether loading causes this write: of a Plugin's status, of a valid CRD, or of a CRD that the API server rejects.
fn is_expected(write: &AuditEvent) -> bool {
    let status = write.resource == "plugins" && write.subresource == "status";
    let crd = write.resource == "customresourcedefinitions" && write.subresource.is_empty();
    let is_installed = write.name == "clusterchilds.hostile.example";
    let is_refused = write.name == "invaliddefinitions.hostile.example" && !write.succeeded();
    status || crd && (is_installed || is_refused)
}

#[test]
fn every_unloadable_guest_has_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/unloadable");
    let files = fs::read_dir(&folder).expect("the unloadable guests");
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let guests: BTreeSet<_> = files.map(|file| stem(file.expect("an entry").path())).collect();
    let rows = GUESTS.iter().map(|(guest, ..)| (*guest).to_owned());
    let rows: BTreeSet<_> = rows.filter(|name| damaged(name).is_none()).collect();
    assert_eq!(guests, rows, "left: files in {}, right: rows here", folder.display());
}

#[test]
fn unloadable_component_is_rejected_with_a_reason_in_its_plugins_conditions_and_harms_no_other() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("neighbour");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    let baseline = host.memory("VmRSS");

    let mark = env.mark();
    for (name, ..) in GUESTS {
        deliver(&env, name);
    }
    for (name, step, reason, words) in GUESTS {
        let plugin = env.wait_plugin(name, |plugin| condition(plugin, step).is_false(reason));
        let message = condition(&plugin, step).message;
        assert!(message.contains(words), "{name}: {words:?} is not in {message:?}");
        assert!(message.len() < 2048 && !message.contains(char::is_control), "{name}: {message:?}");
        assert!(condition(&plugin, "Ready").is_false(reason), "{plugin:#}");
        assert_eq!(plugin["status"]["activeDigest"], Value::Null, "{plugin:#}");
    }
    let requests = env.host_requests(mark);
    assert_eq!(requests.clone().attempted_writes().filter(|write| !is_expected(write)).to_vec(), []);
    assert_eq!(
        requests.filter(|request| request.uri.contains("..")).to_vec(),
        [],
        "no name of a component changes the path of a request"
    );
    let log = host.log();
    assert!(!log.contains('\u{1b}'), "no terminal escape reaches the log");
    for line in log.lines().filter(|line| line.contains("FORGED")) {
        assert!(line.contains("plugin not brought up to date"), "a component forged this log line: {line}");
    }

    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    assert!(host.is_running());
    let (peak, cap) = (host.memory("VmHWM"), baseline + MEMORY_CAP);
    eprintln!("RSS of the host: {baseline} MiB without load; peak {peak} MiB, cap {cap} MiB");
    assert!(peak * 10 <= cap * 11, "{peak} MiB, more than a tenth above the cap of {cap} MiB");
    wait("/healthz", TIMEOUT, || (host.http_status("/healthz") == Some(200)).then_some(()));
}
