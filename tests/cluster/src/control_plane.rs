//! The flags of each process of a control plane, and the files that they name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cluster::Options;
use crate::credentials::{self, COMPONENTS, Server, component_token, kubeconfig, private_file};
use crate::node;
use crate::ports;
use crate::supervised::{Plan, Process, Ready};
use crate::tools::{ControlPlane, NodeTools, source};

/// The administrator's kubeconfig file.
pub(crate) const KUBECONFIG: &str = "kubeconfig";
/// The audit log.
pub(crate) const AUDIT_LOG: &str = "audit.jsonl";

const AUDIT_POLICY: &str = "audit-policy.yaml";
const KWOK_CONFIG: &str = "kwok.yaml";

/// The time that a control plane may take to start. Three seconds are usual; it takes far longer on a machine that
/// builds something else on all its cores.
const READY_SECONDS: u32 = 120;

/// The programs of a cluster.
pub(crate) struct Tools {
    pub control_plane: ControlPlane,
    /// With a real node instead of fake ones.
    pub node: Option<NodeTools>,
}

/// Writes all files of a new cluster into `dir`, and returns the processes to run there.
pub(crate) fn plan(dir: &Path, tools: &Tools, options: &Options, remove_dir: bool, detached: bool) -> Result<Plan> {
    let [api, etcd, peer] = ports::free()?;
    let address = if tools.node.is_some() { node::ADDRESS } else { "127.0.0.1" };
    let url = format!("https://{address}:{api}");
    let token = credentials::write(dir)?;
    let ca_file = dir.join(credentials::CA);
    let ca_pem = fs::read(&ca_file).with_context(|| format!("cannot read {}", ca_file.display()))?;
    let server = Server { url: &url, ca_pem: &ca_pem };
    kubeconfig(&dir.join(KUBECONFIG), &server, "admin", &token)?;
    for component in COMPONENTS {
        kubeconfig(&dir.join(of(component)), &server, component, &component_token(&token, component))?;
    }
    private_file(&dir.join(AUDIT_POLICY), audit_policy(options).as_bytes())?;
    private_file(&dir.join(KWOK_CONFIG), kwok_config()?.as_bytes())?;

    let component = |name: &'static str, flags: Vec<String>, after_server| {
        let program = if name == "etcd" { &tools.control_plane.etcd } else { &tools.control_plane.cluster };
        let argv = [program.display().to_string(), name.to_owned()].into_iter().chain(flags).collect();
        Process { name, argv, after_server }
    };
    let mut processes = vec![
        component("etcd", etcd_flags(dir, etcd, peer), false),
        component("kube-apiserver", api_server_flags(dir, [address, &api.to_string()], etcd, options), false),
        component("kube-controller-manager", controller_manager_flags(dir), true),
        component("kube-scheduler", scheduler_flags(dir), true),
    ];
    if let Some(node) = &tools.node {
        processes.extend(node::processes(dir, node)?);
    } else {
        let argv = std::iter::once(tools.control_plane.kwok.display().to_string()).chain(kwok_flags(dir)).collect();
        processes.push(Process { name: "kwok", argv, after_server: true });
    }
    Ok(Plan {
        dir: dir.to_owned(),
        // The files of containers are mounted there, until the namespaces end with the supervisor.
        remove_dir: remove_dir && tools.node.is_none(),
        detached,
        set_up: tools.node.as_ref().map(|_| node::set_up(dir)).unwrap_or_default(),
        processes,
        ready: Ready {
            server: url,
            token,
            ca_file,
            nodes: if tools.node.is_some() { 0 } else { options.nodes },
            timeout_seconds: READY_SECONDS,
            tcp: Vec::new(),
        },
    })
}

pub(crate) fn of(component: &str) -> String {
    format!("{component}.{KUBECONFIG}")
}

fn etcd_flags(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data is discarded at the end, so a crash of the machine may lose it.
        "--unsafe-no-fsync".into(),
        "--quota-backend-bytes=8589934592".into(),
        "--log-level=warn".into(),
    ]
}

fn api_server_flags(dir: &Path, [address, port]: [&str; 2], etcd: u16, options: &Options) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
        format!("--bind-address={address}"),
        format!("--cert-dir={}", dir.display()),
        format!("--tls-cert-file={}", file(credentials::SERVER_CERTIFICATE)),
        format!("--tls-private-key-file={}", file(credentials::SERVER_KEY)),
        format!("--token-auth-file={}", file(credentials::TOKENS)),
        // A kubelet may only read what its Pods need.
        "--authorization-mode=Node,RBAC".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file(credentials::SERVICE_ACCOUNT_PUBLIC_KEY)),
        format!("--service-account-signing-key-file={}", file(credentials::SERVICE_ACCOUNT_KEY)),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        format!("--audit-policy-file={}", file(AUDIT_POLICY)),
        format!("--audit-log-path={}", file(AUDIT_LOG)),
        // The line is written before its request ends, not some time later.
        "--audit-log-mode=blocking".into(),
        // Megabytes. The log must not be rotated while a test reads it.
        "--audit-log-maxsize=1000000".into(),
    ];
    if options.node {
        // Pods reach it by the Service `kubernetes`; it reaches the kubelet for logs and port-forward.
        flags.extend([format!("--advertise-address={address}"), "--kubelet-preferred-address-types=InternalIP".into()]);
    } else {
        // A loopback address cannot be advertised, and without a network there is no other one. No client uses this address.
        flags.extend(["--advertise-address=192.0.2.1".into(), "--endpoint-reconciler-type=none".into()]);
    }
    flags.extend(options.apiserver_args.iter().cloned());
    flags
}

fn controller_manager_flags(dir: &Path) -> Vec<String> {
    let config = dir.join(of("kube-controller-manager"));
    vec![
        format!("--kubeconfig={}", config.display()),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        // Each controller uses its own ServiceAccount, as in other clusters, so that the audit log distinguishes them.
        "--use-service-account-credentials=true".into(),
        format!("--service-account-private-key-file={}", dir.join(credentials::SERVICE_ACCOUNT_KEY).display()),
        format!("--root-ca-file={}", dir.join(credentials::CA).display()),
        // A test of a thousand Deployments would measure the defaults (20 and 30 a second).
        "--kube-api-qps=1000".into(),
        "--kube-api-burst=2000".into(),
    ]
}

fn scheduler_flags(dir: &Path) -> Vec<String> {
    let config = dir.join(of("kube-scheduler"));
    vec![
        format!("--kubeconfig={}", config.display()),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=1000".into(),
        "--kube-api-burst=2000".into(),
    ]
}

fn kwok_flags(dir: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", dir.join(of("kwok")).display()),
        format!("--config={}", dir.join(KWOK_CONFIG).display()),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".into(),
        "--node-lease-duration-seconds=40".into(),
        "--cidr=10.200.0.0/16".into(),
    ]
}

/// kwok's configuration: our stages, and nothing from the user's own folder.
fn kwok_config() -> Result<String> {
    let folder = source("cluster").join("stages");
    let mut text = String::from(
        "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration\noptions:\n  podPlayStageParallelism: 4\n  nodePlayStageParallelism: 4\n  nodeLeaseParallelism: 4\n",
    );
    for stage in ["node-ready", "pod-ready", "pod-complete", "pod-delete"] {
        let path = folder.join(format!("{stage}.yaml"));
        text += "---\n";
        text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}

fn audit_policy(options: &Options) -> String {
    format!(
        "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: {:?}
",
        options.audit
    )
}
