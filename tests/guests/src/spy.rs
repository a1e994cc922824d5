//! Shared by the moles of tests/guests/spies. A spy tries to read data that it was not given. These spies execute their
//! parent's script (see [`puppet`]), and publish what they receive: all objects in the host's log at each call, even if
//! the response is rejected; related objects and config in the status of their parent.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use windlass_plugin::{Failure, Reconciler, Request, Response, log, raw};

use crate::puppet::{self, Reflection, Script};

/// The config of a spy: any object.
pub struct Anything;

impl JsonSchema for Anything {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        puppet::open()
    }
}

/// Executes the script, and publishes the data; `around` is what the guest found besides its request.
///
/// # Errors
/// The failures that the script defines.
pub fn spy<R>(request: &Request<R>, around: &Value) -> Result<Response<R>, Failure>
where
    R: Reconciler<Spec = Script, Status = Reflection>,
{
    let loot = loot(request.raw(), around);
    tell(request.raw(), &loot);
    Ok(puppet::obey(request)?.status(Reflection(Value::Object(loot))))
}

/// The related objects, the config and `around`: what a tenant could not read from the parent and its children.
fn loot(seen: &raw::Request, around: &Value) -> Map<String, Value> {
    let objects: Vec<_> = seen.related.iter().flat_map(|related| &related.objects).collect();
    let bytes: usize = objects.iter().map(|object| object.object.len()).sum();
    let objects: Vec<_> = objects.iter().map(|object| text(&object.object)).collect();
    let config = seen.config.as_deref().map(text);
    let loot =
        [("bytes", json!(bytes)), ("related", json!(objects)), ("config", json!(config)), ("around", around.clone())];
    loot.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Writes a line with all objects of the request to the host's log.
fn tell(seen: &raw::Request, loot: &Map<String, Value>) {
    let children: Vec<_> = seen.children.iter().map(|child| text(&child.object)).collect();
    let all = json!({ "loot": loot, "parent": text(&seen.parent), "children": children });
    log::info(format!("spy called: {all}"));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
