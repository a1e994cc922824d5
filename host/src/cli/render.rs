//! `windlass render`: prints a component's response for one parent. It needs no cluster, and runs the same code as the
//! host.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use windlass_core::contract::{CallReport, Failure, Note, Phase};
use windlass_core::ids::Gvk;
use windlass_core::json::Value as CoreValue;
use windlass_core::names::parent_condition;
use windlass_core::related::{Need, ReadProblem};
use windlass_core::snapshot::Snapshot;
use windlass_sandbox::{Ambient, run_here};

use super::component::ComponentArgs;
use super::offline::{NoResponse, Offline, event, existing_child, related_object, requirement};
use super::output::{Format, print, print_all};
use super::{INPUT_REJECTED, INVALID_PARENT, schema};
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
    let offline = Offline::new(args.component.load()?)?;
    let schema = offline.schema();
    let (mut given, beside) = parent_of(documents(&args.parent)?, offline.kind(), &args.parent)?;
    if let Some(schema) = schema.filter(|_| !args.no_validate) {
        schema::fill_in(schema, &mut given);
        let problems = schema::problems(schema, &given);
        if !problems.is_empty() {
            // For an object of another kind, the kind is the error to report, and not its fields.
            check_kind(&given, offline.kind(), &args.parent)?;
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
    let mut rendered = render(args, &offline, given, beside)?;
    if let Some(status) = rendered.get_mut("status").filter(|status| !status.is_null()) {
        keep_status(schema, offline.declared().crd().is_some(), status);
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

fn render(args: &Args, offline: &Offline, given: Value, beside: Vec<Value>) -> anyhow::Result<Value> {
    check_kind(&given, offline.kind(), &args.parent)?;
    let parent = offline.parent(given).with_context(|| format!("{} is not a valid parent", args.parent.display()))?;
    let parent_ref = offline.parent_ref(&parent);
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
    let find = |need: &Need| related.iter().filter(|object| need.selects(object)).cloned().collect();
    let call = |snapshot: &Snapshot, phase| {
        // A fixed seed, so that the same input gives the same output.
        let ambient = Ambient::now([0; 32]);
        let (result, report) =
            run_here(offline.component().reconcile(&snapshot.request(phase), &offline.limits, ambient));
        print_logs(&report);
        result
    };
    let response = match offline.settle(snapshot, phase, &related, find, call) {
        Ok(response) => response,
        Err(stopped) => return Ok(without_response(stopped)),
    };
    let desired = match offline.validate(&response, &parent_ref) {
        Ok(desired) => desired,
        Err(refusal) => return Ok(failed("refused", &refusal.to_string())),
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

/// The output if there is no response.
fn without_response(stopped: NoResponse) -> Value {
    match stopped {
        NoResponse::Call(failure) => failed("call", &failure.to_string()),
        NoResponse::Plugin(Failure::Invalid(message)) => failed("invalid", &message),
        NoResponse::Plugin(Failure::Failed(message)) => failed("failed", &message),
        NoResponse::Plugin(Failure::Retry { message, after }) => {
            failed("retry", &format!("{message} (again after {after} ms)"))
        }
        NoResponse::Reads(problem @ ReadProblem::Unsettled) => failed("unsettled", &problem.to_string()),
        NoResponse::Reads(problem) => failed("refused", &problem.to_string()),
    }
}

fn failed(kind: &str, message: &str) -> Value {
    json!({"failure": {"kind": kind, "message": message}})
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

/// Reads the only YAML document of a file.
///
/// # Errors
/// If the file cannot be read, or has not exactly one document.
pub fn one_document(file: &Path) -> anyhow::Result<Value> {
    let mut documents = documents(file)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => bail!("{} contains several documents; expected one", file.display()),
        (None, _) => bail!("{} is empty", file.display()),
    }
}

/// Reads YAML documents, or the items of a list.
pub fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
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
