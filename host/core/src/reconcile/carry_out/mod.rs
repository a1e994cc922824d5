//! Carries out a plan: sends its writes in order, and decides after each response what is sent next.

mod correct;
mod replace;

use std::time::Duration;

use hashbrown::HashSet;

use self::correct::Correcting;
use self::replace::check_is_in_the_way;
use crate::contract::desired::DesiredChild;
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::child::{ChildId, Delete};
use crate::object::managed::{Correction, CreateEntry, Removal, may_differ_as_stored};
use crate::object::order::install_rank;
use crate::reconcile::api_response::{Ack, Refused};
use crate::reconcile::applied::{Applied, Effect, Failed, Kept, WriteResult, Wrote};
use crate::reconcile::claim::{Claim, claim, marks, may_be_adopted, owner_of};
use crate::reconcile::next_step::{FinalizerChange, finalizers_with};
use crate::reconcile::outcome::WriteProblem;
use crate::reconcile::plan::{Plan, Target, Write, differing};
use crate::reconcile::waves::send_wave;
use crate::reconcile::world::{ApiRequest, Force, Part, Prepared, Read, Writing};
use crate::reconcile::written::{Subject, Written};
use crate::value::ids::{ObjectKey, PluginName, Uid};

/// How often a create is repeated, and the time between, if it failed for want of an object that the same plan has created: the API
/// server's own caches may not show the role of a binding for a moment.
const PAUSES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What a plan does to other children than the one that is written.
#[derive(Debug, Default)]
pub struct Others {
    /// The children that it creates, this one among them.
    creates: Vec<ChildId>,
    /// The children that it deletes after all writes, or to make room for others.
    deletes: Vec<Delete>,
}

/// Sends the writes of a plan in install order, those of one rank in parallel; then, if all succeeded, no object was only marked as a
/// child, and none waits for another to be gone, its deletes.
pub async fn carry_out(world: &dyn Writing, snapshot: &Snapshot, mut plan: Plan) -> Applied {
    let mut applied = Applied::default();
    let prunes = plan.take_due_prunes();
    let creates = plan.writes.iter().filter(|write| matches!(write, Write::Create(_))).map(Write::child).collect();
    let room = plan.leaving.take().map(|leaving| leaving.room).unwrap_or_default();
    let others = Others { creates, deletes: prunes.iter().flatten().cloned().chain(room).collect() };
    let mut writes = plan.writes.into_iter().peekable();
    while let Some(first) = writes.next() {
        let rank = rank_of(&first);
        let mut wave = vec![first];
        while let Some(next) = writes.next_if(|next| rank_of(next) == rank) {
            wave.push(next);
        }
        send_wave(&mut applied, wave.into_iter().map(|next| write(world, snapshot, &others, next))).await;
        // Later children may depend on one that is not there, and not on the refused change of one that is.
        if !applied.problems.is_empty() {
            let creates: HashSet<_> = others.creates.iter().collect();
            let is_in_the_way =
                |(child, problem): &(_, WriteProblem)| creates.contains(child) || !problem.is_childs_own();
            if applied.problems.iter().any(is_in_the_way) {
                break;
            }
        }
    }
    if applied.marked || !applied.problems.is_empty() || !applied.making_room.is_empty() {
        // Nothing is pruned before all desired children are there (rule R8).
        applied.kept_from_pruning = prunes.iter().map(Vec::len).sum();
        return applied;
    }
    for wave in prunes {
        let deletes = wave.into_iter().map(|next| delete(world, snapshot, next, Effect::Deleted));
        send_wave(&mut applied, deletes).await;
        if !applied.problems.is_empty() {
            // The children that are still there depend on the later ones.
            return applied;
        }
    }
    applied
}

/// Sends one write of a plan, and what it needs before and after it. It fails if the API server rejects it or does not respond, or if the object is not a child of this parent.
pub async fn write(world: &dyn Writing, snapshot: &Snapshot, others: &Others, write: Write) -> (ChildId, WriteResult) {
    match write {
        Write::Create(child) => create_or_make_room(world, snapshot, others, &child).await,
        Write::Apply { child, target } => {
            let outcome = change(world, snapshot, &child, &target).await;
            (child.id(), after_comparing(&child, &target, outcome))
        }
        Write::Replace(next) => delete(world, snapshot, next, Effect::Replaced).await,
    }
}

/// Creates a child; or deletes another one that it replaces, if that is in its way. Returns the child that was written.
async fn create_or_make_room(
    world: &dyn Writing,
    snapshot: &Snapshot,
    others: &Others,
    child: &DesiredChild,
) -> (ChildId, WriteResult) {
    let refused = match create(world, snapshot, &others.creates, child).await {
        Ok(result) => return (child.id(), result),
        Err(refused) => refused,
    };
    let failed = Failed::of(&refused, Subject::Child(child.id()));
    let mut named = refused.invalid_fields().peekable();
    // A name, a label, a policy or a permission is not what another child holds.
    let is_of_spec = named.peek().is_some() && named.all(|field| field.starts_with("spec."));
    match others.deletes.iter().find(|delete| child.replaces(&delete.child)) {
        Some(old) if is_of_spec => match check_is_in_the_way(world, snapshot, (old, child), failed.problem).await {
            Ok(()) => delete(world, snapshot, old.clone(), Effect::MadeRoom).await,
            Err(problem) => (child.id(), Err(problem.into())),
        },
        _ => (child.id(), Err(failed)),
    }
}

/// Creates a child. The inner result fails if the child's name is taken by an object that is not to become the child.
///
/// # Errors
/// The API server's refusal, or that it did not respond.
async fn create(
    world: &dyn Writing,
    snapshot: &Snapshot,
    creates: &[ChildId],
    child: &DesiredChild,
) -> Result<WriteResult, Refused> {
    let is_before = |other: &ChildId| {
        let is_near = other.key.namespace.is_none() || other.key.namespace == child.key.namespace;
        is_near && install_rank(&other.kind) < install_rank(&child.kind)
    };
    let is_created = |(plural, name): (&str, &str)| {
        creates.iter().any(|other| *other.key.name == *name && is_before(other) && world.plural(other) == plural)
    };
    let mut pauses = 0;
    loop {
        match world.send(ApiRequest::Create(child)).await {
            Ok(ack) => return Ok(Ok(Wrote { expires: child.expires(), ..wrote(Effect::Created, child, &ack) })),
            Err(refused) if refused.already_exists() => return Ok(reclaim(world, snapshot, child).await),
            Err(refused) if pauses < PAUSES && refused.missing().is_some_and(is_created) => {
                world.pause(PAUSE).await;
                pauses += 1;
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// A create or an apply that the API server acknowledged.
fn wrote(effect: Effect, child: &DesiredChild, ack: &Ack) -> Wrote {
    let may_differ = may_differ_as_stored(&child.body);
    let (stored, warnings) = (may_differ.then(|| ack.stored()), ack.warnings().to_vec());
    Wrote { stored, warnings, ..Wrote::new(effect, ack.child(&child.kind)) }
}

/// Handles a create that found the child's name taken by an object that the cache did not show. The host does not
/// write the object's content: at most it adds the labels and ownerReference of a child, and the next reconcile
/// sees the object.
async fn reclaim(world: &dyn Writing, snapshot: &Snapshot, child: &DesiredChild) -> WriteResult {
    // Whether a Secret may be adopted depends on its type.
    let part = if world.adopts() && child.kind.is("v1", "Secret") { Part::Whole } else { Part::Metadata };
    let Some(found) = read(world, &child.id(), part).await? else { return Err(WriteProblem::Outdated.into()) };
    let seen = || Written::Child { kind: child.kind.clone(), resource_version: found.resource_version };
    let adopts = world.adopts() && may_be_adopted(&found, child);
    let claim = claim(&found, snapshot, adopts, |plugin| world.inherits(plugin));
    tracing::trace!(?claim);
    match claim {
        Claim::Unseen => Err(Failed { problem: WriteProblem::CacheBehind, awaited: Some(Box::new(seen())) }),
        Claim::Restore => mark(world, snapshot, child, &found, Effect::Marked).await,
        // The cache may be behind: the garbage collector would delete a child that is adopted for a parent that is
        // gone.
        Claim::Adopt if !lives(world, snapshot).await? => Err(WriteProblem::Outdated.into()),
        Claim::Adopt => mark(world, snapshot, child, &found, Effect::Adopted).await,
        Claim::Orphaned => Ok(Wrote::new(Effect::Nothing, None)),
        // The parent may have been deleted with --cascade=orphan, which the cache of parents does not show yet.
        Claim::Foreign
            if found.controller.is_none()
                && found.labelled.as_ref() == Some(&snapshot.parent.uid)
                && !lives(world, snapshot).await? =>
        {
            Err(WriteProblem::Outdated.into())
        }
        Claim::Foreign => Err(WriteProblem::Taken(owner_of(&found)).into()),
    }
}

/// Whether the parent exists and is not being deleted, as the API server has it now.
async fn lives(world: &dyn Writing, snapshot: &Snapshot) -> Result<bool, WriteProblem> {
    let parent = world.read(Read::Parent(&snapshot.parent.key)).await.map_err(|refused| refused.problem())?;
    Ok(parent.is_some_and(|parent| parent.uid == snapshot.parent.uid && !parent.deleting))
}

async fn mark(
    world: &dyn Writing,
    snapshot: &Snapshot,
    child: &DesiredChild,
    found: &Object,
    effect: Effect,
) -> WriteResult {
    let marks = marks(found, child, &snapshot.parent_ref, effect == Effect::Adopted);
    match world.send(ApiRequest::Mark { child, found, marks: &marks }).await {
        Ok(ack) => Ok(Wrote::new(effect, ack.child(&child.kind))),
        Err(refused) => Err(Failed::of(&refused, Subject::Child(child.id()))),
    }
}

/// Applies a child to a live object, so that the object becomes what a create would give.
///
/// # Errors
/// If the API server rejects it or does not respond, or if the apply conflicts with other managers.
async fn change(world: &dyn Writing, snapshot: &Snapshot, child: &DesiredChild, target: &Target) -> WriteResult {
    let live = snapshot.children.iter().find(|live| live.uid == target.uid).map(|live| &**live);
    let mut correcting = Correcting::new(world, child);
    let first = change_to(world, child, target, live, &mut correcting).await;
    // Another writer, often the child's own controller, has changed it meanwhile.
    let is_outdated = matches!(first, Err(Failed { problem: WriteProblem::Outdated, .. }));
    if !is_outdated && !correcting.is_behind {
        return first;
    }
    let now = match current(world, snapshot, &child.id(), &target.uid, Part::Whole).await {
        Ok(now) => now,
        Err(problem) if is_outdated => return Err(problem.into()),
        // The refusal of the write says more.
        Err(_) => return first,
    };
    let target = Target::of(&now, child, target.differing);
    change_to(world, child, &target, Some(&now), &mut correcting).await
}

/// Applies a child to a live object in the version of `target`. `live` is the object, if it is known as a whole.
async fn change_to(
    world: &dyn Writing,
    child: &DesiredChild,
    target: &Target,
    live: Option<&Object>,
    correcting: &mut Correcting<'_>,
) -> WriteResult {
    let failed = |refused: Refused| Failed::of(&refused, Subject::Child(child.id()));
    let with = |body| DesiredChild { body, ..child.clone() };
    let correction = correcting.of_apply(target, live).await?;
    let own = correction.as_ref().and_then(|correction| correction.own.as_ref());
    let left = match target.create_entry {
        Some(CreateEntry::MustGo { index, removal }) => Some((index, removal)),
        Some(CreateEntry::Harmless) | None => correction.as_ref().and_then(converted),
    };
    let mut version = target.resource_version;
    if left.is_some() || own.is_some() {
        version = prepare(world, child, version, Prepared { left, own, ..Prepared::default() }).await?;
    }
    if let Some(body) = correction.map(|correction| correction.body).filter(|body| *body != child.body) {
        match apply(world, &with(body), target, version).await? {
            // What a create would set is not valid for this object: without it, the object is as an apply leaves it.
            Err(refused) if matches!(refused.problem(), WriteProblem::Rejected { code: 422, .. }) => {}
            sent => return sent.map_err(failed),
        }
    }
    let refused = match apply(world, child, target, version).await? {
        Ok(wrote) => return Ok(wrote),
        Err(refused) => refused,
    };
    // The places of entries are those of the version that is known as a whole.
    let known = live.filter(|_| version == target.resource_version);
    if let Some(found) = correcting.of_invalid(known, &refused).await? {
        let Correction { own, taken, emptied, .. } = &found;
        let prepared = Prepared { left: converted(&found), own: own.as_ref(), taken, emptied };
        let version = prepare(world, child, version, prepared).await?;
        let sent = send_apply(world, &with(found.body), target, version, Force::Yes, Effect::Restored).await;
        return sent.map_err(failed);
    }
    Err(failed(refused))
}

/// The entry of the host's POST, if it is to own other fields: as an Apply entry, or the apply would remove none of them.
fn converted(correction: &Correction) -> Option<(usize, Removal)> {
    correction.own.as_ref().filter(|_| correction.is_of_post).map(|own| (own.index, Removal::Convert))
}

/// Applies a child to a live object. Ownership of fields is taken from managers that edited the child in place, and from others if the
/// plugin asks for it. The inner error is the API server's last refusal.
async fn apply(
    world: &dyn Writing,
    child: &DesiredChild,
    target: &Target,
    version: u64,
) -> Result<Result<Wrote, Refused>, Failed> {
    // No conflict shows a field that another manager has removed; the plan does.
    let expected = if target.restores { Effect::Restored } else { Effect::Updated };
    let force = match target.create_entry {
        // The fields in the way are the host's own.
        Some(CreateEntry::Harmless) => Force::Yes,
        Some(CreateEntry::MustGo { .. }) | None => Force::No,
    };
    let refused = match send_apply(world, child, target, version, force, expected).await {
        Ok(wrote) => return Ok(Ok(wrote)),
        Err(refused) => refused,
    };
    let effect = match refused.conflict() {
        Some(conflict) if conflict.only_ours => expected,
        // Another manager changed fields of the child in place: restore them.
        Some(conflict) if conflict.only_drift => Effect::Restored,
        Some(_) if child.force_ownership => Effect::TakenOver,
        Some(conflict) => return Err(WriteProblem::FieldConflict(conflict.causes).into()),
        None => return Ok(Err(refused)),
    };
    Ok(send_apply(world, child, target, version, Force::Yes, effect).await)
}

async fn send_apply(
    world: &dyn Writing,
    child: &DesiredChild,
    target: &Target,
    resource_version: u64,
    force: Force,
    effect: Effect,
) -> Result<Wrote, Refused> {
    let returns = if target.differing.is_some() { Part::Whole } else { Part::Metadata };
    let sent = world.send(ApiRequest::Apply { child, uid: &target.uid, resource_version, force, returns }).await;
    sent.map(|ack| {
        let is_as_before = |now: &Object| target.differing.is_some() && differing(now, child) == target.differing;
        if !ack.object().is_some_and(is_as_before) {
            return wrote(effect, child, &ack);
        }
        // At most the ownership of fields has changed.
        let is_written = ack.resource_version() != target.resource_version;
        Wrote::new(Effect::Nothing, is_written.then(|| ack.child(&child.kind)))
    })
}

/// Prepares a child for an apply. Returns the child's version after that.
async fn prepare(
    world: &dyn Writing,
    child: &DesiredChild,
    resource_version: u64,
    prepared: Prepared<'_>,
) -> Result<u64, Failed> {
    let sent = world.send(ApiRequest::Prepare { child, resource_version, prepared }).await;
    sent.map(|ack| ack.resource_version()).map_err(|refused| {
        // Another write moved the host's entry.
        if refused.does_not_fit() {
            WriteProblem::Outdated.into()
        } else {
            Failed::of(&refused, Subject::Child(child.id()))
        }
    })
}

/// A child as it is by now, after a write met another version than the plan is based on: its status may have changed. The write is not
/// repeated if the object is no child any more, because a user or the garbage collector released it (`--cascade=orphan`).
async fn current(
    world: &dyn Writing,
    snapshot: &Snapshot,
    child: &ChildId,
    uid: &Uid,
    part: Part,
) -> Result<Object, WriteProblem> {
    let found = read(world, child, part).await?;
    let inherits = |plugin: &str| world.inherits(plugin);
    let is_child = |found: &Object| found.uid == *uid && found.is_child_of(&snapshot.parent_ref, inherits);
    found.filter(is_child).ok_or(WriteProblem::Outdated)
}

async fn read(world: &dyn Writing, child: &ChildId, part: Part) -> Result<Option<Object>, WriteProblem> {
    world.read(Read::Child(child, part)).await.map_err(|refused| refused.problem())
}

/// The result of an apply that was sent because live values differ from the desired ones. If it changed none (at most who owns them), or is
/// invalid, the next apply would have the same result, so the values are left. A 403 is different: permissions, quotas and admission
/// policies change without a change of the child.
fn after_comparing(child: &DesiredChild, target: &Target, outcome: WriteResult) -> WriteResult {
    let Some(values) = target.differing else { return outcome };
    let kept = |refused| Some(Kept { uid: target.uid.clone(), applied: child.applied.clone(), values, refused });
    match outcome {
        Ok(wrote) if wrote.effect == Effect::Nothing => Ok(Wrote { kept: kept(None), ..wrote }),
        Ok(wrote) => Ok(Wrote { effect: Effect::Restored, ..wrote }),
        Err(Failed { problem: WriteProblem::Rejected { code: 400 | 422 | 500, message, .. }, .. }) => {
            Ok(Wrote { kept: kept(Some(message)), ..Wrote::new(Effect::Nothing, None) })
        }
        failed => failed,
    }
}

async fn delete(world: &dyn Writing, snapshot: &Snapshot, delete: Delete, effect: Effect) -> (ChildId, WriteResult) {
    (delete.child.clone(), send_delete(world, snapshot, delete, effect).await)
}

async fn send_delete(world: &dyn Writing, snapshot: &Snapshot, mut delete: Delete, effect: Effect) -> WriteResult {
    let mut response = world.send(ApiRequest::Delete(&delete)).await;
    if response.as_ref().is_err_and(Refused::is_outdated) {
        let now = current(world, snapshot, &delete.child, &delete.uid, Part::Metadata).await?;
        delete.resource_version = now.resource_version;
        response = world.send(ApiRequest::Delete(&delete)).await;
    }
    match response {
        Ok(ack) => Ok(Wrote::new(effect, ack.deleted(delete))),
        Err(refused) if is_gone(world, &refused, &delete.child, &delete.uid) => {
            Ok(Wrote::new(Effect::Nothing, Written::Gone { child: delete.child, uid: delete.uid }))
        }
        Err(refused) => Err(Failed::of(&refused, Subject::Child(delete.child))),
    }
}

fn is_gone(world: &dyn Writing, refused: &Refused, object: &ChildId, uid: &Uid) -> bool {
    refused.is_gone((&object.kind.kind, world.plural(object)), &object.key.name, Some(uid))
}

/// Sets or removes the plugin's finalizer of a parent. Returns what the cache must show before the parent's next plan.
///
/// # Errors
/// If the API server rejects the write, or does not respond; [`WriteProblem::Outdated`] if the parent has changed.
pub async fn set_finalizer(
    world: &dyn Writing,
    plugin: &PluginName,
    parent: &Object,
    change: FinalizerChange,
) -> Result<Written, Failed> {
    let finalizers = finalizers_with(parent, plugin, change);
    match world.send(ApiRequest::Finalizers { parent, finalizers: &finalizers }).await {
        Ok(ack) if change != FinalizerChange::Remove => Ok(ack.parent()),
        // If it was the last finalizer of a parent that is being deleted, the response has the version from before the write.
        Ok(_) => Ok(Written::parent_past(parent)),
        Err(refused) if is_gone(world, &refused, &ChildId::of(parent), &parent.uid) => Ok(Written::parent_gone(parent)),
        Err(refused) => {
            let failed = Failed::of(&refused, Subject::Parent);
            let is_outdated = failed.problem == WriteProblem::Outdated;
            let awaited = is_outdated.then(|| Box::new(Written::parent_past(parent))).or(failed.awaited);
            Err(Failed { problem: failed.problem, awaited })
        }
    }
}

/// What follows from the response to a write of a parent's status: the write that the cache must show, and why it failed.
pub fn status_written(
    world: &dyn Writing,
    parent: &Object,
    response: Result<Ack, Refused>,
) -> (Option<Written>, Option<WriteProblem>) {
    match response {
        Ok(ack) => (Some(ack.parent()), None),
        Err(refused) if is_gone(world, &refused, &ChildId::of(parent), &parent.uid) => {
            (Some(Written::parent_gone(parent)), Some(refused.problem()))
        }
        Err(refused) => {
            // Only an apply without force can meet a conflict.
            let conflict = refused.conflict().map(|of| WriteProblem::FieldConflict(of.causes));
            (refused.unknown(Subject::Parent), Some(conflict.unwrap_or_else(|| refused.problem())))
        }
    }
}

/// Reads an object after a write that may have been executed, or whose result the cache does not show. Returns the state that the
/// cache must show now; none if the parent need not wait for it.
///
/// # Errors
/// If the read fails.
pub async fn look_up(world: &dyn Writing, parent: &ObjectKey, of: &Subject) -> Result<Option<Written>, WriteProblem> {
    match of {
        Subject::Parent => {
            let found = world.read(Read::Parent(parent)).await.map_err(|refused| refused.problem())?;
            Ok(match found {
                Some(found) => Some(Written::Parent { resource_version: found.resource_version }),
                None => world.cached_parent(parent).map(|cached| Written::parent_gone(&cached)),
            })
        }
        Subject::Child(child) => Ok(match read(world, child, Part::Metadata).await? {
            // An object without the label is in no cache.
            Some(found) if found.plugin().is_none() => None,
            Some(found) => Some(Written::Child { kind: child.kind.clone(), resource_version: found.resource_version }),
            None => {
                world.cached_child(child).map(|cached| Written::Gone { child: child.clone(), uid: cached.uid.clone() })
            }
        }),
    }
}

fn rank_of(write: &Write) -> u8 {
    match write {
        Write::Create(child) | Write::Apply { child, .. } => install_rank(&child.kind),
        Write::Replace(delete) => install_rank(&delete.child.kind),
    }
}

#[cfg(test)]
mod tests;
