//! The programs that the testbed runs: built once from their Go modules, and kept in the user's cache folder, as other things
//! that take long to build ([`built_once`]).

mod buildah;
mod go;
mod kubernetes;
mod node;
mod run;
mod store;
pub mod wasm_compiler;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

pub use buildah::{Buildah, install};
pub use go::Go;
pub use kubernetes::{
    ControlPlane, KUBERNETES, OTHER_VERSIONS, control_plane, control_plane_of, has_control_plane, kubectl,
    other_version,
};
pub use node::PAUSE_IMAGE;
pub(crate) use node::{NodeTools, node};
pub use store::built_once;
use store::has_build;

/// Receives a line for each step of the set-up.
pub type Progress<'a> = &'a dyn Fn(&str);

/// The usual [`Progress`]: lines on standard error, even if the output of a test is captured, because the first build
/// takes minutes.
pub fn stderr(line: &str) {
    // If standard error is closed, the line is lost, which does no harm.
    let _ = writeln!(std::io::stderr(), "windlass: {line}");
}

const COLLECTOR_BUILDER: &str = "go.opentelemetry.io/collector/cmd/builder@v0.156.0";

/// Starts processes and ends them together: see tests/cluster/supervise.
pub(crate) fn supervise(progress: Progress) -> Result<PathBuf> {
    let source = source("cluster");
    let files = ["supervise/main.go", "supervise/ready.go", "supervise/death_linux.go", "supervise/death_other.go"];
    let inputs = read_all(&source, &files)?;
    built_once("supervise", &inputs, "the process supervisor", progress, |dir| {
        let mut build = go_build(&source, "-s -w", progress)?;
        build.arg(dir.join("supervise")).arg("./supervise");
        run::quietly(build, "go build of tests/cluster/supervise", dir, progress)
    })
}

/// A reproducible `go build` in a folder. The caller appends the output's path and the package.
fn go_build(source: &Path, flags: &str, progress: Progress) -> Result<Command> {
    let mut build = Go::find(progress)?.builder();
    build.current_dir(source).args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o"]);
    Ok(build)
}

/// Prometheus, with promtool beside it: the one in `PATH`, or else Debian's package, which is unpacked and not installed,
/// so that no service starts.
pub fn prometheus(progress: Progress) -> Result<PathBuf> {
    const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];
    let in_path = || -> Option<PathBuf> {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).find(|folder| PROGRAMS.iter().all(|program| folder.join(program).is_file()))
    };
    if let Some(folder) = in_path() {
        return Ok(folder.join("prometheus"));
    }
    built_once("prometheus", "debian, usr", "Prometheus, from Debian's package", progress, |dir| {
        from_debian("prometheus", &PROGRAMS, dir, progress)
            .context("Prometheus is needed: install it, so that prometheus and promtool are in PATH")
    })
}

/// The library that shows a process another date, from Debian's package.
pub fn faketime(progress: Progress) -> Result<PathBuf> {
    const LIBRARY: &str = "libfaketime.so.1";
    built_once(LIBRARY, "debian", "libfaketime, from Debian's package", progress, |dir| {
        from_debian("libfaketime", &[LIBRARY], dir, progress)
    })
}

/// Puts files of a Debian package into `dir`, without installing it.
fn from_debian(name: &str, files: &[&str], dir: &Path, progress: Progress) -> Result<()> {
    let package = dir.join("package");
    fs::create_dir(&package).context("cannot create a folder for the package")?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(arguments).arg("--quiet").current_dir(&package);
        run::quietly(apt, &format!("apt-get {}", arguments.join(" ")), dir, progress)
    };
    // A fresh machine has no lists of packages; only root can fetch them.
    apt(&["download", name]).or_else(|_| apt(&["update"]).and_then(|()| apt(&["download", name])))?;
    let entry = fs::read_dir(&package).context("cannot read the folder of the package")?.next();
    let archive = entry.context("apt-get downloaded no package")??.path();
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(&archive).arg(&package);
    run::quietly(unpack, "dpkg-deb", dir, progress)?;
    for file in files {
        // Not in `etc` or `usr/share`: a package of a service has a script of the same name there, or a completion.
        let mut found = None;
        for folder in ["usr/bin", "usr/lib"].map(|folder| package.join(folder)).iter().filter(|folder| folder.exists())
        {
            found = found.or(find(folder, file)?);
        }
        let found = found.with_context(|| format!("the package {name} has no {file}"))?;
        fs::rename(found, dir.join(file)).with_context(|| format!("cannot move {file}"))?;
    }
    fs::remove_dir_all(&package).context("cannot remove the unpacked package")
}

/// The file of this name in a folder or below it.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if let Some(found) = find(&entry.path(), name)? {
                return Ok(Some(found));
            }
        } else if entry.file_name() == name {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// The OpenTelemetry Collector of the tests, with the components that tests/collector/builder.yaml names.
pub fn collector(progress: Progress) -> Result<PathBuf> {
    let config =
        fs::read(source("collector").join("builder.yaml")).context("cannot read tests/collector/builder.yaml")?;
    let inputs = format!("{COLLECTOR_BUILDER}\n{}", String::from_utf8_lossy(&config));
    built_once(
        "otelcol",
        inputs.as_bytes(),
        "the OpenTelemetry Collector, some 2 minutes on 2 cores",
        progress,
        |dir| {
            let go = Go::find(progress)?;
            let sources = dir.join("sources");
            // The builder reads these two settings only from its file, and the file in the repository cannot contain
            // them.
            let here = format!("dist:\n  output_path: {}\n  go: {}\n", quoted(&sources), quoted(go.path()));
            let config = String::from_utf8_lossy(&config).replacen("dist:\n", &here, 1);
            fs::write(dir.join("builder.yaml"), config).context("cannot write the collector's builder.yaml")?;
            let mut build = go.builder();
            build.args(["run", COLLECTOR_BUILDER, "--ldflags=-s -w", "--config"]).arg(dir.join("builder.yaml"));
            run::quietly(build, "the collector's builder", dir, progress)?;
            fs::rename(sources.join("otelcol"), dir.join("otelcol"))
                .context("the collector's builder built no otelcol")?;
            fs::remove_dir_all(&sources).context("cannot remove the collector's sources")
        },
    )
}

/// The registry of the CNCF distribution project: the reference implementation of the OCI distribution specification.
pub fn registry(progress: Progress) -> Result<PathBuf> {
    go_install("registry", "github.com/distribution/distribution/v3/cmd/registry", "v3.1.2", progress)
}

/// Sigstore's cosign, which signs as users do.
pub fn cosign(progress: Progress) -> Result<PathBuf> {
    go_install("cosign", "github.com/sigstore/cosign/v3/cmd/cosign", "v3.1.3", progress)
}

/// Helm, which installs charts.
pub fn helm(progress: Progress) -> Result<PathBuf> {
    go_install("helm", "helm.sh/helm/v4/cmd/helm", "v4.3.1", progress)
}

/// The CRDs of the Prometheus operator that Windlass' chart has objects of, in one file, from the operator's Go module.
pub fn prometheus_operator_crds(progress: Progress) -> Result<PathBuf> {
    const MODULE: &str = "github.com/prometheus-operator/prometheus-operator@v0.85.0";
    const NAME: &str = "prometheus-operator-crds";
    const KINDS: [&str; 3] = ["servicemonitors", "podmonitors", "prometheusrules"];
    built_once(NAME, format!("{MODULE} {}", KINDS.join(" ")), "the CRDs of the Prometheus operator", progress, |dir| {
        let folder = Go::find(progress)?.download(MODULE, dir)?.join("example/prometheus-operator-crd");
        let mut crds = String::new();
        for kind in KINDS {
            let file = folder.join(format!("monitoring.coreos.com_{kind}.yaml"));
            crds += &fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        }
        fs::write(dir.join(NAME), crds).context("cannot write the CRDs")
    })
}

/// Makes sure that a Go program with the given name exists: `go install PACKAGE@VERSION`, once.
pub fn go_install(name: &str, package: &str, version: &str, progress: Progress) -> Result<PathBuf> {
    let target = format!("{package}@{version}");
    built_once(name, target.as_bytes(), &format!("{name} {version}"), progress, |dir| {
        let mut build = Go::find(progress)?.builder();
        build.args(["install", "-trimpath", "-ldflags=-s -w", &target]).env("GOBIN", dir);
        run::quietly(build, &format!("go install {target}"), dir, progress)?;
        let program = package.rsplit('/').next().unwrap_or(package);
        if program == name {
            return Ok(());
        }
        fs::rename(dir.join(program), dir.join(name)).with_context(|| format!("go install {target} made no {program}"))
    })
}

/// A folder of the tests, in the checkout from which this crate was built.
pub(crate) fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(folder)
}

fn read_all(folder: &Path, files: &[&str]) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    for file in files {
        let path = folder.join(file);
        content.extend(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(content)
}

/// A path as a YAML string: JSON's strings are also YAML.
fn quoted(path: &Path) -> String {
    Value::from(path.to_string_lossy()).to_string()
}
