//! A plugin of contract 0.2 on the bare contract, whose parents' spec is the response: `children`, each with its `options`, `keep`, `waiting`, `status` and
//! `requirements`. In their strings `${name}` is the parent's name. `Ready` means that all children are ready. When the parent is deleted, nothing is to be cleaned up,
//! and the children are deleted by stage. The kinds of the group optional.example need not exist. Objects with the label or the annotation `ignored` are no
//! parents. Each call writes a line to the host's log.

use std::collections::BTreeMap;

use hostile_guests::open_kind;
use serde::Deserialize;
use serde_json::Value;
use windlass_plugin::log;
use windlass_plugin::raw::{
    ChildRef, ChildRule, Create, CustomParent, Descriptor, DesiredChild, Failure, Invalid, Keep, Kind, Namespaces,
    Observed, Parent, ParentSelector, Phase, Readiness, ReadyMeans, Related, RelatedRule, Request, Requirement,
    Response, Selection, UpdateStrategy, exports::windlass::plugin::reconciler::Guest,
};

const CHILDREN: [(&str, &str); 10] = [
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("puppets.example/v1", "Doll"),
    OPTIONAL,
];
/// A kind of children that need not exist.
const OPTIONAL: (&str, &str) = ("optional.example/v1", "Monitor");
/// A kind of related objects that need not exist.
const RELATED: (&str, &str) = ("optional.example/v1", "Target");

/// The spec of a parent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Script {
    children: Vec<Child>,
    /// `all`, or objects with apiVersion, kind and name.
    keep: Value,
    waiting: Option<String>,
    status: Value,
    /// Ids of requirements of all targets in the parent's namespace; that of `all` is in all namespaces, that of `metadata` is of their metadata.
    requirements: Vec<String>,
}

#[derive(Deserialize)]
struct Child {
    #[serde(default)]
    options: Options,
    #[serde(flatten)]
    object: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Options {
    stage: u32,
    retain: bool,
    ready: Option<bool>,
    /// The text for which the child is created once.
    once: Option<String>,
    /// The name of a child of the same kind.
    replaces: Option<String>,
}

impl From<Child> for DesiredChild {
    fn from(Child { object, options }: Child) -> Self {
        let Options { stage, retain, ready, once, replaces } = options;
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let kind = Kind { api_version: text("apiVersion"), name: text("kind") };
        let replaces = replaces.map(|name| ChildRef { kind, namespace: None, name });
        let object = object.to_string().into_bytes();
        let (create, take_over) = (once.map_or(Create::Always, Create::Once), false);
        Self { object, stage, retain, take_over, create, ready, update: None, replaces }
    }
}

/// A child and how far it is, for the log.
fn line(child: &Observed) -> String {
    let (kind, name) = (&child.kind.name, &child.name);
    match &child.readiness {
        Readiness::Ready => format!("{kind} {name}: ready"),
        Readiness::Progressing(why) => format!("{kind} {name}: progressing, {why}"),
        Readiness::Failed(why) => format!("{kind} {name}: failed, {why}"),
        Readiness::Unknown => format!("{kind} {name}: unknown"),
    }
}

fn keep(keep: &Value) -> Keep {
    let text = |child: &Value, field: &str| child[field].as_str().unwrap_or_default().to_owned();
    let child = |child: &Value| ChildRef {
        kind: Kind { api_version: text(child, "apiVersion"), name: text(child, "kind") },
        namespace: None,
        name: text(child, "name"),
    };
    match keep {
        Value::Null => Keep::None,
        Value::Array(children) => Keep::These(children.iter().map(child).collect()),
        _ => Keep::All,
    }
}

fn kind((api_version, name): (&str, &str)) -> Kind {
    Kind { api_version: api_version.to_owned(), name: name.to_owned() }
}

/// The requirement of all targets in the parent's namespace, or in all, or of their metadata.
fn requirement(id: String) -> Requirement {
    let namespaces = if id == "all" { Namespaces::All } else { Namespaces::OfParent };
    let (kind, metadata_only) = (kind(RELATED), id == "metadata");
    Requirement { id, kind, namespaces, select: Selection::Labels(String::new()), metadata_only }
}

/// How many objects a requirement selects, and what those that are nothing but metadata have.
fn found(related: &Related) -> String {
    let fields = |one: &Observed| {
        let object: BTreeMap<String, Value> = serde_json::from_slice(&one.object).unwrap_or_default();
        let readiness = if matches!(one.readiness, Readiness::Unknown) { "unknown" } else { "known" };
        let labels = &object.get("metadata").unwrap_or(&Value::Null)["labels"];
        format!(" ({} {readiness} {labels})", object.keys().map(|key| &**key).collect::<Vec<_>>().join(" "))
    };
    let more = related.objects.iter().filter(|_| related.id == "metadata").map(fields).collect::<String>();
    format!("{}: {}{more}", related.id, related.objects.len())
}

struct Staged;

impl Guest for Staged {
    fn describe() -> Descriptor {
        let child = |one| ChildRule { kind: kind(one), update: UpdateStrategy::Apply, optional: one == OPTIONAL };
        let not_ignored = || Some("!ignored".to_owned());
        let selector = ParentSelector { labels: not_ignored(), annotations: not_ignored() };
        Descriptor {
            name: "puppet-staged".to_owned(),
            version: "0.1.0".to_owned(),
            description: "Returns what the spec of its parent says".to_owned(),
            parent: Parent::Custom(CustomParent { definition: open_kind::definition("StagedPuppet"), selector }),
            children: CHILDREN.into_iter().map(child).collect(),
            related: vec![RelatedRule { kind: kind(RELATED), optional: true }],
            endpoints: Vec::new(),
            finalizes: true,
            ordered_deletion: true,
            ready_means: ReadyMeans::Children,
            clock: false,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        let parent: Value = serde_json::from_slice(&request.parent).unwrap_or_default();
        let text = |field: &str| parent["metadata"][field].as_str().unwrap_or_default();
        let finalized = !matches!(request.phase, Phase::Sync);
        let phase = if finalized { "finalize" } else { "sync" };
        let children: Vec<_> = request.children.iter().map(line).collect();
        let kinds: Vec<_> = request.kinds.iter().map(|kind| &*kind.name).collect();
        let related: Vec<_> = request.related.iter().map(found).collect();
        let beside = format!("[{}] [{}]", kinds.join(" "), related.join(" "));
        let (namespace, name, children) = (text("namespace"), text("name"), children.join("; "));
        let called = format!("puppet called: {phase} {namespace}/{name} {beside} {children}");
        log::info(called);
        let script: Script = serde_json::from_str(&parent["spec"].to_string().replace("${name}", text("name")))
            .map_err(|error| {
                Failure::Invalid(Invalid { field: Some("spec".to_owned()), message: error.to_string() })
            })?;
        Ok(Response {
            children: script.children.into_iter().map(DesiredChild::from).collect(),
            keep: if finalized { Keep::None } else { keep(&script.keep) },
            status: (!script.status.is_null()).then(|| script.status.to_string().into_bytes()),
            waiting: script.waiting,
            requeue: None,
            requeue_at: None,
            events: Vec::new(),
            requirements: script.requirements.into_iter().map(requirement).collect(),
            http: Vec::new(),
            finalized,
            extensions: Vec::new(),
        })
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(Staged with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = Staged::describe;
