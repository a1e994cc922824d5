//! Previews one parent: reconciles it as the host does, in a world of dry runs, until nothing changes any more.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::contract::{Phase, UpdateStrategy};
use windlass_core::guard::budget::Budget;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::carry_out;
use windlass_core::reconcile::next_step::NextStep;
use windlass_core::reconcile::plan::{Target, Write};
use windlass_core::reconcile::shared::Shared;
use windlass_core::reconcile::shared::component_state::{Beginning, ComponentState};
use windlass_core::reconcile::shared::records::Records;
use windlass_core::reconcile::steps::Reconcile;
use windlass_core::reconcile::trigger::Trigger;
use windlass_engine::clock::CLOCK;
use windlass_engine::telemetry::one_line;

use super::Args;
use super::cluster::Scope;
use super::parents::{Children, Related};
use super::seen::{Later, Seen, value_of};
use super::world::Dry;

/// Largest number of reconciles of one parent: the finalizer, an adoption, a recreation and failures each take one more.
const RECONCILES: usize = 20;

/// Previews parents.
pub struct Previewer {
    scope: Arc<Scope>,
    related: Related,
    children: Children,
    shows_status: bool,
    /// The deletions of all parents together.
    state: Arc<ComponentState>,
}

/// What the next reconciles of a parent would change.
pub struct Preview {
    /// The parent as it is.
    pub live: Arc<Object>,
    /// What would change.
    pub seen: Seen,
    /// What the parents of a host share: but for the deletions, it is this parent's own, because the preview has no rate.
    shared: Shared,
}

/// An object before and after a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What the host does with the object.
    pub verb: Verb,
    /// The object's identity.
    pub id: ChildId,
    /// The live object; none if it does not exist.
    pub before: Option<Value>,
    /// The object as the API server would store it; none if it is deleted.
    pub after: Option<Value>,
}

/// What the host does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Creates a child.
    Create,
    /// Makes an existing object a child, and changes it.
    Adopt,
    /// Changes a child.
    Update,
    /// Recreates a child.
    Recreate,
    /// Would recreate a child, once a user allows its deletion.
    BlockedRecreation,
    /// Deletes a child.
    Delete,
    /// Would delete a child, once a user allows it.
    Blocked,
    /// Changes the parent.
    Parent,
}

impl Previewer {
    /// A previewer of these parents in a scope, with the children that they may have.
    pub fn new(args: &Args, scope: Arc<Scope>, parents: &[Arc<Object>], children: Children) -> Self {
        // The deletions of a component that is live already are not those of a rollout, nor are those of some of its parents. Nobody waits for
        // a parent that is left out.
        let is_rollout = scope.is_new && args.name.is_none() && args.selector.is_none();
        let is_in_rollout = |parent: &&Arc<Object>| is_rollout && why_left_out(&scope, parent).is_none();
        let is_owned = |child: &&Arc<Object>| child.controller.is_some() && !child.deleting;
        let owned = |parent| children.candidates(&scope.parent_ref(parent)).iter().filter(is_owned).count();
        let beginning = Beginning {
            guard: scope.terms.settings.guard,
            decides_by: scope.terms.call_inputs,
            parents: parents.iter().filter(is_in_rollout).map(|parent| parent.key.clone()).collect(),
            former: Vec::new(),
            owned: parents.iter().map(|parent| owned(parent)).sum(),
        };
        let state = ComponentState::begin(CLOCK, beginning, None, None);
        Self { scope, related: Related::default(), children, shows_status: args.status, state: Arc::new(state) }
    }

    /// Previews one parent. A failure is part of the result.
    pub async fn preview(&self, live: Arc<Object>) -> Preview {
        let shared = Shared {
            clock: CLOCK,
            state: self.state.clone(),
            records: Arc::new(Records::new(CLOCK, |_| ())),
            budget: Arc::new(Mutex::new(Budget::new(CLOCK.date()))),
            breaker: Arc::default(),
        };
        let mut preview = Preview { seen: Seen::new(live.clone()), live, shared };
        let (live, seen) = (&preview.live, &mut preview.seen);
        if let Some(why) = why_left_out(&self.scope, live) {
            seen.note(format!("left out: {why}"));
            return preview;
        }
        let stored = value_of(live);
        let (filled, problems) = self.scope.with_defaults(&stored);
        for problem in problems {
            let problem = one_line(&problem).into_owned();
            seen.note(format!("it does not fit the schema of the component's CRD: {problem}"));
        }
        // Unchanged objects stay the API server's bytes.
        if filled != stored {
            match Object::from_api(&live.kind, &filled.to_string()) {
                Ok(parent) => seen.parent = Arc::new(parent),
                Err(error) => {
                    seen.error(error.to_string());
                    // Those that wait are previewed again when all were.
                    drop(self.state.unplanned(&live.key));
                    return preview;
                }
            }
        }
        self.reconcile(preview).await
    }

    /// Reconciles until nothing changes any more, or deletions wait for other parents. Goes on with a preview whose deletions waited.
    pub async fn reconcile(&self, Preview { live, seen, shared }: Preview) -> Preview {
        let world = Dry::new((&self.scope, &self.related, &self.children), &live, (self.shows_status, seen));
        let (terms, key) = (&self.scope.terms, &live.key);
        let mut left = RECONCILES;
        loop {
            world.seen.lock().begin();
            Reconcile { world: &world, terms, shared: &shared, key, trigger: Trigger::Resync }.run().await;
            let mut seen = world.seen.lock();
            left -= 1;
            if !seen.goes_on() {
                break;
            }
            if left == 0 {
                let why = "what is shown is not the end: each response of the plugin differs, or many writes fail";
                seen.error(format!("after {RECONCILES} reconciles, {why}"));
                break;
            }
        }
        if !world.seen.lock().is_planned() {
            // The others do not wait for it.
            drop(self.state.unplanned(key));
        }
        if !world.seen.lock().is_put_off() {
            show_later(&world).await;
        }
        let seen = world.seen.into_inner();
        Preview { live, seen, shared }
    }

    /// What the host would report at the Plugin of the deletions of all parents together.
    pub fn blocked_at_plugin(&self) -> Option<String> {
        let blocked = self.state.decisions().blocked?;
        Some(format!("{} The host blocks these deletions at the Plugin until a user allows them", blocked.summary()))
    }
}

/// Shows what the host does later: recreations that a user must allow, and what waits until other children are ready.
async fn show_later(world: &Dry<'_>) {
    let Later { blocked, changes, creates, deletes } = world.seen.lock().later();
    let snapshot = world.seen.lock().snapshot().cloned();
    for (live, child) in blocked {
        if let Some(after) = recreated(world, &child).await {
            world.seen.lock().show(ChildId::of(&live), Verb::BlockedRecreation, Some(live), Some(after));
        }
    }
    // What is created later may take what these hold.
    for live in deletes {
        world.seen.lock().show(ChildId::of(&live), Verb::Delete, Some(live), None);
    }
    for child in creates {
        if let Some(snapshot) = &snapshot
            && let (child, Err(failed)) =
                carry_out::write(world, snapshot, &carry_out::Others::default(), Write::Create(child)).await
        {
            world.seen.lock().fail(&child, failed.problem);
        }
    }
    for (live, child) in changes {
        let is_recreated =
            matches!(child.update, UpdateStrategy::Recreate | UpdateStrategy::Rolling { recreate: true, .. });
        if is_recreated && live.controller.is_some() {
            if let Some(after) = recreated(world, &child).await {
                world.seen.lock().change(&child.id(), Verb::Recreate, Some(live), (after, Some(&child.applied)));
            }
        } else if let Some(snapshot) = &snapshot {
            let write = Write::Apply { target: Target::of(&live, &child, None), child };
            if let (child, Err(failed)) = carry_out::write(world, snapshot, &carry_out::Others::default(), write).await
            {
                world.seen.lock().fail(&child, failed.problem);
            }
        }
    }
}

/// A child that takes the place of a live one; none, and an error is shown, if the API server refuses it.
async fn recreated(world: &Dry<'_>, child: &DesiredChild) -> Option<Value> {
    let recreated = world.recreated(child).await;
    recreated.map_err(|refused| world.seen.lock().fail(&child.id(), refused.problem())).ok()
}

/// Why the host would change nothing for a parent.
fn why_left_out(scope: &Scope, parent: &Object) -> Option<&'static str> {
    match scope.terms.next_step(parent, true) {
        NextStep::Call(Phase::Sync) | NextStep::AddFinalizer => None,
        NextStep::RemoveFinalizer if !parent.deleting => None,
        NextStep::Suspended => Some("it is suspended, so the host changes nothing"),
        NextStep::Call(Phase::Finalize)
        | NextStep::RemoveFinalizer
        | NextStep::Leave
        | NextStep::DeleteInOrder
        | NextStep::DeleteChildren => Some("it is being deleted"),
    }
}
