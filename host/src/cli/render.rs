//! `windlass render`: what a component answers for one parent. Needs no cluster; the very code that the host runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use windlass_core::contract::{EventType, Failure, Limits, Parent, Phase, Requirement, Response, Selection};
use windlass_core::desired::{self, Grant, Grants};
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::json::Value as CoreValue;
use windlass_core::object::Object;
use windlass_core::parent::ParentRef;
use windlass_core::related::{Needs, Next, ReadGrant, ReadGrants, ReadProblem, Rounds};
use windlass_core::reserved::HostNamespace;
use windlass_core::snapshot::{Served, Snapshot};
use windlass_sandbox::{Ambient, Component, run_here};

use super::ANSWER_IS_NO;
use super::component::ComponentArgs;
use super::output::{Format, print};

/// Flags of `windlass render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass render echo.wasm -f echo.yaml
  kubectl get echo demo -o yaml | windlass render echo.wasm -f - -o json
  windlass render echo.wasm -f echo.yaml --children pods.yaml
  kubectl get secrets,nodes -A -o yaml | windlass render echo.wasm -f echo.yaml --related -

Exit code 1: the plugin answered with a failure, or its answer was refused.")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// The parent: a YAML or JSON file, - for standard input
    #[arg(short = 'f', long = "filename", value_name = "PARENT")]
    parent: PathBuf,
    /// Children that exist: a file of YAML documents or a JSON list
    #[arg(long, value_name = "FILE")]
    children: Option<PathBuf>,
    /// Objects that the plugin may require: a file of YAML documents or a JSON list. A kind whose objects name no namespace
    /// is taken to be cluster-scoped
    #[arg(long, value_name = "FILE")]
    related: Option<PathBuf>,
    /// The Plugin's spec.config: a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ask what should still exist while the parent is deleted
    #[arg(long)]
    finalize: bool,
    /// Print the values of Secrets instead of masking them
    #[arg(long)]
    show_secrets: bool,
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
}

/// Prints desired children, status, events and requeue time.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let component = args.component.load()?;
    let rendered = render(args, &component)?;
    let failed = rendered.get("failure").is_some();
    print(&rendered, args.output)?;
    Ok(if failed { ExitCode::from(ANSWER_IS_NO) } else { ExitCode::SUCCESS })
}

fn render(args: &Args, component: &Component) -> anyhow::Result<Value> {
    let descriptor = component.descriptor();
    let (kind, namespaced) = parent_kind(&descriptor.parent)?;
    let plugin: PluginName = descriptor.name.parse()?;
    let parent = parent(&args.parent, &kind, namespaced)?;
    let parent_ref = ParentRef::of(&plugin, &parent);
    let children = match &args.children {
        Some(file) => documents(file)?.into_iter().map(|child| existing_child(child, &parent_ref)).collect(),
        None => Ok(Vec::new()),
    }?;
    let config = match &args.config {
        Some(file) => Some(one_document(file)?.to_string().into_bytes().into()),
        None => None,
    };
    let related = match &args.related {
        Some(file) => documents(file)?.into_iter().enumerate().map(|(at, object)| related_object(at, object)).collect(),
        None => Ok(Vec::new()),
    }?;
    let snapshot = Snapshot::new(parent_ref.clone(), Arc::new(parent), children, config, |_| false);
    let phase = if args.finalize { Phase::Finalize } else { Phase::Sync };
    let limits = Limits::default();
    let failure = |kind: &str, message: String| Ok(json!({"failure": {"kind": kind, "message": message}}));
    let response = match settle(component, snapshot, phase, &limits, &related) {
        Ok(response) => response,
        Err((kind, message)) => return failure(kind, message),
    };
    let desired = match desired::validate(&response, &parent_ref, &grants(component, namespaced), &limits) {
        Ok(desired) => desired,
        Err(refusal) => return failure("refused", refusal.to_string()),
    };
    let bodies = desired.children.iter().map(|child| {
        let body: Value = serde_json::from_str(&CoreValue::Object(child.body.clone()).to_string())?;
        Ok(if args.show_secrets { body } else { masked(body) })
    });
    let events = response.events.iter().map(|event| {
        let event_type = match event.event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        json!({"type": event_type, "reason": event.reason, "message": event.message})
    });
    let status = match &response.status {
        Some(status) => serde_json::from_slice(status)?,
        None => Value::Null,
    };
    let mut rendered = json!({
        "children": bodies.collect::<anyhow::Result<Vec<_>>>()?,
        "status": status,
        "events": events.collect::<Vec<_>>(),
        "requeueMs": response.requeue,
    });
    if let Some(rendered) = rendered.as_object_mut() {
        if args.finalize {
            rendered.insert("finalized".to_owned(), response.finalized.into());
        }
        if !response.requirements.is_empty() {
            rendered.insert("requirements".to_owned(), response.requirements.iter().map(requirement).collect());
        }
    }
    Ok(rendered)
}

/// Calls the plugin until its answer is final; otherwise says what kind of failure that is, and why.
fn settle(
    component: &Component,
    mut snapshot: Snapshot,
    phase: Phase,
    limits: &Limits,
    related: &[Arc<Object>],
) -> Result<Response, (&'static str, String)> {
    let mut rounds = Rounds::starting_with(Needs::default());
    loop {
        let served = rounds.served().iter().map(|need| {
            let found = related.iter().filter(|object| need.selects(object)).cloned().collect();
            Served::new(need.id.clone(), found)
        });
        snapshot.related = served.collect();
        // The same seed each time, so that the same input prints the same output.
        let (answer, _) = run_here(component.reconcile(&snapshot.request(phase), limits, Ambient::now([0; 32])));
        let response = match answer {
            Err(failed) => return Err(("call", failed.to_string())),
            Ok(Err(Failure::Invalid(message))) => return Err(("invalid", message)),
            Ok(Err(Failure::Retry { message, after })) => {
                return Err(("retry", format!("{message} (again after {after} ms)")));
            }
            Ok(Err(Failure::Failed(message))) => return Err(("failed", message)),
            Ok(Ok(response)) => response,
        };
        let parent = &snapshot.parent.key;
        let needs = read_grants(component, parent.namespace.is_some(), related, &response.requirements)
            .resolve(&response.requirements, parent, limits.requirements)
            .map_err(|refusal| ("refused", ReadProblem::from(refusal).to_string()))?;
        match rounds.answered(needs) {
            Next::Final => return Ok(response),
            Next::Again => {}
            Next::Unsettled => return Err(("unsettled", ReadProblem::Unsettled.to_string())),
        }
    }
}

/// Without a Plugin and a cluster, every namespace may be read, and the objects themselves say whether their kind has
/// any; where there are none, what is required of the kind says it, or the parent.
fn read_grants(component: &Component, namespaced: bool, related: &[Arc<Object>], wanted: &[Requirement]) -> ReadGrants {
    let grants = component.descriptor().related.iter().map(|kind| {
        let mut known = related.iter().filter(|object| *object.kind == *kind).peekable();
        let named: Vec<_> = wanted.iter().filter(|one| one.kind == *kind).flat_map(|one| &one.namespace).collect();
        ReadGrant {
            kind: Arc::new(kind.clone()),
            namespaced: match known.peek() {
                Some(_) => known.any(|object| object.key.namespace.is_some()),
                None => namespaced || !named.is_empty(),
            },
            namespaces: Some(named.into_iter().map(|name| Arc::from(name.as_str())).collect()),
        }
    });
    ReadGrants::new(HostNamespace::default(), grants)
}

fn requirement(requirement: &Requirement) -> Value {
    let Requirement { id, kind, namespace, select } = requirement;
    let mut shown = json!({"id": id, "apiVersion": kind.api_version(), "kind": *kind.kind});
    if let Some(shown) = shown.as_object_mut() {
        shown.extend(namespace.as_ref().map(|namespace| ("namespace".to_owned(), json!(namespace))));
        shown.extend([match select {
            Selection::Name(name) => ("name".to_owned(), json!(name)),
            Selection::Labels(selector) => ("labels".to_owned(), json!(selector)),
        }]);
    }
    shown
}

fn parent_kind(parent: &Parent) -> anyhow::Result<(Arc<Gvk>, bool)> {
    match parent {
        Parent::Custom(definition) => {
            let definition: Value = serde_json::from_slice(definition).context("the carried CRD is no JSON")?;
            let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
            let storage = versions
                .into_iter()
                .flatten()
                .find(|version| version.get("storage") == Some(&Value::Bool(true)))
                .and_then(|version| version.get("name")?.as_str())
                .context("the carried CRD has no storage version")?;
            let api_version = format!("{}/{storage}", text("/spec/group"));
            let kind = Gvk::from_api_version(&api_version, text("/spec/names/kind"));
            Ok((Arc::new(kind), text("/spec/scope") == "Namespaced"))
        }
        Parent::Existing { kind, .. } => Ok((Arc::new(kind.clone()), kind.kind != "Namespace".into())),
    }
}

/// Without a cluster there is no discovery: children are taken to live where their parent does.
fn grants(component: &Component, namespaced: bool) -> Grants {
    let grants = component.descriptor().children.iter().map(|rule| Grant {
        kind: Arc::new(rule.kind.clone()),
        namespaced,
        update: rule.update.clone(),
        namespaces: None,
        tokens: false,
    });
    // Which namespace a host is in is not known here.
    Grants::new(HostNamespace::default(), grants)
}

/// The parent, with what the API server would have added where it is missing.
fn parent(file: &Path, kind: &Arc<Gvk>, namespaced: bool) -> anyhow::Result<Object> {
    let mut parent = one_document(file)?;
    let found = |field: &str| parent.get(field).and_then(Value::as_str).unwrap_or_default();
    if (found("apiVersion"), found("kind")) != (&kind.api_version(), &kind.kind) {
        bail!("{} is no {kind}: it says apiVersion {}, kind {}", file.display(), found("apiVersion"), found("kind"));
    }
    complete(&mut parent, "00000000-0000-0000-0000-000000000000", if namespaced { Some("default") } else { None });
    Object::from_api(kind, &parent.to_string()).with_context(|| format!("{} is no parent", file.display()))
}

/// A child as if this parent owned it already.
fn existing_child(mut child: Value, parent: &ParentRef) -> anyhow::Result<Arc<Object>> {
    let text = |field: &str| child.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = Arc::new(Gvk::from_api_version(&text("apiVersion"), &text("kind")));
    complete(&mut child, "00000000-0000-0000-0000-000000000001", parent.key.namespace.as_deref());
    let owner: Value = serde_json::from_str(&CoreValue::Object(parent.owner_reference()).to_string())?;
    if let Some(meta) = child.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("ownerReferences".to_owned(), json!([owner]));
        let labels = meta.entry("labels").or_insert_with(|| json!({}));
        for (label, value) in parent.child_labels() {
            if let Some(labels) = labels.as_object_mut() {
                labels.insert(label.to_owned(), json!(value));
            }
        }
    }
    Ok(Arc::new(Object::from_api(&kind, &child.to_string())?))
}

fn related_object(at: usize, mut object: Value) -> anyhow::Result<Arc<Object>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = Arc::new(Gvk::from_api_version(&text("apiVersion"), &text("kind")));
    complete(&mut object, &format!("00000000-0000-0000-0001-{at:012}"), None);
    Ok(Arc::new(Object::from_api(&kind, &object.to_string()).context("a related object")?))
}

fn complete(object: &mut Value, uid: &str, namespace: Option<&str>) {
    let Some(meta) =
        object.as_object_mut().and_then(|object| object.entry("metadata").or_insert_with(|| json!({})).as_object_mut())
    else {
        return;
    };
    meta.entry("uid").or_insert_with(|| uid.into());
    meta.entry("resourceVersion").or_insert_with(|| "1".into());
    meta.entry("generation").or_insert_with(|| 1.into());
    if let Some(namespace) = namespace {
        meta.entry("namespace").or_insert_with(|| namespace.into());
    }
}

fn one_document(file: &Path) -> anyhow::Result<Value> {
    let mut documents = documents(file)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => bail!("{} holds several documents; one is wanted", file.display()),
        (None, _) => bail!("{} is empty", file.display()),
    }
}

/// YAML documents, or the items of a list.
fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("standard input")?
    } else {
        std::fs::read_to_string(file).with_context(|| format!("file {}", file.display()))?
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{} is no YAML", file.display()))?;
    let items = documents.into_iter().filter(|document| !document.is_null()).flat_map(|document| {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![document],
        }
    });
    Ok(items.collect())
}

/// A Secret without its values.
fn masked(mut body: Value) -> Value {
    if body.get("kind") == Some(&json!("Secret")) {
        for field in ["data", "stringData"] {
            let values = body.get_mut(field).and_then(Value::as_object_mut);
            for (_, value) in values.into_iter().flatten() {
                *value = json!("***");
            }
        }
    }
    body
}
