//! `cargo xtask image`: builds the host's image, and tests it in a container as its Deployment runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use windlass_testbed::tools::{self, Buildah};

use crate::guests;
use crate::run::{cargo, image_binary, root, run, windlass};

/// Flags.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs root, and Debian's packages buildah and debootstrap, with --try also runc and iptables; installs those that are \
missing.

Examples:
  cargo xtask image                              a release image, in buildah's own storage and in target/image/image.tar
  cargo xtask image --dev --try                  a quick build, installed on a real node by chart and kustomization
  cargo xtask image --dev --try --from HEAD~1    also an upgrade from another commit, and back"
)]
pub struct Args {
    /// Name and tag of the image
    #[arg(long, default_value = IMAGE)]
    tag: String,
    /// Put a dev build into the image, which is quick, instead of a release build
    #[arg(long)]
    dev: bool,
    /// Install the image on a real node, in Linux namespaces of this machine, and test it there
    #[arg(long = "try")]
    is_tried: bool,
    /// Build an image of this commit, too, and test the upgrade from it and back
    #[arg(long, value_name = "COMMIT", requires = "is_tried")]
    from: Option<String>,
}

/// The image in which the Dockerfile puts the host's image together, instead of its own with a Rust compiler. If it cannot be
/// pulled, it is built from Debian's packages.
const BASE: &str = "debian:bookworm-slim";
/// The same Debian release, as debootstrap names it.
const RELEASE: &str = "bookworm";

/// Largest compressed size of a release image, in bytes.
const LARGEST: u32 = 14_000_000;

/// A part of paths in the messages of Cranelift, which a binary without it does not have.
const COMPILER: &[u8] = b"cranelift-codegen";

/// How buildah builds an image without a container engine, from images that it has.
const BUILD: [&str; 4] = ["build", "--isolation", "chroot", "--pull-never"];

/// The image in the manifests.
const IMAGE: &str = "windlass:0.1.0";
/// The tag of the image of the commit that is upgraded.
const BEFORE: &str = "windlass:before";
/// The image of the servers of a `PostgresCluster`, and the folder of its Dockerfile.
const POSTGRES: &str = "postgres:15";
const POSTGRES_SOURCE: &str = "tests/cluster/node/postgres";

/// Builds the image, and tests it if `--try` is set.
///
/// # Errors
/// If something does not build, or the test fails.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let root = root()?;
    tools::install(&[("buildah", "buildah"), ("debootstrap", "debootstrap")], &tools::stderr)?;
    let work = root.join("target/image");
    let buildah = Buildah::in_folder(work.join("storage"));
    build(&root, args.dev, &root.join("target"), &buildah, &args.tag)?;
    let size = compressed_size(&buildah, &args.tag, &work)?;
    let megabytes = f64::from(size) / 1e6;
    tools::stderr(&format!("image {} is in {}: {megabytes:.1} MB compressed", args.tag, buildah.storage().display()));
    if !args.dev && size > LARGEST {
        bail!("the image has {size} bytes compressed, more than {LARGEST}");
    }
    // The name in the manifests, as container runtimes complete it.
    let image = archive(&buildah, &args.tag, IMAGE, "image.tar")?;
    tools::stderr(&format!("{} has it as an archive, with the name docker.io/library/{IMAGE}", image.display()));
    if !args.is_tried {
        return Ok(());
    }
    let postgres = postgres(&root, &buildah)?;
    let images = [&*image, &postgres];
    let Some(commit) = &args.from else {
        return try_out(&root, images, None);
    };
    let before = work.join("before");
    let worktree = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("worktree").args(args).current_dir(&root);
        git
    };
    let path = before.to_string_lossy();
    // One may be left by a run that was ended.
    let _ = worktree(&["remove", "--force", &path]).output();
    run(&mut worktree(&["add", "--quiet", "--detach", &path, commit]))?;
    let tried = build(&before, args.dev, &work.join("before-target"), &buildah, BEFORE)
        .and_then(|()| archive(&buildah, BEFORE, BEFORE, "before.tar"))
        .and_then(|archive| try_out(&root, images, Some((&before, &archive))));
    run(&mut worktree(&["remove", "--force", &path]))?;
    tried
}

/// The commands that build the binaries in the image of a checkout, with their names. An older one, which is upgraded, may have them all in
/// one, or copy the libraries of its binaries to the image.
fn binaries(checkout: &Path, profile: &str) -> anyhow::Result<Vec<(&'static str, Command)>> {
    let names: &[_] =
        if checkout.join("host/server").exists() { &["windlass-host", "windlass-compile"] } else { &["windlass"] };
    let has_libraries = fs::read_to_string(checkout.join("Dockerfile"))?.contains("ldd ");
    let build = |name: &&'static str| {
        if has_libraries {
            let mut build = cargo();
            build.args(["build", "--profile", profile, "--locked", "--package", name]);
            return (*name, build);
        }
        (*name, image_binary(name, profile))
    };
    Ok(names.iter().map(build).collect())
}

/// Builds the binaries of a checkout, and its image.
fn build(checkout: &Path, is_dev: bool, target: &Path, buildah: &Buildah, tag: &str) -> anyhow::Result<()> {
    let (profile, folder) = if is_dev { ("dev", "debug") } else { ("dist", "dist") };
    let work = buildah.storage().with_file_name("");
    // A folder with only the binaries, because buildah copies the whole folder.
    let context = work.join("context");
    if context.exists() {
        fs::remove_dir_all(&context)?;
    }
    fs::create_dir_all(&context)?;
    for (name, mut build) in binaries(checkout, profile)? {
        run(build.current_dir(checkout).env("CARGO_TARGET_DIR", target))?;
        let binary = target.join(folder).join(name);
        fs::copy(&binary, context.join(name)).with_context(|| binary.display().to_string())?;
        if !is_dev {
            let built = fs::read(&binary)?;
            tools::stderr(&format!("{name}: {} KB", built.len() / 1000));
            if name == "windlass-host" && built.windows(COMPILER.len()).any(|part| part == COMPILER) {
                bail!("{} has the compiler in it", binary.display());
            }
        }
    }
    make_base(buildah, &work)?;
    let builder = format!("BUILDER={BASE}");
    let build = [&BUILD[..], &["--build-arg", &builder, "--tag", tag, "--file"]].concat();
    run(buildah.command().args(build).arg(checkout.join("Dockerfile")).arg(&context))
}

/// Builds the image of the servers of a `PostgresCluster`, unless it is there. Returns its archive.
fn postgres(root: &Path, buildah: &Buildah) -> anyhow::Result<PathBuf> {
    tools::stderr(&format!("building {POSTGRES} from Debian's packages, some 2 minutes the first time"));
    let build = [&BUILD[..], &["--layers", "--quiet", "--tag", POSTGRES]].concat();
    run(buildah.command().args(build).arg(root.join(POSTGRES_SOURCE)))?;
    archive(buildah, POSTGRES, POSTGRES, "postgres.tar")
}

/// Writes an image to an archive in the work folder, under this name.
fn archive(buildah: &Buildah, tag: &str, name: &str, file: &str) -> anyhow::Result<PathBuf> {
    let file = buildah.storage().with_file_name(file);
    buildah.archive(tag, &format!("docker.io/library/{name}"), &file)?;
    Ok(file)
}

/// Runs the ignored tests, which install the image on a real node, with that of `PostgresCluster` servers: with the checkout and the image of
/// the commit that is upgraded, if there is one.
fn try_out(root: &Path, [image, postgres]: [&Path; 2], before: Option<(&Path, &Path)>) -> anyhow::Result<()> {
    guests::build(&guests::Options::default())?;
    // The tests also run it as a command.
    windlass()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--test", "node", "--", "--ignored", "--nocapture", "--test-threads=1"]);
    tests.env("WINDLASS_TEST_IMAGE", image).env("WINDLASS_TEST_IMAGE_POSTGRES", postgres);
    match before {
        Some((checkout, image)) => {
            tests.env("WINDLASS_TEST_CHECKOUT_BEFORE", checkout).env("WINDLASS_TEST_IMAGE_BEFORE", image);
        }
        None => {
            tests.args(["--skip", "chart_is_upgraded_from_another_commit"]);
        }
    }
    run(tests.current_dir(root))
}

/// The size of an image as a registry stores it.
fn compressed_size(buildah: &Buildah, tag: &str, work: &Path) -> anyhow::Result<u32> {
    let layout = work.join("oci");
    if layout.exists() {
        fs::remove_dir_all(&layout)?;
    }
    run(buildah.command().args(["push", "--quiet", tag]).arg(format!("oci:{}", layout.display())))?;
    let mut size = 0;
    for blob in fs::read_dir(layout.join("blobs/sha256"))? {
        size += blob?.metadata()?.len();
    }
    fs::remove_dir_all(&layout)?;
    u32::try_from(size).context("the image is larger than 4 GiB")
}

/// Makes sure that the base image exists.
fn make_base(buildah: &Buildah, work: &Path) -> anyhow::Result<()> {
    let is_there = || {
        let known = buildah.command().args(["inspect", "--type", "image", BASE]).output();
        known.is_ok_and(|known| known.status.success())
    };
    if is_there() {
        return Ok(());
    }
    if buildah.command().args(["pull", "--quiet", BASE]).output()?.status.success() {
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
    let container = buildah.output(&["from", "scratch"])?;
    buildah.output(&["copy", "--quiet", &container, &tree.to_string_lossy(), "/"])?;
    buildah.output(&["commit", "--quiet", "--rm", &container, BASE])?;
    fs::remove_dir_all(&tree)?;
    Ok(())
}
