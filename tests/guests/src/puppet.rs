//! The scripted guests: each returns what the spec of its parent defines, so a test can show any rule of the host by an
//! object alone.
//!
//! Each call writes a line to the host's log: `puppet called: sync default/web children=2 related=1`.

use std::time::{Duration, SystemTime};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_plugin::{
    CustomResource, Descriptor, Event, Failure, Kind, Parent, Reconciler, Request, Requirement, Response,
    UpdateStrategy, clock,
    kinds::{ConfigMap, Deployment, Namespace, Pod, Secret, Service},
    log, random, raw,
};

/// Group of the kinds of these guests.
const GROUP: &str = "puppets.example";

/// The fields of a parent's spec. All of them are optional.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Script {
    /// The children. In their strings `${name}` is the parent's name, `${label.KEY}` the value of its label KEY, and
    /// `${random}` another word in each call with another request; `${flip}` is `flip-a` or `flip-b`: the one that the
    /// live child does not have.
    children: Vec<Value>,
    /// More children: a `ConfigMap` `<parent>-<key>` for each key in the data that this requirement selects.
    children_from: Option<String>,
    /// The status, or `"reflect"`: the phase, the names of the children, and the objects that the requirements select.
    status: Value,
    /// The requirements from the first call on.
    requirements: Vec<Wanted>,
    /// More requirements: each round is added in the call that has the objects of all rounds before it.
    requirement_rounds: Vec<Vec<Wanted>>,
    /// Requires another object in every round.
    never_settle: bool,
    /// The events in every response.
    events: Vec<Said>,
    requeue_millis: Option<u64>,
    /// A failure that replaces the response, in both phases.
    fail: Option<Fail>,
    /// The response while the parent is being deleted.
    finalize: Finalize,
    /// Reads the wall clock, so that the call is impure, and writes it to the log and to a reflected status.
    read_clock: bool,
    /// Rounds of busy work before the response, some 15 µs each: a guest cannot wait, because its clocks do not run.
    stall: u32,
}

/// A requirement; without `name` it selects by `labels`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    id: String,
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: Option<String>,
    #[serde(default)]
    labels: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    warning: bool,
    reason: String,
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Fail {
    Invalid(String),
    /// Time until the next call, in milliseconds.
    Retry(u64),
    Failed(String),
    Trap,
    Loop,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Finalize {
    children: Vec<Value>,
    finalized_when: FinalizedWhen,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FinalizedWhen {
    #[default]
    Always,
    Never,
    /// No child exists any more.
    ChildrenGone,
    /// A Job among the children is complete.
    JobComplete,
    /// All children of this phase exist. The response then has none of them.
    ChildrenCreated,
}

impl JsonSchema for Script {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Script".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        open()
    }
}

/// A status of any shape, except that `count` is an integer.
#[derive(Debug, Serialize)]
pub struct Reflection(pub(crate) Value);

impl JsonSchema for Reflection {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Reflection".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = open();
        schema.insert("properties".to_owned(), json!({ "count": { "type": "integer" } }));
        schema
    }
}

/// An object of which the API server keeps every field.
pub(crate) fn open() -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// The Plugin's `spec.config`: settings that take precedence over the parents' scripts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct Orders {
    /// Respond without children.
    drop_children: bool,
    /// Respond with at most this number of children.
    keep_children: Option<usize>,
    /// The names of all children begin with this.
    prefix: String,
    /// Trap.
    trap: bool,
}

/// A namespaced kind of this group.
pub fn namespaced<R: Reconciler<Spec = Script, Status = Reflection>>(kind: &str) -> CustomResource {
    CustomResource::namespaced::<R>(GROUP, "v1", kind)
}

/// A cluster-scoped kind of this group.
pub fn cluster_scoped<R: Reconciler<Spec = Script, Status = Reflection>>(kind: &str) -> CustomResource {
    CustomResource::cluster_scoped::<R>(GROUP, "v1", kind)
}

/// A plugin that may own `ConfigMaps` and read a few kinds.
pub fn descriptor(name: &str, parent: impl Into<Parent>) -> Descriptor {
    Descriptor::new(name, env!("CARGO_PKG_VERSION"), parent)
        .description("Does what its parent tells it")
        .child::<ConfigMap>()
        .related::<ConfigMap>()
        .related::<Secret>()
        .related::<Namespace>()
        .config::<Orders>()
}

/// The descriptor of `puppet`, in all its versions.
pub fn puppet<R: Reconciler<Spec = Script, Status = Reflection>>() -> Descriptor {
    descriptor("puppet", namespaced::<R>("Puppet"))
        .child::<Secret>()
        .child::<Deployment>()
        .child_with::<Pod>(UpdateStrategy::Recreate)
        .child_with::<Service>(UpdateStrategy::OnDelete)
}

/// Returns what the parent's spec defines.
///
/// # Errors
/// The failure that the script defines, or a spec that is not a script.
pub fn obey<R>(request: &Request<R>) -> Result<Response<R>, Failure>
where
    R: Reconciler<Spec = Script, Status = Reflection>,
{
    let script = &request.spec;
    let seen = request.raw();
    announce(request);
    stall(script.stall);
    let orders: Orders = request.config()?;
    if orders.trap {
        std::process::abort()
    }
    match &script.fail {
        None => {}
        Some(Fail::Invalid(message)) => return Err(Failure::invalid(message)),
        Some(Fail::Retry(after)) => {
            return Ok(Response::wait("told to wait", Duration::from_millis(*after)));
        }
        Some(Fail::Failed(message)) => return Err(Failure::failed(message)),
        Some(Fail::Trap) => std::process::abort(),
        Some(Fail::Loop) => loop {
            std::hint::black_box(());
        },
    }

    let mut response = Response::new();
    let is_finalizing = request.is_finalizing();
    let scripted = if is_finalizing { &script.finalize.children } else { &script.children };
    let mut children: Vec<_> = scripted.iter().map(|child| child_of(child, request)).collect();
    if !is_finalizing && let Some(id) = &script.children_from {
        children.extend(found(seen, id).flat_map(|object| {
            let keys: Vec<_> = data(object).keys().cloned().collect();
            keys.into_iter().map(|key| config_map(&format!("{}-{key}", request.name())))
        }));
    }
    if orders.drop_children {
        children.clear();
    }
    children.truncate(orders.keep_children.unwrap_or(usize::MAX));
    if !orders.prefix.is_empty() {
        for name in children.iter_mut().filter_map(|child| child.pointer_mut("/metadata/name")) {
            *name = format!("{}{}", orders.prefix, name.as_str().unwrap_or_default()).into();
        }
    }

    response = match &script.status {
        Value::Null => response,
        Value::String(_) => response.status(Reflection(reflect(request))),
        status => response.status(Reflection(status.clone())),
    };
    for requirement in required(script, seen) {
        response = response.require(requirement);
    }
    for Said { warning, reason, message } in &script.events {
        let event = if *warning { Event::warning(reason, message) } else { Event::normal(reason, message) };
        response = response.event(event);
    }
    if let Some(wait) = script.requeue_millis {
        response = response.requeue(Duration::from_millis(wait));
    }
    let finalized = is_finalizing && is_finalized(request, &children);
    if finalized && matches!(script.finalize.finalized_when, FinalizedWhen::ChildrenCreated) {
        children.clear();
    }
    response = response.children(children);
    Ok(if finalized { response.finalized() } else { response })
}

/// Whether the clean-up has ended, by the script; `children` are those of this phase.
fn is_finalized<R: Reconciler<Spec = Script>>(request: &Request<R>, children: &[Value]) -> bool {
    let live = &request.raw().children;
    let name = |child: &Value| child.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
    match request.spec.finalize.finalized_when {
        FinalizedWhen::Always => true,
        FinalizedWhen::Never => false,
        FinalizedWhen::ChildrenGone => live.is_empty(),
        FinalizedWhen::ChildrenCreated => {
            children.iter().all(|child| live.iter().any(|live| Some(&live.name) == name(child).as_ref()))
        }
        FinalizedWhen::JobComplete => request.children_of::<Job>().any(|job| job.is_condition_true("Complete")),
    }
}

/// `batch/v1` Job.
pub struct Job;

impl Kind for Job {
    const API_VERSION: &str = "batch/v1";
    const KIND: &str = "Job";
}

fn announce<R: Reconciler<Spec = Script>>(request: &Request<R>) {
    let seen = request.raw();
    let clock = if request.spec.read_clock { format!(" clock={}", seconds()) } else { String::new() };
    log::info(format!(
        "puppet called: {} {}/{} children={} related={}{clock}",
        phase(request),
        request.namespace(),
        request.name(),
        seen.children.len(),
        seen.related.len()
    ));
}

fn stall(rounds: u32) {
    for _ in 0..rounds {
        (0..100_000).for_each(|turn| _ = std::hint::black_box(turn));
    }
}

/// Seconds on the wall clock.
fn seconds() -> u64 {
    clock::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn phase<R: Reconciler>(request: &Request<R>) -> &'static str {
    if request.is_finalizing() { "finalize" } else { "sync" }
}

fn child_of<R: Reconciler>(script: &Value, request: &Request<R>) -> Value {
    let mut child = script.clone();
    each_string(&mut child, &mut |text| *text = filled(text, request));
    let name = child.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = child.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let live = request.raw().children.iter().find(|live| live.name == name && live.kind.name == kind);
    let is_a = live.is_some_and(|live| String::from_utf8_lossy(&live.object).contains("flip-a"));
    let other = if is_a { "flip-b" } else { "flip-a" };
    each_string(&mut child, &mut |text| *text = text.replace("${flip}", other));
    child
}

/// A text of a script with the parent's name and labels, and random words.
fn filled<R: Reconciler>(text: &str, request: &Request<R>) -> String {
    let mut filled = text.replace("${name}", request.name());
    for (key, value) in &request.metadata.labels {
        filled = filled.replace(&format!("${{label.{key}}}"), value);
    }
    if filled.contains("${random}") {
        let word: String = random::bytes(4).iter().map(|byte| format!("{byte:02x}")).collect();
        filled = filled.replace("${random}", &word);
    }
    filled
}

fn each_string(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_string(field, change)),
        _ => {}
    }
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

/// The objects that one requirement selected.
fn found<'a>(seen: &'a raw::Request, id: &str) -> impl Iterator<Item = &'a raw::Observed> + use<'a> {
    seen.related.iter().find(|related| related.id == id).into_iter().flat_map(|related| &related.objects)
}

fn data(object: &raw::Observed) -> Map<String, Value> {
    let object: Value = serde_json::from_slice(&object.object).unwrap_or_default();
    object.get("data").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn full_name(object: &raw::Observed) -> String {
    match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    }
}

fn reflect<R: Reconciler<Spec = Script>>(request: &Request<R>) -> Value {
    let seen = request.raw();
    let children: Vec<_> =
        seen.children.iter().map(|child| format!("{} {}", child.kind.name, full_name(child))).collect();
    let related: Map<_, _> = seen
        .related
        .iter()
        .map(|related| {
            let names: Vec<_> = related.objects.iter().map(full_name).collect();
            let values: Vec<_> = related.objects.iter().filter_map(|object| data(object).remove("value")).collect();
            (related.id.clone(), json!({ "names": names, "values": values }))
        })
        .collect();
    let mut status = json!({ "phase": phase(request), "children": children, "related": related });
    if request.spec.read_clock
        && let Some(status) = status.as_object_mut()
    {
        status.insert("clock".to_owned(), seconds().into());
    }
    status
}

/// The fixed requirements, the rounds that were reached, and a new requirement if the script asks for it.
fn required(script: &Script, seen: &raw::Request) -> Vec<Requirement> {
    let is_served = |wanted: &Wanted| seen.related.iter().any(|related| related.id == wanted.id);
    let mut wanted: Vec<_> = script.requirements.iter().collect();
    for round in &script.requirement_rounds {
        let reached = wanted.iter().all(|wanted| is_served(wanted));
        if !reached {
            break;
        }
        wanted.extend(round);
    }
    let mut required: Vec<_> = wanted.into_iter().map(requirement).collect();
    if script.never_settle {
        let last =
            seen.related.iter().filter_map(|related| related.id.strip_prefix("round-")?.parse::<u32>().ok()).max();
        let id = format!("round-{}", last.map_or(0, |last| last + 1));
        required.push(Requirement::named::<ConfigMap>(&id, &id));
    }
    required
}

fn requirement(wanted: &Wanted) -> Requirement {
    let select = match &wanted.name {
        Some(name) => raw::Selection::Name(name.clone()),
        None => raw::Selection::Labels(wanted.labels.clone()),
    };
    let requirement = Requirement::dynamic(&wanted.id, &wanted.api_version, &wanted.kind, select);
    match &wanted.namespace {
        Some(namespace) => requirement.in_namespace(namespace),
        None => requirement,
    }
}

/// Makes a type the plugin of a puppet's variant, by its name, its descriptor, and a function for its calls.
#[macro_export]
macro_rules! puppet {
    ($plugin:ident, $descriptor:expr, $reconcile:expr) => {
        pub struct $plugin;

        impl windlass_plugin::Reconciler for $plugin {
            type Spec = $crate::puppet::Script;
            type Status = $crate::puppet::Reflection;

            fn descriptor() -> windlass_plugin::Descriptor {
                $descriptor
            }

            fn reconcile(
                request: windlass_plugin::Request<Self>,
            ) -> Result<windlass_plugin::Response<Self>, windlass_plugin::Failure> {
                let reconcile: fn(&windlass_plugin::Request<Self>) -> _ = $reconcile;
                reconcile(&request)
            }
        }

        $crate::export_older!($plugin);
    };
}
