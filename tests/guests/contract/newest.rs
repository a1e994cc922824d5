//! A plugin of contract 0.2 on the bare contract, for ConfigMaps with the label `contract`. It returns a Secret of the parent's name and what
//! the request says, and asks for what the parent's annotation `asks` names.

use serde_json::{Value, json};
use windlass_plugin::raw::{
    ChildRef, ChildRule, Create, Descriptor, DesiredChild, Effect, ExistingParent, Failure, Finalizing, HttpFailure,
    HttpRequest, Invalid, Keep, Kind, LeftOut, Namespaces, Observed, Parent, ParentSelector, Phase, Read, Readiness,
    ReadyMeans, RelatedRule, Request, Requirement, Response, Rolling, Selection, UpdateStrategy,
    exports::windlass::plugin::reconciler::Guest, windlass::plugin::schedule,
};

struct Newest;

fn kind(name: &str) -> Kind {
    Kind { api_version: "v1".to_owned(), name: name.to_owned() }
}

/// How far a child is.
fn readiness(child: &Observed) -> String {
    match &child.readiness {
        Readiness::Ready => "ready".to_owned(),
        Readiness::Progressing(why) => format!("progressing: {why}"),
        Readiness::Failed(why) => format!("failed: {why}"),
        Readiness::Unknown => "unknown".to_owned(),
    }
}

/// What the request says beside the parent's content.
fn told(request: &Request) -> Vec<String> {
    let mut told: Vec<_> = request.children.iter().map(readiness).collect();
    let left = |left: &LeftOut| format!("left out: {} {}, {} bytes", left.child.kind.name, left.child.name, left.size);
    told.extend(request.left_out.iter().map(left));
    told.extend(request.http.iter().map(|answer| match &answer.outcome {
        Err(HttpFailure::NotGranted(why)) => format!("{}: not granted, {why}", answer.id),
        _ => format!("{}: answered", answer.id),
    }));
    if let Phase::Finalize(Finalizing { cause, namespace_terminating }) = &request.phase {
        told.push(format!("{cause:?}, {namespace_terminating}"));
    }
    let closed = request.capabilities.closed_namespaces.iter().map(|namespace| format!("closed: {namespace}"));
    told.extend(closed);
    told.extend(request.kinds.iter().map(|kind| format!("kind: {} of {}", kind.name, kind.api_version)));
    told
}

/// What the host says of this schedule: `SCHEDULE; TIME ZONE; MILLISECONDS`.
fn scheduled(asks: &str) -> Vec<String> {
    let parts: Vec<_> = asks.split("; ").collect();
    let [text, zone, time] = *parts else { return Vec::new() };
    let time = time.parse().unwrap_or_default();
    let next = schedule::next(text, zone, time).map_or_else(|problem| format!("{problem:?}"), |time| time.to_string());
    vec![next, format!("{:?}", schedule::previous(text, zone, time).ok().flatten())]
}

/// A child that is not returned.
fn old() -> ChildRef {
    ChildRef { kind: kind("Secret"), namespace: None, name: "old".to_owned() }
}

/// A request to another system.
fn asking() -> HttpRequest {
    HttpRequest {
        id: "zones".to_owned(),
        endpoint: "dns".to_owned(),
        connection: None,
        method: "GET".to_owned(),
        path: "/zones".to_owned(),
        query: Vec::new(),
        headers: Vec::new(),
        body: Vec::new(),
        effect: Effect::Read(Read { max_age: 60_000, select: Vec::new() }),
    }
}

impl Guest for Newest {
    fn describe() -> Descriptor {
        let selector = ParentSelector { labels: Some("contract".to_owned()), annotations: None };
        Descriptor {
            name: "newest".to_owned(),
            version: "0.2.0".to_owned(),
            description: "A plugin of contract 0.2".to_owned(),
            parent: Parent::Existing(ExistingParent { kind: kind("ConfigMap"), selector }),
            children: vec![ChildRule { kind: kind("Secret"), update: UpdateStrategy::Apply, optional: false }],
            related: vec![RelatedRule { kind: kind("ConfigMap"), optional: false }],
            endpoints: Vec::new(),
            finalizes: false,
            ordered_deletion: false,
            ready_means: ReadyMeans::Applied,
            clock: false,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        let parent: Value = serde_json::from_slice(&request.parent).unwrap_or_default();
        let name = parent["metadata"]["name"].as_str().unwrap_or_default();
        let asks = parent["metadata"]["annotations"]["asks"].as_str().unwrap_or_default();
        if asks == "failure" {
            let invalid = Invalid { field: Some("data.size".to_owned()), message: "must be a number".to_owned() };
            return Err(Failure::Invalid(invalid));
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"of": request.parent_kind.name},
        });
        let mut child = DesiredChild {
            object: secret.to_string().into_bytes(),
            stage: 0,
            retain: asks == "retain",
            take_over: asks == "take-over",
            create: if asks == "once" { Create::Once("first".to_owned()) } else { Create::Always },
            ready: (asks == "ready").then_some(true),
            update: match asks {
                "update" => Some(UpdateStrategy::Recreate),
                "rolling" => Some(UpdateStrategy::Rolling(Rolling { recreate: true, conditions: Vec::new() })),
                _ => None,
            },
            replaces: None,
        };
        if asks == "stage" {
            child.stage = 1;
        }
        if asks == "replaces" {
            child.replaces = Some(old());
        }
        let namespaces = match asks {
            "all" => Namespaces::All,
            "two" => Namespaces::Named(vec!["a".to_owned(), "b".to_owned()]),
            _ => Namespaces::Named(vec!["default".to_owned()]),
        };
        let select = match asks {
            "label-selector" => Selection::LabelSelector(br#"{"matchLabels": {"app": "web"}}"#.to_vec()),
            "no-selector" => Selection::LabelSelector(b"[]".to_vec()),
            _ => Selection::Name("settings".to_owned()),
        };
        let requirement = Requirement {
            id: "settings".to_owned(),
            kind: kind("ConfigMap"),
            namespaces,
            select,
            metadata_only: asks == "metadata-only",
        };
        Ok(Response {
            children: vec![child],
            keep: match asks {
                "keep" => Keep::All,
                "keep-these" => Keep::These(vec![old()]),
                _ => Keep::None,
            },
            status: Some(Value::from([told(&request), scheduled(asks)].concat()).to_string().into_bytes()),
            waiting: (asks == "waiting").then(|| "a person".to_owned()),
            requeue: Some(5000),
            requeue_at: (asks == "requeue-at").then_some(1),
            events: Vec::new(),
            requirements: vec![requirement],
            http: Vec::from_iter((asks == "http").then(asking)),
            finalized: false,
            extensions: Vec::new(),
        })
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(Newest with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = Newest::describe;
