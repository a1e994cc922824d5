//! Previews one parent: calls the plugin as the host does, plans the writes, and sends them as dry runs.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Context as _;
use futures::StreamExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use windlass_core::contract::desired::{Desired, DesiredChild};
use windlass_core::contract::related::Need;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::contract::{CallReport, Level, Note, Phase, Response};
use windlass_core::guard::deletions::{self, Forecast};
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::plugin::schema::structural as schema;
use windlass_core::reconcile::applied::{Done, Effect};
use windlass_core::reconcile::carry_out;
use windlass_core::reconcile::due::planned;
use windlass_core::reconcile::next_step::{Circumstances, NextStep, finalizers_with, next_step};
use windlass_core::reconcile::outcome::{Outcome, Problem, Rejection, WriteProblem, name_is_taken};
use windlass_core::reconcile::plan::{self, Change, Plan, Target, Write, changes};
use windlass_core::reconcile::status;
use windlass_core::reconcile::world::{ApiRequest, Writing};
use windlass_core::value::json::{Map, Value as CoreValue};
use windlass_engine::telemetry::one_line;
use windlass_sandbox::{Ambient, run_here};

use super::Args;
use super::cluster::Scope;
use super::parents::{Children, Related};
use super::world::{Dry, parsed};

/// Number of dry runs for one parent at once.
const PARALLEL_DRY_RUNS: usize = 4;

/// Previews parents.
pub struct Previewer {
    scope: Arc<Scope>,
    related: Arc<Related>,
    children: Children,
    shows_status: bool,
}

/// What the next reconciles of a parent would change.
pub struct Preview {
    /// Kind, namespace and name of the parent.
    pub parent: String,
    /// The objects that may differ.
    pub objects: Vec<Pair>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Why the parent, or an object, could not be previewed.
    pub errors: Vec<String>,
    /// The deletions, and whether the host would block them.
    pub forecast: Forecast,
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
    /// Deletes a child.
    Delete,
    /// Changes the parent.
    Parent,
}

impl Previewer {
    /// A previewer of parents in a scope, with the children that they may have.
    pub fn new(args: &Args, scope: Arc<Scope>, children: Children) -> Self {
        Self { scope, related: Arc::default(), children, shows_status: args.status }
    }

    /// Previews one parent. A failure is part of the result.
    pub async fn preview(&self, parent: Arc<Object>) -> Preview {
        let mut preview = Preview {
            parent: ChildId::of(&parent).to_string(),
            objects: Vec::new(),
            notes: Vec::new(),
            errors: Vec::new(),
            forecast: Forecast::default(),
        };
        if let Err(error) = self.fill(&mut preview, parent).await {
            preview.errors.push(one_line(&format!("{error:#}")).into_owned());
        }
        preview
    }

    async fn fill(&self, preview: &mut Preview, live: Arc<Object>) -> anyhow::Result<()> {
        let scope = &*self.scope;
        let circumstances = Circumstances {
            finalizes: scope.offline.descriptor().finalizes,
            suspended: scope.suspended,
            selected: true,
        };
        let finalizer = match next_step(&live, &scope.plugin, circumstances) {
            NextStep::Call(Phase::Sync) => None,
            NextStep::AddFinalizer => Some(true),
            NextStep::RemoveFinalizer if !live.deleting => Some(false),
            NextStep::Suspended => {
                preview.notes.push("left out: it is suspended, so the host changes nothing".to_owned());
                return Ok(());
            }
            NextStep::Call(Phase::Finalize)
            | NextStep::RemoveFinalizer
            | NextStep::Leave
            | NextStep::DeleteChildren => {
                preview.notes.push("left out: it is being deleted".to_owned());
                return Ok(());
            }
        };
        let parent = self.with_defaults(preview, &live)?;
        let parent_ref = scope.parent_ref(&parent);
        let candidates = self.children.candidates(&parent_ref);
        let gone = &self.children.gone;
        let snapshot =
            Snapshot::new(parent_ref.clone(), parent, candidates, scope.config.clone(), |plugin| gone.contains(plugin));
        let (response, snapshot) = self.call(preview, snapshot).await?;
        let desired = scope.offline.validate(&response, &parent_ref).context("the response is rejected")?;
        let plan = planned(&self.world(None), &snapshot, &desired, plan::differing);
        if !snapshot.left_out.is_empty() {
            let count = snapshot.left_out.len();
            preview.notes.push(format!("{count} large children were left out of the request, and are not compared"));
        }
        let cause = deletions::cause(&snapshot, Phase::Sync, scope.shape, None);
        preview.forecast = deletions::forecast(scope.guard, &snapshot, cause, scope.is_new, &plan.deletions());

        let new_namespaces = new_namespaces(&plan);
        let changes = futures::stream::iter(changes(&plan, &snapshot, &desired))
            .map(|change| self.change(&snapshot, change, &new_namespaces));
        let mut results = changes.buffered(PARALLEL_DRY_RUNS);
        while let Some(result) = results.next().await {
            match result {
                Ok(Previewed { pair, note }) => {
                    preview.objects.extend(pair);
                    preview.notes.extend(note);
                }
                Err((child, problem)) => {
                    let problem = reason(&problem);
                    preview.errors.push(format!("{child}: {}", one_line(&problem)));
                }
            }
        }
        drop(results);
        self.add_parent(preview, &live, (&snapshot, &desired), finalizer).await;
        Ok(())
    }

    /// The parent with the defaults of the CRD that the component carries, as the host would read it once that CRD is
    /// installed.
    fn with_defaults(&self, preview: &mut Preview, live: &Arc<Object>) -> anyhow::Result<Arc<Object>> {
        let Some(schema) = self.scope.offline.schema() else { return Ok(live.clone()) };
        let stored: Value = serde_json::from_slice(&live.json.bytes())?;
        let mut filled = stored.clone();
        schema::fill_in(schema, &mut filled);
        for problem in schema::problems(schema, &filled) {
            let problem = one_line(&problem).into_owned();
            preview.notes.push(format!("it does not fit the schema of the component's CRD: {problem}"));
        }
        // Unchanged objects stay the API server's bytes.
        if filled == stored {
            return Ok(live.clone());
        }
        Ok(Arc::new(Object::from_api(&live.kind, &filled.to_string())?))
    }

    /// Calls the plugin until its requirements are final, on a thread of its own: a call keeps its thread busy.
    async fn call(&self, preview: &mut Preview, snapshot: Snapshot) -> anyhow::Result<(Response, Snapshot)> {
        let (scope, related, runtime) = (self.scope.clone(), self.related.clone(), Handle::current());
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let logged = warnings.clone();
        let settled = tokio::task::spawn_blocking(move || {
            let find = |need: &Need| {
                runtime.block_on(related.find(&scope, need)).map_err(|error| format!("required objects: {error:#}"))
            };
            let call = |snapshot: &Snapshot, phase| {
                let request = snapshot.request(phase);
                let ambient = Ambient::now([0; 32]);
                let component = scope.offline.component();
                let (result, report) = run_here(component.reconcile(&request, &scope.offline.limits, ambient));
                *logged.lock() = warnings_of(&report);
                result
            };
            scope.offline.settle(snapshot, Phase::Sync, &[], find, call)
        });
        let settled = settled.await.context("the call of the plugin ended unexpectedly")?;
        preview.notes.append(&mut warnings.lock());
        settled.map_err(|stopped| anyhow::anyhow!("{stopped}"))
    }

    /// Previews one change of a child.
    async fn change(
        &self,
        snapshot: &Snapshot,
        change: Change,
        new_namespaces: &HashSet<String>,
    ) -> Result<Previewed, (ChildId, WriteProblem)> {
        let id = match &change {
            Change::Create(child) | Change::Apply { child, .. } | Change::Recreate { child, .. } => child.id(),
            Change::Delete(live) | Change::WhenDeleted(live) => ChildId::of(live),
        };
        let pair = |verb, before, after| -> Result<Previewed, WriteProblem> {
            let pair = Some(Pair { verb, id: id.clone(), before, after });
            Ok(Previewed { pair, note: None })
        };
        let about = |note: &str| format!("{id}: {note}");
        let previewed = async {
            match &change {
                Change::Create(child)
                    if child.key.namespace.as_deref().is_some_and(|name| new_namespaces.contains(name)) =>
                {
                    // The API server would respond that the namespace does not exist.
                    pair(Verb::Create, None, Some(body_of(child)?))
                }
                Change::Create(child) => {
                    let world = self.world(None);
                    written(&world, snapshot, Write::Create(child.clone())).await?;
                    let Some(found) = world.marked() else {
                        return pair(Verb::Create, None, Some(world.into_after()?));
                    };
                    // The host marks it as a child first, and applies the desired state once its cache shows that.
                    let (child, target) = (child.clone(), Target::as_found(&found));
                    let world = self.world(Some(&found));
                    written(&world, snapshot, Write::Apply { child, target }).await?;
                    pair(Verb::Adopt, Some(value_of(&found)?), Some(world.into_after()?))
                }
                Change::Apply { child, target, live } => {
                    let world = self.world(Some(live));
                    let (child, target) = (child.clone(), target.clone());
                    let Done { kept, .. } = written(&world, snapshot, Write::Apply { child, target }).await?;
                    match kept.and_then(|kept| kept.refused) {
                        Some(message) => {
                            Ok(Previewed { pair: None, note: Some(about(&note_on_kept_values(&message))) })
                        }
                        None => pair(Verb::Update, Some(value_of(live)?), Some(world.into_after()?)),
                    }
                }
                Change::Recreate { child, live } => {
                    let before = Some(value_of(live)?);
                    match self.recreated(child).await {
                        Ok(after) => pair(Verb::Recreate, before, Some(after)),
                        Err(problem) => {
                            let note = note_beside_live(&problem).ok_or(problem)?;
                            let shown = pair(Verb::Recreate, before, Some(body_of(child)?))?;
                            Ok(Previewed { note: Some(about(&note)), ..shown })
                        }
                    }
                }
                Change::Delete(live) => pair(Verb::Delete, Some(value_of(live)?), None),
                Change::WhenDeleted(_) => {
                    let note = "it differs, and is changed only once a user deletes it (update strategy on-delete)";
                    Ok(Previewed { pair: None, note: Some(about(note)) })
                }
            }
        };
        previewed.await.map_err(|problem| (id.clone(), problem))
    }

    fn world<'a>(&'a self, live: Option<&'a Object>) -> Dry<'a> {
        Dry::new((&self.scope, &self.children), live)
    }

    /// An object after this write, as the API server would store it.
    async fn sent(&self, live: &Object, request: ApiRequest<'_>) -> Result<Value, WriteProblem> {
        let world = self.world(Some(live));
        world.send(request).await.map_err(|refused| refused.problem())?;
        world.into_after()
    }

    /// A child that takes the place of a live one, as the API server would store it.
    async fn recreated(&self, child: &DesiredChild) -> Result<Value, WriteProblem> {
        let mut fresh = self.world(None).fresh(child).await.map_err(|refused| refused.problem())?;
        if let Some(meta) = fresh.object_mut("metadata") {
            // The new object has another UID, which is not known.
            meta.remove("uid");
        }
        parsed(&CoreValue::from(fresh).to_string())
    }

    /// Adds the parent, if its finalizer changes or its status is shown.
    async fn add_parent(
        &self,
        preview: &mut Preview,
        live: &Arc<Object>,
        (snapshot, desired): (&Snapshot, &Desired),
        finalizer: Option<bool>,
    ) {
        let status = if self.shows_status { self.next_status(preview, snapshot, desired) } else { None };
        if finalizer.is_none() && status.is_none() {
            return;
        }
        let previewed = async {
            let before = value_of(live)?;
            let mut after = before.clone();
            if let Some(wanted) = finalizer {
                let finalizers = finalizers_with(live, &self.scope.plugin, wanted);
                after = self.sent(live, ApiRequest::Finalizers { parent: live, finalizers: &finalizers }).await?;
            }
            if let Some(status) = status {
                let written = self.sent(live, ApiRequest::Status { parent: live, status }).await?;
                if let (Some(after), Some(status)) = (after.as_object_mut(), written.get("status")) {
                    after.insert("status".to_owned(), status.clone());
                }
            }
            Ok::<_, WriteProblem>((before, after))
        };
        match previewed.await {
            Ok((before, after)) => {
                let id = ChildId::of(live);
                preview.objects.push(Pair { verb: Verb::Parent, id, before: Some(before), after: Some(after) });
            }
            Err(problem) => preview.errors.push(format!("the parent itself: {}", one_line(&reason(&problem)))),
        }
    }

    /// The status that the host writes if all writes succeed; none if it does not change.
    fn next_status(&self, preview: &Preview, snapshot: &Snapshot, desired: &Desired) -> Option<Map> {
        let outcome = match &preview.forecast.blocked {
            Some(blocked) => Outcome::from(&Problem::DeletionsBlocked(blocked.clone())),
            None => Outcome::applied(desired.children.len(), desired.requeue),
        };
        status::next(&snapshot.parent, desired.status.as_ref(), &outcome, self.scope.shape, Timestamp::now())
    }
}

/// The preview of one change.
struct Previewed {
    pair: Option<Pair>,
    note: Option<String>,
}

/// The namespaces that the plan creates.
fn new_namespaces(plan: &Plan) -> HashSet<String> {
    let created = plan.writes.iter().filter_map(|write| match write {
        Write::Create(child) if child.kind.is("v1", "Namespace") => Some(child.key.name.to_string()),
        _ => None,
    });
    created.collect()
}

/// The warnings and errors in the plugin's log.
fn warnings_of(report: &CallReport) -> Vec<String> {
    let warning = |note: &Note| {
        let Note::Log { level, message, .. } = note else { return None };
        let is_warning = matches!(level, Level::Warn | Level::Error);
        is_warning.then(|| format!("plugin {}: {}", format!("{level:?}").to_lowercase(), one_line(message)))
    };
    report.notes.iter().filter_map(warning).collect()
}

fn value_of(object: &Object) -> Result<Value, WriteProblem> {
    parsed(&String::from_utf8_lossy(&object.json.bytes()))
}

fn body_of(child: &DesiredChild) -> Result<Value, WriteProblem> {
    parsed(&CoreValue::Object(child.body.clone()).to_string())
}

/// Sends one write of a plan as dry runs, as the host's writes follow each other.
async fn written(world: &Dry<'_>, snapshot: &Snapshot, write: Write) -> Result<Done, WriteProblem> {
    let done = carry_out::write(world, snapshot, &[], write).await.map_err(|(_, failed)| failed.problem)?;
    match done.effect {
        // The host leaves an object that its parent's deletion orphaned.
        Effect::Nothing if done.kept.is_none() => Err(WriteProblem::Taken { owner: None }),
        _ => Ok(done),
    }
}

/// The note about the successor of a live child, if the API server rejects it while the live child exists: both together
/// may exceed a quota or need the same port. The host deletes the live child first.
fn note_beside_live(problem: &WriteProblem) -> Option<String> {
    let WriteProblem::Rejected { message, rejection: Rejection::Other, .. } = problem else { return None };
    Some(format!(
        "it is shown as the plugin returned it, because the API server rejects it beside the live object ({}); the host \
         deletes the live object first",
        one_line(message)
    ))
}

/// The note about live values that differ from the desired ones, if the API server rejects the change: the host then
/// leaves the values as they are.
fn note_on_kept_values(message: &str) -> String {
    let message = one_line(message);
    format!(
        "its live values differ from the desired ones and stay, because the API server rejects the change: {message}"
    )
}

/// Why a child cannot be previewed, for the user of the command.
fn reason(problem: &WriteProblem) -> String {
    match problem {
        WriteProblem::Taken { owner } => name_is_taken(owner.as_deref()),
        WriteProblem::FieldConflict { conflicts } => format!(
            "other field managers own fields that the plugin sets: {}; remove the fields from one of the two",
            conflicts.join(", ")
        ),
        WriteProblem::CacheBehind | WriteProblem::Outdated => {
            "it changed while this command ran; run the command again".to_owned()
        }
        WriteProblem::NamespaceTerminating => "its namespace is being deleted".to_owned(),
        WriteProblem::Rejected { message, .. } | WriteProblem::Unavailable { message, .. } => message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: u16, rejection: Rejection) -> WriteProblem {
        WriteProblem::Rejected { code, message: "exceeded quota: pods".to_owned(), rejection }
    }

    #[test]
    fn successor_that_the_api_server_rejects_beside_the_live_child_is_a_note() {
        let note = note_beside_live(&rejected(403, Rejection::Other)).expect("a note");
        assert!(note.contains("exceeded quota: pods"), "{note}");
        assert_eq!(note_beside_live(&rejected(403, Rejection::Permission)), None, "the user lacks a permission");
        assert_eq!(note_beside_live(&WriteProblem::Outdated), None);
    }
}
