//! Several hosts share the parents (`--shards`): the audit log shows that no two of them write for a parent at once.
//!
//! `WINDLASS_TEST_PARENTS=3000` runs the test at its full size.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use windlass_e2e::{Env, HostOptions, Mark, Namespace, Replica, TIMEOUT, condition, guest, is_settled, text, wait};

/// Number of parents, unless the environment names another one.
const PARENTS: usize = 150;
/// Threads that change parents.
const CLIENTS: usize = 3;

fn parents() -> usize {
    std::env::var("WINDLASS_TEST_PARENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(PARENTS)
}

/// Shorter times than the defaults, so that a test does not take minutes.
fn options(shards: usize) -> HostOptions {
    let times = ["lease-duration=6s", "renew-deadline=4s", "retry-period=500ms"];
    let mut args: Vec<_> = times.iter().map(|time| format!("--leader-elect-{time}")).collect();
    args.push(format!("--shards={shards}"));
    HostOptions { args, ..HostOptions::default() }
}

/// Waits until the hosts share the parents of a Plugin, and as many members as these know each other.
fn wait_shared(env: &Env, plugin: &str, members: usize) {
    wait("the members to have the same view", TIMEOUT, || {
        let views: Vec<_> = shards(env).into_iter().filter_map(|lease| view(&lease)).collect();
        let all: BTreeSet<_> = views.iter().map(|view| view["members"].to_string()).collect();
        let is_same = all.len() == 1 && views[0]["members"].as_array().map(Vec::len) == Some(members);
        (views.len() == members && is_same).then_some(())
    });
    env.wait_plugin(plugin, |plugin| plugin["status"]["rollout"]["shared"] == true);
}

fn shards(env: &Env) -> Vec<Value> {
    let leases = env.list("leases", windlass_e2e::SYSTEM_NAMESPACE);
    leases.into_iter().filter(|lease| lease["metadata"]["labels"]["windlass.dev/shard"].is_string()).collect()
}

/// What the holder of a shard announces; none if the shard has no holder.
fn view(lease: &Value) -> Option<Value> {
    let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
    holder?;
    serde_json::from_str(lease["metadata"]["annotations"]["windlass.dev/shard-state"].as_str()?).ok()
}

/// Applies all parents with this image.
fn apply_all(env: &Env, ns: &Namespace<'_>, image: &str, until: &AtomicBool) {
    let manifests: Vec<_> =
        (0..parents()).map(|at| ns.echo_manifest(&format!("echo-{at}"), 1, image).to_string()).collect();
    std::thread::scope(|scope| {
        for part in manifests.chunks(manifests.len().div_ceil(CLIENTS)) {
            scope.spawn(move || {
                for some in part.chunks(25) {
                    if !until.load(Ordering::Relaxed) {
                        env.apply(&some.join("\n---\n"));
                    }
                }
            });
        }
    });
}

fn wait_all_settled(env: &Env, ns: &Namespace<'_>, image: &str) {
    wait("all parents to be reconciled", 4 * TIMEOUT, || {
        let echoes = env.list("echoes", ns.name());
        let pods = ns.pods();
        let has_image = |pod: &Value| {
            pod["spec"]["containers"][0]["image"] == image && pod["metadata"]["deletionTimestamp"].is_null()
        };
        (echoes.iter().all(is_settled) && pods.iter().filter(|pod| has_image(pod)).count() == parents()).then_some(())
    });
}

/// A write for a parent: when it arrived and ended, and the host that sent it.
#[derive(Debug, Clone)]
struct Sent<'a> {
    arrived: String,
    ended: String,
    host: &'a str,
}

/// The writes of each parent and its children since then, in the order in which they arrived.
fn writes_by_parent<'a>(env: &Env, hosts: &[&'a Replica], since: Mark) -> BTreeMap<String, Vec<Sent<'a>>> {
    let mut writes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for host in hosts {
        for event in host.writes(env, since).to_vec() {
            let parent = match event.resource.as_str() {
                "echoes" => event.name.clone(),
                "pods" => event.name.rsplit_once('-').expect("the index of a Pod").0.to_owned(),
                _ => continue,
            };
            let (arrived, ended) = (event.timestamp.clone(), event.ended.clone());
            writes.entry(parent).or_default().push(Sent { arrived, ended, host: host.name() });
        }
    }
    for writes in writes.values_mut() {
        writes.sort_by(|one, other| one.arrived.cmp(&other.arrived));
        // A host that was restarted may have the same credential.
        writes.dedup_by(|one, other| (&one.arrived, one.host) == (&other.arrived, other.host));
    }
    writes
}

/// The hosts that wrote for a parent, each once for the time until another one did.
fn owners<'a>(writes: &[Sent<'a>]) -> Vec<&'a str> {
    let mut hosts: Vec<_> = writes.iter().map(|write| write.host).collect();
    hosts.dedup();
    hosts
}

/// Asserts that each write of a host arrived after the last one of the host before had ended, and that no host got a
/// parent back without a change of the members.
fn assert_one_at_a_time(writes: &BTreeMap<String, Vec<Sent<'_>>>, changes: usize) {
    for (parent, writes) in writes {
        for pair in writes.windows(2).filter(|pair| pair[0].host != pair[1].host) {
            assert!(pair[0].ended <= pair[1].arrived, "{parent}: {pair:#?}");
        }
        assert!(owners(writes).len() <= changes + 1, "{parent}: {writes:#?}");
    }
}

/// Changes the images of all parents again and again while something happens; returns the last image.
fn under_load(env: &Env, ns: &Namespace<'_>, first: usize, happens: impl FnOnce()) -> String {
    let (is_over, round) = (AtomicBool::new(false), AtomicUsize::new(first));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let round = round.fetch_add(1, Ordering::Relaxed);
                apply_all(env, ns, &format!("nginx:{round}"), &is_over);
            }
        });
        happens();
        is_over.store(true, Ordering::Relaxed);
    });
    let last = format!("nginx:{}", round.load(Ordering::Relaxed));
    apply_all(env, ns, &last, &AtomicBool::new(false));
    wait_all_settled(env, ns, &last);
    last
}

#[test]
fn h03_hosts_share_the_parents_and_none_is_written_by_two_hosts_at_once_when_hosts_join_and_leave() {
    let env = Env::start();
    let [first, second] = ["a", "b"].map(|name| env.replica(name, options(3)));
    env.push(&guest("echo"), "echo", &[]);
    wait_shared(&env, "echo", 2);
    let (ns, mark) = (env.namespace("shared"), env.mark());
    apply_all(&env, &ns, "nginx:0", &AtomicBool::new(false));
    wait_all_settled(&env, &ns, "nginx:0");
    let of_two = writes_by_parent(&env, &[&first, &second], mark);
    assert_eq!(of_two.len(), parents());
    assert_one_at_a_time(&of_two, 0);
    for host in [&first, &second] {
        let share = of_two.values().filter(|writes| writes[0].host == host.name()).count();
        assert!(share > parents() / 4, "{} has {share} parents", host.name());
    }

    // A third host joins.
    let (mark, mut third) = (env.mark(), None);
    under_load(&env, &ns, 100, || {
        third = Some(env.replica("c", options(3)));
        wait_shared(&env, "echo", 3);
    });
    let third = third.expect("a host");
    let joined = writes_by_parent(&env, &[&first, &second, &third], mark);
    assert_one_at_a_time(&joined, 1);
    let mut moved = 0;
    for (parent, writes) in &joined {
        let (before, now) = (of_two[parent][0].host, *owners(writes).last().expect("an owner"));
        assert!(now == before || now == "c", "{parent} moved from {before} to {now}");
        moved += usize::from(now == "c");
    }
    assert!((parents() / 6..parents() / 2).contains(&moved), "{moved} parents moved");

    // One is killed, and comes back.
    let mark = env.mark();
    let killed = second.name().to_owned();
    let mut again = None;
    under_load(&env, &ns, 200, || {
        second.host.kill();
        wait_shared(&env, "echo", 2);
        again = Some(env.replica(&killed, options(3)));
        wait_shared(&env, "echo", 3);
    });
    let again = again.expect("a host");
    assert_one_at_a_time(&writes_by_parent(&env, &[&first, &second, &third, &again], mark), 2);

    // One is stopped: it hands its parents over at once.
    let mark = env.mark();
    under_load(&env, &ns, 300, || {
        assert!(third.host.terminate().success());
        wait_shared(&env, "echo", 2);
    });
    assert_one_at_a_time(&writes_by_parent(&env, &[&first, &again, &third], mark), 1);
}

/// The writes of children since then, by the host that sent them.
fn child_writes(env: &Env, host: &Replica, since: Mark, resource: &str) -> usize {
    host.writes(env, since).resource(resource).to_vec().len()
}

/// Which of these hosts leads.
fn leader<'a>(hosts: &[&'a Replica]) -> &'a Replica {
    wait("a leader", TIMEOUT, || hosts.iter().find(|host| host.leads()).copied())
}

#[test]
fn h03_only_the_leader_deletes_children_because_of_a_new_component_and_then_the_hosts_share_the_parents_again() {
    let env = Env::start();
    let hosts = ["a", "b", "c"].map(|name| env.replica(name, options(3)));
    env.push(&guest("puppets/puppet"), "puppet", &[]);
    wait_shared(&env, "puppet", 3);
    let (ns, mark) = (env.namespace("guarded"), env.mark());
    // Each parent has too few children for a guard of its own.
    let child =
        |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("${{name}}-{at}")}});
    let puppets: Vec<_> = (0..24).map(|at| ns.puppet(&format!("web-{at}"))).collect();
    for puppet in &puppets {
        puppet.apply(&json!({"children": [child(0), child(1)]}));
    }
    for puppet in &puppets {
        puppet.wait_done();
    }
    let wrote = hosts.iter().filter(|host| child_writes(&env, host, mark, "configmaps") > 0).count();
    assert_eq!(wrote, 3, "each host creates the children of its share");

    let mark = env.mark();
    env.push(&guest("puppets/puppet-empty"), "puppet", &[]);
    let blocked = env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").is_false("DeletionBlocked"));
    assert!(blocked["status"]["rollout"]["shared"].is_null(), "the leader has all parents: {blocked:#}");
    for puppet in &puppets {
        puppet.wait_reason("DeletionBlocked");
    }
    for host in &hosts {
        assert_eq!(child_writes(&env, host, mark, "configmaps"), 0, "{}", host.name());
    }

    let hash = text(&blocked, "/status/blockedDeletionsHash");
    let allow = format!("windlass.dev/allow-deletion={hash}");
    env.kubectl(&["annotate", "--overwrite", "plugins.windlass.dev", "puppet", &allow]);
    for puppet in &puppets {
        puppet.wait_done();
    }
    let all: Vec<_> = hosts.iter().collect();
    let leads = leader(&all).name();
    for host in &hosts {
        let expected = if host.name() == leads { 2 * puppets.len() } else { 0 };
        assert_eq!(child_writes(&env, host, mark, "configmaps"), expected, "{}", host.name());
    }
    wait_shared(&env, "puppet", 3);

    // The Plugin's end waits for the reconciles of all hosts.
    env.kubectl(&["delete", "plugins.windlass.dev", "puppet", "--timeout=120s"]);
    let mark = env.mark();
    puppets[0].apply(&json!({"children": [child(0)]}));
    env.push(&guest("echo"), "echo", &[]);
    wait_shared(&env, "echo", 3);
    for host in &hosts {
        assert_eq!(child_writes(&env, host, mark, "configmaps"), 0, "{} writes for a Plugin that is gone", host.name());
    }
}

#[test]
fn h03_another_member_leads_after_the_leader_is_lost_and_a_host_without_shards_takes_all_parents_back() {
    let env = Env::start();
    let alone = env.replica("alone", options(1));
    alone.host.wait_ready();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("led");
    let never = AtomicBool::new(false);
    apply_all(&env, &ns, "nginx:1", &never);
    wait_all_settled(&env, &ns, "nginx:1");

    // Hosts with shards join a leader without: it keeps all parents until it ends.
    let hosts = ["a", "b", "c"].map(|name| env.replica(name, options(3)));
    wait("three members", TIMEOUT, || (shards(&env).iter().filter_map(view).count() == 3).then_some(()));
    let mark = env.mark();
    apply_all(&env, &ns, "nginx:2", &never);
    wait_all_settled(&env, &ns, "nginx:2");
    for host in &hosts {
        assert_eq!(host.writes(&env, mark).to_vec(), [], "{} has no leader that shares", host.name());
    }
    assert!(alone.host.terminate().success());
    wait_shared(&env, "echo", 3);

    // The leader is lost: its share passes to the others, and one of them leads.
    let all: Vec<_> = hosts.iter().collect();
    let (lost, mark) = (leader(&all), env.mark());
    lost.host.kill();
    let left: Vec<_> = hosts.iter().filter(|host| host.name() != lost.name()).collect();
    leader(&left);
    wait_shared(&env, "echo", 2);
    apply_all(&env, &ns, "nginx:3", &never);
    wait_all_settled(&env, &ns, "nginx:3");
    assert_one_at_a_time(&writes_by_parent(&env, &all, mark), 1);
    env.push(&guest("echo-v2"), "echo", &[]);
    env.wait_live("echo", &guest("echo-v2"));
    wait_shared(&env, "echo", 2);

    // A host without shards leads after the last members, and takes all parents back.
    let back = env.replica("back", options(1));
    back.wait_standby();
    for host in left {
        assert!(host.host.terminate().success());
    }
    wait("the host without shards to lead", TIMEOUT, || back.leads().then_some(()));
    env.wait_plugin("echo", |plugin| plugin["status"]["rollout"]["shared"].is_null());
    apply_all(&env, &ns, "nginx:4", &never);
    wait_all_settled(&env, &ns, "nginx:4");
}
