//! A real node beside the control plane: containerd, kubelet, kube-proxy and `CoreDNS`.
//!
//! They and the control plane run in Linux namespaces of their own, which node/set-up.sh prepares: mounts, processes and control groups
//! end with the cluster, and no packet of a Pod leaves the machine. Its network gets one interface and one route ([`NETWORK`]), which
//! end with the cluster, too; no rule and no setting of it changes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cluster::Cluster;
use crate::control_plane::{KUBECONFIG, of};
use crate::credentials::private_file;
use crate::poll::until;
use crate::supervised::Process;
use crate::tools::{NodeTools, source};

/// The node, and the API server's address.
pub(crate) const ADDRESS: &str = "10.89.0.1";
/// The node's name, and that of its user without the prefix `system:node:`.
pub(crate) const NAME: &str = "node-0";
/// What the names of Services end with.
const DOMAIN: &str = "cluster.local";
/// The addresses of node and Pods, which this machine reaches through the supervisor's network.
const NETWORK: &str = "10.89.0.0/16";
const POD_NETWORK: &str = "10.89.1.0/24";
/// The socket of containerd, inside the namespaces.
const SOCKET: &str = "/run/containerd/containerd.sock";
/// The parent of all control groups of the node, which node/set-up.sh makes, and the machine's interface to the node, which
/// node/connect.sh makes.
const ON_MACHINE: &str = "windlass-node";

/// The command that prepares the namespaces of a cluster with a node.
pub(crate) fn set_up(dir: &Path) -> Vec<String> {
    let script = source("cluster").join("node/set-up.sh");
    ["sh".into(), script.display().to_string(), dir.display().to_string(), ADDRESS.into()].into()
}

/// Writes the configuration of the node's programs, and returns the processes.
pub(crate) fn processes(dir: &Path, tools: &NodeTools) -> Result<Vec<Process>> {
    fs::create_dir_all(dir.join("cni")).with_context(|| format!("cannot write to {}", dir.display()))?;
    for (name, text) in [
        ("containerd.toml", containerd_config(dir, tools)),
        ("cni/10-windlass.conflist", cni_config(dir)),
        ("kubelet.yaml", kubelet_config(dir)),
        ("kube-proxy.yaml", proxy_config(dir)),
        ("Corefile", dns_config(dir)),
    ] {
        private_file(&dir.join(name), text.as_bytes())?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let node = tools.node.display();
    let folder = dir.display();
    let process = |name, command: Vec<String>, after_server| Process { name, argv: command, after_server };
    Ok(vec![
        process(
            "containerd",
            vec![
                "env".into(),
                format!("PATH={}:{path}", tools.containerd.display()),
                tools.containerd.join("containerd").display().to_string(),
                format!("--config={folder}/containerd.toml"),
            ],
            false,
        ),
        process(
            "kubelet",
            vec![
                node.to_string(),
                "kubelet".into(),
                format!("--config={folder}/kubelet.yaml"),
                format!("--kubeconfig={folder}/{}", of("kubelet")),
                format!("--root-dir={folder}/kubelet"),
                format!("--hostname-override={NAME}"),
                format!("--node-ip={ADDRESS}"),
            ],
            true,
        ),
        process(
            "kube-proxy",
            vec![node.to_string(), "kube-proxy".into(), format!("--config={folder}/kube-proxy.yaml")],
            true,
        ),
        process("coredns", vec![tools.dns.display().to_string(), format!("-conf={folder}/Corefile")], true),
    ])
}

fn containerd_config(dir: &Path, tools: &NodeTools) -> String {
    let (folder, cni, pause) = (dir.display(), tools.cni.display(), crate::tools::PAUSE_IMAGE);
    format!(
        r#"version = 2
root = "{folder}/containerd"
state = "/run/containerd"

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Otherwise runc fails where the machine itself lacks CAP_SYS_RESOURCE.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{folder}/cni"
"#
    )
}

fn cni_config(dir: &Path) -> String {
    format!(
        r#"{{
  "cniVersion": "0.4.0",
  "name": "windlass",
  "plugins": [
    {{
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {{
        "type": "host-local",
        "dataDir": "{}/cni-addresses",
        "ranges": [[{{ "subnet": "{POD_NETWORK}" }}]],
        "routes": [{{ "dst": "0.0.0.0/0" }}]
      }}
    }},
    {{ "type": "portmap", "capabilities": {{ "portMappings": true }} }}
  ]
}}
"#,
        dir.display()
    )
}

fn kubelet_config(dir: &Path) -> String {
    let folder = dir.display();
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# Only this machine and the Pods reach it.
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{SOCKET}
cgroupDriver: cgroupfs
clusterDNS: [{ADDRESS}]
clusterDomain: {DOMAIN}
cgroupRoot: /{ON_MACHINE}
failCgroupV1: false
failSwapOn: false
# A full disk of the machine must not evict the Pods of a test.
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
podLogsDir: {folder}/pods
volumePluginDir: {folder}/kubelet/volume-plugins
"
    )
}

fn dns_config(dir: &Path) -> String {
    format!(
        ".:53 {{
    bind {ADDRESS}
    errors
    kubernetes {DOMAIN} {{
        kubeconfig {}
    }}
}}
",
        dir.join(KUBECONFIG).display()
    )
}

fn proxy_config(dir: &Path) -> String {
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: {NAME}
clusterCIDR: {POD_NETWORK}
clientConnection: {{kubeconfig: {}}}
# These are settings of the whole machine.
conntrack: {{maxPerCore: 0, min: 0}}
",
        dir.join(of("kube-proxy")).display()
    )
}

/// Waits until no other node is connected with this machine: one may just be ending. Nodes share addresses and control groups.
///
/// # Errors
/// If there is still one after ten seconds.
pub(crate) fn wait_alone() -> Result<()> {
    let is_alone = || Ok((!Path::new("/sys/class/net").join(ON_MACHINE).exists()).then_some(()));
    until("another cluster with a real node to end (only one can run at a time)", Duration::from_secs(10), is_alone)
}

/// Connects this machine with the node's network, gives containerd the image of Pods, and waits until the node is Ready.
pub(crate) fn connect(cluster: &Cluster, tools: &NodeTools) -> Result<()> {
    let mut connect = Command::new("sh");
    connect.arg(source("cluster").join("node/connect.sh")).args([&cluster.supervisor()?.to_string(), NETWORK]);
    output(&mut connect, "the connection with the node's network (does another cluster with a node run?)")?;
    until("containerd to take the image of Pods", Duration::from_mins(1), || {
        load_image(cluster, tools, &tools.pause).map(Some)
    })?;
    until("the node to be registered", Duration::from_mins(1), || {
        Ok(cluster.kubectl(&["get", "node", NAME, "--ignore-not-found", "-o", "name"])?.contains(NAME).then_some(()))
    })?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", "node", NAME])?;
    Ok(())
}

/// Gives containerd the images of an archive.
pub(crate) fn load_image(cluster: &Cluster, tools: &NodeTools, archive: &Path) -> Result<()> {
    let mut import = Command::new("nsenter");
    import.args(["--target", &cluster.supervisor()?.to_string(), "--mount", "--net", "--"]);
    import.arg(tools.containerd.join("ctr")).args(["--address", SOCKET, "--namespace", "k8s.io", "images", "import"]);
    // nsenter changes into another working directory.
    output(import.arg(std::path::absolute(archive)?), "ctr images import")
}

fn output(command: &mut Command, what: &str) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {what}"))?;
    ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Removes the control groups of a node whose processes have ended.
pub(crate) fn remove_control_groups() {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    for folder in controllers.chain([root.to_owned()]) {
        // What cannot be removed is empty, and the next node uses it.
        let _ = remove_folders(&folder.join(ON_MACHINE));
    }
}

/// Removes a folder and those below it. A control group's files cannot be removed, and need not be.
fn remove_folders(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_folders(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}
