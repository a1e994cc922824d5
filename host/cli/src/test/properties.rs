//! Checks the properties with generated parents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;
use strum::VariantArray as _;
use windlass_engine::telemetry::one_line;

use super::call::Plugin;
use super::checks::{breaks, check};
use super::generate::{Fields, Generator, ParentKind, optional_fields, remove};
use super::journey::Journey;
use super::junit::{Outcome, Suite, TestResult};
use super::property::{Check, CheckResult, Scenario};
use super::shrink;

/// How often the properties are checked.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a> {
    /// Number of generated parents, after the examples.
    pub number: u32,
    /// Seed of the generated parents.
    pub seed: u64,
    /// Properties that are not checked.
    pub except: &'a [Check],
    /// Folder for failing cases.
    pub save: &'a Path,
}

/// Checks the properties. Failing cases are written into the folder for them.
///
/// # Errors
/// If no parent is found that the schema accepts, or a failing case cannot be written.
pub fn results(plugin: &impl Plugin, kind: &ParentKind, runs: Runs<'_>) -> anyhow::Result<Vec<TestResult>> {
    let seed = runs.seed;
    let result = |(check, tally): (Check, Tally)| {
        let (outcome, detail) = match (tally.failing, tally.passed) {
            (Some(failing), _) => {
                let (file, text) = (save(runs.save, &failing)?, failing.yaml());
                let how = format!("(saved as {}; generated with --seed {seed})", file.display());
                let case = format!("{}\n{how}\n", text.trim_end());
                (Outcome::Failed { reason: one_line(&failing.description).to_string(), case }, String::new())
            }
            (None, _) if runs.except.contains(&check) => (Outcome::Skipped, "left out by --except".to_owned()),
            (None, 0) => (Outcome::Skipped, "no generated parent applies".to_owned()),
            (None, passed) => (Outcome::Passed, format!("{} ({passed} cases)", check.description())),
        };
        Ok(TestResult { suite: Suite::Properties, name: check.name().to_owned(), detail, outcome })
    };
    properties(plugin, kind, runs)?.into_iter().map(result).collect()
}

/// Writes a failing case to a file, and returns its path.
fn save(folder: &Path, scenario: &Scenario) -> anyhow::Result<PathBuf> {
    let file = folder.join(scenario.check.name()).with_extension("yaml");
    std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    std::fs::write(&file, scenario.yaml()).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// How often a property was checked.
#[derive(Debug, Default)]
pub struct Tally {
    /// Cases for which the property holds.
    pub passed: u32,
    /// A case that violates the property.
    pub failing: Option<Scenario>,
}

/// Checks the properties with all examples, and with generated parents. Once a property is violated, it is not checked
/// again, and its case is made as small as possible.
///
/// # Errors
/// If no parent is found that the schema accepts.
pub fn properties(plugin: &impl Plugin, kind: &ParentKind, runs: Runs<'_>) -> anyhow::Result<BTreeMap<Check, Tally>> {
    let Runs { number, seed, except, .. } = runs;
    let mut examples = kind.examples.parents.iter();
    let number = number.saturating_add(u32::try_from(examples.len()).unwrap_or(u32::MAX));
    let mut tallies: BTreeMap<Check, Tally> = Check::VARIANTS.iter().map(|check| (*check, Tally::default())).collect();
    let (mut invalid, mut accepted) = (None, 0);
    for run in 0..number {
        let mut generator = Generator::new(kind, seed.wrapping_add(u64::from(run)));
        let fields = match run % 4 {
            0 => Fields::Required,
            1 => Fields::All,
            _ => Fields::Some,
        };
        let parent = match examples.next() {
            Some(example) => example.clone(),
            None => generator
                .parent(fields)
                .with_context(|| format!("no parent of kind {} was found that the CRD's schema accepts", kind.kind))?,
        };
        let journey = Journey::of(plugin, kind, &parent);
        accepted += u32::from(journey.is_accepted);
        if journey.invalid.is_some() {
            invalid.get_or_insert_with(|| parent.clone());
        }
        for scenario in scenarios(plugin, kind, &mut generator, &parent, &journey) {
            let tally = tallies.entry(scenario.check).or_default();
            if tally.failing.is_some() || except.contains(&scenario.check) {
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
    if accepted == 0 && !except.contains(&Check::SomeAccepted) {
        tally.failing = invalid.map(|parent| Scenario {
            description: format!(
                "the plugin accepts none of {number} parents; if it needs texts that the schema does not describe, name a parent \
                 that it accepts with --parent"
            ),
            check: Check::SomeAccepted,
            parent,
            edited: None,
        });
    }
    blame_optional_fields(plugin, kind, &mut tallies);
    for tally in tallies.values_mut() {
        let smallest = |failing| shrink::smallest(kind, failing, |scenario| check(plugin, kind, scenario));
        tally.failing = tally.failing.take().map(smallest);
    }
    Ok(tallies)
}

/// The cases of all properties for one generated parent.
fn scenarios(
    plugin: &impl Plugin,
    kind: &ParentKind,
    generator: &mut Generator<'_>,
    parent: &Value,
    journey: &Journey,
) -> Vec<Scenario> {
    let mut all = Vec::new();
    for check in Check::VARIANTS.iter().copied() {
        match check {
            Check::OptionalFields => {
                for path in optional_fields(kind, parent) {
                    let mut without = parent.clone();
                    remove(&mut without, &path);
                    kind.fill_in(&mut without);
                    if without != *parent && kind.problems(&without).is_empty() {
                        all.push(Scenario::new(check, &without, Some(parent.clone())));
                    }
                }
            }
            Check::EditLikeNew => {
                for _ in 0..3 {
                    all.extend(generator.edited(parent).map(|edited| Scenario::new(check, parent, Some(edited))));
                }
            }
            // Otherwise a fault that needs no invalid parent would be reported twice.
            Check::InvalidParents if journey.is_sound() => {
                for _ in 0..3 {
                    all.extend(generator.invalid(parent).map(|broken| Scenario::new(check, &broken, None)));
                }
            }
            Check::Finalizes if !plugin.finalizes() => {}
            // Only all parents together show whether some are accepted.
            Check::SomeAccepted | Check::InvalidParents => {}
            // The others need nothing but the parent.
            check => all.push(Scenario::new(check, parent, None)),
        }
    }
    all
}

/// Drops a trap or a failure that a missing optional field explains: `optional-fields` reports it, with the field.
fn blame_optional_fields(plugin: &impl Plugin, kind: &ParentKind, tallies: &mut BTreeMap<Check, Tally>) {
    let of_fields = tallies.get(&Check::OptionalFields).and_then(|tally| tally.failing.as_ref());
    let Some(whole) = of_fields.and_then(|failing| failing.edited.clone()) else { return };
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
fn complete(value: &mut Value, other: &Value) {
    if let (Some(fields), Some(others)) = (value.as_object_mut(), other.as_object()) {
        for (name, other) in others {
            complete(fields.entry(name).or_insert_with(|| other.clone()), other);
        }
    }
}
