//! The probe on the Rust SDK: a plugin whose spec tells what to do, so that `windlass test --conformance` sees how the SDK
//! behaves. The probes of the other SDKs do the same.

mod schedule;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::kinds::ConfigMap;
use windlass_plugin::raw::Metric;
use windlass_plugin::{
    ChildOptions, ChildRef, ConditionStatus, CustomResource, Descriptor, Event, Failure, FinalizeCause, Kind,
    Readiness, ReadyMeans, Reconciler, Request, Requirement, Response, Unread, UpdateStrategy, Value, clock, json, log,
    measure, random, span,
};

use self::schedule::{ScheduleSpec, Scheduled, scheduled};

/// What the probe does.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Spec {
    /// The number of ConfigMaps.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    children: u32,
    /// Copied into the status and the ConfigMaps.
    text: Option<String>,
    /// Copied into the status.
    number: Option<i64>,
    /// Copied into the status.
    decimal: Option<f64>,
    /// Copied into the status and the ConfigMaps.
    map: Option<BTreeMap<String, String>>,
    /// Copied into the status, and the spec of a child of kind Copy.
    copy: Option<Value>,
    /// The failure: its kind, a colon and the message.
    fail: Option<String>,
    /// The name of a related ConfigMap, which may name another one in data.next.
    #[schemars(regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    require: Option<String>,
    /// The labels of related ConfigMaps.
    #[schemars(regex(pattern = "^[a-z]+=[a-z]+$"))]
    select: Option<String>,
    /// Events on the parent.
    #[serde(default)]
    #[schemars(length(max = 16))]
    events: Vec<EventSpec>,
    /// Conditions of the parent.
    #[serde(default)]
    #[schemars(length(max = 8))]
    conditions: Vec<ConditionSpec>,
    /// Seconds until the next call.
    #[schemars(range(min = 1, max = 86400))]
    requeue_seconds: Option<u32>,
    /// Whether to log, to trace and to measure.
    #[serde(default)]
    report: bool,
    /// Whether the status has the time.
    #[serde(default)]
    time: bool,
    /// Whether there is a ConfigMap with random bytes.
    #[serde(default)]
    random: bool,
    /// Whether the ConfigMaps outlive the parent.
    #[serde(default)]
    retain: bool,
    /// The options of the ConfigMaps, in their order.
    #[serde(default)]
    #[schemars(length(max = 8))]
    options: Vec<OptionsSpec>,
    /// The names of ConfigMaps that stay as they are.
    #[serde(default)]
    #[schemars(length(max = 8))]
    keep: Vec<String>,
    /// Whether all children stay as they are.
    #[serde(default)]
    keep_all: bool,
    /// What the probe waits for.
    #[schemars(length(min = 1))]
    waiting: Option<String>,
    /// Whether the ConfigMaps by labels are in all namespaces, and their metadata is enough.
    #[serde(default)]
    everywhere: bool,
    /// The time of the next call.
    #[schemars(extend("format" = "date-time"))]
    requeue_at: Option<String>,
    /// Whether the status has what surrounds the parent.
    #[serde(default)]
    see: bool,
    /// A schedule whose times the status has.
    schedule: Option<ScheduleSpec>,
}

/// How the host treats a ConfigMap.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OptionsSpec {
    /// As in the contract.
    #[serde(default)]
    stage: u32,
    /// As in the contract.
    #[serde(default)]
    take_over: bool,
    /// As in the contract.
    ready: Option<bool>,
    /// As in the contract.
    #[serde(default)]
    retain: bool,
    /// As in the contract.
    #[schemars(length(min = 1))]
    once: Option<String>,
    /// As in the contract.
    update: Option<UpdateSpec>,
    /// The name of a ConfigMap.
    #[schemars(regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    replaces: Option<String>,
}

/// How the host updates a ConfigMap.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum UpdateSpec {
    Apply,
    Recreate,
    OnDelete,
}

/// An event.
#[derive(Deserialize, JsonSchema)]
struct EventSpec {
    /// Why, in CamelCase.
    #[schemars(regex(pattern = "^[A-Z][A-Za-z]*$"), length(max = 63))]
    reason: String,
    /// Details.
    message: String,
    /// Whether it is a warning.
    #[serde(default)]
    warning: bool,
}

/// A condition.
#[derive(Deserialize, JsonSchema)]
struct ConditionSpec {
    /// What holds, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(regex(pattern = "^[A-Z][A-Za-z]*$"), length(max = 63))]
    type_: String,
    /// Whether it holds.
    holds: bool,
    /// Why, in CamelCase.
    #[schemars(regex(pattern = "^[A-Z][A-Za-z]*$"), length(max = 63))]
    reason: String,
    /// Details.
    message: String,
}

/// What the probe sees.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// As in the spec.
    text: Option<String>,
    /// As in the spec.
    number: Option<i64>,
    /// As in the spec.
    decimal: Option<f64>,
    /// As in the spec.
    map: Option<BTreeMap<String, String>>,
    /// As in the spec.
    copy: Option<Value>,
    /// The text of the last status.
    before: Option<String>,
    /// The parent's label "probe".
    label: Option<String>,
    /// The parent's annotation "probe".
    annotation: Option<String>,
    /// The number of ConfigMaps that exist.
    live: usize,
    /// The number of children of kind Copy whose condition Ready is True.
    ready: usize,
    /// The names of the ConfigMaps that are being deleted.
    leaving: Option<Vec<String>>,
    /// The related objects.
    related: Option<Vec<Value>>,
    /// The Plugin's config.
    config: Option<Config>,
    /// The time of the call.
    time: Option<String>,
    /// Whether the parent is cleaned up.
    finalizing: Option<bool>,
    /// Why the parent is cleaned up.
    cause: Option<String>,
    /// Whether the namespace is being deleted.
    terminating: Option<bool>,
    /// What surrounds the parent.
    seen: Option<Seen>,
    /// Times of the schedule.
    scheduled: Option<Scheduled>,
}

/// What surrounds the parent.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Seen {
    /// The readiness of the children.
    readiness: Vec<String>,
    /// The optional kinds that exist.
    kinds: Vec<String>,
    /// The namespaces in which the probe may have no children.
    closed: Vec<String>,
    /// The time of the request.
    now: String,
}

/// The Plugin's config.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Config {
    /// Any text.
    #[serde(default = "none")]
    greeting: String,
    /// Any number.
    number: Option<i64>,
}

fn none() -> String {
    "none".to_owned()
}

/// A kind that only the probe has.
struct Copy;

impl Kind for Copy {
    const API_VERSION: &str = "conformance.example/v1";
    const KIND: &str = "Copy";
}

/// A kind that may be missing.
struct Extra;

impl Kind for Extra {
    const API_VERSION: &str = "conformance.example/v1";
    const KIND: &str = "Extra";
}

struct Probe;

impl Reconciler for Probe {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        let kind = CustomResource::namespaced::<Self>("conformance.example", "v1", "Probe");
        Descriptor::new("probe", "0.1.0", kind)
            .description("Does what its spec tells, so that a test sees how the SDK behaves")
            .child::<ConfigMap>()
            .child::<Copy>()
            .optional_child::<Extra>()
            .related::<ConfigMap>()
            .finalizes()
            .clock()
            .ready_means(ReadyMeans::Applied)
            .resync(Duration::from_mins(5))
            .config::<Config>()
            .metric(Metric::counter("reports_total", "Reports", &["kind"]))
            .metric(Metric::gauge("size", "By", "The size of the report", &[]))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let spec = &request.spec;
        if let Some((kind, message)) = spec.fail.as_deref().and_then(|fail| fail.split_once(": ")) {
            match kind {
                "invalid" => return Err(Failure::invalid_field("spec.fail", message)),
                "retry" => return Ok(Response::wait(message, Duration::from_millis(1500))),
                "failed" => return Err(Failure::failed(message)),
                _ => {}
            }
        }
        if spec.report {
            report(spec.text.as_deref().unwrap_or_default());
        }
        let (requirements, related) = related(&request);
        let mut response = requirements.into_iter().fold(Response::new(), Response::require);
        for (index, child) in (0..spec.children).enumerate() {
            response = response.child_with(config_map(&request, child), options(spec, index)?);
        }
        if let Some(copy) = &spec.copy {
            let metadata = json!({ "name": format!("{}-copy", request.name()) });
            response = response.child(json!({
                "apiVersion": Copy::API_VERSION, "kind": Copy::KIND, "metadata": metadata, "spec": copy,
            }));
        }
        if spec.random {
            response = response.child(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("{}-random", request.name()) },
                "data": { "bytes": hex(&random::bytes(8)) },
            }));
        }
        let status = status(&request, related)?;
        Ok(surround(spec, response)?.status(status))
    }

    /// The first ConfigMap stays until it is the last one.
    fn finalize(request: Request<Self, Unread>) -> Result<Response<Self>, Failure> {
        let live: Vec<_> = request.children_of::<ConfigMap>().collect();
        let cause = request.cause().map(|cause| match cause {
            FinalizeCause::Deleted => "deleted",
            FinalizeCause::LeftSelector => "leftSelector",
            FinalizeCause::LeftNamespaces => "leftNamespaces",
        });
        let status = Status {
            live: live.len(),
            finalizing: Some(true),
            cause: cause.map(str::to_owned),
            terminating: request.is_namespace_terminating().then_some(true),
            ..Status::default()
        };
        let response = Response::new().status(status);
        Ok(match live.as_slice() {
            [first, _, ..] => response.child(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": first.name() }, "data": { "kept": "true" },
            })),
            _ => response.finalized(),
        })
    }
}

/// Adds what is neither a child nor the status.
fn surround(spec: &Spec, mut response: Response<Probe>) -> Result<Response<Probe>, Failure> {
    for EventSpec { reason, message, warning } in &spec.events {
        let event = if *warning { Event::warning(reason, message) } else { Event::normal(reason, message) };
        response = response.event(event);
    }
    for ConditionSpec { type_, holds, reason, message } in &spec.conditions {
        response = response.condition(type_, ConditionStatus::from(*holds), reason, message);
    }
    if let Some(seconds) = spec.requeue_seconds {
        response = response.requeue(Duration::from_secs(seconds.into()));
    }
    if let Some(at) = &spec.requeue_at {
        let at = humantime::parse_rfc3339(at);
        response = response.requeue_at(at.map_err(|why| Failure::invalid_field("spec.requeueAt", why.to_string()))?);
    }
    if let Some(waiting) = &spec.waiting {
        response = response.waiting(waiting);
    }
    if !spec.keep.is_empty() {
        response = response.keep(spec.keep.iter().map(|name| ChildRef::new::<ConfigMap>(name)));
    }
    if spec.keep_all {
        response = response.keep_all();
    }
    Ok(response)
}

fn report(text: &str) {
    log::write(log::Level::Info, "reported", &[("text", text), ("number", "1")]);
    log::warn("warned");
    span::attribute("probe.text", text);
    span::event("reported", &[("text", text)]);
    measure("reports_total", 1.0, &[("kind", "probe")]);
    measure("size", 1.5, &[]);
}

/// The options of one ConfigMap. Those that the host refuses are invalid.
fn options(spec: &Spec, index: usize) -> Result<ChildOptions, Failure> {
    let mut options = ChildOptions::new().retain(spec.retain);
    let Some(of) = spec.options.get(index) else { return Ok(options) };
    let invalid = |message| Failure::invalid_field(format!("spec.options[{index}]"), message);
    let retain = of.retain || spec.retain;
    if retain && of.once.is_some() {
        return Err(invalid("retain and once exclude each other"));
    }
    options = options.stage(of.stage).take_over(of.take_over).retain(retain);
    if let Some(ready) = of.ready {
        options = options.ready(ready);
    }
    if let Some(once) = &of.once {
        options = options.once(once);
    }
    if let Some(update) = of.update {
        options = options.update(match update {
            UpdateSpec::Apply => UpdateStrategy::Apply,
            UpdateSpec::Recreate => UpdateStrategy::Recreate,
            UpdateSpec::OnDelete => UpdateStrategy::OnDelete,
        });
    }
    if let Some(replaces) = &of.replaces {
        if spec.keep_all || spec.keep.contains(replaces) {
            return Err(invalid("replaces a ConfigMap that is kept"));
        }
        options = options.replaces(ChildRef::new::<ConfigMap>(replaces));
    }
    Ok(options)
}

fn config_map(request: &Request<Probe>, index: u32) -> Value {
    let Spec { text, map, .. } = &request.spec;
    let mut data = json!({ "index": index.to_string(), "text": text });
    for (name, value) in map.iter().flatten() {
        data[name] = json!(value);
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("{}-{index}", request.name()) },
        "data": data,
    })
}

/// The requirements, and the objects that the host has served for them.
fn related(request: &Request<Probe>) -> (Vec<Requirement>, Option<Vec<Value>>) {
    let mut requirements = Vec::new();
    let mut related = None;
    let mut serve = |requirement: Requirement, id: &str| -> Option<Value> {
        requirements.push(requirement);
        let objects: Vec<_> = request.related::<ConfigMap>(id)?.map(|object| object.at("")).collect();
        let first = objects.first().cloned();
        related.get_or_insert_with(Vec::new).extend(objects);
        first
    };
    if let Some(name) = &request.spec.require {
        let named = serve(Requirement::named::<ConfigMap>("named", name), "named");
        if let Some(next) = named.and_then(|named| Some(named["data"]["next"].as_str()?.to_owned())) {
            serve(Requirement::named::<ConfigMap>("next", &next), "next");
        }
    }
    if let Some(labels) = &request.spec.select {
        let mut labelled = Requirement::labelled::<ConfigMap>("labelled", labels);
        if request.spec.everywhere {
            labelled = labelled.in_all_namespaces().metadata_only();
        }
        serve(labelled, "labelled");
    }
    (requirements, related)
}

fn status(request: &Request<Probe>, related: Option<Vec<Value>>) -> Result<Status, Failure> {
    let Spec { text, number, decimal, map, copy, .. } = &request.spec;
    let leaving = request.children_of::<ConfigMap>().filter(|child| child.is_being_deleted());
    let leaving: Vec<_> = leaving.map(|child| child.name().to_owned()).collect();
    Ok(Status {
        text: text.clone(),
        number: *number,
        decimal: *decimal,
        map: map.clone(),
        copy: copy.clone(),
        before: request.status().and_then(|status| status.text),
        label: request.metadata.labels.get("probe").cloned(),
        annotation: request.metadata.annotations.get("probe").cloned(),
        live: request.children_of::<ConfigMap>().count(),
        ready: request.children_of::<Copy>().filter(|child| child.is_condition_true("Ready")).count(),
        leaving: Some(leaving).filter(|names| !names.is_empty()),
        related,
        config: Some(request.config()?),
        time: request.spec.time.then(clock::timestamp),
        seen: request.spec.see.then(|| seen(request)),
        scheduled: request.spec.schedule.as_ref().map(scheduled).transpose()?,
        ..Status::default()
    })
}

fn seen(request: &Request<Probe>) -> Seen {
    let readiness = request.raw().children.iter().map(|child| {
        let state = match &child.readiness {
            Readiness::Ready => "ready".to_owned(),
            Readiness::Progressing(why) => format!("progressing, {why}"),
            Readiness::Failed(why) => format!("failed, {why}"),
            Readiness::Unknown => "unknown".to_owned(),
        };
        format!("{} {}: {state}", child.kind.name, child.name)
    });
    Seen {
        readiness: readiness.collect(),
        kinds: request.has_kind::<Extra>().then(|| Extra::KIND.to_owned()).into_iter().collect(),
        closed: request.closed_namespaces().to_vec(),
        now: humantime::format_rfc3339_seconds(request.now()).to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

windlass_plugin::export!(Probe);
