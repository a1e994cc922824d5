//! The programs of a real node: kubelet and kube-proxy of the control plane's version, and Debian's containerd.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{
    Buildah, Progress, built_once, from_debian, go_build, go_install, install, kubernetes, read_all, run, source,
};

/// The image of the container that holds a Pod's namespaces. It also serves as a container that does nothing.
pub const PAUSE_IMAGE: &str = "localhost/windlass/pause:1";

/// The programs of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeTools {
    /// kubelet and kube-proxy, selected by the first argument.
    pub node: PathBuf,
    /// The folder of containerd, its shim and ctr.
    pub containerd: PathBuf,
    /// The folder of the CNI plugins.
    pub cni: PathBuf,
    /// `CoreDNS`, by which Pods find Services.
    pub dns: PathBuf,
    /// An archive with [`PAUSE_IMAGE`].
    pub pause: PathBuf,
}

/// Makes sure that they exist, which takes six minutes on two cores if none does.
///
/// # Errors
/// If this user is not root, or something cannot be had.
pub(crate) fn node(progress: Progress) -> Result<NodeTools> {
    ensure!(rustix::process::geteuid().is_root(), "a real node takes root: its containers have namespaces and limits");
    let programs = ["buildah", "runc", "iptables"].map(|name| (name, name));
    let programs = [&programs[..], &[("nsenter", "util-linux"), ("ss", "iproute2")]].concat();
    install(&programs, progress)?;
    let containerd = built_once("containerd", "debian", "containerd, from Debian's package", progress, |dir| {
        from_debian("containerd", &["containerd", "containerd-shim-runc-v2", "ctr"], dir, progress)
    })?;
    let cni = built_once("bridge", "debian", "CNI plugins, from Debian's package", progress, |dir| {
        from_debian("containernetworking-plugins", &["bridge", "host-local", "loopback", "portmap"], dir, progress)
    })?;
    let folder =
        |program: &Path| Ok::<_, anyhow::Error>(program.parent().context("a program has no folder")?.to_owned());
    Ok(NodeTools {
        node: programs_of_node(progress)?,
        containerd: folder(&containerd)?,
        cni: folder(&cni)?,
        dns: go_install("coredns", "github.com/coredns/coredns", "v1.13.1", progress)?,
        pause: pause(progress)?,
    })
}

fn programs_of_node(progress: Progress) -> Result<PathBuf> {
    let source = source("cluster");
    let inputs = read_all(&source, &["go.mod", "go.sum", "node/main.go"])?;
    let version = kubernetes::version_of(&inputs)?;
    built_once(
        "node",
        &inputs,
        &format!("kubelet and kube-proxy {version}, some 3 minutes on 2 cores"),
        progress,
        |dir| {
            let mut build = go_build(&source, &kubernetes::link_flags(&version), progress)?;
            build.arg(dir.join("node")).arg("./node");
            run::quietly(build, "go build of tests/cluster/node", dir, progress)
        },
    )
}

fn pause(progress: Progress) -> Result<PathBuf> {
    let source = source("cluster");
    let inputs = read_all(&source, &["pause/main.go"])?;
    built_once("pause.tar", &inputs, "the image of Pods", progress, |dir| {
        let program = dir.join("pause");
        let mut build = go_build(&source, "-s -w", progress)?;
        build.arg(&program).arg("./pause");
        run::quietly(build, "go build of tests/cluster/pause", dir, progress)?;
        let buildah = Buildah::in_folder(dir.join("storage"));
        let container = buildah.output(&["from", "scratch"])?;
        buildah.output(&["copy", "--quiet", &container, &program.to_string_lossy(), "/pause"])?;
        buildah.output(&["config", "--entrypoint", r#"["/pause"]"#, "--user", "65534:65534", &container])?;
        buildah.output(&["commit", "--quiet", "--rm", &container, PAUSE_IMAGE])?;
        buildah.archive(PAUSE_IMAGE, PAUSE_IMAGE, &dir.join("pause.tar"))?;
        for folder in ["storage", "storage.run"] {
            // Layers keep the modes of their files, so the folder may not be removable; it only uses space then.
            let _ = fs::remove_dir_all(dir.join(folder));
        }
        Ok(())
    })
}
