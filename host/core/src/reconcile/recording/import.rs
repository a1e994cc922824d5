//! From a recorded call back to a request that a component can be called with.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Document, Exchange, RecordedLimits, RecordedPhase, RecordedRequest};
use crate::contract::snapshot::Parts;
use crate::contract::{
    CallFailure, EventType, Failure, Limits, Observed, Phase, PluginResult, Related, Request, Selection,
};
use crate::value::digest::Digest;
use crate::value::ids::Gvk;

/// Why a recorded request cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the recorded {what} is not valid: {problem}")]
pub struct NotARequest {
    what: &'static str,
    problem: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: String,
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

impl RecordedRequest {
    /// The request.
    ///
    /// # Errors
    /// If an object has no kind or name.
    pub fn request(&self) -> Result<Request, NotARequest> {
        let objects = |objects: &[Document]| objects.iter().map(observed).collect::<Result<Vec<_>, _>>();
        let related = self.related.iter().map(|related| {
            Ok::<_, NotARequest>(Related { id: related.id.clone(), objects: objects(&related.objects)? })
        });
        Ok(Request {
            phase: match self.phase {
                RecordedPhase::Sync => Phase::Sync,
                RecordedPhase::Finalize => Phase::Finalize,
            },
            parent: bytes(&self.parent),
            children: objects(&self.children)?,
            related: related.collect::<Result<_, _>>()?,
            config: self.config.as_ref().map(bytes),
            namespace_terminating: self.namespace_terminating,
        })
    }
}

fn bytes(document: &Document) -> Arc<[u8]> {
    document.get().as_bytes().into()
}

fn observed(document: &Document) -> Result<Observed, NotARequest> {
    let header: Header = serde_json::from_str(document.get())
        .map_err(|error| NotARequest { what: "object", problem: error.to_string() })?;
    Ok(Observed {
        kind: Gvk::from_api_version(&header.api_version, &header.kind),
        namespace: header.metadata.namespace.map(Arc::from),
        name: header.metadata.name.into(),
        object: bytes(document),
    })
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

impl RecordedLimits {
    /// The limits.
    pub fn limits(&self) -> Limits {
        Limits {
            memory: self.memory,
            table_elements: self.table_elements,
            instances: self.instances,
            deadline: Duration::from_millis(self.deadline_ms),
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            children: self.children,
            log_bytes: self.log_bytes,
            events: self.events,
            requirements: self.requirements,
            json_depth: self.json_depth,
        }
    }
}

/// Hash of all bytes of a result: equal hashes mean byte-equal results.
pub fn digest(result: &Result<PluginResult, CallFailure>) -> Digest {
    let mut hash = Parts::default();
    match result {
        Ok(Ok(response)) => {
            hash.add(b"response");
            add_count(&mut hash, b"children", response.children.len());
            response.children.iter().for_each(|child| hash.add(child));
            hash.add(b"status");
            hash.add(&[u8::from(response.status.is_some()), u8::from(response.requeue.is_some())]);
            hash.add(response.status.as_deref().unwrap_or_default());
            hash.add(&response.requeue.unwrap_or_default().to_le_bytes());
            hash.add(&[u8::from(response.finalized)]);
            add_count(&mut hash, b"events", response.events.len());
            for event in &response.events {
                // Part of the format of recordings: independent of the names in this code.
                let event_type = match event.event_type {
                    EventType::Normal => "Normal",
                    EventType::Warning => "Warning",
                };
                hash.add(event_type.as_bytes());
                hash.add(event.reason.as_bytes());
                hash.add(event.message.as_bytes());
            }
            add_count(&mut hash, b"requirements", response.requirements.len());
            for requirement in &response.requirements {
                hash.add(requirement.id.as_bytes());
                hash.add(requirement.kind.api_version().as_bytes());
                hash.add(requirement.kind.kind.as_bytes());
                hash.add(&[u8::from(requirement.namespace.is_some())]);
                hash.add(requirement.namespace.as_deref().unwrap_or_default().as_bytes());
                let (how, select) = match &requirement.select {
                    Selection::Name(name) => ("name", name),
                    Selection::Labels(labels) => ("labels", labels),
                };
                hash.add(how.as_bytes());
                hash.add(select.as_bytes());
            }
        }
        Ok(Err(Failure::Invalid(message))) => {
            hash.add(b"invalid");
            hash.add(message.as_bytes());
        }
        Ok(Err(Failure::Failed(message))) => {
            hash.add(b"failed");
            hash.add(message.as_bytes());
        }
        Ok(Err(Failure::Retry { message, after })) => {
            hash.add(b"retry");
            hash.add(message.as_bytes());
            hash.add(&after.to_le_bytes());
        }
        Err(failure) => {
            hash.add(b"aborted");
            hash.add(failure.to_string().as_bytes());
        }
    }
    hash.digest()
}

/// Adds the number of the parts that follow.
fn add_count(hash: &mut Parts, name: &[u8], count: usize) {
    hash.add(name);
    hash.add(&(count as u64).to_le_bytes());
}
