//! The programs of a control plane, of the version in tests/cluster/go.mod or of another one.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Go, Progress, built_once, go_build, go_install, has_build, read_all, run, source, supervise};

/// Names the version of Kubernetes that the tests use, as `1.30`; unset, it is the one in tests/cluster/go.mod.
pub const KUBERNETES: &str = "WINDLASS_TEST_KUBERNETES";

/// The versions beside the one in tests/cluster/go.mod: the oldest that Windlass supports, one between, and the newest.
pub const OTHER_VERSIONS: [&str; 3] = ["v1.30.14", "v1.33.13", "v1.37.2"];

const KWOK: &str = "v0.8.0";

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    /// kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, selected by the first argument.
    pub cluster: PathBuf,
    /// A program that is etcd if its first argument is `etcd`.
    pub etcd: PathBuf,
    /// `etcd` with the name kubectl.
    pub kubectl: PathBuf,
    /// The fake kubelet.
    pub kwok: PathBuf,
    /// Starts and ends all of them.
    pub supervise: PathBuf,
}

/// The programs of the version that [`KUBERNETES`] names: see [`control_plane_of`].
///
/// # Errors
/// If there is no such version, or a build fails.
pub fn control_plane(progress: Progress) -> Result<ControlPlane> {
    control_plane_of(&env::var(KUBERNETES).unwrap_or_default(), progress)
}

/// Makes sure that the programs of a control plane exist, of a version (`1.30`, or nothing for that in tests/cluster/go.mod). This takes
/// milliseconds if they do, and about ten minutes on two cores if none does.
///
/// # Errors
/// If there is no such version, or a build fails.
pub fn control_plane_of(version: &str, progress: Progress) -> Result<ControlPlane> {
    let cluster = cluster(version, progress)?;
    Ok(ControlPlane {
        kubectl: kubectl(progress)?,
        cluster,
        etcd: current(progress)?,
        kwok: go_install("kwok", "sigs.k8s.io/kwok/cmd/kwok", KWOK, progress)?,
        supervise: supervise(progress)?,
    })
}

/// kubectl of the version in tests/cluster/go.mod, also for other control planes: `kubectl delete` of 1.33 can wait for ever for an
/// object that is created again at once.
///
/// # Errors
/// As [`control_plane`].
pub fn kubectl(progress: Progress) -> Result<PathBuf> {
    Ok(current(progress)?.with_file_name("kubectl"))
}

/// Whether a control plane of any version has been built on this machine.
///
/// # Errors
/// If there is no folder for built programs.
pub fn has_control_plane() -> Result<bool> {
    has_build("cluster")
}

fn cluster(wanted: &str, progress: Progress) -> Result<PathBuf> {
    match other_version(wanted)? {
        None => current(progress),
        Some(version) => other(version, progress),
    }
}

/// The version that a user names, as `1.30` or `v1.30.14`; none if it is the current one, that of tests/cluster/go.mod, or unnamed.
///
/// # Errors
/// If the tests have no such version.
pub fn other_version(wanted: &str) -> Result<Option<&'static str>> {
    let current = version_of(&read_all(&source("cluster"), &["go.mod"])?)?;
    if wanted.is_empty() || is_minor(&current, wanted) {
        return Ok(None);
    }
    let other = OTHER_VERSIONS.into_iter().find(|version| is_minor(version, wanted));
    let known = || format!("no Kubernetes {wanted} here: choose one of {}, {current}", OTHER_VERSIONS.join(", "));
    Ok(Some(other.with_context(known)?))
}

/// Whether a version (`v1.30.14`) is of a minor version (`1.30`), or this very version.
fn is_minor(version: &str, wanted: &str) -> bool {
    let (version, wanted) = (version.trim_start_matches('v'), wanted.trim_start_matches('v'));
    version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The version in tests/cluster/go.mod, with etcd.
fn current(progress: Progress) -> Result<PathBuf> {
    let source = source("cluster");
    let inputs = read_all(&source, &["go.mod", "go.sum", "main.go", "etcd.go"])?;
    let version = version_of(&inputs)?;
    let what = format!("the control plane (Kubernetes {version}), up to ten minutes on 2 cores");
    built_once("cluster", &inputs, &what, progress, |dir| {
        let mut build = go_build(&source, &link_flags(&version), progress)?;
        build.arg(dir.join("cluster")).arg(".");
        run::quietly(build, "go build of tests/cluster", dir, progress)?;
        link_kubectl(dir)
    })
}

/// Another version: the same main.go, with the dependencies that this version was released with.
fn other(version: &str, progress: Progress) -> Result<PathBuf> {
    let main = read_all(&source("cluster"), &["main.go"])?;
    let inputs = [version.as_bytes(), &main].concat();
    let what = format!("the control plane (Kubernetes {version}), some five minutes on 2 cores");
    built_once("cluster", &inputs, &what, progress, |dir| {
        let go = Go::find(progress)?;
        let sources = dir.join("sources");
        fs::create_dir(&sources).context("cannot create a folder for the sources")?;
        fs::write(sources.join("main.go"), &main).context("cannot write main.go")?;
        let released = go.download(&format!("k8s.io/kubernetes@{version}"), dir)?;
        let sums = fs::read(released.join("go.sum")).context("cannot read Kubernetes' go.sum")?;
        fs::write(sources.join("go.sum"), sums).context("cannot write go.sum")?;
        let text = fs::read_to_string(released.join("go.mod")).context("cannot read Kubernetes' go.mod")?;
        fs::write(sources.join("go.mod"), go_mod(&text, version)).context("cannot write go.mod")?;
        let mut build = go.builder();
        // Not `readonly`: the sums of Kubernetes' staging modules are missing, and Go's checksum database has them.
        build.current_dir(&sources).args(["build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags"]);
        build.arg(link_flags(version)).arg("-o").arg(dir.join("cluster")).arg(".");
        run::quietly(build, &format!("go build of Kubernetes {version}"), dir, progress)?;
        fs::remove_dir_all(&sources).context("cannot remove the sources")?;
        link_kubectl(dir)
    })
}

/// Kubernetes' own go.mod, for a module that requires Kubernetes. What lies in its folder `staging` is released as modules of their
/// own. The samples among them are not needed, and not all of them were released.
fn go_mod(released: &str, version: &str) -> String {
    let staged = version.replacen("v1.", "v0.", 1);
    let mut text = String::new();
    for line in released.lines() {
        match line.split_once(" => ./staging/src/") {
            _ if line.contains("k8s.io/sample-") => continue,
            _ if line.starts_with("module ") => text += "module windlass.dev/cluster",
            Some((module, path)) => text.extend([module, " => ", path, " ", &staged]),
            None => text += line,
        }
        text.push('\n');
    }
    text.extend(["\nrequire k8s.io/kubernetes ", version, "\n"]);
    for sample in ["apiserver", "cli-plugin", "controller"] {
        text.extend(["exclude k8s.io/sample-", sample, " v0.0.0\n"]);
    }
    text
}

/// For users: the folder can be in `PATH`.
fn link_kubectl(dir: &Path) -> Result<()> {
    symlink("cluster", dir.join("kubectl")).context("cannot link kubectl")
}

/// Clients and the API server compare versions, and a plain `go build` sets them to v0.0.0.
pub(super) fn link_flags(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut flags = String::from("-s -w");
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
            flags.extend([" -X ", package, ".", variable, "=", value]);
        }
    }
    flags
}

pub(super) fn version_of(go_mod: &[u8]) -> Result<String> {
    let text = String::from_utf8_lossy(go_mod);
    let mut words = text.lines().filter_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    let version = words.next().context("tests/cluster/go.mod requires no k8s.io/kubernetes v1.x.y")?;
    Ok(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_version_is_not_the_prefix_of_another() {
        assert!(is_minor("v1.30.14", "1.30"));
        assert!(is_minor("v1.30.14", "v1.30.14"));
        assert!(!is_minor("v1.30.14", "1.3"));
        assert!(!is_minor("v1.30.14", "1.33"));
    }

    #[test]
    fn staging_modules_are_replaced_by_released_ones_and_samples_are_left_out() {
        let released = "module k8s.io/kubernetes\n\ngo 1.22.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/sample-apiserver v0.0.0\n)\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let text = go_mod(released, "v1.30.14");
        assert!(text.starts_with("module windlass.dev/cluster\n\ngo 1.22.0\n"), "{text}");
        assert!(text.contains("\tk8s.io/api => k8s.io/api v0.30.14\n"), "{text}");
        assert!(text.contains("require k8s.io/kubernetes v1.30.14\n"), "{text}");
        assert!(!text.contains("\tk8s.io/sample-apiserver v0.0.0"), "{text}");
    }
}
