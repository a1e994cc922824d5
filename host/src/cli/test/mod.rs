//! `windlass test`: golden cases, and checks of properties with generated parents. It needs no cluster, and calls the
//! component as the host does.

mod cases;
mod checks;
mod generate;
mod junit;
mod pattern;
mod plugin;
mod reply;
mod shrink;
mod world;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use self::cases::Case;
use self::checks::{Check, CheckResult, Journey, Plugin, Scenario, breaks, check};
use self::generate::{Fields, Generator, ParentKind, optional_fields, remove};
use self::junit::{Outcome, TestResult};
use self::plugin::Tested;
use super::INPUT_REJECTED;
use super::component::ComponentArgs;
use super::manifests::one_document;
use super::offline::Offline;
use crate::telemetry::one_line;

/// Wall-clock limit of one call: longer than in the host, so that a busy machine fails no test.
const DEADLINE: Duration = Duration::from_secs(10);

/// Flags of `windlass test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass test build/greeting.wasm
  windlass test build/greeting.wasm --cases cases
  windlass test build/greeting.wasm --runs 1000 --seed 7
  windlass test build/greeting.wasm -o junit > report.xml

Golden cases: NAME.yaml has `description`, `parent` and optionally `children`, `related` (by requirement), `config`, \
`finalize` and `at` (the time). NAME.answer.yaml has the expected response; the SDKs' test harnesses write and read the same \
files. The documents are compared, without values that depend on random numbers.

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
    /// Folder of cases: golden cases, and cases that an earlier run saved. Without --runs, only these are tested
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Number of generated parents; default: 100, or 0 with --cases
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Seed of the generated parents; default: another one in each run of the command, which is printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder for failing cases; created if needed
    #[arg(long, value_name = "DIR", default_value = "failing-cases")]
    save: PathBuf,
    /// The Plugin's spec.config: a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// In golden cases, compare only the field of an `invalid` failure, the text before the first colon: for a plugin
    /// that shares its cases with a port to another language
    #[arg(long)]
    shared: bool,
    /// Format of the results
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// Format of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A line for each test, and the failing cases
    Text,
    /// Report in XML as `JUnit` writes it, for CI
    Junit,
}

/// Runs the tests, and prints their results.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let mut offline = Offline::new(args.component.load()?)?;
    offline.limits.deadline = DEADLINE;
    let config = match &args.config {
        Some(file) => Some(Arc::from(one_document(file)?.to_string().into_bytes())),
        None => None,
    };
    let tested = Tested::new(&offline, config);
    let kind = tested.kind();
    let mut results = Vec::new();
    let mut failing = Vec::new();
    for (name, case) in
        args.cases.iter().map(|folder| cases::read(folder)).collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten()
    {
        results.push(run_case(&tested, &offline, &kind, name, &case, args.shared));
    }
    let runs = args.runs.unwrap_or(if args.cases.is_some() { 0 } else { 100 });
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    if runs > 0 {
        for (check, tally) in properties(&tested, &kind, runs, seed)? {
            let (outcome, detail) = match (tally.failing, tally.passed) {
                (Some(failing_case), _) => {
                    let reason = one_line(&failing_case.description).to_string();
                    failing.push(failing_case);
                    (Outcome::Failed { reason, case: String::new() }, String::new())
                }
                (None, 0) => (Outcome::Skipped, "no generated parent applies".to_owned()),
                (None, passed) => (Outcome::Passed, format!("{} ({passed} cases)", check.description())),
            };
            results.push(TestResult { suite: "properties", name: check.name().to_owned(), detail, outcome });
        }
    }
    for scenario in failing {
        let file = save(&args.save, &scenario)?;
        let text = serde_saphyr::to_string(&scenario)?;
        for result in results.iter_mut().filter(|result| result.suite == "properties") {
            if let Outcome::Failed { case, .. } = &mut result.outcome
                && result.name == scenario.check.name()
            {
                *case = format!("{}\n(saved as {}; generated with --seed {seed})\n", text.trim_end(), file.display());
            }
        }
    }
    let descriptor = offline.descriptor();
    let output = match args.output {
        Output::Text => junit::text(&results),
        Output::Junit => junit::xml(&descriptor.name, &results)?,
    };
    std::io::stdout().write_all(output.as_bytes())?;
    let failed = results.iter().filter(|result| matches!(result.outcome, Outcome::Failed { .. })).count();
    let seed = if runs > 0 { format!(", {runs} parents from seed {seed}") } else { String::new() };
    eprintln!("{} {}: {} tests, {failed} failed{seed}", descriptor.name, descriptor.version, results.len());
    Ok(if failed > 0 { ExitCode::from(INPUT_REJECTED) } else { ExitCode::SUCCESS })
}

fn run_case(
    tested: &Tested<'_>,
    offline: &Offline,
    kind: &ParentKind,
    name: String,
    case: &Case,
    is_shared: bool,
) -> TestResult {
    let (detail, problem) = match case {
        Case::Golden(golden) => ("the response is the expected one", golden.problem(offline, is_shared)),
        Case::Property(scenario) => match check(tested, kind, scenario) {
            CheckResult::Failed(reason) => ("", Some(format!("{}: {reason}", scenario.check.name()))),
            CheckResult::Passed | CheckResult::NotApplicable => (scenario.check.description(), None),
        },
    };
    let outcome = match problem {
        Some(problem) => Outcome::Failed { reason: one_line(&problem).to_string(), case: String::new() },
        None => Outcome::Passed,
    };
    TestResult { suite: "cases", name, detail: detail.to_owned(), outcome }
}

/// Writes a failing case to a file, and returns its path.
fn save(folder: &Path, scenario: &Scenario) -> anyhow::Result<PathBuf> {
    let file = folder.join(scenario.check.name()).with_extension("yaml");
    let text = serde_saphyr::to_string(scenario)?;
    std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// How often a property was checked.
#[derive(Debug, Default)]
struct Tally {
    passed: u32,
    failing: Option<Scenario>,
}

/// Checks the properties with generated parents. Once a property is violated, it is not checked again, and its case is
/// made as small as possible.
fn properties(plugin: &impl Plugin, kind: &ParentKind, runs: u32, seed: u64) -> anyhow::Result<BTreeMap<Check, Tally>> {
    let mut tallies: BTreeMap<Check, Tally> = Check::ALL.iter().map(|check| (*check, Tally::default())).collect();
    let mut invalid = None;
    let mut accepted = 0;
    for run in 0..runs {
        let mut generator = Generator::new(kind, seed.wrapping_add(u64::from(run)));
        let fields = match run % 4 {
            0 => Fields::Required,
            1 => Fields::All,
            _ => Fields::Some,
        };
        let parent = generator
            .parent(fields)
            .with_context(|| format!("no parent of kind {} was found that the CRD's schema accepts", kind.kind))?;
        let journey = Journey::of(plugin, kind, &parent);
        accepted += u32::from(journey.is_accepted);
        if journey.invalid.is_some() {
            invalid.get_or_insert_with(|| parent.clone());
        }
        for scenario in scenarios(plugin, kind, &mut generator, &parent, &journey) {
            let tally = tallies.entry(scenario.check).or_default();
            if tally.failing.is_some() {
                continue;
            }
            let result = match Journey::result_of(&journey, scenario.check) {
                CheckResult::NotApplicable => check(plugin, kind, &scenario),
                result => result,
            };
            match result {
                CheckResult::Passed => tally.passed += 1,
                CheckResult::NotApplicable => {}
                CheckResult::Failed(description) => tally.failing = Some(Scenario { description, ..scenario }),
            }
        }
    }
    let tally = tallies.entry(Check::SomeAccepted).or_default();
    tally.passed = accepted;
    if accepted == 0 {
        tally.failing = invalid.map(|parent| Scenario {
            description: format!("the plugin accepts none of {runs} generated parents"),
            check: Check::SomeAccepted,
            parent,
            edited: None,
        });
    }
    blame_optional_fields(plugin, kind, &mut tallies);
    for tally in tallies.values_mut() {
        tally.failing = tally
            .failing
            .take()
            .map(|failing| shrink::smallest(kind, failing, |scenario| check(plugin, kind, scenario)));
    }
    Ok(tallies)
}

/// The cases of all properties for one generated parent.
fn scenarios(
    plugin: &impl Plugin,
    kind: &ParentKind,
    generator: &mut Generator<'_>,
    parent: &serde_json::Value,
    journey: &Journey,
) -> Vec<Scenario> {
    let scenario = |check, parent: &serde_json::Value, edited| Scenario {
        description: String::new(),
        check,
        parent: parent.clone(),
        edited,
    };
    let mut all = Vec::new();
    for check in Check::ALL {
        match check {
            Check::OptionalFields => {
                for path in optional_fields(kind, parent) {
                    let mut without = parent.clone();
                    remove(&mut without, &path);
                    kind.fill_in(&mut without);
                    if without != *parent && kind.problems(&without).is_empty() {
                        all.push(scenario(*check, &without, Some(parent.clone())));
                    }
                }
            }
            Check::EditLikeNew => {
                for _ in 0..3 {
                    all.extend(generator.edited(parent).map(|edited| scenario(*check, parent, Some(edited))));
                }
            }
            // Otherwise a fault that needs no invalid parent would be reported twice.
            Check::InvalidParents if journey.is_sound() => {
                for _ in 0..3 {
                    all.extend(generator.invalid(parent).map(|broken| scenario(*check, &broken, None)));
                }
            }
            Check::Finalizes if !plugin.finalizes() => {}
            // Only all parents together show whether some are accepted.
            Check::SomeAccepted | Check::InvalidParents => {}
            Check::NoTrap
            | Check::ValidParents
            | Check::Repeatable
            | Check::ResponseAccepted
            | Check::ValidLabels
            | Check::OrderIrrelevant
            | Check::Converges
            | Check::StatusStable
            | Check::StatusSchema
            | Check::Finalizes => all.push(scenario(*check, parent, None)),
        }
    }
    all
}

/// Drops a trap or a failure that a missing optional field explains: `optional-fields` reports it, with the field.
fn blame_optional_fields(plugin: &impl Plugin, kind: &ParentKind, tallies: &mut BTreeMap<Check, Tally>) {
    let Some(whole) = tallies
        .get(&Check::OptionalFields)
        .and_then(|tally| tally.failing.as_ref())
        .and_then(|failing| failing.edited.clone())
    else {
        return;
    };
    for check in [Check::NoTrap, Check::ValidParents] {
        let Some(tally) = tallies.get_mut(&check) else { continue };
        let is_explained = tally.failing.as_ref().is_some_and(|failing| {
            // The same parent works with the optional fields of another one.
            let mut completed = failing.parent.clone();
            complete(&mut completed, &whole);
            kind.problems(&completed).is_empty()
                && breaks(plugin, &failing.parent).is_some()
                && breaks(plugin, &completed).is_none()
        });
        if is_explained {
            *tally = Tally::default();
        }
    }
}

/// Adds the fields that only the other value has.
fn complete(value: &mut serde_json::Value, other: &serde_json::Value) {
    if let (Some(fields), Some(others)) = (value.as_object_mut(), other.as_object()) {
        for (name, other) in others {
            match fields.get_mut(name) {
                Some(field) => complete(field, other),
                None => {
                    fields.insert(name.clone(), other.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
