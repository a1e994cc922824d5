//! Finds Rust's compiler for wasm on this machine.
//!
//! 1. rustup's target, if it is installed, as on most contributors' machines.
//! 2. Debian's `rustc-web` with the standard library's source (`rust-web-src`), for machines whose rustup cannot
//!    download: cargo also builds the standard library. As root on Debian, these packages are installed.
//! 3. Otherwise rustup is asked to install the target.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::Progress;

const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's packages. Their compiler is where Debian's other compilers are.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// The workspace's `rust-version`: an older compiler of Debian cannot be used.
const MINIMUM: (u32, u32) = (1, 95);

/// A way to compile for wasm.
pub enum WasmCompiler {
    /// The toolchain in use has the target.
    Rustup,
    /// Debian's compiler, which also builds the standard library.
    Debian {
        /// Of the compiler.
        version: String,
        /// The linker, which Debian's packages lack.
        linker: PathBuf,
    },
}

impl fmt::Display for WasmCompiler {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Rustup => write!(out, "compiling with rustup's target {TARGET}"),
            Self::Debian { version, linker } => write!(
                out,
                "rustup has no target {TARGET} here: compiling with Debian's rustc {version} and a standard library of \
                 our own build, linked by {} (the first time takes a minute longer)",
                linker.file_name().unwrap_or_default().display()
            ),
        }
    }
}

impl WasmCompiler {
    /// Finds a compiler, or installs one.
    ///
    /// # Errors
    /// If there is none: the message says what to install.
    pub fn find(progress: Progress) -> Result<Self> {
        if has_target() {
            return Ok(Self::Rustup);
        }
        if let Some(compiler) = debian() {
            return Ok(compiler);
        }
        if is_root() && Path::new("/etc/debian_version").exists() {
            progress(&format!("no compiler for {TARGET} here: installing Debian's {}", PACKAGES.join(" and ")));
            let install = [&["install", "-q", "-y", "--no-install-recommends"], PACKAGES.as_slice()].concat();
            if run("apt-get", &["update", "-q"])
                && run("apt-get", &install)
                && let Some(compiler) = debian()
            {
                return Ok(compiler);
            }
        }
        progress(&format!("no compiler for {TARGET} here: asking rustup for it"));
        if run("rustup", &["target", "add", TARGET]) && has_target() {
            return Ok(Self::Rustup);
        }
        bail!(
            "no compiler for {TARGET}: run `rustup target add {TARGET}`, or where rustup cannot download, install a rustc of \
             at least {}.{} as {DEBIAN_RUSTC} with its library source (Debian: `apt-get install {}`)",
            MINIMUM.0,
            MINIMUM.1,
            PACKAGES.join(" ")
        )
    }

    /// Cargo with a subcommand, set up for the target.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = cargo();
        cargo.args([subcommand, "--target", TARGET]).envs(self.environment());
        cargo
    }

    /// The variables with which any cargo compiles for the target.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        match self {
            Self::Rustup => Vec::new(),
            Self::Debian { linker, .. } => vec![
                ("RUSTC", DEBIAN_RUSTC.into()),
                ("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort".into()),
                // Building the standard library is an unstable feature of cargo's.
                ("RUSTC_BOOTSTRAP", "1".into()),
                ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker.into()),
            ],
        }
    }
}

/// The cargo that runs this program, without the caller's settings.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Flags and wrappers meant for the host's own build (clippy, coverage) would rebuild all guests, or fail.
    for name in [
        "RUSTC",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
    ] {
        cargo.env_remove(name);
    }
    cargo
}

/// rustc of the toolchain in use, next to its cargo.
fn rustc() -> Command {
    let beside =
        env::var_os("CARGO").map(|cargo| PathBuf::from(cargo).with_file_name("rustc")).filter(|rustc| rustc.exists());
    Command::new(beside.unwrap_or_else(|| "rustc".into()))
}

fn has_target() -> bool {
    let libraries = answer(rustc().args(["--print", "target-libdir", "--target", TARGET]));
    libraries.is_some_and(|folder| Path::new(&folder).is_dir())
}

fn debian() -> Option<WasmCompiler> {
    let version = answer(Command::new(DEBIAN_RUSTC).arg("-vV"))?;
    let version = version.lines().find_map(|line| line.strip_prefix("release: "))?.to_owned();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    if (numbers.next()?, numbers.next()?) < MINIMUM {
        return None;
    }
    let root = answer(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]))?;
    let library = Path::new(&root).join("lib/rustlib/src/rust/library/Cargo.lock");
    library.exists().then_some(WasmCompiler::Debian { version, linker: linker()? })
}

/// `rust-lld` of the toolchain in use, or LLVM's own from the path.
fn linker() -> Option<PathBuf> {
    let version = answer(rustc().arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "))?;
    let root = answer(rustc().args(["--print", "sysroot"]))?;
    let own = Path::new(&root).join("lib/rustlib").join(host).join("bin/rust-lld");
    let others = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("wasm-ld"))
        .collect::<Vec<_>>();
    std::iter::once(own).chain(others).find(|linker| linker.exists())
}

fn is_root() -> bool {
    answer(Command::new("id").arg("-u")).is_some_and(|id| id == "0")
}

/// A command's standard output, if it succeeds.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command that shows its own progress.
fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .is_ok_and(|status| status.success())
}
