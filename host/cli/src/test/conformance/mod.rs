//! `windlass test --conformance`: what every plugin must do, and what a probe shows of its SDK. The cases are those of
//! `host/conformance`.

mod described;
mod variation;

use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};
use windlass_core::contract::Phase;
use windlass_core::plugin::schema::structural as schema;
use windlass_engine::telemetry::one_line;

use self::variation::{ConfigOf, FieldsOf, Variation};
use super::call::{CallResult, Input, Plugin, Seed, Stock};
use super::cases::Golden;
use super::checks::check;
use super::generate::{Fields, Generator, ParentKind};
use super::journey::Journey;
use super::junit::{Outcome, Suite, TestResult};
use super::plugin::Tested;
use super::property::{Check, CheckResult, Scenario};
use super::world::World;
use crate::fields::set;
use crate::offline::Offline;
use crate::yaml;

/// What must hold for every parent. The other properties are about what a plugin is for.
const CHECKS: [Check; 8] = [
    Check::NoTrap,
    Check::ValidParents,
    Check::ResponseAccepted,
    Check::ValidLabels,
    Check::StatusSchema,
    Check::Finalizes,
    Check::Repeatable,
    Check::MetadataIrrelevant,
];

/// Those of them that are checked by calls of their own, and not by a journey.
const HAVE_OWN_CALLS: [Check; 2] = [Check::Repeatable, Check::MetadataIrrelevant];

/// The kind of the parents of a probe.
const PROBE: (&str, &str) = ("conformance.example", "Probe");

/// Rounds before a parent is deleted: whether a plugin converges is no question of conformance.
const ROUNDS: usize = 3;

/// Seeds among which a parent is looked for that the plugin accepts: a CEL rule may forbid many.
const SEEDS: u64 = 32;

/// The `spec.config` of a call: JSON.
type Config = Arc<[u8]>;

/// Runs all cases. `config` is the `spec.config` where a case has no other.
///
/// # Errors
/// If no parent is found that the schema accepts.
pub fn results(offline: &Offline, kind: &ParentKind, config: Option<&Config>) -> anyhow::Result<Vec<TestResult>> {
    let mut results = vec![result(
        "descriptor".to_owned(),
        "the descriptor is valid, and the same on each call",
        described::problem(offline).map(|reason| (reason, String::new())),
    )];
    let plugin = Tested::new(offline, config.cloned());
    let bases = [base(&plugin, kind, Fields::Required)?, base(&plugin, kind, Fields::All)?];
    for (name, text) in windlass_conformance::any() {
        let variation = Variation::parse(text).with_context(|| format!("the case {name}"))?;
        results.push(varied(offline, kind, (name, &variation), &bases, config));
    }
    if (&*offline.described.kind.group, &*offline.described.kind.kind) == PROBE {
        for (name, request, response) in windlass_conformance::probe() {
            let parsed = |text| yaml::only(text).with_context(|| format!("the case {name}"));
            let golden = Golden::new(parsed(request)?).with_context(|| format!("the case {name}"))?;
            let problem =
                golden.expecting(parsed(response)?).problem(offline, true).map(|reason| (reason, String::new()));
            results.push(result(format!("probe/{name}"), "the response is the expected one", problem));
        }
    }
    Ok(results)
}

/// The result of a case, whose problem has a reason, and the failing case unless the reason says everything.
fn result(name: String, detail: &str, problem: Option<(String, String)>) -> TestResult {
    let outcome = match problem {
        Some((reason, case)) => Outcome::Failed { reason: one_line(&reason).to_string(), case },
        None => Outcome::Passed,
    };
    TestResult { suite: Suite::Conformance, name, detail: detail.to_owned(), outcome }
}

/// A parent, if possible one that the plugin accepts.
fn base(plugin: &Tested<'_>, kind: &ParentKind, fields: Fields) -> anyhow::Result<Value> {
    let mut parents = (0..SEEDS).filter_map(|seed| Generator::new(kind, seed).parent(fields));
    let first = parents
        .next()
        .with_context(|| format!("no parent of kind {} was found that the CRD's schema accepts", kind.kind))?;
    let is_accepted = |parent: &Value| {
        let result = plugin.call(Input::sync(&World::new(parent.clone()), Stock::Empty, Seed::Fixed));
        matches!(result, CallResult::Response(_) | CallResult::Retry(_))
    };
    Ok(if is_accepted(&first) { first } else { parents.find(is_accepted).unwrap_or(first) })
}

/// Runs one case for every plugin.
fn varied(
    offline: &Offline,
    kind: &ParentKind,
    (name, variation): (&str, &Variation),
    [required, all]: &[Value; 2],
    config: Option<&Config>,
) -> TestResult {
    let base = if variation.fields == FieldsOf::All { all } else { required };
    let parents = variation.parents(kind, base);
    let name = format!("any/{name}");
    let descriptor = &offline.described.descriptor;
    let has_children = variation.children.is_none() || !descriptor.children.is_empty();
    if parents.is_empty() || !has_children || (variation.deleted && !descriptor.finalizes) {
        let detail = "the plugin has nothing to vary in this way".to_owned();
        return TestResult { suite: Suite::Conformance, name, detail, outcome: Outcome::Skipped };
    }
    let (config, must_accept) = config_of(offline, variation.config, config);
    let plugin = Tested::new(offline, config);
    let first = if variation.deleted { Phase::Finalize } else { Phase::Sync };
    let problem = parents.iter().find_map(|parent| {
        let children = variation.observed(descriptor, parent);
        let journey = Journey::beginning(&plugin, kind, World::with_children(parent.clone(), children), first, ROUNDS);
        CHECKS.into_iter().find_map(|one| {
            // The plugin reports a config that it rejects as `failed`: no user of the parent can correct it.
            if one == Check::ValidParents && !must_accept {
                return None;
            }
            let scenario = Scenario::new(one, parent, None);
            let result = match journey.result_of(one) {
                CheckResult::NotApplicable if !variation.deleted && HAVE_OWN_CALLS.contains(&one) => {
                    check(&plugin, kind, &scenario)
                }
                result => result,
            };
            let CheckResult::Failed(reason) = result else { return None };
            let case = Scenario { description: reason.clone(), ..scenario }.yaml();
            Some((format!("{}: {reason}", one.name()), case))
        })
    });
    result(name, &variation.description, problem)
}

/// The config of a case, and whether the plugin must accept it. A plugin may reject a config with an unknown field.
fn config_of(offline: &Offline, of: Option<ConfigOf>, given: Option<&Config>) -> (Option<Config>, bool) {
    let schema = offline.described.descriptor.config_schema.as_deref();
    let schema = schema.and_then(|schema| serde_json::from_slice::<Value>(schema).ok()).unwrap_or_default();
    let bytes = |config: Value| Some(Config::from(config.to_string().into_bytes()));
    let mut defaults = json!({});
    schema::fill_in(&schema, &mut defaults);
    let is_optional = schema::problems_at(&schema, &defaults, "config").is_empty();
    match of {
        None => (given.cloned(), true),
        Some(ConfigOf::Absent) => (None, is_optional),
        Some(ConfigOf::Empty) => (bytes(json!({})), is_optional),
        Some(ConfigOf::Unknown) => {
            let mut config = variation::generated(&schema);
            let unknown = json!({"text": "Grüße ✓", "number": 9_007_199_254_740_993_i64});
            set(&mut config, &["unknownField"], unknown);
            (bytes(config), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_cases_are_valid_and_differ() {
        for (name, text) in windlass_conformance::any() {
            Variation::parse(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
        let mut requests = HashSet::new();
        for (name, request, response) in windlass_conformance::probe() {
            let parsed = |text| yaml::only(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            let (mut request, response) = (parsed(request), parsed(response));
            assert!(response.is_object(), "{name} has no response");
            Golden::new(request.clone()).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            request.as_object_mut().expect("a case is an object").remove("description");
            assert!(requests.insert(request.to_string()), "{name} is another case again");
        }
        assert!(requests.len() > 40, "{}", requests.len());
    }
}
