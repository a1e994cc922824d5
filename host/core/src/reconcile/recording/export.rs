//! From a call that the host keeps to a recorded call, without values of Secrets.

use serde_json::value::RawValue;

use super::{
    Document, Exchange, FailedWrite, RecordedCall, RecordedDecision, RecordedRelated, RecordedRequest,
    RecordedResponse, RecordedResult, RecordedWrite,
};
use crate::contract::snapshot::Snapshot;
use crate::contract::{
    CallFailure, ChildOptions, ChildRef, Event, Failure, Keep, Namespaces, Observed, PluginResult, Request,
    Requirement, Response, Selection, Until, UpdateStrategy,
};
use crate::object::child::ChildId;
use crate::object::masking::{Masker, TooManyValues, hidden};
use crate::reconcile::outcome::{Outcome, Problem, Requeue};
use crate::reconcile::recent::{Call, Reconciled};
use crate::value::digest::Digest;
use crate::value::ids::Gvk;
use crate::value::json::{self, Value};

/// Instead of a message about a call whose Secrets are unknown.
const NOT_SHOWN: &str = "not shown, because the call was too large to be kept: see the parent's conditions";

/// Converts reconciles in this order, and masks all values of the Secrets in any of them: the value of a later Secret may occur in an
/// earlier call.
///
/// # Errors
/// If there are too many values.
pub fn export_all<'a>(
    all: impl Iterator<Item = &'a Reconciled> + Clone,
    masker: &mut Masker,
) -> Result<Vec<RecordedCall>, TooManyValues> {
    all.clone().try_for_each(|one| learn(one, masker))?;
    all.map(|one| export(one, masker)).collect()
}

/// Shows a masker the values of the Secrets in a reconcile.
///
/// # Errors
/// If there are too many values.
pub fn learn(reconciled: &Reconciled, masker: &mut Masker) -> Result<(), TooManyValues> {
    let Some(call) = &reconciled.call else { return Ok(()) };
    learn_values(&call.snapshot, &call.snapshot.request(call.phase), &call.result.restore(), masker)
}

/// Converts a reconcile, and masks all values of the Secrets in it, and of those that the masker has seen before.
///
/// # Errors
/// If there are too many values.
pub fn export(reconciled: &Reconciled, masker: &mut Masker) -> Result<RecordedCall, TooManyValues> {
    masker.allow(reconciled.parent.plugin.as_str());
    let parent = ChildId { kind: reconciled.parent.kind.clone(), key: reconciled.parent.key.clone() };
    // First, because messages may quote values of the call's Secrets.
    let call = reconciled.call.as_ref().map(|call| exchange(call, masker)).transpose()?;
    Ok(RecordedCall {
        number: reconciled.number,
        at: reconciled.at,
        plugin: reconciled.parent.plugin.to_string(),
        parent,
        trigger: reconciled.trigger.to_owned(),
        trace_id: reconciled.trace.clone(),
        duration_us: u64::try_from(reconciled.duration.as_micros()).unwrap_or(u64::MAX),
        repeated: reconciled.repeated,
        call,
        is_call_omitted: reconciled.is_call_omitted,
        decision: decision(reconciled, |message| {
            let is_hidden = reconciled.is_call_omitted && !message.is_empty();
            if is_hidden { NOT_SHOWN.to_owned() } else { masker.mask_message(message) }
        }),
    })
}

fn exchange(call: &Call, masker: &mut Masker) -> Result<Exchange, TooManyValues> {
    let (request, result) = (call.snapshot.request(call.phase), call.result.restore());
    learn_values(&call.snapshot, &request, &result, masker)?;
    let seed = Digest::from_bytes(masker.seed(&call.hash)).hex();
    let mut recorder = Recorder(Some(masker));
    Ok(Exchange {
        component: call.component.to_string(),
        contract: call.contract.to_string(),
        now: call.now,
        seed,
        limits: call.limits.clone(),
        request: recorder.request(&request),
        result: recorder.result(&result),
        result_digest: None,
        host_result: None,
        guest_time_us: call.guest_time_us,
        memory_peak: call.memory_peak,
        is_impure: call.is_impure,
    })
}

fn learn_values(
    snapshot: &Snapshot,
    request: &Request,
    result: &Result<PluginResult, CallFailure>,
    masker: &mut Masker,
) -> Result<(), TooManyValues> {
    // Kinds, namespaces and names are public, and a plugin could not be called with others.
    for object in snapshot.objects() {
        let namespace = object.key.namespace.as_deref().unwrap_or_default();
        for word in [&*object.kind.api_version(), &*object.kind.kind, namespace, &*object.key.name] {
            masker.allow(word);
        }
    }
    let objects = request.children.iter().chain(request.related.iter().flat_map(|related| &related.objects));
    let given = std::iter::once(&*request.parent.object)
        .chain(objects.map(|one| &*one.object))
        .chain(request.config.as_deref());
    let response = result.iter().flatten();
    let returned = response.flat_map(|response| response.children.iter().chain(&response.status)).map(Vec::as_slice);
    given.chain(returned).try_for_each(|document| masker.learn(&parsed(document)))?;
    // They are not in the request, but messages may quote them.
    snapshot.left_out.iter().try_for_each(|child| masker.learn(&parsed(&child.json.bytes())))
}

/// Converts a result as it is, for one that was made from a masked request.
pub fn export_result(result: &Result<PluginResult, CallFailure>) -> RecordedResult {
    Recorder(None).result(result)
}

/// Converts the parts of a call: without values of Secrets if it has a masker, else as they are.
struct Recorder<'m>(Option<&'m mut Masker>);

impl Recorder<'_> {
    fn text(&mut self, text: &str) -> String {
        self.0.as_mut().map_or_else(|| text.to_owned(), |masker| masker.mask_text(text))
    }

    fn document(&mut self, bytes: &[u8]) -> Document {
        let value = parsed(bytes);
        let value = match &mut self.0 {
            Some(masker) => masker.mask(value),
            None => value,
        };
        // The writer of values writes valid JSON.
        RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    fn objects(&mut self, objects: &[Observed]) -> Vec<Document> {
        objects.iter().map(|one| self.document(&one.object)).collect()
    }

    fn request(&mut self, request: &Request) -> RecordedRequest {
        let related = request.related.iter().map(|of| RecordedRelated {
            id: self.text(&of.id),
            metadata_only: of.metadata_only,
            objects: self.objects(&of.objects),
        });
        let related = related.collect();
        RecordedRequest {
            phase: request.phase,
            parent: self.document(&request.parent.object),
            children: self.objects(&request.children),
            related,
            left_out: request.left_out.clone(),
            unsent: request.unsent.iter().map(|id| self.text(id)).collect(),
            config: request.config.as_deref().map(|config| self.document(config)),
            now_ms: request.now,
            closed_namespaces: request.offer.closed_namespaces.clone(),
            kinds: request.offer.kinds.clone(),
            cause: request.cause,
            namespace_terminating: request.namespace_terminating,
        }
    }

    fn result(&mut self, result: &Result<PluginResult, CallFailure>) -> RecordedResult {
        match result {
            Ok(Ok(response)) => RecordedResult::Response(self.response(response)),
            Ok(Err(Failure::Invalid(message))) => RecordedResult::Invalid(self.text(message)),
            Ok(Err(Failure::Retry { message, after })) => {
                RecordedResult::Retry { message: self.text(message), after_ms: *after }
            }
            Ok(Err(Failure::Failed(message))) => RecordedResult::Failed(self.text(message)),
            Err(failure) => {
                let message = failure.to_string();
                RecordedResult::Aborted(match &mut self.0 {
                    Some(masker) => masker.mask_message(&message),
                    None => message,
                })
            }
        }
    }

    fn response(&mut self, response: &Response) -> RecordedResponse {
        RecordedResponse {
            children: response.children.iter().map(|child| self.document(child)).collect(),
            options: response.options.as_ref().map(|all| all.iter().map(|one| self.options(one)).collect()),
            keep: match &response.keep {
                Keep::These(children) => Keep::These(children.iter().map(|child| self.child_ref(child)).collect()),
                without_text => without_text.clone(),
            },
            waiting: response.waiting.as_deref().map(|waiting| self.text(waiting).into()),
            status: response.status.as_deref().map(|status| self.document(status)),
            requeue_ms: response.requeue,
            requeue_at_ms: response.requeue_at,
            events: response
                .events
                .iter()
                .map(|Event { event_type, reason, message }| Event {
                    event_type: *event_type,
                    reason: self.text(reason),
                    message: self.text(message),
                })
                .collect(),
            requirements: response.requirements.iter().map(|one| self.requirement(one)).collect(),
            http: response.http.iter().map(|id| self.text(id)).collect(),
            finalized: response.finalized,
        }
    }

    fn options(&mut self, options: &ChildOptions) -> ChildOptions {
        let update = options.update.as_ref().map(|update| match update {
            UpdateStrategy::Rolling { recreate, until: Until::Conditions(conditions) } => {
                let conditions = conditions.iter().map(|condition| self.text(condition)).collect();
                UpdateStrategy::Rolling { recreate: *recreate, until: Until::Conditions(conditions) }
            }
            without_text => without_text.clone(),
        });
        let replaces = options.replaces.as_ref().map(|child| self.child_ref(child));
        ChildOptions { update, replaces, ..options.clone() }
    }

    fn child_ref(&mut self, child: &ChildRef) -> ChildRef {
        ChildRef {
            kind: Gvk::from_api_version(&self.text(&child.kind.api_version()), &self.text(&child.kind.kind)),
            namespace: child.namespace.as_deref().map(|namespace| self.text(namespace)),
            name: self.text(&child.name),
        }
    }

    fn requirement(&mut self, one: &Requirement) -> Requirement {
        Requirement {
            id: self.text(&one.id),
            kind: Gvk::from_api_version(&self.text(&one.kind.api_version()), &self.text(&one.kind.kind)),
            namespaces: match &one.namespaces {
                Namespaces::Named(names) => Namespaces::Named(names.iter().map(|name| self.text(name)).collect()),
                other => other.clone(),
            },
            select: match &one.select {
                Selection::Name(name) => Selection::Name(self.text(name)),
                Selection::Labels(labels) => Selection::Labels(self.text(labels)),
            },
            metadata_only: one.metadata_only,
        }
    }
}

fn decision(reconciled: &Reconciled, mut masked: impl FnMut(&str) -> String) -> RecordedDecision {
    let Reconciled { decision, next: again, .. } = reconciled;
    let written = decision.changes.kinds().into_iter().flat_map(|(_, verb, children)| {
        children.iter().map(move |child| RecordedWrite { verb: verb.to_owned(), object: child.clone() })
    });
    let written = written.collect();
    let failed = decision.failed.iter().map(|(child, problem)| {
        let outcome = Outcome::from(&Problem::Writes(vec![(child.clone(), problem.clone())]));
        FailedWrite { object: child.clone(), message: masked(&outcome.message) }
    });
    RecordedDecision {
        written,
        failed: failed.collect(),
        outcome: decision.outcome.to_owned(),
        progress: decision.progress.map(|progress| progress.to_string()),
        message: masked(&decision.message),
        status: decision.status.to_string(),
        next: again.map(next),
    }
}

fn next(requeue: Requeue) -> String {
    match requeue {
        Requeue::Settled(None) => "at the next resync".to_owned(),
        Requeue::Settled(Some(wait)) | Requeue::Pause(wait) | Requeue::After(wait) if wait.is_zero() => {
            "at once".to_owned()
        }
        Requeue::Settled(Some(wait)) | Requeue::Pause(wait) | Requeue::After(wait) => {
            format!("after {} ms", wait.as_millis())
        }
        Requeue::Backoff(_) => "after the backoff of this parent".to_owned(),
        Requeue::Unavailable(_) => "after a few seconds".to_owned(),
        Requeue::WhenChanged => "when the parent changes".to_owned(),
        Requeue::Gone => "never".to_owned(),
    }
}

/// Parses a document; one that is malformed becomes a text.
fn parsed(bytes: &[u8]) -> Value {
    json::parse(bytes, json::OBJECT_DEPTH).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(bytes);
        if text.contains("Secret") { Value::from(hidden(bytes.len())) } else { Value::from(&*text) }
    })
}
