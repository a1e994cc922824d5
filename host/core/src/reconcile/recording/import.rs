//! From a recorded call back to a request that a component can be called with.

use std::sync::Arc;

use serde::Deserialize;

use super::{Document, Exchange, RecordedRequest, RecordedResponse};
use crate::contract::offer::Offer;
use crate::contract::snapshot::Parts;
use crate::contract::{
    CallFailure, Event, Failure, Namespaces, Observed, PluginResult, Related, Request, Requirement, Response, Selection,
};
use crate::value::digest::Digest;
use crate::value::ids::{Gvk, ObjectKey};

/// Why a recorded request cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the recorded {what} is not valid: {problem}")]
pub struct NotARequest {
    what: &'static str,
    problem: String,
}

/// Without other fields, which may nest deeper than serde reads into values.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: String,
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(flatten)]
    key: ObjectKey,
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl RecordedRequest {
    /// The request.
    ///
    /// # Errors
    /// If an object has no kind or name.
    pub fn request(&self) -> Result<Request, NotARequest> {
        let objects = |objects: &[Document]| objects.iter().map(observed).collect::<Result<Vec<_>, _>>();
        let related = self.related.iter().map(|related| {
            let (id, metadata_only) = (related.id.clone(), related.metadata_only);
            Ok::<_, NotARequest>(Related { id, metadata_only, objects: objects(&related.objects)? })
        });
        Ok(Request {
            phase: self.phase,
            parent: observed(&self.parent)?,
            children: objects(&self.children)?,
            related: related.collect::<Result<_, _>>()?,
            left_out: self.left_out.clone(),
            unsent: self.unsent.clone(),
            config: self.config.as_ref().map(bytes),
            now: self.now_ms,
            offer: Arc::new(Offer { kinds: self.kinds.clone(), closed_namespaces: self.closed_namespaces.clone() }),
            cause: self.cause,
            namespace_terminating: self.namespace_terminating,
        })
    }
}

fn bytes(document: &Document) -> Arc<[u8]> {
    document.get().as_bytes().into()
}

fn observed(document: &Document) -> Result<Observed, NotARequest> {
    let Header { api_version, kind, metadata: Metadata { key: ObjectKey { namespace, name }, deletion_timestamp } } =
        serde_json::from_str(document.get())
            .map_err(|error| NotARequest { what: "object", problem: error.to_string() })?;
    Ok(Observed {
        kind: Gvk::from_api_version(&api_version, &kind),
        namespace,
        name,
        deleting: deletion_timestamp.is_some(),
        object: bytes(document),
    })
}

impl RecordedResponse {
    /// The response, before validation.
    pub fn into_response(self) -> Response {
        let bytes = |document: Document| document.get().as_bytes().to_vec();
        Response {
            children: self.children.into_iter().map(bytes).collect(),
            options: self.options,
            keep: self.keep,
            waiting: self.waiting,
            status: self.status.map(bytes),
            requeue: self.requeue_ms,
            requeue_at: self.requeue_at_ms,
            events: self.events,
            requirements: self.requirements,
            http: self.http,
            finalized: self.finalized,
        }
    }
}

impl Exchange {
    /// The seed of the call's random numbers.
    ///
    /// # Errors
    /// If it does not have 64 hexadecimal digits.
    pub fn seed(&self) -> Result<[u8; 32], NotARequest> {
        let digest: Result<Digest, _> = format!("sha256:{}", self.seed).parse();
        let digest = digest.map_err(|_| NotARequest { what: "seed", problem: "it needs 64 digits".to_owned() })?;
        Ok(*digest.as_bytes())
    }
}

/// Hash of all bytes of a result: equal hashes mean byte-equal results.
pub fn digest(result: &Result<PluginResult, CallFailure>) -> Digest {
    let mut hash = Parts::default();
    match result {
        Ok(Ok(response)) => add_response(&mut hash, response),
        Ok(Err(Failure::Invalid(message))) => add(&mut hash, [b"invalid", message.as_bytes()]),
        Ok(Err(Failure::Failed(message))) => add(&mut hash, [b"failed", message.as_bytes()]),
        Ok(Err(Failure::Retry { message, after })) => {
            add(&mut hash, [b"retry", message.as_bytes(), &after.to_le_bytes()]);
        }
        Err(failure) => add(&mut hash, [b"aborted", failure.to_string().as_bytes()]),
    }
    hash.digest()
}

fn add_response(hash: &mut Parts, response: &Response) {
    let Response {
        children,
        options,
        keep,
        waiting,
        status,
        requeue,
        requeue_at,
        events,
        requirements,
        http,
        finalized,
    } = response;
    // The number of the parts that follow.
    let count = |items: usize| (items as u64).to_le_bytes();
    add(hash, [b"response", b"children", &count(children.len())]);
    for child in children {
        hash.add(child);
    }
    add(hash, [b"status", &[u8::from(status.is_some()), u8::from(requeue.is_some())]]);
    add(hash, [status.as_deref().unwrap_or_default(), &requeue.unwrap_or_default().to_le_bytes()]);
    add(hash, [&[u8::from(*finalized)], b"events", &count(events.len())]);
    for Event { event_type, reason, message } in events {
        add(hash, [<&str>::from(event_type), reason, message].map(str::as_bytes));
    }
    add(hash, [b"requirements", &count(requirements.len())]);
    for requirement in requirements {
        add_requirement(hash, requirement);
    }
    if !http.is_empty() {
        add(hash, [b"http", &count(http.len())]);
        http.iter().for_each(|id| hash.add(id.as_bytes()));
    }
    if let Some(at) = requeue_at {
        add(hash, [b"requeue at", &at.get().to_le_bytes()]);
    }
    keep.for_each_part(|part| hash.add(part.as_bytes()));
    if let Some(waiting) = waiting {
        add(hash, [b"waiting", waiting.as_bytes()]);
    }
    if let Some(options) = options {
        add(hash, [b"options", &count(options.len())]);
        for options in options {
            options.for_each_part(|part| hash.add(part.as_bytes()));
        }
    }
}

fn add_requirement(hash: &mut Parts, Requirement { id, kind, namespaces, select, metadata_only }: &Requirement) {
    add(hash, [id, &*kind.api_version(), &*kind.kind].map(str::as_bytes));
    // One namespace has the parts that it had when there could only be one.
    match namespaces {
        Namespaces::OfParent => add(hash, [&[0], &[]]),
        Namespaces::Named(names) => {
            add(hash, [&[1], names.first().map(String::as_bytes).unwrap_or_default()]);
            if names.len() != 1 {
                add(hash, [b"namespaces", &(names.len() as u64).to_le_bytes()]);
                names.iter().skip(1).for_each(|name| hash.add(name.as_bytes()));
            }
        }
        Namespaces::All => add(hash, [&[2], &[]]),
    }
    let (how, select) = match select {
        Selection::Name(name) => ("name", name),
        Selection::Labels(labels) => ("labels", labels),
    };
    add(hash, [how, select].map(str::as_bytes));
    if *metadata_only {
        hash.add(b"metadata only");
    }
}

fn add<const N: usize>(hash: &mut Parts, parts: [&[u8]; N]) {
    for part in parts {
        hash.add(part);
    }
}
