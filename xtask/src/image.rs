//! `cargo xtask image`: builds the host's image, and tests it in a container as its Deployment runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use windlass_testbed::tools;

use crate::guests;
use crate::run::{cargo, output, root, run, windlass};

/// Flags.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs root, and Debian's packages buildah, debootstrap and runc; installs those that are missing.

Examples:
  cargo xtask image                a release image, in buildah's own storage
  cargo xtask image --dev --try    a quick build, run by runc with the Deployment's memory limit against a control plane"
)]
pub struct Args {
    /// Name and tag of the image
    #[arg(long, default_value = "windlass:0.1.0")]
    tag: String,
    /// Put a dev build into the image, which is quick, instead of a release build
    #[arg(long)]
    dev: bool,
    /// Run the image as manifests/kustomize/base does, with components whose compilation or metrics would need more memory than there is
    #[arg(long = "try")]
    is_tried: bool,
}

/// The image in which the Dockerfile puts the host's image together, instead of its own with a Rust compiler. If it cannot be
/// pulled, it is built from Debian's packages.
const BASE: &str = "debian:bookworm-slim";
/// The same Debian release, as debootstrap names it.
const RELEASE: &str = "bookworm";

/// Largest compressed size of a release image, in bytes.
const LARGEST: u32 = 25_000_000;

/// Builds the image, and tests it if `--try` is set.
///
/// # Errors
/// If something does not build, or the test fails.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let root = root()?;
    install(&["buildah", "debootstrap", "runc"])?;
    let binary = if args.dev {
        windlass()?
    } else {
        run(cargo().args(["build", "--profile", "dist", "--locked", "--bin", "windlass"]).current_dir(&root))?;
        root.join("target/dist/windlass")
    };
    let work = root.join("target/image");
    // A folder with only the binary, because buildah copies the whole folder.
    let context = work.join("context");
    fs::create_dir_all(&context)?;
    fs::copy(&binary, context.join("windlass")).with_context(|| binary.display().to_string())?;
    let buildah = Buildah { storage: work.join("storage") };
    buildah.make_base(&work)?;
    let file = root.join("Dockerfile");
    let builder = format!("BUILDER={BASE}");
    let build =
        ["build", "--isolation", "chroot", "--pull-never", "--build-arg", &builder, "--tag", &args.tag, "--file"];
    run(buildah.command().args(build).arg(&file).arg(&context))?;
    let size = buildah.compressed_size(&args.tag, &work)?;
    let megabytes = f64::from(size) / 1e6;
    tools::stderr(&format!("image {} is in {}: {megabytes:.1} MB compressed", args.tag, buildah.storage.display()));
    if !args.dev && size > LARGEST {
        bail!("the image has {size} bytes compressed, more than {LARGEST}");
    }
    if args.is_tried { try_out(&root, &buildah, &args.tag) } else { Ok(()) }
}

/// Runs the ignored tests that start the image.
fn try_out(root: &Path, buildah: &Buildah, tag: &str) -> anyhow::Result<()> {
    guests::build(&guests::Options::default())?;
    tools::control_plane(&tools::stderr)?;
    // The end-to-end tests also run it as a command.
    windlass()?;
    let container = output(buildah.command().args(["from", "--pull-never", tag]))?;
    let rootfs = output(buildah.command().args(["mount", container.trim()]))?;
    let tried = run(cargo()
        .args(["test", "--workspace", "--test", "container", "--", "--ignored", "--nocapture"])
        .env("WINDLASS_TEST_ROOTFS", rootfs.trim())
        .current_dir(root));
    run(buildah.command().args(["rm", container.trim()]))?;
    tried
}

/// buildah with its own storage.
struct Buildah {
    storage: PathBuf,
}

impl Buildah {
    fn command(&self) -> Command {
        let mut buildah = Command::new("buildah");
        // This driver works everywhere, also inside a container.
        buildah.args(["--storage-driver", "vfs", "--root"]).arg(&self.storage);
        buildah.arg("--runroot").arg(self.storage.with_file_name("run"));
        buildah
    }

    /// The size of an image as a registry stores it.
    fn compressed_size(&self, tag: &str, work: &Path) -> anyhow::Result<u32> {
        let layout = work.join("oci");
        if layout.exists() {
            fs::remove_dir_all(&layout)?;
        }
        run(self.command().args(["push", "--quiet", tag]).arg(format!("oci:{}", layout.display())))?;
        let mut size = 0;
        for blob in fs::read_dir(layout.join("blobs/sha256"))? {
            size += blob?.metadata()?.len();
        }
        fs::remove_dir_all(&layout)?;
        u32::try_from(size).context("the image is larger than 4 GiB")
    }

    /// Makes sure that the base image exists.
    fn make_base(&self, work: &Path) -> anyhow::Result<()> {
        let is_there = || {
            let known = self.command().args(["inspect", "--type", "image", BASE]).output();
            known.is_ok_and(|known| known.status.success())
        };
        if is_there() {
            return Ok(());
        }
        if self.command().args(["pull", "--quiet", BASE]).output()?.status.success() {
            return Ok(());
        }
        tools::stderr(&format!("{BASE} cannot be pulled: building it from Debian's packages, some 2 minutes"));
        let tree = work.join("debian");
        if tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        run(Command::new("debootstrap")
            .args(["--variant=minbase", RELEASE])
            .arg(&tree)
            .stdout(std::process::Stdio::null()))?;
        let container = output(self.command().args(["from", "scratch"]))?;
        let container = container.trim();
        run(self.command().args(["copy", "--quiet", container]).arg(&tree).arg("/"))?;
        run(self.command().args(["commit", "--quiet", "--rm", container, BASE]))?;
        fs::remove_dir_all(&tree)?;
        Ok(())
    }
}

/// Installs the missing ones of these Debian packages, each of which has a program of the same name.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    let is_missing = |package: &&&str| {
        let found = Command::new(package).arg("--version").output();
        !found.is_ok_and(|found| found.status.success())
    };
    let missing: Vec<_> = packages.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !Path::new("/etc/debian_version").exists() {
        bail!("{missing:?} are missing; install them with the package manager of this machine");
    }
    tools::stderr(&format!("installing Debian's {missing:?}"));
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(missing);
    run(apt.env("DEBIAN_FRONTEND", "noninteractive"))
}
