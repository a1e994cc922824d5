//! Hostile guests: each fails its own calls and nothing else.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::too_many_lines)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use windlass_e2e::{
    AuditEvent, Condition, Env, Host, HostOptions, Mark, Namespace, TIMEOUT, account, condition, guest, text, wait,
};

/// How the host treats a hostile response.
enum Outcome {
    /// `Ready=False` for this reason (host/core/src/object/reason.rs), with these words in the message. The host tries no write.
    Fails(&'static str, &'static str),
    /// The same, after the API server rejected the create of an object of this resource.
    Rejected(&'static str, &'static str, &'static str),
    /// The response differs each time: it is written a few times, and then `Ready=False` with these words.
    Thrashes(&'static str),
    /// The response is valid and applied; other attempts of the guest have no effect.
    Succeeds,
}

use Outcome::{Fails, Rejected, Succeeds, Thrashes};

/// One row for each file in tests/guests/hostile.
const GUESTS: &[(&str, Outcome)] = &[
    ("aliased-list", Fails("LimitExceeded", "response")),
    ("annotation-bomb", Rejected("ChildRejected", "annotations", "configmaps")),
    ("cluster-kind", Fails("ResponseRejected", "ClusterRole")),
    ("condition-bomb", Fails("ResponseRejected", "50000 conditions")),
    ("deep-json", Fails("MalformedResponse", "deep")),
    ("dense-answer", Fails("MalformedResponse", "more memory")),
    ("duplicate-keys", Fails("MalformedResponse", "kind")),
    ("duplicate-names", Fails("ResponseRejected", "twin")),
    ("endless-loop", Fails("DeadlineExceeded", "1")),
    ("endless-requirements", Fails("RequirementsUnsettled", "still changed after 5 calls")),
    ("event-bomb", Fails("ResponseRejected", "10000 events")),
    ("event-hoard", Succeeds),
    ("exit", Fails("Trapped", "exit")),
    ("fat-answer", Fails("LimitExceeded", "response")),
    ("files", Succeeds),
    ("foreign-kind", Fails("ResponseRejected", "Secret")),
    ("foreign-namespace", Fails("ResponseRejected", "kube-system")),
    ("forged-annotation", Fails("ResponseRejected", "windlass.dev/applied")),
    ("forged-conditions", Succeeds),
    ("forged-finalizer", Fails("ResponseRejected", "metadata.finalizers")),
    ("forged-label", Fails("ResponseRejected", "windlass.dev/plugin")),
    ("forged-log", Succeeds),
    ("forged-owner", Fails("ResponseRejected", "ownerReferences")),
    ("garbage-json", Fails("MalformedResponse", "JSON")),
    ("generate-name", Fails("MalformedResponse", "generateName")),
    ("host-call-loop", Fails("DeadlineExceeded", "1")),
    ("http", Fails("Trapped", "wasi:http/types")),
    ("huge-answer", Fails("MemoryLimit", "memory")),
    ("huge-number", Rejected("ChildRejected", "huge", "pods")),
    ("invalid-utf8", Fails("MalformedResponse", "UTF-8")),
    ("large-status", Fails("StatusRejected", "too large")),
    ("log-flood", Succeeds),
    ("long-failure", Fails("PluginFailed", "FORGED by a failure")),
    ("memory-bomb", Fails("MemoryLimit", "memory")),
    ("metric-bomb", Succeeds),
    ("million-children", Fails("LimitExceeded", "response")),
    ("name-at-limit", Succeeds),
    ("name-over-limit", Fails("MalformedResponse", "not a valid name")),
    ("name-thief", Rejected("Conflict", "somebody-elses", "configmaps")),
    ("own-child", Rejected("Conflict", "own-child", "ownchilds")),
    ("panic", Fails("Trapped", "no such luck")),
    ("path-as-name", Fails("MalformedResponse", "../../../kube-system")),
    ("requirement-bomb", Fails("ResponseRejected", "1000 requirements")),
    ("requirement-hoard", Succeeds),
    ("restless", Thrashes("restless-child")),
    ("restless-status", Thrashes("RestlessStatus")),
    ("rights-seeker", Fails("ResponseRejected", "RoleBinding")),
    ("secret-thief", Fails("ReadForbidden", "namespace kube-system")),
    ("selector-bomb", Fails("ResponseRejected", "1050002 bytes, more than the limit")),
    ("sleep-in-poll", Fails("DeadlineExceeded", "1")),
    ("sockets", Fails("Trapped", "wasi:sockets/tcp-create-socket")),
    ("stack-overflow", Fails("Trapped", "stack")),
    ("status-bomb", Fails("StatusRejected", "status")),
    ("status-is-a-list", Fails("MalformedResponse", "a list")),
    ("subresource", Fails("ResponseRejected", "Pod/status")),
    ("too-many-children", Fails("ResponseRejected", "1000")),
    ("trap", Fails("Trapped", "unreachable")),
    ("trap-in-finalize", Succeeds),
];

/// The groups whose statuses the host writes.
const STATUS_GROUPS: [&str; 3] = ["hostile.example", "my-operator.dev", "windlass.dev"];

/// The largest number of writes of a restless object in a run of this test: eleven at once, then one a minute.
const RESTLESS_WRITES: usize = 40;

/// The limits that bound the host's memory (docs/limits.md), with a plugin's defaults in MiB.
const CAPS: [(&str, u64); 3] = [("--max-memory", 64), ("--max-request-bytes", 4), ("--max-response-bytes", 4)];
const MAX_TABLE_ELEMENTS: u64 = 1024 * 1024;
const WORKERS: u64 = 4;
const MIB: usize = 1024 * 1024;

fn flags() -> Vec<String> {
    let caps = CAPS.iter().map(|(flag, mebibytes)| format!("{flag}={mebibytes}Mi"));
    let others = [
        format!("--max-table-elements={MAX_TABLE_ELEMENTS}"),
        format!("--workers={WORKERS}"),
        // Lower than log-flood's spec.limits.deadline (1h), which is capped; higher than the default 10s, which the output of
        // log-flood may exceed.
        "--max-deadline=1m".to_owned(),
    ];
    caps.chain(others).collect()
}

/// The memory in MiB that plugins can make the host use in addition with these flags (docs/limits.md). No guest uses much
/// memory in `describe`.
fn memory_cap() -> u64 {
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u64).max(2);
    let tables = MAX_TABLE_ELEMENTS * 8 / 1024 / 1024;
    let (log, stack) = (2, 4);
    let call = CAPS.iter().map(|(_, mebibytes)| mebibytes).sum::<u64>() + tables + log + stack;
    let [.., (_, response)] = CAPS;
    cores * call + WORKERS * 10 * response
}

/// `endless-loop` → `EndlessLoop`.
fn kind(guest: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    guest.split('-').map(word).collect()
}

fn resource(guest: &str) -> String {
    format!("{}s.hostile.example", kind(guest).to_lowercase())
}

fn parents(namespace: &str, behave: bool) -> String {
    let parent = |(guest, _): &(&str, Outcome)| {
        json!({
            "apiVersion": "hostile.example/v1", "kind": kind(guest),
            "metadata": {"name": guest, "namespace": namespace},
            "spec": {"behave": behave},
        })
    };
    let items: Vec<_> = GUESTS.iter().map(parent).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Each parent when its conditions for the newest generation first satisfy `wanted`. All parents are polled together,
/// because the reason of a plugin that keeps failing changes after a while.
#[track_caller]
fn wait_all(ns: &Namespace, wanted: impl Fn(&Outcome, &Condition) -> bool) -> BTreeMap<String, Value> {
    let resources: Vec<_> = GUESTS.iter().map(|(guest, _)| resource(guest)).collect();
    let mut found = BTreeMap::new();
    let mut others = Vec::new();
    let all = windlass_testbed::until("", TIMEOUT, || {
        others.clear();
        for parent in ns.env().list(&resources.join(","), ns.name()) {
            let (name, ready) = (text(&parent, "/metadata/name"), condition(&parent, "Ready"));
            let row = GUESTS.iter().find(|(guest, _)| *guest == name).expect("a row");
            if ready.observed_generation == parent["metadata"]["generation"].as_i64() && wanted(&row.1, &ready) {
                found.entry(name).or_insert(parent);
            } else if !found.contains_key(&name) {
                others.push((name, ready));
            }
        }
        Ok((found.len() == GUESTS.len()).then_some(()))
    });
    assert!(all.is_ok(), "parents without the expected condition after {TIMEOUT:?}: {others:#?}");
    found
}

/// Whether a write is of a child of this plugin: in the namespace, and as the plugin's ServiceAccount.
fn is_of(plugin: &str, write: &AuditEvent, namespace: &str) -> bool {
    let is_its_own = write.impersonated.as_deref() == Some(&account(plugin));
    is_its_own && write.namespace == namespace && write.subresource.is_empty()
}

/// Whether a write is expected while guests are hostile: of a status, of a child in a valid response or of the neighbour,
/// or a request that the API server rejects.
fn is_expected(write: &AuditEvent, namespace: &str) -> bool {
    let is_status = write.subresource == "status" && STATUS_GROUPS.contains(&write.group.as_str());
    let is = |plugin: &str, resource: &str| is_of(plugin, write, namespace) && write.resource == resource;
    let is_refused = |(guest, outcome): &(&str, Outcome)| match outcome {
        Rejected(_, _, resource) => is(guest, resource) && write.verb == "create" && !write.succeeded(),
        Fails(..) | Thrashes(_) | Succeeds => false,
    };
    // The status of a kind whose CRD no Plugin installed is written as the plugin's ServiceAccount.
    let is_own_child = || write.impersonated.as_deref() == Some(&account("own-child")) && write.name == "own-child";
    is_status && (write.impersonated.is_none() || is_own_child())
        || is("echo", "pods") && write.name.starts_with("neighbour-")
        || is("name-at-limit", "configmaps") && write.verb == "create" && write.name == longest_name()
        || is("restless", "configmaps") && write.verb == "patch" && write.name == "restless-child"
        || GUESTS.iter().any(is_refused)
}

/// Whether a write is expected when guests are loaded, behave, or are finalized.
fn is_good(write: &AuditEvent, namespace: &str) -> bool {
    let is_child = |guest: &str| {
        let names = [format!("{guest}-child"), if guest == "name-at-limit" { longest_name() } else { String::new() }];
        is_of(guest, write, namespace) && write.resource == "configmaps" && names.contains(&write.name)
    };
    let is_crd = write.resource == "customresourcedefinitions" && write.subresource.is_empty();
    let is_finalizer = write.verb == "patch" && ["plugins", "trapinfinalizes"].contains(&write.resource.as_str());
    write.impersonated.is_none() && (is_crd || is_finalizer) || GUESTS.iter().any(|(guest, _)| is_child(guest))
}

/// The name of the child of `name-at-limit`.
fn longest_name() -> String {
    "n".repeat(253)
}

/// Makes every guest live, and creates the objects that the hostile ones attack.
fn prepare(env: &Env, ns: &Namespace) {
    env.kubectl(&["-n", "kube-system", "create", "secret", "generic", "crown-jewels", "--from-literal=key=LOOT"]);
    ns.kubectl(&["create", "configmap", "somebody-elses", "--from-literal=key=theirs"]);
    // Its child is of its own kind, which must be served when push writes the permissions.
    env.apply(&env.windlass(&["crd", &guest("hostile/own-child").to_string_lossy()]));
    env.kubectl(&["wait", "--for=condition=Established", "crd", &resource("own-child"), "--timeout=180s"]);
    // No Plugin installed this CRD, so the plugin's ServiceAccount needs a permission for its status.
    let status = format!("--resource={}/status", resource("own-child"));
    env.kubectl(&["create", "clusterrole", "own-child-status", "--verb=patch", &status]);
    let account = account("own-child").replacen("system:serviceaccount:", "--serviceaccount=", 1);
    env.kubectl(&["create", "clusterrolebinding", "own-child-status", "--clusterrole=own-child-status", &account]);
    for (name, _) in GUESTS {
        env.push(&guest(&format!("hostile/{name}")), name, &[]);
    }
    // How long 100 MB of log, a large answer and the comparison of thousands of selectors take depends on the machine and is not tested.
    for name in ["dense-answer", "log-flood", "requirement-hoard"] {
        env.kubectl(&["patch", "plugin", name, "--type=merge", "-p", r#"{"spec":{"limits":{"deadline":"1h"}}}"#]);
    }
    for (name, _) in GUESTS {
        env.wait_live(name, &guest(&format!("hostile/{name}")));
    }
}

#[test]
fn every_hostile_guest_has_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/hostile");
    let files = std::fs::read_dir(&folder).expect("the hostile guests");
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let guests: BTreeSet<_> = files.map(|file| stem(&file.expect("an entry").path())).collect();
    let rows: BTreeSet<_> = GUESTS.iter().map(|(guest, _)| (*guest).to_owned()).collect();
    assert_eq!(guests, rows, "left: files in {}, right: rows here", folder.display());
}

#[test]
fn deployment_manifest_sets_the_limits_that_these_tests_use() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/kustomize/base/deployment.yaml");
    let text = std::fs::read_to_string(file).expect("the Deployment");
    for flag in flags().iter().filter(|flag| !flag.starts_with("--max-deadline")) {
        assert!(text.contains(&format!("- {flag}\n")), "{flag}");
    }
}

#[test]
fn hostile_guests_fail_their_own_calls_and_nothing_else() {
    let env = &Env::start();
    let start = env.mark();
    let host = env.start_host_with(HostOptions { args: flags(), ..HostOptions::default() });
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let baseline = host.memory("VmRSS");
    let ns = env.namespace("hostile");
    prepare(env, &ns);
    let capped = "deadline at 60s (--max-deadline)";
    env.wait_plugin("log-flood", |plugin| condition(plugin, "Granted").message.contains(capped));
    let loaded = host.memory("VmRSS");
    let plugin = env.wait_plugin("rights-seeker", |plugin| condition(plugin, "Granted").is_false("NotGranted"));
    for kind in ["RoleBinding", "Plugin"] {
        assert!(condition(&plugin, "Granted").message.contains(kind), "{plugin:#}");
    }
    for (name, import) in [("http", "wasi:http/types@"), ("sockets", "wasi:sockets/tcp-create-socket@")] {
        env.wait_plugin(name, |plugin| {
            let compiled = condition(plugin, "Compiled");
            compiled.is_true() && compiled.message.contains(import)
        });
    }

    // First, all guests behave, so each has a child.
    env.apply(&parents(ns.name(), true));
    wait_all(&ns, |_, ready| ready.is_true());
    let child = |name: &str| ns.get("configmaps", &format!("{name}-child"));
    let children: Vec<_> =
        GUESTS.iter().map(|(name, _)| child(name).unwrap_or_else(|| panic!("{name} has no child"))).collect();
    ns.echo("neighbour", 1, "nginx:1");
    ns.wait_settled("neighbour");

    // Then all guests misbehave at once, while the neighbour is reconciled.
    let mark = env.mark();
    env.apply(&parents(ns.name(), false));
    let parents_after = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            for replicas in [3, 1, 2] {
                ns.echo("neighbour", replicas, "nginx:1");
                ns.wait_settled("neighbour");
            }
        });
        let parents = wait_all(&ns, |outcome, ready| match outcome {
            Fails(..) | Rejected(..) => ready.status == "False",
            Thrashes(_) => ready.reason == "Thrashing",
            Succeeds => ready.is_true(),
        });
        neighbour.join().expect("the neighbour is reconciled");
        parents
    });
    for (name, outcome) in GUESTS {
        let parent = &parents_after[*name];
        let (ready, observed) = (condition(parent, "Ready"), &parent["status"]["observedGeneration"]);
        let words = match outcome {
            Fails(reason, words) | Rejected(reason, words, _) => {
                assert_eq!(ready.reason, *reason, "{name}: {ready:?}");
                assert_eq!(*observed, 1, "{name}: the failed generation is not reported as observed");
                words
            }
            Thrashes(words) => words,
            Succeeds => {
                assert_eq!(*observed, 2, "{name}: {ready:?}");
                ""
            }
        };
        assert!(ready.message.contains(words), "{name}: {words:?} is not in {ready:?}");
        // A character has at most three bytes.
        assert!(ready.message.len() < 4096, "{name}: {} bytes", ready.message.len());
    }
    let forged = &parents_after["forged-conditions"];
    assert_eq!(condition(forged, "Ready").reason, "Forged", "a plugin may set its parent's Ready condition");
    for kind in ["Reconciling", "Stalled"] {
        assert_eq!(condition(forged, kind), Condition::default(), "{forged:#}");
    }
    ns.echo("neighbour", 4, "nginx:1");
    ns.wait_settled("neighbour");

    // The host wrote only statuses, the neighbour's Pods, and children that only the API server can reject.
    let tried = env.host_requests(mark).attempted_writes();
    assert_eq!(tried.clone().filter(|write| !is_expected(write, ns.name())).to_vec(), []);
    for restless in ["restless", "restless-child", "restless-status"] {
        let writes = tried.clone().name(restless).to_vec().len();
        assert!(writes <= RESTLESS_WRITES, "{restless} was written {writes} times");
    }
    for ((name, outcome), before) in GUESTS.iter().zip(&children) {
        if !matches!(outcome, Thrashes(_)) {
            let now = child(name).unwrap_or_else(|| panic!("{name}: the valid child is gone"));
            assert_eq!(now["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "{name}");
        }
    }
    assert!(ns.get("configmaps", &longest_name()).is_some(), "a child with a name of maximum length is created");
    assert_eq!(ns.get("configmaps", "somebody-elses").expect("it is still there")["data"]["key"], "theirs");
    assert_log(&host.log());
    assert_metrics(&host);

    // A guest that behaves again is reconciled again.
    env.apply(&parents(ns.name(), true));
    for (name, parent) in wait_all(&ns, |_, ready| ready.is_true()) {
        assert_eq!(parent["status"]["observedGeneration"], 3, "{name}");
    }
    assert_parent_with_a_trapping_finalize_goes_with_skip_finalize(&ns);
    ns.echo("neighbour", 1, "nginx:1");
    ns.wait_settled("neighbour");
    assert_neighbour_was_never_disturbed(&ns, mark);
    assert_writes(&ns, start);
    assert!(host.is_running(), "the host runs until the end of the test");
    assert_memory(&host, baseline, loaded);
    wait("/healthz", TIMEOUT, || (host.http_status("/healthz") == Some(200)).then_some(()));
}

/// The host never used more memory above `baseline` (with one plugin) than its limits allow.
#[track_caller]
fn assert_memory(host: &Host, baseline: u64, loaded: u64) {
    let (after, peak) = (host.memory("VmRSS"), host.memory("VmHWM"));
    let cap = baseline + memory_cap();
    eprintln!(
        "RSS of the host: {baseline} MiB with one plugin, {loaded} MiB with {} more, {after} MiB after all, {peak} MiB at most \
         of {cap} MiB",
        GUESTS.len()
    );
    assert!(peak * 10 <= cap * 11, "{peak} MiB, more than a tenth above the cap of {cap} MiB");
}

/// During the whole test, the host wrote only objects that well-behaved and hostile guests may cause, and Events only in
/// the parents' namespace and in `default` (for the Plugins, which are cluster-scoped).
#[track_caller]
fn assert_writes(ns: &Namespace, since: Mark) {
    let expected = |write: &AuditEvent| is_expected(write, ns.name()) || is_good(write, ns.name());
    let is_rng_key = |write: &AuditEvent| write.name == "windlass-rng-key" && write.verb == "create";
    let tried = ns.env().host_requests(since).attempted_writes();
    assert_eq!(tried.filter(|write| !expected(write) && !is_rng_key(write)).to_vec(), []);
    let events = ns.env().host_events(since);
    assert!(!events.is_empty(), "failures emit events");
    let is_in_place = |event: &AuditEvent| [ns.name(), "default"].contains(&event.namespace.as_str());
    assert_eq!(events.filter(|event| event.impersonated.is_some() || !is_in_place(event)).to_vec(), []);
}

/// The guests' log lines are in the host's log, bounded, and recognizable as the guests'.
#[track_caller]
fn assert_log(log: &str) {
    assert!(log.contains("the plugin's log exceeds the limit"), "the log reports that it was cut");
    assert!(log.len() < 20_000_000, "the host's log has {} bytes", log.len());
    assert!(log.contains("no such luck"), "a panic's message reaches the log");
    assert!(!log.contains("LOOT"), "no Secret reaches a guest that was not granted it");
    assert!(!log.contains('\u{1b}'), "no terminal escape reaches the log");
    let (logged, reported) = (" windlass::guest: ", "reconcile failed");
    for line in log.lines().filter(|line| line.contains("FORGED")) {
        assert!(line.contains(logged) || line.contains(reported), "a guest forged this log line: {line}");
    }
    assert!(
        log.lines().any(|line| line.contains("FORGED") && line.contains(logged)),
        "the harmless part of a forged line is logged"
    );
}

/// Measurements are dropped beyond the bytes of one component, and a scraper gets a text of that size.
#[track_caller]
fn assert_metrics(host: &Host) {
    let dropped = "windlass_plugin_dropped_measurements_total{plugin=\"metric-bomb\"} ";
    let text = wait("dropped measurements of metric-bomb", TIMEOUT, || {
        let text = host.metrics()?;
        let count = text.lines().find_map(|line| line.strip_prefix(dropped))?.to_owned();
        (count != "0").then_some(text)
    });
    let of_guest = text.lines().filter(|line| line.contains("fuse=")).map(str::len).sum::<usize>();
    assert!((MIB / 2..2 * MIB).contains(&of_guest), "{of_guest} bytes of metric-bomb");
    assert!(text.len() < of_guest + MIB, "{} bytes in all", text.len());
}

/// Since `since`, the neighbour's parent went from 1 replica to 3, 1, 2, 4 and 1, with no repeated and no failed write. No
/// event, condition or log line reports a failure or a delay of the neighbour or its Plugin.
#[track_caller]
fn assert_neighbour_was_never_disturbed(ns: &Namespace, since: Mark) {
    let env = ns.env();
    assert_eq!(ns.pod_names().len(), 1);
    let pods = env.host_requests(since).attempted_writes().namespace(ns.name()).resource("pods");
    let pods = pods.filter(|write| write.name.starts_with("neighbour-"));
    assert_eq!(pods.clone().filter(|write| !write.succeeded()).to_vec(), []);
    let written = |verb: &str| pods.iter().filter(|write| write.verb == verb).count();
    assert_eq!((written("create"), written("delete"), pods.len()), (5, 5, 10), "{pods:#?}");

    let warned = env
        .list("events", ns.name())
        .into_iter()
        .filter(|event| text(event, "/involvedObject/name") == "neighbour" && text(event, "/type") != "Normal");
    assert_eq!(warned.collect::<Vec<_>>(), [json!(null); 0]);
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert!(condition(&plugin, "Ready").is_true(), "{plugin:#}");
    let Value::Object(status) = &plugin["status"] else { panic!("{plugin:#}") };
    assert!(status.get("failing").is_none_or(|failing| *failing == 0), "{plugin:#}");
    assert!(!status.contains_key("lastFailure"), "{plugin:#}");
    let mut troubled = env.host_log_lines("plugin=echo ");
    troubled.retain(|line| ["reconcile failed", "quarantine"].iter().any(|word| line.contains(word)));
    assert_eq!(troubled, [""; 0]);
}

/// A parent whose plugin traps in finalize stays, its condition gives the reason and names skip-finalize, which removes it.
#[track_caller]
fn assert_parent_with_a_trapping_finalize_goes_with_skip_finalize(ns: &Namespace) {
    let (resource, name) = (resource("trap-in-finalize"), "trap-in-finalize");
    ns.kubectl(&["delete", &resource, name, "--wait=false"]);
    let parent = ns.env().wait_object(&resource, ns.name(), name, |parent| {
        let ready = condition(parent, "Ready");
        ready.is_false("Trapped") && ready.message.contains("windlass.dev/skip-finalize")
    });
    assert!(parent["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()), "{parent:#}");
    ns.kubectl(&["annotate", &resource, name, "windlass.dev/skip-finalize=true"]);
    wait("the parent to go", TIMEOUT, || ns.get(&resource, name).is_none().then_some(()));
}
