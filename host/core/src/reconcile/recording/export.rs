//! From a call that the host keeps to a recorded call, without values of Secrets.

use serde_json::value::RawValue;

use super::{
    Document, Exchange, FailedWrite, RecordedCall, RecordedDecision, RecordedRelated, RecordedRequest,
    RecordedResponse, RecordedResult, RecordedWrite,
};
use crate::contract::snapshot::Snapshot;
use crate::contract::{CallFailure, Event, Failure, Observed, PluginResult, Request, Requirement, Response, Selection};
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
    let (request, result) = (call.snapshot.request(call.phase), call.result.restore());
    learn_values(&call.snapshot, (&RequestValues::of(&request), &ResultValues::of(&result)), masker)
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
    let (documents, result) = (RequestValues::of(&request), ResultValues::of(&result));
    learn_values(&call.snapshot, (&documents, &result), masker)?;
    Ok(Exchange {
        component: call.component.to_string(),
        contract: call.contract.to_string(),
        now: call.now,
        seed: Digest::from_bytes(masker.seed(&call.hash)).hex(),
        limits: call.limits.clone(),
        request: documents.masked(&request, masker),
        result: result.masked(masker),
        result_digest: None,
        host_result: None,
        guest_time_us: call.guest_time_us,
        memory_peak: call.memory_peak,
        is_impure: call.is_impure,
    })
}

fn learn_values(
    snapshot: &Snapshot,
    (request, result): (&RequestValues, &ResultValues<'_>),
    masker: &mut Masker,
) -> Result<(), TooManyValues> {
    // Kinds, namespaces and names are public, and a plugin could not be called with others.
    for object in snapshot.objects() {
        let namespace = object.key.namespace.as_deref().unwrap_or_default();
        for word in [&*object.kind.api_version(), &*object.kind.kind, namespace, &*object.key.name] {
            masker.allow(word);
        }
    }
    request.all().chain(result.documents()).try_for_each(|document| masker.learn(document))?;
    // They are not in the request, but messages may quote them.
    snapshot.left_out.iter().try_for_each(|child| masker.learn(&parsed(&child.json.bytes())))
}

/// The parsed documents of a request.
struct RequestValues {
    parent: Value,
    children: Vec<Value>,
    related: Vec<Vec<Value>>,
    config: Option<Value>,
}

impl RequestValues {
    fn of(request: &Request) -> Self {
        let objects = |objects: &[Observed]| objects.iter().map(|one| parsed(&one.object)).collect();
        Self {
            parent: parsed(&request.parent),
            children: objects(&request.children),
            related: request.related.iter().map(|related| objects(&related.objects)).collect(),
            config: request.config.as_deref().map(parsed),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        let related = self.related.iter().flatten();
        std::iter::once(&self.parent).chain(&self.children).chain(related).chain(&self.config)
    }

    fn masked(self, request: &Request, masker: &mut Masker) -> RecordedRequest {
        let related = request.related.iter().zip(self.related).map(|(related, objects)| RecordedRelated {
            id: masker.mask_text(&related.id),
            objects: masked(objects, masker),
        });
        RecordedRequest {
            phase: request.phase,
            related: related.collect(),
            children: masked(self.children, masker),
            parent: document(&masker.mask(self.parent)),
            config: self.config.map(|config| document(&masker.mask(config))),
            namespace_terminating: request.namespace_terminating,
        }
    }
}

/// The parsed documents of a result, and the rest of it.
struct ResultValues<'a> {
    children: Vec<Value>,
    status: Option<Value>,
    result: &'a Result<PluginResult, CallFailure>,
}

impl<'a> ResultValues<'a> {
    fn of(result: &'a Result<PluginResult, CallFailure>) -> Self {
        let (children, status) = match result {
            Ok(Ok(response)) => {
                (response.children.iter().map(|child| parsed(child)).collect(), response.status.as_deref().map(parsed))
            }
            Ok(Err(_)) | Err(_) => (Vec::new(), None),
        };
        Self { children, status, result }
    }

    fn documents(&self) -> impl Iterator<Item = &Value> {
        self.children.iter().chain(&self.status)
    }

    fn masked(self, masker: &mut Masker) -> RecordedResult {
        if let Err(failure) = self.result {
            return RecordedResult::Aborted(masker.mask_message(&failure.to_string()));
        }
        let children = masked(self.children, masker);
        let status = self.status.map(|status| document(&masker.mask(status)));
        recorded(self.result, children, status, |text| masker.mask_text(text))
    }
}

/// Converts a result as it is, for one that was made from a masked request.
pub fn export_result(result: &Result<PluginResult, CallFailure>) -> RecordedResult {
    let ResultValues { children, status, result } = ResultValues::of(result);
    let children = children.iter().map(document).collect();
    recorded(result, children, status.as_ref().map(document), str::to_owned)
}

fn recorded(
    result: &Result<PluginResult, CallFailure>,
    children: Vec<Document>,
    status: Option<Document>,
    mut text: impl FnMut(&str) -> String,
) -> RecordedResult {
    match result {
        Ok(Ok(Response { requeue, events, requirements, finalized, .. })) => {
            RecordedResult::Response(RecordedResponse {
                children,
                status,
                requeue_ms: *requeue,
                events: events
                    .iter()
                    .map(|event| Event {
                        event_type: event.event_type,
                        reason: text(&event.reason),
                        message: text(&event.message),
                    })
                    .collect(),
                requirements: requirements.iter().map(|one| requirement(one, &mut text)).collect(),
                finalized: *finalized,
            })
        }
        Ok(Err(Failure::Invalid(message))) => RecordedResult::Invalid(text(message)),
        Ok(Err(Failure::Retry { message, after })) => {
            RecordedResult::Retry { message: text(message), after_ms: *after }
        }
        Ok(Err(Failure::Failed(message))) => RecordedResult::Failed(text(message)),
        Err(failure) => RecordedResult::Aborted(text(&failure.to_string())),
    }
}

fn requirement(one: &Requirement, text: &mut impl FnMut(&str) -> String) -> Requirement {
    Requirement {
        id: text(&one.id),
        kind: Gvk::from_api_version(&text(&one.kind.api_version()), &text(&one.kind.kind)),
        namespace: one.namespace.as_deref().map(&mut *text),
        select: match &one.select {
            Selection::Name(name) => Selection::Name(text(name)),
            Selection::Labels(labels) => Selection::Labels(text(labels)),
        },
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

fn masked(values: Vec<Value>, masker: &mut Masker) -> Vec<Document> {
    values.into_iter().map(|value| document(&masker.mask(value))).collect()
}

fn document(value: &Value) -> Document {
    // The writer of values writes valid JSON.
    RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
