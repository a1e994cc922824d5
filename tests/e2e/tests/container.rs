//! The host as its Deployment runs it: the image, the arguments, the user, the read-only root and the memory limit of
//! manifests/kustomize/base, started by runc in the place of a kubelet.
//!
//! `cargo xtask image --try` builds the image and runs this; it takes root, buildah and runc.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Env, SYSTEM_NAMESPACE, condition, guest, http_get, wait};

/// Compiling takes seconds, and longer when memory runs out.
const LONG: Duration = Duration::from_mins(5);

/// The unpacked image.
const ROOTFS: &str = "WINDLASS_TEST_ROOTFS";

/// Number of containers that were started: a part of their names.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// The Pod template of the Deployment, as the API server completes it.
fn template(env: &Env) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/kustomize/base");
    let args = ["apply", "--server-side", "--dry-run=server", "-o", "json", "-k", &folder.to_string_lossy()];
    let objects: Value = serde_json::from_str(&env.kubectl(&args)).expect("a List");
    let mut objects = objects["items"].as_array().expect("items").iter();
    let deployment = objects.find(|object| object["kind"] == "Deployment").expect("the Deployment");
    deployment["spec"]["template"].clone()
}

/// A quantity of memory in bytes.
fn bytes(quantity: &str) -> i64 {
    let (number, factor) = match (quantity.strip_suffix("Mi"), quantity.strip_suffix("Gi")) {
        (Some(number), _) => (number, 1 << 20),
        (_, Some(number)) => (number, 1 << 30),
        _ => (quantity, 1),
    };
    number.parse::<i64>().expect("a quantity") * factor
}

/// A folder that a kubelet would mount.
fn folder(at: PathBuf, mode: u32, group: u32) -> PathBuf {
    fs::create_dir_all(&at).expect("a folder");
    chown(&at, Some(0), Some(group)).expect("its group");
    fs::set_permissions(&at, Permissions::from_mode(mode)).expect("its mode");
    at
}

/// The running container. Dropping it ends it.
struct Container {
    id: String,
    runc: Child,
    log: PathBuf,
}

impl Container {
    /// Starts the Pod's only container as a kubelet would.
    fn start(env: &Env, template: &Value) -> Self {
        let dir = env.cluster().dir().join("pod");
        let container = &template["spec"]["containers"][0];
        let security = &template["spec"]["securityContext"];
        let user = security["runAsUser"].as_u64().expect("a user");
        let group = u32::try_from(security["fsGroup"].as_u64().expect("a group")).expect("a group");

        // The ServiceAccount's token, as the projected volume holds it.
        let account = folder(dir.join("account"), 0o755, group);
        let token = env.kubectl(&["create", "token", "windlass", "-n", SYSTEM_NAMESPACE, "--duration=1h"]);
        let ca = fs::read(env.cluster().dir().join("ca.crt")).expect("the cluster's CA");
        for (name, content) in
            [("token", token.trim().as_bytes()), ("ca.crt", &ca), ("namespace", SYSTEM_NAMESPACE.as_bytes())]
        {
            fs::write(account.join(name), content).expect("a file of the ServiceAccount");
        }
        let mount = |to: &str, from: &Path, access: &str| json!({ "destination": to, "source": from, "type": "bind", "options": ["rbind", "nosuid", "nodev", access] });
        let mut mounts = vec![
            json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
            mount("/dev", Path::new("/dev"), "ro"),
            mount("/etc/resolv.conf", Path::new("/etc/resolv.conf"), "ro"),
            mount("/var/run/secrets/kubernetes.io/serviceaccount", &account, "ro"),
        ];
        for volume in container["volumeMounts"].as_array().into_iter().flatten() {
            let (name, path) =
                (volume["name"].as_str().expect("a name"), volume["mountPath"].as_str().expect("a path"));
            // With the mode of an emptyDir.
            mounts.push(mount(path, &folder(dir.join(name), 0o2777, group), "rw"));
        }

        let server = env.kubectl(&["config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"]);
        let (host, port) = server.trim_start_matches("https://").rsplit_once(':').expect("an address");
        let mut variables = vec![
            format!("KUBERNETES_SERVICE_HOST={host}"),
            format!("KUBERNETES_SERVICE_PORT={port}"),
            // The container uses this machine's network, so the system chooses the port.
            "WINDLASS_HEALTH_ADDR=127.0.0.1:0".to_owned(),
            "WINDLASS_METRICS_ADDR=127.0.0.1:0".to_owned(),
            "WINDLASS_DEBUG_ADDR=127.0.0.1:0".to_owned(),
        ];
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().expect("a name");
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                None => variable["value"].as_str().expect("a value"),
                Some("metadata.namespace") => SYSTEM_NAMESPACE,
                Some(other) => panic!("{name} is {other}"),
            };
            variables.push(format!("{name}={value}"));
        }
        let limit = bytes(container["resources"]["limits"]["memory"].as_str().expect("a memory limit"));
        let args = container["args"].as_array().expect("arguments").iter().filter_map(Value::as_str);
        let args: Vec<_> = std::iter::once("/usr/local/bin/windlass").chain(args).collect();
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        let id = format!("windlass-test-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": user, "gid": security["runAsGroup"], "additionalGids": [group] },
                "args": args, "env": variables, "cwd": "/",
                "noNewPrivileges": container["securityContext"]["allowPrivilegeEscalation"] == false,
            },
            "root": { "path": std::env::var(ROOTFS).expect(ROOTFS), "readonly": container["securityContext"]["readOnlyRootFilesystem"] },
            "mounts": mounts,
            "linux": {
                "cgroupsPath": format!("/{id}"),
                "resources": { "memory": { "limit": limit, "swap": limit } },
                "namespaces": [{ "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" }],
            },
        });
        fs::write(dir.join("config.json"), config.to_string()).expect("a bundle");
        let log = dir.join("log");
        let file = File::create(&log).expect("a log");
        let runc = Command::new("runc")
            .args(["run", "--bundle", &dir.to_string_lossy(), &id])
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("runc starts");
        Self { id, runc, log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn is_running(&mut self) -> bool {
        self.runc.try_wait().expect("the state of runc").is_none()
    }

    /// The address in the first line of its log with these words.
    fn address(&self, served: &str) -> Option<SocketAddr> {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(served))?;
        line.split(|sign: char| sign == '"' || sign == '=' || sign.is_whitespace()).find_map(|word| word.parse().ok())
    }

    /// A number in the first of these files of its control group that exists, after these words.
    fn counted(&self, files: [&str; 2], words: &str) -> u64 {
        let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].map(|root| Path::new(root).join(&self.id));
        let paths = folders.iter().zip(files).map(|(folder, file)| folder.join(file));
        let text = paths.map(fs::read_to_string).find_map(Result::ok).expect("a file of the control group");
        let number =
            text.lines().find_map(|line| line.strip_prefix(words)).unwrap_or_else(|| panic!("no {words} in {text}"));
        number.trim().parse().expect("a number")
    }

    /// Its memory now and at most, in MiB, and how many of its processes were killed for lack of memory.
    fn memory(&self) -> [u64; 3] {
        // Of version 2 and of version 1.
        let now = self.counted(["memory.current", "memory.usage_in_bytes"], "");
        let peak = self.counted(["memory.peak", "memory.max_usage_in_bytes"], "");
        [now >> 20, peak >> 20, self.counted(["memory.events", "memory.oom_control"], "oom_kill ")]
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new("runc").args(["delete", "--force", &self.id]).status();
        let _ = self.runc.wait();
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
#[ignore = "takes root, buildah and runc: cargo xtask image --try"]
fn s03_host_container_survives_a_component_whose_compilation_exceeds_the_memory_limit() {
    let env = Env::start();
    env.apply(&env.windlass(&["generate", "admission-policies"]));
    let template = template(&env);
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "fits" }, "spec": template["spec"] });
    let args = ["create", "--dry-run=server", "-n", SYSTEM_NAMESPACE, "-f", "-"];
    env.cluster()
        .kubectl_with_input(&args, &pod.to_string())
        .expect("the Pod satisfies the restricted Pod Security Standard");

    let mut host = Container::start(&env, &template);
    env.push(&guest("echo"), "echo", &[]);
    env.wait("Echo to be live", LONG, || {
        assert!(host.is_running(), "{}", host.log());
        let plugin = env.get("plugins", "", "echo")?;
        condition(&plugin, "Available").is_true().then_some(())
    });
    let ns = env.namespace("contained");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");

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
    let compiled_condition = env.wait("Compiled to be False", LONG, || {
        assert!(host.is_running(), "the host was killed: {}", host.log());
        let plugin = env.get("plugins", "", "bomb")?;
        let compiled = condition(&plugin, "Compiled");
        (compiled.status == "False").then_some(compiled)
    });
    eprintln!("{}: {}", compiled_condition.reason, compiled_condition.message);
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    assert!(host.is_running(), "{}", host.log());
    wait("Pods", LONG, || (ns.pods().len() == 2).then_some(()));
}

#[test]
#[ignore = "takes root, buildah and runc: cargo xtask image --try"]
fn s10_host_container_survives_the_metrics_of_nine_hostile_plugins_and_slow_scrapers() {
    let env = Env::start();
    let mut host = Container::start(&env, &template(&env));
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
    let probes = wait("the address of the probes", LONG, || host.address("/readyz"));
    let metrics = wait("the address of the metrics", LONG, || host.address("serving /metrics"));
    let dropped = |text: &str, letter: char| {
        let series = format!("windlass_plugin_dropped_measurements_total{{plugin=\"{}\"}} ", name(letter));
        text.lines().any(|line| line.strip_prefix(&series).is_some_and(|count| count != "0"))
    };
    let text = env.wait("dropped measurements of all", LONG, || {
        assert!(host.is_running(), "the host was killed: {}", host.log());
        let (_, text) = http_get(metrics, "/metrics")?;
        letters.clone().all(|letter| dropped(&text, letter)).then_some(text)
    });
    assert!(text.len() < 17 << 20, "{} bytes of metrics", text.len());

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
    assert!(host.is_running(), "{}", host.log());
    let [now, peak, killed] = host.memory();
    eprintln!("{} bytes of metrics; slowest of 20 scrapes {longest:?}; {now} MiB now, {peak} MiB at most", text.len());
    assert_eq!(killed, 0, "nothing was killed");
}
