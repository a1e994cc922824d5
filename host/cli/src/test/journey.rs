//! The life of a parent, from its creation to its deletion: the calls until nothing changes, and the clean-up.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::contract::Phase;

use super::accepted::{label_problem, status_problem};
use super::call::{CallResult, Input, Plugin, Seed, Stock};
use super::generate::ParentKind;
use super::property::{Check, CheckResult, ROUNDS};
use super::reply::Reply;
use super::world::{Change, World};

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
        Self::beginning(plugin, kind, World::new(parent.clone()), Phase::Sync, ROUNDS)
    }

    /// As [`Self::of`], for a parent that may have children already, with at most so many rounds before its deletion. If
    /// the first phase is that of the clean-up, the parent is deleted before its first call.
    pub fn beginning(plugin: &impl Plugin, kind: &ParentKind, mut world: World, first: Phase, rounds: usize) -> Self {
        let mut journey = Self::default();
        if first == Phase::Sync {
            let requires = journey.converge(plugin, kind, &mut world, Stock::Empty, rounds);
            if requires {
                journey.converge(plugin, kind, &mut world, Stock::Plausible, rounds);
            }
        }
        if plugin.finalizes() && (journey.is_accepted || first == Phase::Finalize) {
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
            | Check::MetadataIrrelevant
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
    fn stopped(&mut self, result: CallResult) {
        match result {
            CallResult::Trap(message) => self.add(Check::NoTrap, message),
            CallResult::Rejected(message) => self.add(Check::ResponseAccepted, message),
            CallResult::Failed { message, has_related: false } => {
                self.add(Check::ValidParents, format!("the plugin failed: {message}"));
            }
            CallResult::Invalid(message) => self.invalid = Some(message),
            CallResult::Failed { .. } | CallResult::Retry(_) | CallResult::Response(_) => {}
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
    fn converge(
        &mut self,
        plugin: &impl Plugin,
        kind: &ParentKind,
        world: &mut World,
        stock: Stock,
        rounds: usize,
    ) -> bool {
        let mut requires = false;
        let mut sizes = Vec::new();
        let mut last = Change::default();
        for _ in 0..rounds {
            match plugin.call(Input::sync(world, stock, Seed::OfRequest)) {
                CallResult::Response(reply) => {
                    requires = reply.has_related;
                    self.examine(kind, &reply);
                    last = world.apply(&reply);
                    sizes.push(reply.status.as_ref().map_or(0, |status| status.to_string().len()));
                }
                CallResult::Retry(_) => last = Change::default(),
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
            self.add(Check::Converges, format!("the children still change after {rounds} rounds: {child}"));
        } else if let Some(field) = last.status {
            let recent = sizes.iter().rev().take(rounds / 2).collect::<Vec<_>>();
            let is_growing = recent.windows(2).all(|pair| pair.first() > pair.last());
            let how = if is_growing { "grows in every round" } else { "changes in every round" };
            self.add(Check::StatusStable, format!("the status {how}; after {rounds} rounds the change is in {field}"));
        }
        requires
    }

    fn finalize(&mut self, plugin: &impl Plugin, kind: &ParentKind, world: &mut World) {
        world.delete("windlass.dev/test");
        let before = world.live.len();
        let mut last = String::new();
        for _ in 0..ROUNDS {
            let input = Input::sync(world, Stock::Empty, Seed::OfRequest);
            match plugin.call(Input { phase: Phase::Finalize, ..input }) {
                CallResult::Response(reply) => {
                    self.examine(kind, &reply);
                    world.apply(&reply);
                    if reply.finalized {
                        self.is_finalized = true;
                        let after = world.live.len();
                        if after > before {
                            let problem = format!("there are {after} children after finalizing, {before} before");
                            self.add(Check::Finalizes, problem);
                        }
                        return;
                    }
                    "the response has no `finalized`".clone_into(&mut last);
                }
                CallResult::Retry(message) => last = format!("the plugin waits: {message}"),
                CallResult::Trap(message) => return self.add(Check::NoTrap, format!("finalizing: {message}")),
                CallResult::Rejected(message) => {
                    return self.add(Check::ResponseAccepted, format!("finalizing: {message}"));
                }
                CallResult::Invalid(message) | CallResult::Failed { message, .. } => {
                    return self.add(Check::Finalizes, format!("the plugin fails: {message}"));
                }
            }
            world.play();
        }
        self.add(Check::Finalizes, format!("not finalized after {ROUNDS} rounds: {last}"));
    }
}
