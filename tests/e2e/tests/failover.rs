//! Several hosts in one cluster: one leads, the others stand by and take over. The audit log shows who wrote what; each
//! host has a token of its own.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_e2e::{Env, HostOptions, Mark, Namespace, Replica, SYSTEM_NAMESPACE, TIMEOUT, guest, is_settled, wait};
use windlass_faults::{Fault, Match, Rule};
use windlass_testbed::tools;

/// Echoes that are created while the leader fails.
const ECHOES: usize = 30;
/// Pods of each.
const REPLICAS: usize = 2;

/// Shorter than the defaults, so that a test does not take minutes.
fn options() -> HostOptions {
    let times = ["lease-duration=6s", "renew-deadline=4s", "retry-period=500ms"];
    HostOptions {
        args: times.iter().map(|time| format!("--leader-elect-{time}")).collect(),
        env: vec![],
        ..HostOptions::default()
    }
}

/// Three hosts, of which one leads, with two plugins. A `MySQLCluster` has a generated password.
struct Fleet<'a> {
    env: &'a Env,
    replicas: Vec<Replica>,
    database: Namespace<'a>,
    password: Value,
}

impl<'a> Fleet<'a> {
    fn start(env: &'a Env) -> Self {
        let first = env.replica("a", options());
        first.host.wait_ready();
        for name in ["echo", "mysqlcluster"] {
            env.push(&guest(name), name, &[]);
            env.wait_live(name, &guest(name));
        }
        let replicas = vec![first, env.replica("b", options()), env.replica("c", options())];
        let database = env.namespace("database");
        let cluster = json!({
            "apiVersion": "database.example.com/v1", "kind": "MySQLCluster",
            "metadata": {"name": "db", "namespace": database.name()},
            "spec": {"replicas": 1, "version": "8.4", "storageSize": "1Gi"},
        });
        env.apply(&cluster.to_string());
        let password = wait("the generated password", TIMEOUT, || password_of(&database));
        for standby in &replicas[1..] {
            standby.wait_standby();
        }
        Self { env, replicas, database, password }
    }

    fn leader(&self) -> usize {
        wait("a leader", TIMEOUT, || self.replicas.iter().position(Replica::leads))
    }

    /// Lets the leader fail while it creates Pods, and waits until another host has finished its work. Returns the failed
    /// host and its successor, and a mark from before the failure.
    fn fail_over(&self, name: &str, fail: impl FnOnce(&Replica)) -> (usize, usize, Mark) {
        let env = self.env;
        let (leader, mark, ns) = (self.leader(), env.mark(), env.namespace(name));
        let manifests: Vec<_> =
            (0..ECHOES).map(|at| ns.echo_manifest(&format!("echo-{at}"), 2, "nginx:1").to_string()).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| env.apply(&manifests.join("\n---\n")));
            wait("the first Pods", TIMEOUT, || (self.pods_created(mark).len() >= 10).then_some(()));
            fail(&self.replicas[leader]);
        });
        // Most of the time, no host leads while these changes are made.
        ns.echo("echo-0", 1, "nginx:1");
        ns.kubectl(&["delete", "echo", "echo-1", "--wait=false"]);
        let successor = wait("a successor", TIMEOUT, || {
            self.replicas.iter().enumerate().position(|(at, replica)| at != leader && replica.leads())
        });
        self.wait_converged(&ns);
        assert_eq!(password_of(&self.database), Some(self.password.clone()), "the generated password is kept");
        let created = self.pods_created(mark);
        let distinct: BTreeSet<_> = created.iter().collect();
        assert_eq!(created.len(), distinct.len(), "a Pod was created twice");
        (leader, successor, mark)
    }

    /// Waits until exactly the desired Pods exist.
    fn wait_converged(&self, ns: &Namespace<'_>) {
        let mut desired: BTreeSet<_> =
            (2..ECHOES).flat_map(|at| (0..REPLICAS).map(move |index| format!("echo-{at}-{index}"))).collect();
        desired.insert("echo-0-0".to_owned());
        wait("exactly the desired Pods", TIMEOUT, || {
            let settled = self.env.list("echoes", ns.name()).iter().all(is_settled);
            (settled && ns.pod_names().into_iter().collect::<BTreeSet<_>>() == desired).then_some(())
        });
    }

    fn pods_created(&self, since: Mark) -> Vec<(String, String)> {
        let writes = self.env.host_writes(since).resource("pods").filter(|event| event.verb == "create");
        writes.iter().map(|event| (event.namespace.clone(), event.name.clone())).collect()
    }

    /// Asserts that the two hosts wrote one after the other, and that no other host wrote.
    fn assert_one_after_the_other(&self, (leader, successor): (usize, usize), since: Mark) {
        let mut writes: Vec<_> = self
            .replicas
            .iter()
            .flat_map(|replica| {
                let writes = replica.writes(self.env, since).to_vec();
                writes.into_iter().map(move |write| (write.timestamp.clone(), replica.name(), write))
            })
            .collect();
        writes.sort_by(|one, other| one.0.cmp(&other.0));
        let mut order: Vec<_> = writes.iter().map(|(_, writer, _)| *writer).collect();
        order.dedup();
        let [leader, successor] = [leader, successor].map(|at| self.replicas[at].name());
        assert_eq!(order, [leader, successor], "{writes:#?}");
    }
}

fn password_of(ns: &Namespace<'_>) -> Option<Value> {
    let secrets = ns.env().list("secrets", ns.name());
    secrets.into_iter().map(|secret| secret["data"].clone()).find(|data| !data.is_null())
}

#[test]
fn h02_standby_takes_over_from_a_leader_that_ends_without_a_lost_change_or_a_double_child() {
    let env = Env::start();
    let mut fleet = Fleet::start(&env);
    let (first, second, mark) = fleet.fail_over("terminated", |leader| {
        assert!(leader.host.terminate().success());
    });
    fleet.assert_one_after_the_other((first, second), mark);
    // The standby was warm: it had the components and all caches before it led.
    let reads = fleet.replicas[second].requests(&env, mark);
    let fetched = reads.clone().resource("configmaps").filter(|event| event.verb == "get");
    assert_eq!(fetched.to_vec(), []);
    let listed = reads.filter(|event| ["echoes", "pods"].contains(&event.resource.as_str()) && event.verb == "list");
    assert_eq!(listed.to_vec(), []);

    let name = fleet.replicas[first].name().to_owned();
    fleet.replicas[first] = env.replica(&name, options());
    fleet.replicas[first].wait_standby();
    let (second, third, mark) = fleet.fail_over("killed", |leader| leader.host.kill());
    fleet.assert_one_after_the_other((second, third), mark);
}

#[test]
fn h02_leader_that_was_paused_or_cut_off_writes_nothing_after_its_successor_began() {
    let env = Env::start();
    let mut fleet = Fleet::start(&env);
    let (first, second, mark) = fleet.fail_over("paused", |leader| leader.host.pause());
    fleet.replicas[first].host.resume();
    assert_eq!(fleet.replicas[first].host.wait_exit().code(), Some(7));
    fleet.assert_one_after_the_other((first, second), mark);

    let name = fleet.replicas[first].name().to_owned();
    fleet.replicas[first] = env.replica(&name, options());
    fleet.replicas[first].wait_standby();
    let mut outage = None;
    let (second, third, mark) = fleet.fail_over("cut-off", |leader| {
        outage = Some(leader.faults.add(Rule::new(Match::any(), Fault::CloseBefore)));
        leader.faults.cut(Match::any());
    });
    assert!(fleet.replicas[second].host.is_running(), "it waits for the API server");
    fleet.replicas[second].faults.remove(outage.expect("an outage"));
    assert_eq!(fleet.replicas[second].host.wait_exit().code(), Some(7));
    fleet.assert_one_after_the_other((second, third), mark);
}

#[test]
fn h02_wrong_clock_of_a_leader_or_a_standby_does_not_move_the_lease() {
    const TWO_HOURS_BACK: &str = "-7200";
    const TWO_HOURS_AHEAD: &str = "+7200";
    let env = Env::start();
    let slow = env.replica("behind", with_clock(TWO_HOURS_BACK));
    slow.host.wait_ready();
    let fast = env.replica("ahead", with_clock(TWO_HOURS_AHEAD));
    fast.wait_standby();
    assert_lease_lasts(&env, &slow, &fast);
    assert!(slow.host.terminate().success());
    wait("the other host to lead", TIMEOUT, || fast.leads().then_some(()));
    let slow = env.replica("behind", with_clock(TWO_HOURS_BACK));
    slow.wait_standby();
    assert_lease_lasts(&env, &fast, &slow);
    fast.host.kill();
    wait("the other host to lead", TIMEOUT, || slow.leads().then_some(()));
}

/// Asserts that a leader renews its Lease for longer than the lease duration, with its own date, and that a standby
/// does not try to take it.
fn assert_lease_lasts(env: &Env, leader: &Replica, standby: &Replica) {
    let mark = env.mark();
    let renewals = |host: &Replica| host.requests(env, mark).resource("leases").attempted_writes();
    wait("renewals for eight seconds", TIMEOUT, || (renewals(leader).len() >= 16).then_some(()));
    assert_eq!(renewals(standby).to_vec(), []);
    let lease = env.get("leases", SYSTEM_NAMESPACE, "windlass").expect("a Lease");
    let renewed = lease["spec"]["renewTime"].as_str().expect("a time");
    let hour = |time: &str| time.split(':').next().map(str::to_owned);
    assert_ne!(hour(renewed), hour(&renewals(leader)[15].timestamp), "the holder's clock is wrong");
}

/// Options of a host whose date is shifted by these seconds.
fn with_clock(seconds: &str) -> HostOptions {
    let library = tools::faketime(&tools::stderr).expect("libfaketime");
    let variables = [
        ("LD_PRELOAD", library.to_string_lossy().into_owned()),
        ("FAKETIME", seconds.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let env = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
    HostOptions { env, ..options() }
}

#[test]
fn h02_standby_changes_nothing_and_host_without_election_exits_beside_a_leader() {
    let env = Env::start();
    let leader = env.replica("leader", HostOptions::default());
    leader.host.wait_ready();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let mark = env.mark();
    let standby = env.replica("standby", HostOptions::default());
    standby.wait_standby();
    let alone = HostOptions { args: vec!["--leader-elect=false".to_owned()], ..HostOptions::default() };
    let alone = env.replica("alone", alone);
    assert_eq!(alone.host.wait_exit().code(), Some(7));
    let log = alone.host.log();
    assert!(log.contains("error: another host is running: Lease windlass-system/windlass is held by "), "{log}");

    let ns = env.namespace("one-host");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    env.push(&env.variant(&guest("echo"), "next"), "echo", &[]);
    env.wait_live("echo", &env.variant(&guest("echo"), "next"));
    assert!(!leader.writes(&env, mark).is_empty());
    for other in [&standby, &alone] {
        assert_eq!(other.writes(&env, mark).to_vec(), []);
        let leases = other.requests(&env, mark).resource("leases").attempted_writes();
        assert_eq!(leases.to_vec(), [], "the Lease is the leader's");
    }
    // A Lease that is deleted is not free: its holder still writes, and creates it again.
    let mark = env.mark();
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "delete", "lease", "windlass"]);
    let lease = wait("the Lease", TIMEOUT, || env.get("leases", SYSTEM_NAMESPACE, "windlass"));
    assert_eq!(standby.requests(&env, mark).resource("leases").attempted_writes().to_vec(), []);
    assert!(leader.leads());
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
}
