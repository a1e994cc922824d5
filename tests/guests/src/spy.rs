//! What the spies share: they do as their parent's script says (see [`puppet`]), and tell everybody all that they
//! are handed: in the host's log at each call, so also where the answer is refused, and in the status of their parent.

use serde_json::{Map, Value, json};
use windlass_plugin::{Failure, Reconciler, Request, Response, log, raw};

use crate::puppet::{self, Reflection, Script};

/// Obeys the script, and tells what was found; `around` is what the guest found beside its request.
///
/// # Errors
/// Those that the script asks for.
pub fn spy<R>(request: &Request<R>, around: &Value) -> Result<Response<R>, Failure>
where
    R: Reconciler<Spec = Script, Status = Reflection>,
{
    let loot = loot(request.raw(), around);
    tell(request.raw(), &loot);
    Ok(puppet::obey(request)?.status(Reflection(Value::Object(loot))))
}

/// What a call was handed that its parent did not have anyway.
fn loot(seen: &raw::Request, around: &Value) -> Map<String, Value> {
    let objects: Vec<_> = seen.related.iter().flat_map(|related| &related.objects).collect();
    let bytes: usize = objects.iter().map(|object| object.object.len()).sum();
    let objects: Vec<_> = objects.iter().map(|object| text(&object.object)).collect();
    let config = seen.config.as_deref().map(text);
    let loot =
        [("bytes", json!(bytes)), ("related", json!(objects)), ("config", json!(config)), ("around", around.clone())];
    loot.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Leaves a line in the host's log with all of the request.
fn tell(seen: &raw::Request, loot: &Map<String, Value>) {
    let children: Vec<_> = seen.children.iter().map(|child| text(&child.object)).collect();
    let all = json!({ "loot": loot, "parent": text(&seen.parent), "children": children });
    log::info(format!("spy called: {all}"));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
