//! `windlass test`: golden cases, and checks of properties with generated parents. It needs no cluster, and calls the
//! component as the host does.

mod accepted;
mod call;
mod cases;
mod checks;
mod conformance;
mod generate;
mod journey;
mod junit;
mod pattern;
mod plugin;
mod properties;
mod property;
mod reply;
mod shrink;
mod world;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use windlass_engine::telemetry::one_line;

use self::cases::Case;
use self::checks::check;
use self::generate::{Examples, ParentKind};
use self::junit::{Outcome, Suite, TestResult};
use self::plugin::Tested;
use self::properties::Runs;
use self::property::{Check, CheckResult};
use super::component::ComponentArgs;
use super::manifests;
use super::offline::Offline;
use super::output::{Report, print_report};
use super::render::input::{Given, read_parents, title};

/// Exit code: a test failed.
const TEST_FAILED: u8 = 1;

/// Wall-clock limit of one call: longer than in the host, so that a busy machine fails no test.
const DEADLINE: Duration = Duration::from_secs(10);

/// Flags of `windlass test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass test build/greeting.wasm
  windlass test build/greeting.wasm --cases cases
  windlass test build/greeting.wasm --conformance
  windlass test build/greeting.wasm --runs 1000 --seed 7
  windlass test build/backup.wasm --parent samples/backup.yaml --except edit-like-new
  windlass test build/greeting.wasm --junit report.xml

Golden cases: NAME.yaml has `description`, `parent` and optionally `children`, `related` (by requirement), `config`, \
`finalize` (with `cause`: deleted, leftSelector or leftNamespaces, and `namespaceTerminating`), `kinds` (the optional kinds that exist; all, \
if absent), `closedNamespaces` and `at` (the time). NAME.answer.yaml has the expected response; the SDKs' test harnesses write and read the same \
files. The documents are compared, without values that depend on random numbers. An object may also be a text with its JSON, \
which the plugin gets as it is.

Conformance: what every plugin must do. The descriptor is checked, and the properties no-trap, valid-parents, \
response-accepted, valid-labels, repeatable, metadata-irrelevant, status-schema and finalizes, for parents with unusual text \
and numbers, missing, empty, null and unknown fields, with 1000 children, deep objects, no or other config, and for parents \
that are deleted. A component of kind Probe in group conformance.example, which shows an SDK's behaviour, also gets golden \
cases: see host/conformance/README.md in the repository of Windlass.

Properties: parents that the CRD's schema accepts are generated, with edits of them and parents that the schema \
rejects. CEL rules are not evaluated, so that a plugin may return `invalid` for some of them. The responses are applied to \
simulated children until nothing changes.
  no-trap            no call traps, times out or exceeds a limit
  valid-parents      the plugin fails for no parent that the schema accepts
  some-accepted      the plugin accepts some of these parents
  optional-fields    optional fields may be missing
  repeatable         the same request gives the same response, at another time too if the call reads no clock
  response-accepted  the host accepts the response: its children's kinds, names, namespaces and metadata
  valid-labels       the API server accepts the children's labels
  order-irrelevant   the order of children and related objects in the request is irrelevant
  metadata-irrelevant  the resource versions of the objects in the request are irrelevant
  converges          applied children change nothing in the next response
  status-stable      the status stops changing and does not grow
  status-schema      the status fits the CRD's schema
  edit-like-new      an edited parent has the children of a new parent with the same spec, except for those with data: \
retained ones, PersistentVolumeClaims, and those with random values
  finalizes          finalizing ends, with no more children than before
  invalid-parents    a parent that the schema rejects gets `invalid` or a valid response

A failing case is made as small as possible, printed, and written to the folder of --save; `windlass test --cases` \
with that folder runs it again.

Exit codes:
  0  all tests passed
  1  a test failed
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Folder of cases: golden cases, and cases that an earlier run saved. Without --runs, no parents are generated
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Also the cases that every plugin must pass. Without --runs, no other parents are generated
    #[arg(long)]
    conformance: bool,
    /// Number of generated parents; default: 100, or 0 with --cases or --conformance
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Seed of the generated parents; default: another one in each run of the command, which is printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A parent that the plugin accepts, such as a sample: a YAML or JSON file; may be repeated. It is tested as it is, and its texts
    /// are used for the same fields of most generated parents. For a plugin that accepts only some texts, such as a cron expression
    #[arg(long, value_name = "FILE")]
    parent: Vec<PathBuf>,
    /// Properties that are not checked, for example edit-like-new if the plugin keeps a value on purpose
    #[arg(long, value_name = "PROPERTY", value_delimiter = ',', value_parser = Check::parse)]
    except: Vec<Check>,
    /// Folder for failing cases; created if needed
    #[arg(long, value_name = "DIR", default_value = "failing-cases")]
    save: PathBuf,
    /// The Plugin's spec.config: a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// In golden cases, compare only the field of an `invalid` or `failed` failure, the text before the first colon: for
    /// a plugin that shares its cases with a port to another language
    #[arg(long)]
    shared: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Report,
    /// Also write the results to this file, in XML as `JUnit` writes it, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Runs the tests, and prints their results.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let mut offline = Offline::new(args.component.load()?)?;
    offline.described.limits.deadline = DEADLINE;
    let config = manifests::config(args.config.as_deref())?;
    if config.is_some() {
        offline.described.check_config(config.as_deref())?;
    }
    let tested = Tested::new(&offline, config.clone());
    let mut kind = tested.kind();
    kind.examples = Examples::new(examples(&offline, &kind, &args.parent)?);
    let mut results = Vec::new();
    for (name, case) in args.cases.as_deref().map(cases::read).transpose()?.into_iter().flatten() {
        results.push(run_case(&tested, &kind, name, &case, args.shared));
    }
    if args.conformance {
        results.extend(conformance::results(&offline, &kind, config.as_ref())?);
    }
    let has_cases = args.cases.is_some() || args.conformance;
    let runs = args.runs.unwrap_or(if has_cases { 0 } else { 100 });
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    if runs > 0 || !args.parent.is_empty() {
        let runs = Runs { number: runs, seed, except: &args.except, save: &args.save };
        results.extend(properties::results(&tested, &kind, runs)?);
    }
    let descriptor = &offline.described.descriptor;
    if let Some(file) = &args.junit {
        let report = junit::xml(&descriptor.name, &results)?;
        fs::write(file, report).with_context(|| format!("cannot write {}", file.display()))?;
    }
    print_report(args.output, || junit::text(&results), || json!({"tests": results}))?;
    let failed = results.iter().filter(|result| matches!(result.outcome, Outcome::Failed { .. })).count();
    let seed = if runs > 0 { format!(", {runs} parents from seed {seed}") } else { String::new() };
    err!("{} {}: {} tests, {failed} failed{seed}", descriptor.name, descriptor.version, results.len());
    Ok(if failed > 0 { ExitCode::from(TEST_FAILED) } else { ExitCode::SUCCESS })
}

/// The parents in these files, as the API server would store them.
fn examples(offline: &Offline, kind: &ParentKind, files: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let (given, _) = read_parents(files, &offline.described.kind)?;
    given
        .into_iter()
        .map(|Given { file, mut object }| {
            kind.fill_in(&mut object);
            let problems = kind.problems(&object);
            if !problems.is_empty() {
                let (title, file) = (title(&object), file.display());
                bail!("{title} in {file} does not fit the schema of the CRD: {}", problems.join("; "));
            }
            Ok(offline.described.completed(object))
        })
        .collect()
}

fn run_case(tested: &Tested<'_>, kind: &ParentKind, name: String, case: &Case, is_shared: bool) -> TestResult {
    let failed = |problem: &str| Outcome::Failed { reason: one_line(problem).to_string(), case: String::new() };
    let (outcome, detail) = match case {
        Case::Golden(golden) => {
            let problem = golden.problem(tested.offline, is_shared);
            (problem.map_or(Outcome::Passed, |problem| failed(&problem)), "the response is the expected one")
        }
        Case::Property(scenario) => match check(tested, kind, scenario) {
            CheckResult::Failed(reason) => (failed(&format!("{}: {reason}", scenario.check.name())), ""),
            CheckResult::Passed => (Outcome::Passed, scenario.check.description()),
            CheckResult::NotApplicable => (Outcome::Skipped, "the property does not apply to this parent any more"),
        },
    };
    TestResult { suite: Suite::Cases, name, detail: detail.to_owned(), outcome }
}

#[cfg(test)]
mod tests;
