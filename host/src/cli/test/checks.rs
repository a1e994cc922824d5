//! The properties that every plugin's responses must have, and how each is checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::VariantArray as _;
use windlass_core::contract::Phase;

use super::generate::ParentKind;
use super::reply::{Child, Reply};
use super::world::{Change, World, difference, first_difference, is_retained, strip, title};
use crate::cli::schema;

/// Rounds within which a plugin must converge, and finish its clean-up.
const ROUNDS: usize = 12;

/// A property.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Check {
    /// No call traps, times out or exceeds a limit.
    NoTrap,
    /// The plugin does not fail for a parent that the schema accepts.
    ValidParents,
    /// The plugin accepts some of the generated parents.
    SomeAccepted,
    /// A parent without an optional field works if the same parent with the field works.
    OptionalFields,
    /// The same request gives the same response.
    Repeatable,
    /// The host accepts the response.
    ResponseAccepted,
    /// The API server accepts the children's labels.
    ValidLabels,
    /// The order of the children and of the related objects in the request is irrelevant.
    OrderIrrelevant,
    /// Applied children change nothing in the next response.
    Converges,
    /// The status stops changing, and does not grow.
    StatusStable,
    /// The status fits the schema of the CRD.
    StatusSchema,
    /// After an edit, the children are those of a new parent with the same spec.
    EditLikeNew,
    /// Finalizing ends, and leaves no more children than before.
    Finalizes,
    /// A parent that the schema rejects gets `invalid` or a valid response.
    InvalidParents,
}

impl Check {
    /// All properties.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name in output and in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// One sentence for users.
    pub fn description(self) -> &'static str {
        match self {
            Self::NoTrap => "no call traps, times out or exceeds a limit",
            Self::ValidParents => "the plugin fails for no parent that the schema accepts",
            Self::SomeAccepted => "the plugin accepts some of the parents that the schema accepts",
            Self::OptionalFields => "optional fields may be missing",
            Self::Repeatable => "the same request gives the same response",
            Self::ResponseAccepted => "the host accepts the response",
            Self::ValidLabels => "the API server accepts the children's labels",
            Self::OrderIrrelevant => "the order of children and related objects is irrelevant",
            Self::Converges => "applied children change nothing in the next response",
            Self::StatusStable => "the status stops changing and does not grow",
            Self::StatusSchema => "the status fits the CRD's schema",
            Self::EditLikeNew => "an edited parent has the children of a new parent with the same spec",
            Self::Finalizes => "finalizing ends, with no more children than before",
            Self::InvalidParents => "a parent that the schema rejects gets `invalid` or a valid response",
        }
    }
}

/// A case of a property: the input of its check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// For readers: why the check failed.
    pub description: String,
    /// The property.
    pub check: Check,
    /// The parent.
    pub parent: Value,
    /// The same parent after an edit (`edit-like-new`), or with the field that is missing (`optional-fields`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Value>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The property holds.
    Passed,
    /// The property says nothing about this case.
    NotApplicable,
    /// The property is violated; the reason is for the plugin's author.
    Failed(String),
}

/// Which objects the requirements of a response get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {
    /// None.
    Empty,
    /// For each requirement, one object that it selects.
    Plausible,
}

/// The random numbers of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// As in the host: the same for the same request, others for another request.
    OfRequest,
    /// The same in every call.
    Fixed,
    /// The same in every call, and others than those of [`Self::Fixed`].
    OtherFixed,
}

/// The input of one call.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The parent, its children and the clock.
    pub world: &'a World,
    /// Whether the parent is being finalized.
    pub phase: Phase,
    /// The related objects.
    pub stock: Stock,
    /// The random numbers.
    pub seed: Seed,
    /// Whether children and related objects are in reverse order.
    pub is_reversed: bool,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A response that the host accepts.
    Response(Box<Reply>),
    /// The plugin considers the parent invalid.
    Invalid(String),
    /// The plugin waits.
    Retry(String),
    /// The plugin failed.
    Failed {
        /// The plugin's message.
        message: String,
        /// Whether the plugin had required related objects.
        has_related: bool,
    },
    /// The call failed.
    Trap(String),
    /// The host rejects the response.
    Rejected(String),
}

/// A plugin that can be called without a cluster.
pub trait Plugin {
    /// Calls the plugin until its requirements are final, and validates its response.
    fn answer(&self, input: Input<'_>) -> Answer;
    /// Whether its descriptor has `finalizes` set.
    fn finalizes(&self) -> bool;
}

/// Checks a property.
pub fn check(plugin: &impl Plugin, kind: &ParentKind, scenario: &Scenario) -> CheckResult {
    let Scenario { check, parent, edited, .. } = scenario;
    match (check, edited) {
        (Check::Repeatable, _) => repeatable(plugin, parent),
        (Check::OrderIrrelevant, _) => order_irrelevant(plugin, parent),
        (Check::InvalidParents, _) => invalid_parents(plugin, parent),
        (Check::EditLikeNew, Some(edited)) => edit_like_new(plugin, parent, edited),
        (Check::OptionalFields, Some(whole)) => optional_fields(plugin, parent, whole),
        (Check::EditLikeNew | Check::OptionalFields, None) => CheckResult::NotApplicable,
        (
            Check::NoTrap
            | Check::ValidParents
            | Check::SomeAccepted
            | Check::ResponseAccepted
            | Check::ValidLabels
            | Check::Converges
            | Check::StatusStable
            | Check::StatusSchema
            | Check::Finalizes,
            _,
        ) => Journey::of(plugin, kind, parent).result_of(*check),
    }
}

/// What happened to a parent from its creation to its deletion.
#[derive(Debug, Default)]
pub struct Journey {
    problems: BTreeMap<Check, String>,
    /// Whether the plugin returned a response.
    pub is_accepted: bool,
    /// Whether a response had a status.
    has_status: bool,
    /// Whether the parent was finalized.
    is_finalized: bool,
    /// The plugin's message if it considers the parent invalid.
    pub invalid: Option<String>,
}

impl Journey {
    /// Calls the plugin for a new parent until nothing changes, first without related objects and then with them, and
    /// then for its deletion.
    pub fn of(plugin: &impl Plugin, kind: &ParentKind, parent: &Value) -> Self {
        let mut journey = Self::default();
        let mut world = World::new(parent.clone());
        let requires = journey.converge(plugin, kind, &mut world, Stock::Empty);
        if requires {
            journey.converge(plugin, kind, &mut world, Stock::Plausible);
        }
        if plugin.finalizes() && journey.is_accepted {
            journey.finalize(plugin, kind, &mut world);
        }
        journey
    }

    /// The result for a property that a journey shows.
    pub fn result_of(&self, check: Check) -> CheckResult {
        if let (Check::SomeAccepted, Some(message)) = (check, &self.invalid) {
            return CheckResult::Failed(format!("the plugin accepts none of the generated parents: {message}"));
        }
        if let Some(problem) = self.problems.get(&check) {
            return CheckResult::Failed(problem.clone());
        }
        let applies = match check {
            Check::NoTrap | Check::ValidParents => true,
            Check::SomeAccepted | Check::ResponseAccepted | Check::ValidLabels | Check::Converges => self.is_accepted,
            Check::StatusStable | Check::StatusSchema => self.has_status,
            Check::Finalizes => self.is_finalized,
            Check::OptionalFields
            | Check::Repeatable
            | Check::OrderIrrelevant
            | Check::EditLikeNew
            | Check::InvalidParents => false,
        };
        if applies { CheckResult::Passed } else { CheckResult::NotApplicable }
    }

    /// Whether each call gave a response that the host accepts, or a failure that the plugin may return.
    pub fn is_sound(&self) -> bool {
        let calls = [Check::NoTrap, Check::ValidParents, Check::ResponseAccepted];
        calls.iter().all(|check| !self.problems.contains_key(check))
    }

    fn add(&mut self, check: Check, problem: String) {
        self.problems.entry(check).or_insert(problem);
    }

    /// Notes why there is no response.
    fn stopped(&mut self, answer: Answer) {
        match answer {
            Answer::Trap(message) => self.add(Check::NoTrap, message),
            Answer::Rejected(message) => self.add(Check::ResponseAccepted, message),
            Answer::Failed { message, has_related: false } => {
                self.add(Check::ValidParents, format!("the plugin failed: {message}"));
            }
            Answer::Invalid(message) => self.invalid = Some(message),
            Answer::Failed { .. } | Answer::Retry(_) | Answer::Response(_) => {}
        }
    }

    fn examine(&mut self, kind: &ParentKind, reply: &Reply) {
        self.is_accepted = true;
        for child in &reply.children {
            if let Some(problem) = label_problem(&child.body) {
                self.add(Check::ValidLabels, format!("{}: {problem}", child.name()));
            }
        }
        if let Some(status) = &reply.status {
            self.has_status = true;
            if let Some(problem) = status_problem(kind, status) {
                self.add(Check::StatusSchema, problem);
            }
        }
    }

    /// Returns whether the last response has requirements.
    fn converge(&mut self, plugin: &impl Plugin, kind: &ParentKind, world: &mut World, stock: Stock) -> bool {
        let mut requires = false;
        let mut sizes = Vec::new();
        let mut last = Change::default();
        for _ in 0..ROUNDS {
            let input = Input { world, phase: Phase::Sync, stock, seed: Seed::OfRequest, is_reversed: false };
            match plugin.answer(input) {
                Answer::Response(reply) => {
                    requires = reply.has_related;
                    self.examine(kind, &reply);
                    last = world.apply(&reply);
                    sizes.push(reply.status.as_ref().map_or(0, |status| status.to_string().len()));
                }
                Answer::Retry(_) => last = Change::default(),
                stopped => {
                    self.stopped(stopped);
                    return requires;
                }
            }
            if !world.play() && last == Change::default() {
                return requires;
            }
        }
        if let Some(child) = last.child {
            self.add(Check::Converges, format!("the children still change after {ROUNDS} rounds: {child}"));
        } else if let Some(field) = last.status {
            let recent = sizes.iter().rev().take(ROUNDS / 2).collect::<Vec<_>>();
            let is_growing = recent.windows(2).all(|pair| pair.first() > pair.last());
            let how = if is_growing { "grows in every round" } else { "changes in every round" };
            self.add(Check::StatusStable, format!("the status {how}; after {ROUNDS} rounds the change is in {field}"));
        }
        requires
    }

    fn finalize(&mut self, plugin: &impl Plugin, kind: &ParentKind, world: &mut World) {
        world.delete("windlass.dev/test");
        let before = world.live.len();
        self.is_finalized = true;
        let mut last = String::new();
        for _ in 0..ROUNDS {
            let input =
                Input { world, phase: Phase::Finalize, stock: Stock::Empty, seed: Seed::OfRequest, is_reversed: false };
            match plugin.answer(input) {
                Answer::Response(reply) => {
                    self.examine(kind, &reply);
                    world.apply(&reply);
                    if reply.finalized {
                        if world.live.len() > before {
                            let problem = format!("{before} children became {}", world.live.len());
                            self.add(Check::Finalizes, problem);
                        }
                        return;
                    }
                    "the response has no `finalized`".clone_into(&mut last);
                }
                Answer::Retry(message) => last = format!("the plugin waits: {message}"),
                Answer::Trap(message) => {
                    self.add(Check::NoTrap, format!("finalizing: {message}"));
                    return;
                }
                Answer::Rejected(message) => {
                    self.add(Check::ResponseAccepted, format!("finalizing: {message}"));
                    return;
                }
                Answer::Invalid(message) | Answer::Failed { message, .. } => {
                    self.add(Check::Finalizes, format!("the plugin fails: {message}"));
                    return;
                }
            }
            world.play();
        }
        self.add(Check::Finalizes, format!("not finalized after {ROUNDS} rounds: {last}"));
    }
}

/// Calls the plugin for one parent until nothing changes, with fixed random numbers; `None` if it does not converge.
fn settled(plugin: &impl Plugin, world: &mut World, stock: Stock) -> Option<Reply> {
    for _ in 0..ROUNDS {
        let input = Input { world, phase: Phase::Sync, stock, seed: Seed::Fixed, is_reversed: false };
        let Answer::Response(reply) = plugin.answer(input) else { return None };
        let change = world.apply(&reply);
        if !world.play() && change.child.is_none() {
            return Some(*reply);
        }
    }
    None
}

fn repeatable(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    let mut world = World::new(parent.clone());
    let mut result = CheckResult::NotApplicable;
    for _ in 0..2 {
        let call = |world: &World| {
            plugin.answer(Input {
                world,
                phase: Phase::Sync,
                stock: Stock::Plausible,
                seed: Seed::OfRequest,
                is_reversed: false,
            })
        };
        let (first, again) = (call(&world), call(&world));
        if let Some(problem) = unequal(&first, &again) {
            return CheckResult::Failed(format!("two calls with the same request differ: {problem}"));
        }
        let Answer::Response(reply) = first else { return result };
        if !reply.is_impure {
            let mut later = world.clone();
            later.now += 86_400;
            if let Some(problem) = unequal(&Answer::Response(reply.clone()), &call(&later)) {
                return CheckResult::Failed(format!("a call a day later, which reads no clock, differs: {problem}"));
            }
        }
        result = CheckResult::Passed;
        world.apply(&reply);
    }
    result
}

fn unequal(one: &Answer, other: &Answer) -> Option<String> {
    match (one, other) {
        (Answer::Response(one), Answer::Response(other)) if one.raw != other.raw => {
            Some(unlike(one, other).unwrap_or_else(|| "the bytes of the response".to_owned()))
        }
        (Answer::Response(_), Answer::Response(_)) => None,
        (one, other) => (one != other).then(|| "one of them fails".to_owned()),
    }
}

/// Where two responses differ, apart from the order of the children.
fn unlike(one: &Reply, other: &Reply) -> Option<String> {
    let status = |reply: &Reply| json!({"status": reply.status, "requeue": reply.raw.requeue});
    children_unlike(one, other, |_| true)
        .or_else(|| first_difference(&status(one), &status(other), "").map(|path| format!("{path} differs")))
        .or_else(|| (one.finalized != other.finalized).then(|| "finalized differs".to_owned()))
}

fn children_unlike(one: &Reply, other: &Reply, counts: impl Fn(&Child) -> bool) -> Option<String> {
    let by_name = |reply: &Reply| -> BTreeMap<String, Value> {
        let stripped = reply.children.iter().filter(|child| counts(child)).map(|child| {
            let mut body = child.body.clone();
            strip(&mut body);
            (child.name(), body)
        });
        stripped.collect()
    };
    let (one, other) = (by_name(one), by_name(other));
    let lacks = |all: &BTreeMap<String, Value>, name: &String| !all.contains_key(name);
    if let Some(name) = one.keys().find(|name| lacks(&other, name)) {
        return Some(format!("{name} is only in the first response"));
    }
    if let Some(name) = other.keys().find(|name| lacks(&one, name)) {
        return Some(format!("{name} is only in the second response"));
    }
    one.iter().find_map(|(name, body)| {
        let second = other.get(name).filter(|second| *second != body)?;
        Some(format!("{name}: {}", difference(body, second)))
    })
}

fn order_irrelevant(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    let mut result = CheckResult::NotApplicable;
    for stock in [Stock::Empty, Stock::Plausible] {
        let mut world = World::new(parent.clone());
        let Some(reply) = settled(plugin, &mut world, stock) else { return result };
        if world.live.len() < 2 && !reply.has_related {
            return result;
        }
        let call = |is_reversed| {
            plugin.answer(Input { world: &world, phase: Phase::Sync, stock, seed: Seed::Fixed, is_reversed })
        };
        match (call(false), call(true)) {
            (Answer::Response(one), Answer::Response(other)) => {
                if let Some(problem) = unlike(&one, &other) {
                    return CheckResult::Failed(format!("with the objects in reverse order, {problem}"));
                }
            }
            (one, other) if one == other => {}
            _ => return CheckResult::Failed("with the objects in reverse order, the plugin fails or not".to_owned()),
        }
        result = CheckResult::Passed;
        if !reply.has_related {
            break;
        }
    }
    result
}

fn edit_like_new(plugin: &impl Plugin, parent: &Value, edited: &Value) -> CheckResult {
    let mut world = World::new(parent.clone());
    if settled(plugin, &mut world, Stock::Empty).is_none() {
        return CheckResult::NotApplicable;
    }
    let mut kept = generated(plugin, parent);
    kept.extend(world.live.iter().filter(|live| is_retained(live)).map(title));
    world.edit(edited);
    let mut fresh = World::new(parent.clone());
    fresh.edit(edited);
    let (Some(after_edit), Some(new)) =
        (settled(plugin, &mut world, Stock::Empty), settled(plugin, &mut fresh, Stock::Empty))
    else {
        return CheckResult::NotApplicable;
    };
    // A child with data stays on purpose, as the claims of a StatefulSet and generated passwords do.
    let has_data = |child: &Child| {
        child.is_retained
            || kept.contains(&title(&child.body))
            || child.body.get("kind") == Some(&json!("PersistentVolumeClaim"))
    };
    let counts = |child: &Child| !has_data(child);
    match children_unlike(&after_edit, &new, counts) {
        Some(problem) => CheckResult::Failed(format!(
            "the first response is that after the edit, the second that for a new parent of the same spec: {problem}"
        )),
        None => CheckResult::Passed,
    }
}

/// The children of a new parent that depend on random numbers.
fn generated(plugin: &impl Plugin, parent: &Value) -> Vec<String> {
    let world = World::new(parent.clone());
    let bodies = |seed| -> Vec<Value> {
        let input = Input { world: &world, phase: Phase::Sync, stock: Stock::Empty, seed, is_reversed: false };
        match plugin.answer(input) {
            Answer::Response(reply) => reply.children.into_iter().map(|child| child.body).collect(),
            _ => Vec::new(),
        }
    };
    let others = bodies(Seed::OtherFixed);
    bodies(Seed::Fixed).iter().filter(|body| !others.contains(body)).map(title).collect()
}

/// A message if the plugin traps or fails for a new parent.
pub fn breaks(plugin: &impl Plugin, parent: &Value) -> Option<String> {
    let world = World::new(parent.clone());
    let input =
        Input { world: &world, phase: Phase::Sync, stock: Stock::Empty, seed: Seed::OfRequest, is_reversed: false };
    match plugin.answer(input) {
        Answer::Trap(message) | Answer::Failed { message, has_related: false } => Some(message),
        Answer::Response(_)
        | Answer::Invalid(_)
        | Answer::Retry(_)
        | Answer::Failed { has_related: true, .. }
        | Answer::Rejected(_) => None,
    }
}

fn optional_fields(plugin: &impl Plugin, parent: &Value, whole: &Value) -> CheckResult {
    match (breaks(plugin, parent), breaks(plugin, whole)) {
        (Some(message), None) => {
            let field = first_difference(whole, parent, "").unwrap_or_default();
            CheckResult::Failed(format!("without the optional field {field}, the call fails: {message}"))
        }
        (None, None) => CheckResult::Passed,
        (_, Some(_)) => CheckResult::NotApplicable,
    }
}

fn invalid_parents(plugin: &impl Plugin, parent: &Value) -> CheckResult {
    let world = World::new(parent.clone());
    let input =
        Input { world: &world, phase: Phase::Sync, stock: Stock::Empty, seed: Seed::OfRequest, is_reversed: false };
    match plugin.answer(input) {
        Answer::Response(_) | Answer::Invalid(_) | Answer::Retry(_) => CheckResult::Passed,
        Answer::Trap(message) => CheckResult::Failed(message),
        Answer::Rejected(message) => CheckResult::Failed(format!("the host rejects the response: {message}")),
        Answer::Failed { message, .. } => {
            CheckResult::Failed(format!("the plugin returns `failed` instead of `invalid`: {message}"))
        }
    }
}

/// Why the API server would refuse the labels of an object or of its Pod template.
fn label_problem(body: &Value) -> Option<String> {
    ["/metadata/labels", "/spec/template/metadata/labels"].iter().find_map(|at| {
        let labels = body.pointer(at)?.as_object()?;
        labels.iter().find_map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            if !is_label_key(key) {
                Some(format!("{key:?} is not a valid name of a label"))
            } else if !is_label_value(value) {
                Some(format!("{value:?} is not a valid value of the label {key}"))
            } else {
                None
            }
        })
    })
}

fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(windlass_core::ids::is_dns_subdomain)
}

fn is_label_value(value: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63
        && value.chars().all(|c| is_end(c) || matches!(c, '-' | '_' | '.'))
        && value.chars().next().is_none_or(is_end)
        && value.chars().last().is_none_or(is_end)
}

/// Why the API server would refuse a status, or which field of it the API server would drop.
fn status_problem(kind: &ParentKind, status: &Value) -> Option<String> {
    let schema = kind.schema.as_ref()?.pointer("/properties/status")?;
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        // The host completes the conditions, and sets the generation.
        fields.remove("conditions");
        fields.remove("observedGeneration");
    }
    // The API server applies the defaults first.
    schema::fill_in(schema, &mut status);
    schema::problems_at(schema, &status, "status").into_iter().next()
}
