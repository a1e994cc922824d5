//! Whether an object does what its spec says, from the object alone: rule R22. The rules are those of kstatus
//! (sigs.k8s.io/cli-utils), but for the differences that R22 lists.

mod volumes;
mod workloads;

use std::borrow::Cow;

use crate::object::Object;
use crate::object::conditions::{condition_of, is_true};
use crate::value::ids::Gvk;
use crate::value::json::{self, Map, Value};

const BEING_DELETED: &str = "it is being deleted";
const NOT_OBSERVED: &str = "its controller has not seen its latest change yet";

/// Whether an object is ready. The texts complete a sentence about it: "it is not ready: …". Ours have no counts, because each change of a
/// text is a write of the parent's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It does what its spec says.
    Ready,
    /// Not yet; the text says what is missing.
    Progressing(Cow<'static, str>),
    /// It will not become ready by itself; the text says why.
    Failed(Cow<'static, str>),
    /// Neither its kind nor its conditions tell.
    Unknown,
}

/// A rule for some kinds.
type Rule = fn(&Parts) -> Readiness;

/// What rules read of an object.
struct Parts {
    metadata: Map,
    spec: Map,
    status: Map,
}

impl Readiness {
    /// Whether the object is ready (rule R22). Parses it, unless its kind alone tells.
    pub fn of(object: &Object) -> Self {
        Self::of_json(&object.kind, object.deleting, || object.json.bytes())
    }

    /// Whether an object of this kind is ready that is being deleted or not, and has this JSON.
    pub fn of_json<J: AsRef<[u8]>>(kind: &Gvk, deleting: bool, json: impl FnOnce() -> J) -> Self {
        if deleting {
            return Self::progressing(BEING_DELETED);
        }
        let Some(rule) = rule_of(kind) else { return Self::Ready };
        let Ok(Value::Object(mut values)) = json::parse(json().as_ref(), json::OBJECT_DEPTH) else {
            return Self::Unknown;
        };
        let mut part = |name| match values.remove(name) {
            Some(Value::Object(part)) => part,
            _ => Map::default(),
        };
        let parts = Parts { metadata: part("metadata"), spec: part("spec"), status: part("status") };
        if parts.is_current(&parts.status) { rule(&parts) } else { Self::progressing(NOT_OBSERVED) }
    }

    /// Whether an object of this kind is ready that was just created or changed, so that its controller cannot have seen that.
    pub fn after_a_write(kind: &Gvk) -> Self {
        if rule_of(kind).is_none() { Self::Ready } else { Self::progressing(NOT_OBSERVED) }
    }

    fn progressing(text: &'static str) -> Self {
        Self::Progressing(text.into())
    }
}

/// The rule of a kind; none if its objects are ready as soon as they exist.
fn rule_of(kind: &Gvk) -> Option<Rule> {
    let rule: Rule = match (&*kind.group, &*kind.kind) {
        ("", "Pod") => workloads::pod,
        ("", "PersistentVolumeClaim") => volumes::claim,
        ("", "ReplicationController") | ("apps", "ReplicaSet") => workloads::replica_set,
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("batch", "Job") => workloads::job,
        ("policy", "PodDisruptionBudget") => observed,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition,
        ("apiregistration.k8s.io", "APIService") => service_of_api,
        _ if kind.is_built_in() => return None,
        _ => custom,
    };
    Some(rule)
}

/// An object that is ready once its controller has seen it.
fn observed(parts: &Parts) -> Readiness {
    match parts.status.get("observedGeneration") {
        Some(_) => Readiness::Ready,
        None => Readiness::progressing("its controller has not seen it yet"),
    }
}

/// A CustomResourceDefinition.
fn definition(parts: &Parts) -> Readiness {
    if let Some(("False", condition)) = parts.condition("NamesAccepted") {
        return Readiness::Failed(message_of(condition));
    }
    match parts.condition("Established") {
        Some(("True", _)) => Readiness::Ready,
        Some((_, condition)) if text(condition, "reason").is_some_and(|reason| reason != "Installing") => {
            Readiness::Failed(message_of(condition))
        }
        Some(_) | None => Readiness::progressing("the API server does not serve its kind yet"),
    }
}

/// An `APIService`.
fn service_of_api(parts: &Parts) -> Readiness {
    match parts.condition("Available") {
        Some(("True", _)) => Readiness::Ready,
        Some((_, condition)) => Readiness::Progressing(message_of(condition)),
        None => Readiness::progressing("it is not available yet"),
    }
}

/// An object of a kind that is not built in: by the conditions that kstatus defines, and `Ready`.
fn custom(parts: &Parts) -> Readiness {
    for (kind, of) in
        [("Stalled", Readiness::Failed as fn(_) -> _), ("Reconciling", Readiness::Progressing as fn(_) -> _)]
    {
        if let Some(("True", condition)) = parts.condition(kind)
            && parts.is_current(condition)
        {
            return of(message_of(condition));
        }
    }
    match parts.condition("Ready") {
        Some(("True", condition)) if parts.is_current(condition) => Readiness::Ready,
        Some(("True", _)) => Readiness::progressing("its condition Ready is about an earlier generation"),
        Some((_, condition)) => Readiness::Progressing(message_of(condition)),
        None => Readiness::Unknown,
    }
}

impl Parts {
    /// Whether a status or a condition is about the object's generation, if it says which one it is about.
    fn is_current(&self, of: &Map) -> bool {
        match (number(of, "observedGeneration"), number(&self.metadata, "generation")) {
            (Some(observed), Some(generation)) => observed >= generation,
            _ => true,
        }
    }

    /// The status of the condition of this type, and the condition.
    fn condition(&self, kind: &str) -> Option<(&str, &Map)> {
        let condition = condition_of(&self.status, kind)?;
        Some((text(condition, "status")?, condition))
    }

    fn is_true(&self, kind: &str) -> bool {
        is_true(&self.status, kind)
    }

    /// A number of the status; 0 if it is absent, as the API server leaves zeros out.
    fn count(&self, name: &str) -> i64 {
        number(&self.status, name).unwrap_or_default()
    }
}

fn number(map: &Map, name: &str) -> Option<i64> {
    match map.get(name) {
        Some(Value::Number(number)) => number.as_i64(),
        _ => None,
    }
}

fn text<'a>(map: &'a Map, name: &str) -> Option<&'a str> {
    map.get(name)?.as_str()
}

/// What a condition says: its message, or else its reason.
fn message_of(condition: &Map) -> Cow<'static, str> {
    let said =
        ["message", "reason"].into_iter().filter_map(|field| text(condition, field)).find(|said| !said.is_empty());
    said.map_or_else(|| "its conditions do not say why".into(), |said| said.to_owned().into())
}

#[cfg(test)]
mod tests;
