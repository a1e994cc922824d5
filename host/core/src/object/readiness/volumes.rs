//! Readiness of persistent volume claims.

use super::{Parts, Readiness, text};
use crate::value::json::{Map, Value};
use crate::value::quantity::Quantity;

/// Set once a volume is being made for the claim: for a class that waits for the first consumer, after a Pod with the claim has a node.
const PROVISIONERS: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// A claim. One that waits for its first consumer is ready: the Pod that would end the wait may be created after it.
pub(super) fn claim(parts: &Parts) -> Readiness {
    match text(&parts.status, "phase") {
        Some("Bound") => bound(parts),
        Some("Lost") => Readiness::Failed("its volume is lost".into()),
        _ if waits_for_consumer(parts) => Readiness::Ready,
        _ => Readiness::progressing("it is not bound to a volume yet"),
    }
}

/// Whether no volume is being made for the claim, although its class makes volumes.
fn waits_for_consumer(parts: &Parts) -> bool {
    let has = |field: &str| text(&parts.spec, field).is_some_and(|value| !value.is_empty());
    let annotations = parts.metadata.get("annotations").and_then(Value::as_object);
    let is_provisioned = annotations.is_some_and(|set| PROVISIONERS.iter().any(|name| set.get(name).is_some()));
    has("storageClassName") && !has("volumeName") && !is_provisioned
}

/// A claim with a volume: it is ready unless the volume is smaller than asked for. Enlarging its file system may need a Pod that starts
/// later, as the first consumer does.
fn bound(parts: &Parts) -> Readiness {
    let size = |of: Option<&Value>| Quantity::parse(of?.as_object()?.get("storage")?.as_str()?)?.whole();
    let asked = parts.spec.get("resources").and_then(|resources| resources.at(&["requests"]));
    let is_smaller = match (size(parts.status.get("capacity")), size(asked)) {
        (Some(has), Some(asked)) => has < asked,
        _ => false,
    };
    let resize = parts.status.get("allocatedResourceStatuses").and_then(|of| of.at(&["storage"])?.as_str());
    if !is_smaller || parts.is_true("FileSystemResizePending") {
        Readiness::Ready
    } else if resize.is_some_and(|resize| resize.ends_with("Infeasible")) {
        Readiness::Failed(said(parts).unwrap_or_else(|| "its volume cannot be enlarged".to_owned()).into())
    } else {
        Readiness::progressing("its volume is being enlarged")
    }
}

/// What the last attempt to enlarge the volume said.
fn said(parts: &Parts) -> Option<String> {
    let conditions = ["ControllerResizeError", "NodeResizeError"].map(|kind| parts.condition(kind));
    let message = |(_, condition): (&str, &Map)| {
        text(condition, "message").filter(|message| !message.is_empty()).map(ToOwned::to_owned)
    };
    conditions.into_iter().flatten().find_map(message)
}
