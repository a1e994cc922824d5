//! In steady state the host sends no list request, and no write except for its Lease.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::thread::sleep;
use std::time::Duration;

use windlass_e2e::{AuditEvents, Env, Mark, Namespace, TIMEOUT, guest, is_settled, text, wait};

const ECHOES: usize = 100;
/// How long the host must send no write and no list.
const OBSERVATION: Duration = Duration::from_mins(1);
/// The same after a restart, from the time when the host is ready.
const OBSERVATION_AFTER_RESTART: Duration = Duration::from_secs(30);

fn wait_all_settled(ns: &Namespace) {
    wait("all Echoes settled", TIMEOUT, || {
        let echoes = ns.env().list("echoes", ns.name());
        (echoes.len() == ECHOES && echoes.iter().all(is_settled)).then_some(())
    });
}

/// The host's write requests, successful or not, except for Leases and Events.
fn write_attempts(env: &Env, since: Mark) -> AuditEvents {
    env.host_requests(since).attempted_writes()
}

fn lists(env: &Env, since: Mark) -> AuditEvents {
    env.host_requests(since).filter(|event| event.verb == "list")
}

/// The resourceVersions of all Echoes and Pods, which every write changes.
fn versions(ns: &Namespace) -> Vec<(String, String)> {
    let objects = ["echoes", "pods"].map(|resource| ns.env().list(resource, ns.name())).concat();
    let version = |object| (text(object, "/metadata/uid"), text(object, "/metadata/resourceVersion"));
    let mut versions: Vec<_> = objects.iter().map(version).collect();
    versions.sort();
    versions
}

#[test]
fn r07_hundred_converged_parents_cost_no_write_and_no_list_also_after_a_restart_once_the_host_is_ready() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("steady-state");
    let manifests: Vec<_> =
        (0..ECHOES).map(|at| ns.echo_manifest(&format!("echo-{at}"), 2, "nginx:1").to_string()).collect();
    env.apply(&manifests.join("\n---\n"));
    wait_all_settled(&ns);
    // Some of them have had an apply, a drift and a new child.
    ns.echo("echo-1", 3, "nginx:2");
    ns.kubectl(&["set", "image", "pod/echo-2-0", "nginx=edited:1"]);
    env.wait_object("pods", ns.name(), "echo-2-0", |pod| pod["spec"]["containers"][0]["image"] == "nginx:1");
    ns.kubectl(&["label", "pod", "echo-3-0", "team=blue"]);
    wait_all_settled(&ns);
    // The host updates these counts some seconds later.
    env.wait_plugin("echo", |plugin| plugin["status"]["parents"] == ECHOES && plugin["status"]["failing"] == 0);

    let before = versions(&ns);
    let mark = env.mark();
    // Not a synchronization: the test shows that nothing happens for this time.
    sleep(OBSERVATION);
    assert_eq!(write_attempts(&env, mark).to_vec(), []);
    assert_eq!(lists(&env, mark).to_vec(), []);
    assert_eq!(versions(&ns), before);

    assert!(host.terminate().success(), "SIGTERM ends the host with exit code 0");
    let restart = env.mark();
    let host = env.start_host();
    let ready = env.mark();
    // As above; this is long enough for the host to reconcile all parents.
    sleep(OBSERVATION_AFTER_RESTART);
    assert_eq!(write_attempts(&env, restart).to_vec(), []);
    assert_eq!(lists(&env, ready).to_vec(), []);
    assert!(!lists(&env, restart).is_empty(), "the audit log does show lists");
    assert_eq!(versions(&ns), before);

    // The host still reconciles.
    ns.echo("echo-1", 1, "nginx:2");
    ns.wait_settled("echo-1");
    assert!(host.is_running());
}
