//! The host stops and starts at any moment.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;

use windlass_e2e::{Env, HostOptions, SYSTEM_NAMESPACE, TIMEOUT, guest, wait};

#[test]
fn r01_changes_made_while_no_host_runs_are_corrected_when_it_starts() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("away");
    ns.echo("edited", 2, "nginx:1");
    ns.echo("deleted", 2, "nginx:1");
    ns.echo("resting", 2, "nginx:1");
    ns.echo("forged", 2, "nginx:1");
    for name in ["edited", "deleted", "resting", "forged"] {
        ns.wait_settled(name);
    }
    // With the host's field manager, managedFields shows no edit: a running host notices it only at its resync.
    let forged = r#"{"spec":{"containers":[{"name":"nginx","image":"forged:1"}]}}"#;
    ns.kubectl(&["patch", "pod", "forged-0", "--field-manager=windlass", "-p", forged]);
    assert!(host.terminate().success());

    ns.kubectl(&["set", "image", "pod/edited-0", "nginx=edited:1"]);
    ns.kubectl(&["delete", "pod", "deleted-1", "--wait=true"]);
    let mark = env.mark();
    let _host = env.start_host();
    env.wait_object("pods", ns.name(), "edited-0", |pod| pod["spec"]["containers"][0]["image"] == "nginx:1");
    env.wait_object("pods", ns.name(), "forged-0", |pod| pod["spec"]["containers"][0]["image"] == "nginx:1");
    wait("deleted-1 to come back", TIMEOUT, || ns.get("pods", "deleted-1"));
    let touched: BTreeSet<_> = env.host_writes(mark).resource("pods").iter().map(|event| event.name.clone()).collect();
    assert_eq!(touched.into_iter().collect::<Vec<_>>(), ["deleted-1", "edited-0", "forged-0"]);
}

#[test]
fn h01_host_without_election_exits_beside_a_live_one_and_starts_at_once_after_its_end() {
    let env = Env::start();
    let first = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    // Nothing indicates that the first host has ended: it renews its Lease while the second one waits.
    let cache_dir = Some(env.cluster().dir().join("another-cache"));
    let args = vec!["--leader-elect=false".to_owned()];
    let options = HostOptions { args, cache_dir, ..HostOptions::default() };
    let second = env.spawn_host(options.clone());
    let log = wait("the second host to end", TIMEOUT, || (!second.is_running()).then(|| second.log()));
    assert_eq!(second.terminate().code(), Some(7), "{log}");
    assert!(log.contains("error: another host is running: Lease windlass-system/windlass is held by "), "{log}");
    let ns = env.namespace("one-host");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");

    assert!(first.terminate().success());
    let lease = env.get("leases", SYSTEM_NAMESPACE, "windlass").expect("a Lease");
    assert!(lease["spec"]["holderIdentity"].is_null(), "{lease:#}");
    let third = env.start_host_with(options.clone());
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    // The released lock in the cache folder shows that the killed host has ended.
    third.kill();
    let fourth = env.start_host_with(options);
    assert!(!fourth.log().contains("may have ended"), "{}", fourth.log());
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");

    // A host that loses its Lease to another holder exits, and writes nothing more.
    let patch = r#"{"spec":{"holderIdentity":"another-host"}}"#;
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "patch", "lease", "windlass", "--type=merge", "-p", patch]);
    let log = wait("the fourth host to end", TIMEOUT, || (!fourth.is_running()).then(|| fourth.log()));
    assert_eq!(fourth.terminate().code(), Some(7), "{log}");
    assert!(log.contains("is held by another-host now"), "{log}");
    let mark = env.mark();
    ns.echo("web", 2, "nginx:1");
    let lease = env.get("leases", SYSTEM_NAMESPACE, "windlass").expect("a Lease");
    assert_eq!(
        lease["spec"]["holderIdentity"], "another-host",
        "the host does not release the Lease of another holder"
    );
    assert_eq!(env.host_writes(mark).to_vec(), []);
}

#[test]
fn restarted_host_fetches_only_components_that_changed() {
    let env = Env::start();
    let host = env.start_host();
    for (name, component) in [("echo", "echo"), ("puppet", "puppets/puppet")] {
        env.push(&guest(component), name, &[]);
        env.wait_live(name, &guest(component));
    }
    assert!(host.terminate().success());

    let next = env.variant(&guest("echo"), "next");
    env.push(&next, "echo", &[]);
    let mark = env.mark();
    let host = env.start_host();
    env.wait_live("echo", &next);
    host.wait_ready();
    let fetched = env.host_requests(mark).resource("configmaps").filter(|event| event.verb == "get");
    assert_eq!(fetched.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["echo"]);
    let ns = env.namespace("again");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
}
