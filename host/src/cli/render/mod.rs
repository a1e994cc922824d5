//! `windlass render`: prints a component's response for one parent. It needs no cluster, and runs the same code as the
//! host.

mod schema;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use windlass_core::contract::{
    CallReport, Event, EventType, Failure, Limits, Note, Phase, Requirement, Response, Selection,
};
use windlass_core::declared_parent::DeclaredParent;
use windlass_core::desired::{self, Grant, Grants};
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::json::Value as CoreValue;
use windlass_core::names::parent_condition;
use windlass_core::object::Object;
use windlass_core::parent::ParentRef;
use windlass_core::related::{Needs, Next, ReadGrant, ReadGrants, ReadProblem, Rounds};
use windlass_core::reserved::HostNamespace;
use windlass_core::snapshot::{Served, Snapshot};
use windlass_sandbox::{Ambient, Component, run_here};

use super::component::ComponentArgs;
use super::output::{Format, print, print_all};
use super::{INPUT_REJECTED, INVALID_PARENT};
use crate::telemetry::one_line;

/// Flags of `windlass render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass render echo.wasm -f echo.yaml
  windlass render echo.wasm -f echo.yaml | kubectl diff -f -
  kubectl get echo demo -o yaml | windlass render echo.wasm -f - -o full
  windlass render echo.wasm -f echo.yaml --children pods.yaml
  kubectl get secrets,nodes -A -o yaml | windlass render echo.wasm -f echo.yaml --related -

The parent gets the defaults of the CRD that the component carries, and must match its schema; CEL rules are not \
evaluated. The status is printed as the API server would store it. The plugin's log is written to standard error. \
--kubeconfig and --context are used only for a component in `configmap/NAMESPACE/NAME`.

Exit codes:
  0  the response was printed
  1  the plugin returned a failure, or its response was rejected
  2  wrong usage
  3  the command failed; the message says why
  6  the parent does not match the schema of the component's CRD")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Parent: a YAML or JSON file, or - for standard input. The file has exactly one object of the parent kind;
    /// its other objects are related objects
    #[arg(short = 'f', long = "filename", value_name = "PARENT")]
    parent: PathBuf,
    /// Existing children: a file of YAML documents, a List, or a JSON array
    #[arg(long, value_name = "FILE")]
    children: Option<PathBuf>,
    /// Objects that the plugin may require: a file of YAML documents, a List, or a JSON array. A kind whose objects
    /// have no namespace counts as cluster-scoped
    #[arg(long, value_name = "FILE")]
    related: Option<PathBuf>,
    /// The Plugin's spec.config: a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Pass the parent to the plugin even if it does not match the schema of the component's CRD
    #[arg(long)]
    no_validate: bool,
    /// Call the plugin as for a parent that is being deleted: the children that are printed are those that must still
    /// exist during clean-up
    #[arg(long)]
    finalize: bool,
    /// Print the values of Secrets instead of masking them
    #[arg(long)]
    show_secrets: bool,
    /// What to print
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

/// The part of a response to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// The desired children, as YAML documents
    Yaml,
    /// The whole response as JSON: children, status, events, requirements
    Json,
    /// The whole response as YAML
    Full,
}

/// Prints the desired children, or the whole response.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let component = args.component.load()?;
    let descriptor = component.descriptor();
    let declared = DeclaredParent::of(descriptor).map_err(anyhow::Error::msg)?;
    let schema = declared.crd().and_then(|crd| schema::of_definition(crd.json()));
    let (mut given, beside) = parent_of(documents(&args.parent)?, declared.kind(), &args.parent)?;
    if let Some(schema) = schema.filter(|_| !args.no_validate) {
        schema::fill_in(schema, &mut given);
        let problems = schema::problems(schema, &given);
        if !problems.is_empty() {
            // For an object of another kind, the kind is the error to report, and not its fields.
            check_kind(&given, declared.kind(), &args.parent)?;
            eprintln!("error: {} does not fit the schema of the component's CRD:", args.parent.display());
            for problem in problems {
                eprintln!("  {}", one_line(&problem));
            }
            return Ok(ExitCode::from(INVALID_PARENT));
        }
        if schema::has_rules(schema) {
            eprintln!("note: the CRD has CEL rules, which are not evaluated here");
        }
    }
    let mut rendered = render(args, (&component, &declared), given, beside)?;
    if let Some(status) = rendered.get_mut("status").filter(|status| !status.is_null()) {
        keep_status(schema, declared.crd().is_some(), status);
    }
    let failure = rendered.pointer("/failure/message").and_then(Value::as_str);
    match (args.output, failure) {
        (Output::Json, _) => print(&rendered, Format::Json)?,
        (Output::Full, _) => print(&rendered, Format::Yaml)?,
        (Output::Yaml, None) => {
            let children = rendered.get("children").and_then(Value::as_array).map(Vec::as_slice);
            print_all(children.unwrap_or_default(), Format::Yaml)?;
        }
        (Output::Yaml, Some(message)) => eprintln!("error: {}: {}", args.parent.display(), one_line(message)),
    }
    Ok(if failure.is_some() { ExitCode::from(INPUT_REJECTED) } else { ExitCode::SUCCESS })
}

fn render(
    args: &Args,
    (component, declared): (&Component, &DeclaredParent),
    given: Value,
    beside: Vec<Value>,
) -> anyhow::Result<Value> {
    let descriptor = component.descriptor();
    let kind = Arc::new(declared.kind().clone());
    let plugin: PluginName = descriptor.name.parse()?;
    let parent = parent(given, &args.parent, &kind, is_namespaced(declared))?;
    let parent_ref = ParentRef::of(&plugin, &parent, None);
    let children = match &args.children {
        Some(file) => documents(file)?.into_iter().map(|child| existing_child(child, &parent_ref)).collect(),
        None => Ok(Vec::new()),
    }?;
    let config = match &args.config {
        Some(file) => Some(one_document(file)?.to_string().into_bytes().into()),
        None => None,
    };
    let mut related = beside;
    if let Some(file) = &args.related {
        related.extend(documents(file)?);
    }
    let related = related.into_iter().enumerate().map(|(at, object)| related_object(at, object));
    let related = related.collect::<anyhow::Result<Vec<_>>>()?;
    let snapshot = Snapshot::new(parent_ref.clone(), Arc::new(parent), children, config, |_| false);
    let phase = if args.finalize { Phase::Finalize } else { Phase::Sync };
    let limits = Limits::default();
    let failure = |kind: &str, message: String| Ok(json!({"failure": {"kind": kind, "message": message}}));
    let response = match settle(component, snapshot, phase, &limits, &related) {
        Ok(response) => response,
        Err((kind, message)) => return failure(kind, message),
    };
    let desired = match desired::validate(
        &response,
        &parent_ref,
        &grants(component, is_namespaced(declared), &response),
        &limits,
    ) {
        Ok(desired) => desired,
        Err(refusal) => return failure("refused", refusal.to_string()),
    };
    let bodies = desired.children.iter().map(|child| {
        let body: Value = serde_json::from_str(&CoreValue::Object(child.body.clone()).to_string())?;
        Ok(if args.show_secrets { body } else { masked(body) })
    });
    let status = match &response.status {
        Some(status) => serde_json::from_slice(status)?,
        None => Value::Null,
    };
    let mut rendered = json!({
        "children": bodies.collect::<anyhow::Result<Vec<_>>>()?,
        "status": status,
        "events": response.events.iter().map(event).collect::<Vec<_>>(),
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

fn event(event: &Event) -> Value {
    let event_type = match event.event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    json!({"type": event_type, "reason": event.reason, "message": event.message})
}

/// Calls the plugin until its requirements are final; on a failure returns its kind and message.
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
        // A fixed seed, so that the same input gives the same output.
        let (result, report) = run_here(component.reconcile(&snapshot.request(phase), limits, Ambient::now([0; 32])));
        print_logs(&report);
        let response = match result {
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

/// Read grants without a Plugin and a cluster: every namespace may be read. Whether a kind is namespaced follows from
/// its given objects; if there are none, from the requirements or the parent.
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

fn is_namespaced(declared: &DeclaredParent) -> bool {
    match declared {
        DeclaredParent::Own(crd) => crd.is_namespaced(),
        DeclaredParent::Existing { kind, .. } => !CLUSTER_SCOPED.contains(&(&*kind.group, &*kind.kind)),
    }
}

/// Built-in cluster-scoped kinds that plugins may have as parents: without a cluster there is no discovery.
const CLUSTER_SCOPED: [(&str, &str); 8] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("storage.k8s.io", "StorageClass"),
    ("networking.k8s.io", "IngressClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
];

/// Child grants without discovery: children of a namespaced parent are in its namespace; for a cluster-scoped parent,
/// the children themselves show whether their kind is namespaced.
fn grants(component: &Component, namespaced: bool, response: &Response) -> Grants {
    let placed: HashSet<Gvk> = response
        .children
        .iter()
        .filter_map(|child| serde_json::from_slice::<Value>(child).ok())
        .filter(|child| child.pointer("/metadata/namespace").is_some_and(Value::is_string))
        .map(|child| {
            let text = |field: &str| child.get(field).and_then(Value::as_str).unwrap_or_default();
            Gvk::from_api_version(text("apiVersion"), text("kind"))
        })
        .collect();
    let grants = component.descriptor().children.iter().map(|rule| Grant {
        kind: Arc::new(rule.kind.clone()),
        namespaced: namespaced || placed.contains(&rule.kind),
        update: rule.update.clone(),
        namespaces: None,
        tokens: false,
    });
    // The host's namespace is unknown here.
    Grants::new(HostNamespace::default(), grants)
}

/// The parent, completed with the fields that the API server would have set.
fn parent(mut parent: Value, file: &Path, kind: &Arc<Gvk>, namespaced: bool) -> anyhow::Result<Object> {
    check_kind(&parent, kind, file)?;
    complete(&mut parent, "00000000-0000-0000-0000-000000000000", if namespaced { Some("default") } else { None });
    Object::from_api(kind, &parent.to_string()).with_context(|| format!("{} is not a valid parent", file.display()))
}

fn check_kind(parent: &Value, kind: &Gvk, file: &Path) -> anyhow::Result<()> {
    let found = |field: &str| parent.get(field).and_then(Value::as_str).unwrap_or_default();
    if (found("apiVersion"), found("kind")) != (&kind.api_version(), &kind.kind) {
        bail!("{} is not a {kind}: it has apiVersion {}, kind {}", file.display(), found("apiVersion"), found("kind"));
    }
    Ok(())
}

/// The plugin's part of the status, as the cluster would store it: fields that the CRD does not have are pruned, and
/// the host's own fields are dropped. For a kind whose CRD the component does not carry, the host writes no status.
fn keep_status(schema: Option<&Value>, is_own_kind: bool, status: &mut Value) {
    if !is_own_kind {
        eprintln!("note: the plugin's status is dropped: the kind is not the plugin's own");
        *status = Value::Null;
        return;
    }
    if let Some(status) = status.as_object_mut() {
        status.remove("observedGeneration");
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            let is_hosts = |kind: &str| [parent_condition::RECONCILING, parent_condition::STALLED].contains(&kind);
            conditions.retain(|one| !one.get("type").and_then(Value::as_str).is_some_and(is_hosts));
        }
    }
    let Some(schema) = schema else { return };
    let Some(schema) = schema.pointer("/properties/status") else {
        if schema.get("x-kubernetes-preserve-unknown-fields") != Some(&Value::Bool(true)) {
            eprintln!("note: the plugin's status is dropped: the component's CRD has none");
            *status = Value::Null;
        }
        return;
    };
    let before = status.clone();
    schema::prune(schema, status);
    if *status != before {
        eprintln!("note: the component's CRD drops fields of the plugin's status; it is printed without them");
    }
    // The host completes the conditions, so they match the schema.
    let mut judged = status.clone();
    if let Some(judged) = judged.as_object_mut() {
        judged.remove("conditions");
    }
    for problem in schema::problems_at(schema, &judged, "status") {
        eprintln!("note: the API server would refuse the plugin's status: {}", one_line(&problem));
    }
}

/// Prints the plugin's log to standard error, one line per entry.
fn print_logs(report: &CallReport) {
    for note in &report.notes {
        if let Note::Log { level, message, fields } = note {
            let mut line = message.clone();
            for (name, value) in fields {
                line.extend([" ", name, "=", value]);
            }
            let level = format!("{level:?}").to_lowercase();
            eprintln!("plugin {level}: {}", one_line(&line));
        }
    }
    if report.notes_dropped > 0 {
        eprintln!("note: the plugin's log exceeds the limit ({} entries dropped)", report.notes_dropped);
    }
}

/// A child, completed as if this parent owned it.
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
        (Some(_), false) => bail!("{} contains several documents; expected one", file.display()),
        (None, _) => bail!("{} is empty", file.display()),
    }
}

/// Reads YAML documents, or the items of a list.
fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("standard input")?
    } else {
        std::fs::read_to_string(file).with_context(|| format!("file {}", file.display()))?
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not valid YAML", file.display()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).flat_map(items).collect())
}

/// Separates the parent from the other objects of a file.
fn parent_of(mut all: Vec<Value>, kind: &Gvk, file: &Path) -> anyhow::Result<(Value, Vec<Value>)> {
    let is_parent = |object: &Value| {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        (text("apiVersion"), text("kind")) == (&kind.api_version(), &kind.kind)
    };
    match all.iter().filter(|object| is_parent(object)).count() {
        // A single object of another kind gets a more precise error later.
        0 if all.len() == 1 => Ok((all.remove(0), Vec::new())),
        1 => {
            let (mut parents, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_parent);
            Ok((parents.remove(0), others))
        }
        _ if all.is_empty() => bail!("{} is empty", file.display()),
        found => bail!("{} holds {found} objects of {kind}; render takes one", file.display()),
    }
}

/// The items of a `List`, the elements of an array, or the document itself.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Array(items) => items,
        document => match document.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![document],
        },
    }
}

/// Masks the values of a Secret.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_may_contain_documents_a_list_or_an_array() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("objects");
        for text in [
            r#"[{"kind": "A"}, {"kind": "B"}]"#,
            r#"{"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}"#,
            "kind: A\n---\nkind: B\n---\n",
            "- kind: A\n- kind: B\n",
        ] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(documents(&file).expect("documents"), [json!({"kind": "A"}), json!({"kind": "B"})], "{text}");
        }
    }

    #[test]
    fn parent_is_found_among_the_objects_of_its_file() {
        let kind = Gvk::from_api_version("g.dev/v1", "Echo");
        let (echo, secret) =
            (json!({"apiVersion": "g.dev/v1", "kind": "Echo"}), json!({"apiVersion": "v1", "kind": "Secret"}));
        let of = |all: &[&Value]| parent_of(all.iter().copied().cloned().collect(), &kind, Path::new("f"));
        assert_eq!(of(&[&secret, &echo]).expect("one"), (echo.clone(), vec![secret.clone()]));
        assert_eq!(of(&[&secret]).expect("its kind is checked later").0, secret);
        for wrong in [vec![], vec![&echo, &echo], vec![&secret, &secret]] {
            assert!(of(&wrong).is_err());
        }
    }

    #[test]
    fn status_is_printed_as_the_api_server_would_store_it() {
        let schema = json!({"type": "object", "properties": {"status": {"type": "object", "properties": {
            "ready": {"type": "integer"},
            "conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }}}});
        let kept = |schema: Option<&Value>, is_own_kind| {
            let mut status = json!({
                "ready": 1, "typo": 2, "observedGeneration": 7,
                "conditions": [{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "True"}],
            });
            keep_status(schema, is_own_kind, &mut status);
            status
        };
        let expected = json!({"ready": 1, "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(kept(Some(&schema), true), expected);
        assert_eq!(
            kept(Some(&json!({"type": "object", "properties": {}})), true),
            Value::Null,
            "a CRD without a status"
        );
        assert_eq!(kept(None, false), Value::Null, "an existing kind");
    }
}
