//! `windlass render`: prints a component's responses for parents from files. It needs no cluster, and runs the same code
//! as the host.

pub mod input;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use serde_json::{Value, json};
use windlass_core::contract::related::{Need, ReadProblem};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::contract::{CallReport, Failure, Note, Phase, Response};
use windlass_core::object::Object;
use windlass_core::plugin::schema::structural as schema;
use windlass_core::reconcile::outcome::{Outcome, Problem};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, run_here};

use self::input::{Given, Input, read_parents, title};
use self::status::keep_status;
use super::component::ComponentArgs;
use super::fields::{object_of, set};
use super::manifests::check_standard_input;
use super::offline::{Offline, existing_child};
use super::output::{Objects, list_of, print_objects};
use super::{INPUT_REJECTED, INVALID_PARENT, secrets};

/// Flags of `windlass render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass render echo.wasm -f echo.yaml
  windlass render echo.wasm -f echo.yaml --show-secrets | kubectl diff -f -
  kubectl get echo demo -o yaml | windlass render echo.wasm -f - --full
  windlass render echo.wasm -f echo.yaml --children pods.yaml
  windlass render app.wasm -f app.yaml --without ServiceMonitor.v1.monitoring.coreos.com
  kubectl get secrets,nodes -A -o yaml | windlass render echo.wasm -f echo.yaml --related -
  kubectl get echoes -A -o yaml | windlass render echo.wasm -f - --full -o json
  windlass render echo.wasm -f team-a.yaml -f team-b.yaml

Each parent gets the defaults of the CRD that the component carries, and must match its schema; CEL rules are not \
evaluated. The status is printed as the API server would store it. The plugin's log is written to standard error. \
Values of Secrets are printed as ***, which kubectl refuses: with --show-secrets, it gets the values, and `kubectl diff` \
masks them itself. \
With several parents, the children are printed in the order of the parents, and --full prints a List whose \
items name their parent; if one parent fails, the others are printed. \
--kubeconfig and --context are used only for a component in `configmap/NAMESPACE/NAME`. To compare with the objects \
of a cluster, see `windlass diff`.

Exit codes, the largest of all parents:
  0  the response was printed
  1  the plugin returned a failure, or its response was rejected
  2  wrong usage
  3  the command failed; the message says why
  6  the parent does not match the schema of the component's CRD")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Parents: a YAML or JSON file, or - for standard input; may be repeated. The objects of the parent kind are the
    /// parents; the other objects are related objects
    #[arg(short = 'f', long = "filename", value_name = "PARENT", required = true)]
    parents: Vec<PathBuf>,
    /// Existing children: a file of YAML documents, a List, or a JSON array. With several parents, each child belongs
    /// to the parent that its controlling ownerReference names
    #[arg(long, value_name = "FILE")]
    children: Option<PathBuf>,
    /// Objects that the plugin may require: a file of YAML documents, a List, or a JSON array. A kind whose objects
    /// have no namespace counts as cluster-scoped
    #[arg(long, value_name = "FILE")]
    related: Option<PathBuf>,
    /// The Plugin's spec.config: a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Render as in a cluster that does not serve this optional kind of the component (`ServiceMonitor.v1.monitoring.coreos.com`); may be
    /// repeated
    #[arg(long, value_name = "KIND")]
    without: Vec<Gvk>,
    /// Pass the parents to the plugin even if they do not match the schema of the component's CRD
    #[arg(long)]
    no_validate: bool,
    /// Call the plugin as for parents that are being deleted: the children that are printed are those that must still
    /// exist during clean-up
    #[arg(long)]
    finalize: bool,
    /// Print the values of Secrets instead of masking them
    #[arg(long)]
    show_secrets: bool,
    /// Print the whole response instead of its children: children, status, events, requirements
    #[arg(long)]
    full: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Objects,
}

/// The response for one parent, and its exit code.
struct Rendered {
    response: Value,
    code: u8,
}

/// Prints the desired children, or the whole responses.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if args.full && args.output == Objects::Name {
        let problem = "--full prints no names: set another --output";
        super::Cli::command().error(ErrorKind::ArgumentConflict, problem).exit();
    }
    check_standard_input(args.parents.iter().chain(&args.children).chain(&args.related).chain(&args.config))?;
    let offline = Offline::new(args.component.load()?)?.without(args.without.clone())?;
    let (parents, beside) = read_parents(&args.parents, &offline.described.kind)?;
    let input = Input::read(args, beside, parents.len() > 1)?;
    offline.described.check_config(input.config.as_deref())?;
    if !args.no_validate && offline.described.schema().is_some_and(schema::has_rules) {
        err!("note: the CRD has CEL rules, which are not evaluated here");
    }
    if input.has_several {
        input.report_orphans(&parents);
    }
    let rendered = parents.into_iter().map(|given| render_one(args, &offline, &input, given));
    let rendered = rendered.collect::<anyhow::Result<Vec<_>>>()?;
    let code = rendered.iter().map(|one| one.code).max().unwrap_or_default();
    let responses: Vec<_> = rendered.into_iter().map(|one| one.response).filter(|one| !one.is_null()).collect();
    if !args.full {
        let children = responses.iter().filter_map(|one| one.get("children").and_then(Value::as_array));
        print_objects(&children.flatten().cloned().collect::<Vec<_>>(), args.output)?;
    } else if input.has_several {
        print_objects(&[list_of(&responses)], args.output)?;
    } else if !responses.is_empty() {
        print_objects(&responses, args.output)?;
    }
    Ok(ExitCode::from(code))
}

/// Renders one parent, and reports its problems. The response is null if there is nothing to print for the parent.
fn render_one(args: &Args, offline: &Offline, input: &Input, given: Given) -> anyhow::Result<Rendered> {
    let Given { file, mut object } = given;
    let name = title(&object);
    let whose = format!("{name} in {}", file.display());
    let schema = offline.described.schema();
    if let Some(schema) = schema.filter(|_| !args.no_validate) {
        schema::fill_in(schema, &mut object);
        let problems = schema::problems(schema, &object);
        if !problems.is_empty() {
            err!("error: {whose} does not fit the schema of the component's CRD:");
            for problem in &problems {
                err!("  {problem}");
            }
            let failure = || named(failed("schema", &problems.join("; ")), &object);
            let response = if input.has_several { failure() } else { Value::Null };
            return Ok(Rendered { response, code: INVALID_PARENT });
        }
    }
    let children = input.children_of(&object);
    let parent_name = if input.has_several { Some(&*name) } else { None };
    let parent = offline.described.parent(object.clone()).with_context(|| format!("{whose} is not a valid parent"))?;
    let mut response = render(args, offline, input, (parent, children), parent_name)?;
    if let Some(status) = response.get_mut("status").filter(|status| !status.is_null()) {
        keep_status(schema, offline.described.declared.crd().is_some(), status);
    }
    let failure = response.pointer("/failure/message").and_then(Value::as_str);
    let code = if failure.is_some() { INPUT_REJECTED } else { 0 };
    if let Some(message) = failure.filter(|_| !args.full || input.has_several) {
        err!("error: {whose}: {message}");
    }
    let response = if input.has_several { named(response, &object) } else { response };
    Ok(Rendered { response, code })
}

/// A response with the parent that it is about.
fn named(mut response: Value, parent: &Value) -> Value {
    let [api_version, kind, namespace, name] =
        ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| parent.pointer(pointer));
    let reference = json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name});
    // A merge leaves out what is null.
    json_patch::merge(&mut response, &json!({"parent": reference}));
    response
}

fn render(
    args: &Args,
    offline: &Offline,
    input: &Input,
    (parent, children): (Object, Vec<Value>),
    parent_name: Option<&str>,
) -> anyhow::Result<Value> {
    let parent_ref = offline.described.parent_ref(&parent);
    let children = children.into_iter().map(|child| existing_child(child, &parent_ref));
    let children = children.collect::<anyhow::Result<Vec<_>>>()?;
    let snapshot = Snapshot::new(parent_ref.clone(), Arc::new(parent), children, input.config.clone(), |_| false);
    let phase = if args.finalize { Phase::Finalize } else { Phase::Sync };
    let related = &input.related;
    let find = |need: &Need| related.iter().filter(|object| need.selects(object)).cloned().collect();
    let call = |snapshot: &Snapshot| {
        // A fixed seed, so that the same input gives the same output.
        let ambient = Ambient::now([0; 32]);
        let request = offline.described.at(SystemTime::now(), snapshot.request(phase));
        let (result, report) = run_here(offline.component.reconcile(&request, &offline.described.limits, ambient));
        print_logs(&report, parent_name);
        result
    };
    let response = match offline.described.settle(snapshot, related, find, call) {
        Ok(response) => response,
        Err(stopped) => return Ok(without_response(&stopped)),
    };
    let desired = match offline.described.validate(&response, &parent_ref) {
        Ok(desired) => desired,
        Err(refusal) => return Ok(failed("refused", &refusal.to_string())),
    };
    for kind in &desired.absent {
        let parent = parent_name.map(|parent| format!("{parent}: ")).unwrap_or_default();
        err!("note: {parent}children of {kind} are left out");
    }
    let mut has_masks = false;
    let bodies = desired.children.iter().map(|child| {
        let mut body = object_of(&child.body);
        has_masks |= !args.show_secrets && secrets::mask(&mut body);
        body
    });
    let bodies: Vec<_> = bodies.collect();
    if has_masks {
        err!(
            "note: {}values of Secrets are printed as ***, which kubectl refuses; for `kubectl diff`, which masks them itself, and for \
             `kubectl apply`, add --show-secrets",
            parent_name.map(|parent| format!("{parent}: ")).unwrap_or_default()
        );
    }
    let status: Option<Value> = response.status.as_deref().map(serde_json::from_slice).transpose()?;
    let mut rendered = json!({"children": bodies, "status": status});
    add_rest(&mut rendered, &response, args.finalize);
    Ok(rendered)
}

/// Adds what a response has beside children and status.
fn add_rest(rendered: &mut Value, response: &Response, is_finalizing: bool) {
    set(rendered, &["events"], json!(response.events));
    set(rendered, &["requeueMs"], response.requeue);
    if is_finalizing {
        set(rendered, &["finalized"], response.finalized);
    }
    if !response.requirements.is_empty() {
        set(rendered, &["requirements"], json!(response.requirements));
    }
    if let Some(waiting) = &response.waiting {
        set(rendered, &["waiting"], &**waiting);
    }
    if let Some(at) = response.requeue_at {
        set(rendered, &["requeueAtMs"], at.get());
    }
    if !response.keep.is_none() {
        set(rendered, &["keep"], json!(response.keep));
    }
}

/// The output if there is no response.
fn without_response(problem: &Problem) -> Value {
    match problem {
        Problem::Call(failure) => failed("call", &failure.to_string()),
        Problem::Plugin(Failure::Invalid(message)) => failed("invalid", message),
        Problem::Plugin(Failure::Failed(message)) => failed("failed", message),
        Problem::Plugin(Failure::Retry { message, after }) => {
            failed("retry", &format!("{message} (again after {after} ms)"))
        }
        Problem::Reads(ReadProblem::Unsettled) => failed("unsettled", &ReadProblem::Unsettled.to_string()),
        problem => failed("refused", &Outcome::from(problem).message),
    }
}

fn failed(kind: &str, message: &str) -> Value {
    json!({"failure": {"kind": kind, "message": message}})
}

/// Prints the plugin's log to standard error, one line per entry. `parent` is named if there are several.
fn print_logs(report: &CallReport, parent: Option<&str>) {
    let of_parent = parent.map(|parent| format!("{parent}: ")).unwrap_or_default();
    for note in &report.notes {
        if let Note::Log { level, message, fields } = note {
            let mut line = message.clone();
            for (name, value) in fields {
                line.extend([" ", name, "=", value]);
            }
            let level = format!("{level:?}").to_lowercase();
            err!("{of_parent}plugin {level}: {line}");
        }
    }
    if report.notes_dropped > 0 {
        err!("note: {of_parent}the plugin's log exceeds the limit ({} entries dropped)", report.notes_dropped);
    }
}
