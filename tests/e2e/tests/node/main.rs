//! The host's image on a real node: a kubelet runs it as the chart and the kustomizations say, with real probes, limits, tokens and
//! containers.
//!
//! `cargo xtask image --try` builds the image and runs this. It takes root, and Debian's packages.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

mod postgres;

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use windlass_e2e::{Env, HOST_USER, Namespace, SYSTEM_NAMESPACE, condition, guest, http_get, text, wait};
use windlass_testbed::tools::PAUSE_IMAGE;
use windlass_testbed::{AuditEvent, Helm, Mark, Options};

/// Compiling takes seconds, and longer when memory runs out.
const LONG: Duration = Duration::from_mins(5);

/// The archive of the image, which has the name that the manifests have.
const ARCHIVE: &str = "WINDLASS_TEST_IMAGE";
/// The archive of the image `windlass:before`, and the checkout that it was built from: those of `--from`.
const ARCHIVE_BEFORE: &str = "WINDLASS_TEST_IMAGE_BEFORE";
const CHECKOUT_BEFORE: &str = "WINDLASS_TEST_CHECKOUT_BEFORE";
/// The archive of the image of the servers of a `PostgresCluster`.
const ARCHIVE_POSTGRES: &str = "WINDLASS_TEST_IMAGE_POSTGRES";

fn manifests(checkout: &Path, path: &str) -> String {
    checkout.join("manifests").join(path).display().to_string()
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A cluster with a real node, which has the images.
struct Node {
    env: Env,
    helm: Helm,
}

impl Node {
    #[track_caller]
    fn start() -> Self {
        let began = Instant::now();
        let env = Env::empty_with(Options { node: true, ..Options::default() });
        for variable in [ARCHIVE, ARCHIVE_BEFORE, ARCHIVE_POSTGRES] {
            let Some(archive) = std::env::var_os(variable) else { continue };
            env.cluster().load_image(Path::new(&archive)).expect("the node takes the image");
        }
        eprintln!("node Ready, with images: {:.1} s", began.elapsed().as_secs_f32());
        let helm = Helm::new(env.cluster()).expect("Helm");
        // As docs/install.md says.
        env.kubectl(&["create", "namespace", SYSTEM_NAMESPACE]);
        let enforce = "pod-security.kubernetes.io/enforce=restricted";
        env.kubectl(&["label", "namespace", SYSTEM_NAMESPACE, enforce]);
        Self { env, helm }
    }

    #[track_caller]
    fn helm(&self, args: &[&str]) -> String {
        let began = Instant::now();
        let all = [args, &["--namespace", SYSTEM_NAMESPACE]].concat();
        let output = self.helm.run(&all).unwrap_or_else(|error| panic!("{error:#}"));
        eprintln!("helm {}: {:.1} s", args.join(" "), began.elapsed().as_secs_f32());
        output
    }

    /// Installs the chart, and waits until its hosts are Ready.
    #[track_caller]
    fn install_chart(&self, set: &str) {
        let chart = manifests(&checkout(), "chart/windlass");
        self.helm(&["install", "windlass", &chart, "--set", set, "--wait", "--timeout=180s"]);
    }

    /// The hosts' Pods that are not ending.
    fn hosts(&self) -> Vec<Value> {
        let mut pods = self.env.list("pods", SYSTEM_NAMESPACE);
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// How often a kubelet started the containers of hosts again.
    fn restarts(&self) -> u64 {
        self.hosts().iter().filter_map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64()).sum()
    }

    /// The Pod of the acting host.
    #[track_caller]
    fn leader(&self) -> String {
        let lease = self.env.get("leases", SYSTEM_NAMESPACE, "windlass").expect("a Lease");
        let holder = text(&lease, "/spec/holderIdentity");
        let is_holder = |pod: &&Value| holder.contains(&text(pod, "/metadata/name"));
        let pod = self.hosts().iter().find(is_holder).map(|pod| text(pod, "/metadata/name"));
        pod.unwrap_or_else(|| panic!("the holder {holder} is none of the Pods"))
    }

    /// Waits until another host acts, and says how long it took until its first write.
    #[track_caller]
    fn wait_next_leader(&self, what: &str, since: Mark, old: &str, began: Instant) {
        let is_next = |write: &AuditEvent| write.pod != old;
        let write = wait("a write of another host", LONG, || self.writes(since).into_iter().find(is_next));
        eprintln!(
            "{what}: first write of the next host {:.1} s later, at {}",
            began.elapsed().as_secs_f32(),
            write.timestamp
        );
    }

    /// The writes of hosts since then, but for Leases and Events.
    fn writes(&self, since: Mark) -> Vec<AuditEvent> {
        let requests = self.env.audit().since(since).expect("a readable audit log").by_user(HOST_USER);
        let writes = requests.attempted_writes().except_leases().filter(|request| request.resource != "events");
        writes.to_vec()
    }

    /// Fails if a host wrote after the next one had begun: two would have acted at the same time.
    #[track_caller]
    fn assert_one_acts_at_a_time(&self, since: Mark) {
        let mut pods: Vec<String> = self.writes(since).into_iter().map(|write| write.pod).collect();
        assert!(pods.iter().all(|pod| !pod.is_empty()), "each token belongs to a Pod");
        pods.dedup();
        let mut once = pods.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), pods.len(), "the hosts wrote in turns: {pods:?}");
    }

    /// Waits until all hosts of the Deployment are Ready.
    #[track_caller]
    fn wait_rolled_out(&self) {
        self.env.kubectl(&["rollout", "status", "deployment/windlass", "-n", SYSTEM_NAMESPACE, "--timeout=180s"]);
    }

    /// Pushes Echo, and creates one with real Pods. Returns its namespace.
    #[track_caller]
    fn push_echo(&self) -> Namespace<'_> {
        let began = Instant::now();
        self.env.push(&guest("echo"), "echo", &[]);
        self.env.wait_live("echo", &guest("echo"));
        eprintln!("push, live: {:.1} s", began.elapsed().as_secs_f32());
        let ns = self.env.namespace("real");
        ns.echo("web", 2, PAUSE_IMAGE);
        ns.wait_settled("web");
        wait("Pods that run", LONG, || {
            let pods = ns.pods();
            (pods.len() == 2 && pods.iter().all(|pod| condition(pod, "Ready").is_true())).then_some(())
        });
        ns
    }

    /// Scales an Echo up and down for as long as `act` takes, and fails if the host does not follow.
    #[track_caller]
    fn under_load<T>(ns: &Namespace<'_>, act: impl FnOnce() -> T) -> T {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let mut scaled = 0;
                while !ended.load(Ordering::Relaxed) || scaled == 0 {
                    ns.echo("load", 1 + scaled % 2, PAUSE_IMAGE);
                    ns.wait_settled("load");
                    scaled += 1;
                }
                scaled
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            ended.store(true, Ordering::Relaxed);
            eprintln!("meanwhile {} times scaled", load.join().expect("the load was reconciled"));
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The process of a host, as this machine sees it.
    #[track_caller]
    fn process(&self, pod: &str) -> Pid {
        let pod = self.env.get("pods", SYSTEM_NAMESPACE, pod).expect("the Pod");
        let id = text(&pod, "/status/containerStatuses/0/containerID");
        let id = id.strip_prefix("containerd://").expect("a container of containerd");
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_in =
            |process: &i32| fs::read_to_string(format!("/proc/{process}/cgroup")).is_ok_and(|text| text.contains(id));
        // The first one is the host, later ones compile for it.
        ids.filter(is_in).min().and_then(Pid::from_raw).expect("a process in the container")
    }

    /// How many processes of a Pod the kernel has killed for lack of memory.
    #[track_caller]
    fn killed_for_memory(&self, pod: &str) -> u64 {
        let process = self.process(pod).as_raw_pid();
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).expect("control groups");
        let root = Path::new("/sys/fs/cgroup");
        // Those of version 1 have a line and a folder for each controller.
        let group = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controller, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            match controller {
                "memory" => Some(root.join("memory").join(path).join("memory.oom_control")),
                "" => Some(root.join(path).join("memory.events")),
                _ => None,
            }
        });
        let events = fs::read_to_string(group.expect("a control group of the memory")).expect("its events");
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count of kills in {events}"))
    }
}

/// A component that measures without end, for a kind of its own: the API groups differ in a letter.
fn metric_bomb(dir: &Path, letter: char) -> (String, PathBuf) {
    let mut bytes = fs::read(guest("hostile/metric-bomb")).expect("a component");
    let (from, group) = ("hostile.example", format!("hostil{letter}.example"));
    let is_group = |place: &usize| bytes[*place..].starts_with(from.as_bytes());
    let places: Vec<_> = (0..bytes.len()).filter(is_group).collect();
    for place in places {
        bytes[place..place + group.len()].copy_from_slice(group.as_bytes());
    }
    let path = dir.join(format!("bomb-{letter}.wasm"));
    fs::write(&path, bytes).expect("a component");
    (group, path)
}

/// Echo with an additional function whose compilation takes more than a gigabyte: a million nested conditionals.
fn bomb() -> Vec<u8> {
    fn leb(mut number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let low = u8::try_from(number & 0x7f).expect("seven bits");
            number >>= 7;
            if number == 0 {
                bytes.push(low);
                return bytes;
            }
            bytes.push(low | 0x80);
        }
    }
    let section = |id: u8, body: &[u8]| [&[id][..], &leb(body.len()), body].concat();
    // local.get 0, then over and over: if (result i32) local.get 0 else local.get 0 end.
    let choices = [0x04, 0x7f, 0x20, 0x00, 0x05, 0x20, 0x00, 0x0b].repeat(900_000);
    let body = [&[0x00, 0x20, 0x00][..], &choices, &[0x0b]].concat();
    let module = [
        &b"\0asm\x01\0\0\0"[..],
        &section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]),
        &section(3, &[1, 0]),
        &section(10, &[&[1][..], &leb(body.len()), &body].concat()),
    ]
    .concat();
    // A module that is never instantiated is compiled, too.
    [fs::read(guest("echo")).expect("a component"), section(1, &module)].concat()
}

#[test]
#[ignore = "takes root, and the image: cargo xtask image --try"]
fn s03_chart_runs_two_hosts_through_an_update_an_eviction_and_a_compilation_beyond_their_memory() {
    let node = Node::start();
    let env = &node.env;
    let mark = env.mark();
    node.install_chart("replicaCount=2");
    assert_eq!(node.hosts().len(), 2);
    let ns = node.push_echo();

    node.helm(&["test", "windlass", "--timeout=60s"]);
    let logs = env.kubectl(&["logs", "-n", SYSTEM_NAMESPACE, &node.leader()]);
    assert!(logs.contains("/readyz"), "{logs}");
    assert!(!logs.contains("other users can write"), "the shipped chart has a warning that nobody can act on: {logs}");
    // Both find the acting host, and reach it through the kubelet.
    let explained = env.windlass(&["explain", "echo", "web", "-n", ns.name()]);
    assert!(explained.contains("web"), "{explained}");
    let file = env.cluster().dir().join("echo.calls.jsonl");
    env.windlass(&["record", "echo", "--for", "0", "--output-file", &file.to_string_lossy()]);
    let calls = fs::read_to_string(&file).expect("the recorded calls");
    assert!(calls.lines().any(|line| line.contains("web")), "{calls}");

    let packed = zstd::stream::encode_all(&*bomb(), 0).expect("the component is compressed");
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "bomb", "namespace": SYSTEM_NAMESPACE },
            "binaryData": { "plugin.wasm.zst": STANDARD.encode(packed) },
        }),
        json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin",
            "metadata": { "name": "bomb" },
            "spec": { "source": { "configMap": { "namespace": SYSTEM_NAMESPACE, "name": "bomb" } } },
        }),
    ];
    env.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string());
    let compiled = env.wait("Compiled to be False", LONG, || {
        let plugin = env.get("plugins", "", "bomb")?;
        let compiled = condition(&plugin, "Compiled");
        (compiled.status == "False").then_some(compiled)
    });
    eprintln!("{}: {}", compiled.reason, compiled.message);
    assert!(compiled.message.contains("it needs more than"), "{}: {}", compiled.reason, compiled.message);
    ns.echo("web", 1, PAUSE_IMAGE);
    ns.wait_settled("web");
    assert_eq!(node.restarts(), 0, "no host was killed for lack of memory");
    env.kubectl(&["delete", "plugin", "bomb"]);

    let old = node.leader();
    Node::under_load(&ns, || {
        let (since, began) = (env.mark(), Instant::now());
        env.kubectl(&["rollout", "restart", "deployment/windlass", "-n", SYSTEM_NAMESPACE]);
        node.wait_rolled_out();
        node.wait_next_leader("rolling update", since, &old, began);
    });
    let old = node.leader();
    Node::under_load(&ns, || {
        let (since, began) = (env.mark(), Instant::now());
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": old, "namespace": SYSTEM_NAMESPACE },
        });
        let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{old}/eviction");
        let args = ["create", "--raw", &path, "-f", "-"];
        env.cluster().kubectl_with_input(&args, &eviction.to_string()).expect("the host is evicted");
        node.wait_next_leader("eviction", since, &old, began);
        node.wait_rolled_out();
    });
    node.assert_one_acts_at_a_time(mark);

    let pods = ns.pod_names();
    node.helm(&["uninstall", "windlass", "--wait"]);
    assert_eq!(ns.pod_names(), pods, "children stay");
}

#[test]
#[ignore = "takes root, and the image: cargo xtask image --try"]
fn kustomization_with_two_hosts_runs_through_a_kill_and_a_drain() {
    let node = Node::start();
    let env = &node.env;
    let mark = env.mark();
    let began = Instant::now();
    let folder = manifests(&checkout(), "kustomize/overlays/ha");
    env.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &folder]);
    node.wait_rolled_out();
    eprintln!("two hosts Ready: {:.1} s", began.elapsed().as_secs_f32());
    let ns = node.push_echo();

    let old = node.leader();
    Node::under_load(&ns, || {
        let began = Instant::now();
        kill_process(node.process(&old), Signal::KILL).expect("the host is killed");
        wait("the kubelet to start the host again", LONG, || (node.restarts() == 1).then_some(()));
        // By the standby, or by the killed host itself: its Pod still holds the Lease.
        let since = env.mark();
        let write = wait("a write after the kill", LONG, || node.writes(since).into_iter().next());
        eprintln!("kill of {old}: {} writes {:.1} s later", write.pod, began.elapsed().as_secs_f32());
        node.wait_rolled_out();
    });
    node.assert_one_acts_at_a_time(mark);

    let mark = env.mark();
    let selector = "--pod-selector=app.kubernetes.io/name=windlass";
    let drain = ["drain", "node-0", selector, "--delete-emptydir-data", "--timeout=20s"];
    // There is no other node: the second host stays until the first one's replacement is Ready.
    let refused = env.try_kubectl(&drain).expect_err("one host stays");
    assert!(refused.contains("disruption budget"), "{refused}");
    ns.echo("web", 3, PAUSE_IMAGE);
    wait("the host that stays to act", LONG, || (ns.pods().len() >= 3).then_some(()));
    env.kubectl(&["uncordon", "node-0"]);
    node.wait_rolled_out();
    ns.wait_settled("web");
    node.assert_one_acts_at_a_time(mark);
}

#[test]
#[ignore = "takes root, and the image: cargo xtask image --try"]
fn chart_is_upgraded_from_another_commit_and_back() {
    let before = std::env::var_os(CHECKOUT_BEFORE).expect("another commit: cargo xtask image --try --from COMMIT");
    let node = Node::start();
    let env = &node.env;
    let chart = manifests(Path::new(&before), "chart/windlass");
    let mark = env.mark();
    node.helm(&["install", "windlass", &chart, "--set", "replicaCount=2,image.tag=before", "--wait", "--timeout=180s"]);
    let ns = node.push_echo();
    let pods = ns.pod_names();
    let ready = |env: &Env| env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_true());
    let chart = manifests(&checkout(), "chart/windlass");
    Node::under_load(&ns, || {
        node.helm(&["upgrade", "windlass", &chart, "--set", "replicaCount=2", "--wait", "--timeout=180s"]);
        ready(env);
    });
    Node::under_load(&ns, || {
        node.helm(&["rollback", "windlass", "1", "--wait", "--timeout=180s"]);
        ready(env);
    });
    node.assert_one_acts_at_a_time(mark);
    let web: Vec<_> = ns.pod_names().into_iter().filter(|name| pods.contains(name)).collect();
    assert_eq!(web, pods, "the children are those of before");
    assert_eq!(node.restarts(), 0);
}

#[test]
#[ignore = "takes root, and the image: cargo xtask image --try"]
fn s10_host_survives_the_metrics_of_nine_hostile_plugins_and_slow_scrapers() {
    let node = Node::start();
    let env = &node.env;
    node.install_chart("replicaCount=1");
    let pod = node.hosts().remove(0);
    let ip: IpAddr = text(&pod, "/status/podIP").parse().expect("an address");
    let [probes, metrics] = [8080, 9090].map(|port| SocketAddr::from((ip, port)));
    let dir = tempfile::tempdir().expect("a folder");
    let ns = env.namespace("metrics");
    // Nine reach the limit of all components, which is that of eight.
    let letters = 'a'..='i';
    let name = |letter: char| format!("bomb-{letter}");
    for letter in letters.clone() {
        let (_, path) = metric_bomb(dir.path(), letter);
        env.push(&path, &name(letter), &[]);
    }
    for letter in letters.clone() {
        let (group, path) = metric_bomb(dir.path(), letter);
        env.wait_live(&name(letter), &path);
        for at in 0..5 {
            let metadata = json!({ "name": format!("parent-{at}"), "namespace": ns.name() });
            let parent = json!({ "apiVersion": format!("{group}/v1"), "kind": "MetricBomb", "metadata": metadata });
            env.apply(&parent.to_string());
        }
    }
    let dropped = |text: &str, letter: char| {
        let series = format!("windlass_plugin_dropped_measurements_total{{plugin=\"{}\"}} ", name(letter));
        text.lines().any(|line| line.strip_prefix(&series).is_some_and(|count| count != "0"))
    };
    let exposed = env.wait("dropped measurements of all", LONG, || {
        assert_eq!(node.restarts(), 0, "the host was killed");
        let (_, text) = http_get(metrics, "/metrics")?;
        letters.clone().all(|letter| dropped(&text, letter)).then_some(text)
    });
    assert!(exposed.len() < 17 << 20, "{} bytes of metrics", exposed.len());

    // Three scrapers read nothing of what they requested, while others scrape and the kubelet probes.
    let slow: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(metrics).expect("a connection");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request");
            stream
        })
        .collect();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let began = Instant::now();
        assert!(matches!(http_get(metrics, "/metrics"), Some((200, _))), "a scrape is served");
        longest = longest.max(began.elapsed());
        for probe in ["/healthz", "/readyz"] {
            assert!(matches!(http_get(probes, probe), Some((200, _))), "{probe} is served");
        }
    }
    drop(slow);
    eprintln!("{} bytes of metrics; slowest of 20 scrapes {longest:?}", exposed.len());
    assert_eq!(node.restarts(), 0, "the host was not killed");
    let name = text(&pod, "/metadata/name");
    assert_eq!(node.killed_for_memory(&name), 0, "no child of the host was killed either");
}
