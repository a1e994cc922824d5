//! `cargo xtask test`: sets up everything, then runs the tests.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use windlass_testbed::tools;

use crate::guests;
use crate::run::{cargo, root, run, windlass};
use crate::sdks;

/// End-to-end test binaries that run at the same time. Each waits for the API server most of its time, so three of them keep
/// two cores busy.
const END_TO_END_AT_ONCE: usize = 3;

/// Other test binaries that run at the same time. The longest of them compiles components, which uses one core.
const OTHERS_AT_ONCE: usize = 2;

/// Those of each kind that take longest. They start first, so that none of them runs alone at the end.
const LONGEST: [&str; 7] = ["sandbox", "sample", "tutorials", "rules", "faults", "operators", "spans"];

/// The end-to-end tests whose behaviour can depend on the version of Kubernetes, beside the shipped plugins'.
const CORE: [&str; 12] = [
    "operators",
    "packaging",
    "ownership",
    "hot_swap",
    "failover",
    "steady_state",
    "lifecycle",
    "plugin_deletion",
    "plugins",
    "escape",
    "grants",
    "kinds",
];

/// Flags.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                      all tests
  cargo xtask test r09                  the tests whose name contains r09
  cargo xtask test --kubernetes 1.30    the core of the end-to-end tests on another version of Kubernetes
  cargo xtask test --by-turns           all tests, the core on the version whose turn it is today")]
pub struct Args {
    /// Run only the tests whose name contains this
    filter: Option<String>,
    /// Run only the core of the end-to-end tests, on this version of Kubernetes: 1.30, 1.33, 1.36 or 1.37
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// Run the core of the end-to-end tests on another version of Kubernetes each day, and all other tests on the current one; the first run
    /// on a machine builds only the current one
    #[arg(long, conflicts_with = "kubernetes")]
    by_turns: bool,
}

/// The version whose turn it is on a day: each of the others in turn, then none of them, which is the current one.
fn turn(since_epoch: Duration) -> Option<&'static str> {
    const DAY: u64 = 24 * 60 * 60;
    let mut turns = tools::OTHER_VERSIONS.map(Some).to_vec();
    turns.push(None);
    let days = usize::try_from(since_epoch.as_secs() / DAY).ok()?;
    turns.get(days % turns.len()).copied().flatten()
}

/// Sets up everything, and runs the tests.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let filter = args.filter.as_slice();
    let steps = Steps(Instant::now());
    let is_core_alone = args.kubernetes.is_some();
    let other = match &args.kubernetes {
        Some(version) => tools::other_version(version)?,
        // The first run on a machine has enough to build.
        None if args.by_turns && tools::has_control_plane()? => turn(SystemTime::now().duration_since(UNIX_EPOCH)?),
        None => None,
    };
    if let Some(version) = other {
        println!("The core of the end-to-end tests runs on Kubernetes {version}.");
    }
    // Much of the time, the tools of one language and the linker use one core, and installers wait for the network.
    let (guests, built) = std::thread::scope(|scope| {
        let guests = scope.spawn(|| build_guests_and_test_plugins(filter, is_core_alone, steps));
        let binaries = Binary::build_all();
        steps.print("test binaries are built");
        let built = binaries.and_then(|binaries| build_servers(other, steps).map(|()| binaries));
        (guests.join(), built)
    });
    guests.map_err(|_| anyhow::anyhow!("the thread that builds the guests panicked"))??;
    let mut binaries = built?;
    for name in CORE {
        ensure!(
            binaries.iter().any(|binary| binary.is_core() && binary.name == name),
            "no test binary is named {name}"
        );
    }
    binaries.retain(|binary| !is_core_alone || binary.is_core());
    for binary in binaries.iter_mut().filter(|binary| binary.is_core()) {
        binary.kubernetes = other.map(str::to_owned);
    }
    run_all(binaries, filter, is_core_alone, steps)
}

/// Builds the servers of the tests.
fn build_servers(other: Option<&str>, steps: Steps) -> anyhow::Result<()> {
    tools::control_plane(&tools::stderr)?;
    if let Some(version) = other {
        tools::control_plane_of(version, &tools::stderr)?;
    }
    tools::collector(&tools::stderr)?;
    tools::prometheus(&tools::stderr)?;
    tools::faketime(&tools::stderr)?;
    tools::registry(&tools::stderr)?;
    tools::cosign(&tools::stderr)?;
    tools::helm(&tools::stderr)?;
    tools::prometheus_operator_crds(&tools::stderr)?;
    steps.print("servers are built");
    Ok(())
}

/// Builds the components of the tests, and runs the tests of the plugins and SDKs, which need none of the workspace's test binaries.
fn build_guests_and_test_plugins(filter: &[String], is_core_alone: bool, steps: Steps) -> anyhow::Result<()> {
    guests::build(&guests::Options::default())?;
    steps.print("guests are built");
    if is_core_alone {
        return Ok(());
    }
    let root = root()?;
    run(cargo()
        .args(["test", "--quiet"])
        .args(["--manifest-path", "plugins/Cargo.toml"])
        .args(filter)
        .current_dir(&root)
        .env(sdks::WINDLASS, windlass()?)
        .env("CARGO_TARGET_DIR", root.join("target/plugins-native")))?;
    steps.print("plugins are tested");

    if filter.is_empty() {
        sdks::test()?;
        steps.print("SDKs are tested");
    }
    Ok(())
}

/// Prints the time at the end of each step, for who wants to shorten a run.
#[derive(Clone, Copy)]
struct Steps(Instant);

impl Steps {
    fn print(self, what: &str) {
        println!("\n==> {what} (after {} s of tests)", self.0.elapsed().as_secs());
    }
}

/// Runs the test binaries: the end-to-end tests after all others.
fn run_all(binaries: Vec<Binary>, filter: &[String], is_core_alone: bool, steps: Steps) -> anyhow::Result<()> {
    let (end_to_end, others): (Vec<_>, Vec<_>) = binaries.into_iter().partition(Binary::is_end_to_end);
    let windlass = windlass()?;
    let tests =
        |binaries: Vec<Binary>| binaries.iter().map(|binary| binary.test(filter, &windlass)).collect::<Vec<_>>();
    let mut others = tests(others);
    if !is_core_alone {
        let mut documentation = cargo();
        documentation.args(["test", "--workspace", "--doc"]).args(filter).current_dir(root()?);
        documentation.env(sdks::WINDLASS, &windlass);
        others.push(Test { name: "documentation tests".to_owned(), on: String::new(), command: documentation });
    }
    let mut failed = run_side_by_side(others, OTHERS_AT_ONCE)?;
    if !is_core_alone {
        steps.print("unit tests and documentation tests have run");
    }
    failed.extend(run_side_by_side(tests(end_to_end), END_TO_END_AT_ONCE)?);
    if !failed.is_empty() {
        bail!("these tests failed: {}", failed.join(", "));
    }
    Ok(())
}

/// A command that runs tests.
struct Test {
    /// The name of the test binary's target: `rules`, `windlass-core`.
    name: String,
    /// For the title, if it does not run on the testbed's version of Kubernetes: ` on Kubernetes 1.30`.
    on: String,
    command: Command,
}

/// Runs tests, some at a time, and prints the output of each one when it has ended. The output of those that failed comes last,
/// because often only the end of a log is kept. Returns their names.
fn run_side_by_side(mut tests: Vec<Test>, at_once: usize) -> anyhow::Result<Vec<String>> {
    tests.sort_by_key(|test| LONGEST.iter().position(|long| *long == test.name).unwrap_or(LONGEST.len()));
    let waiting = Mutex::new(VecDeque::from(tests));
    let next = || waiting.lock().ok()?.pop_front();
    let work = || -> anyhow::Result<Vec<(String, Output)>> {
        let mut failed = Vec::new();
        while let Some(Test { name, on, mut command }) = next() {
            println!("     Started {name}");
            let began = Instant::now();
            let ended = command.stdin(Stdio::null()).output().with_context(|| name.clone())?;
            let title = format!("\n     Running {name}{on} ({} s)", began.elapsed().as_secs());
            if ended.status.success() {
                print(&title, &ended)?;
            } else {
                println!("{title}: failed, output below");
                failed.push((name, ended));
            }
        }
        Ok(failed)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let mut failed = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(of_worker) => failed.extend(of_worker?),
                Err(_) => bail!("a thread that runs tests panicked"),
            }
        }
        for (name, output) in &failed {
            print(&format!("\n     Failed {name}"), output)?;
        }
        Ok(failed.into_iter().map(|(name, _)| name).collect())
    })
}

/// Prints the output of tests without lines of others in between.
fn print(title: &str, output: &Output) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{title}")?;
    out.write_all(&output.stderr)?;
    out.write_all(&output.stdout)
}

/// A built test binary.
struct Binary {
    /// The name of its target: `rules`, `windlass-core`.
    name: String,
    path: PathBuf,
    /// The folder of its package, in which cargo would run it.
    package: PathBuf,
    /// The version of Kubernetes, if it is not that of the testbed.
    kubernetes: Option<String>,
}

impl Binary {
    /// Builds all test binaries of the workspace, and with them the `windlass`, `windlass-host` and `windlass-compile` that the
    /// end-to-end tests start: cargo builds the binaries of a package that has integration tests.
    fn build_all() -> anyhow::Result<Vec<Self>> {
        let built = cargo()
            .args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
            .current_dir(root()?)
            .stderr(Stdio::inherit())
            .output()?;
        if !built.status.success() {
            bail!("the tests do not build");
        }
        let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<serde_json::Value>();
        messages
            .filter_map(|message| message.map(|message| Self::of(&message)).transpose())
            .map(|binary| Ok(binary?))
            .collect()
    }

    /// The test binary in a message of cargo, if there is one.
    fn of(message: &serde_json::Value) -> Option<Self> {
        let text = |pointer| message.pointer(pointer)?.as_str();
        if !message.pointer("/profile/test")?.as_bool()? {
            return None;
        }
        let package = PathBuf::from(text("/manifest_path")?).parent()?.to_owned();
        Some(Self {
            name: text("/target/name")?.to_owned(),
            path: text("/executable")?.into(),
            package,
            kubernetes: None,
        })
    }

    fn is_end_to_end(&self) -> bool {
        self.package.ends_with("tests/e2e")
    }

    fn is_core(&self) -> bool {
        self.is_end_to_end() && CORE.contains(&self.name.as_str())
    }

    /// Runs the binary as cargo would.
    fn test(&self, filter: &[String], windlass: &Path) -> Test {
        let mut command = Command::new(&self.path);
        command.args(filter).current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command.env(sdks::WINDLASS, windlass);
        // The control planes have most of the end-to-end tests' CPU time, and young ones spend a quarter of it on collecting garbage.
        command.env("GOGC", "400");
        if let Some(version) = &self.kubernetes {
            command.env(tools::KUBERNETES, version);
        }
        let on = self.kubernetes.as_ref().map_or_else(String::new, |version| format!(" on Kubernetes {version}"));
        Test { name: self.name.clone(), on, command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_turn_within_four_days_and_keeps_it_for_a_day() {
        let hours = (0..4 * 24).map(|hour| turn(Duration::from_hours(20_000 * 24 + hour)));
        let mut turns: Vec<_> = hours.collect();
        turns.dedup();
        assert_eq!(turns.len(), 4, "{turns:?}");
        for version in tools::OTHER_VERSIONS.map(Some).into_iter().chain([None]) {
            assert!(turns.contains(&version), "{version:?} in {turns:?}");
        }
    }
}
