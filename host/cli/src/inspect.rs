//! `windlass inspect`: prints the declarations of a component, without a reconcile.

use std::iter;
use std::process::ExitCode;

use serde_json::{Value, json};
use windlass_core::contract::{Descriptor, Parent, ParentSelector, ReadyMeans, Surface, Until, UpdateStrategy};
use windlass_core::plugin::schema::functions::{self, Needs};
use windlass_core::value::ids::Gvk;
use windlass_engine::telemetry::one_line;

use super::component::ComponentArgs;
use super::output::{Report, print_report};

/// Flags of `windlass inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass inspect echo.wasm
  windlass inspect configmap/windlass-system/echo -o json | jq -r .digest

--kubeconfig and --context are used only for a component in `configmap/NAMESPACE/NAME`.

Exit codes:
  0  the description was printed
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Report,
}

/// Prints the component.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let component = args.component.load()?;
    let (surface, descriptor) = (component.surface(), component.descriptor());
    print_report(args.output, || text(surface, descriptor), || describe(surface, descriptor))?;
    Ok(ExitCode::SUCCESS)
}

/// The description of a component: one line per item, with title and value.
fn text(surface: &Surface, descriptor: &Descriptor) -> String {
    let selected = descriptor.selector.selected().map(|those| format!(", {those}")).unwrap_or_default();
    let mut lines = vec![
        ("Name", format!("{} {}", descriptor.name, descriptor.version)),
        ("Description", descriptor.description.clone()),
        ("Digest", surface.digest.to_string()),
        ("Size", format!("{} bytes", surface.size)),
        ("Contract", format!("windlass:plugin@{}", surface.contract)),
        ("Parent", parent(&descriptor.parent) + &selected),
        ("Kubernetes", needs(&descriptor.parent).to_string()),
    ];
    let list = |title: &'static str, items: Vec<String>| {
        let items = if items.is_empty() { vec!["none".to_owned()] } else { items };
        iter::once(title).chain(iter::repeat("")).zip(items)
    };
    let named = |kind: &Gvk| format!("{kind}{}", if descriptor.optional.contains(kind) { " (optional)" } else { "" });
    let children = descriptor.children.iter().map(|rule| format!("{}, {}", named(&rule.kind), update(&rule.update)));
    lines.extend(list("Children", children.collect()));
    lines.extend(list("Reads", descriptor.related.iter().map(named).collect()));
    let finalizes = if descriptor.finalizes { "yes: parents get a finalizer" } else { "no" };
    lines.push(("Finalizes", finalizes.to_owned()));
    if descriptor.ordered_deletion {
        lines.push(("Deletion", "of the children by stage; parents get a finalizer".to_owned()));
    }
    let ready = match descriptor.ready_means {
        ReadyMeans::Children => "all children are applied and ready",
        ReadyMeans::Applied => "all children are applied",
        ReadyMeans::Plugin => "what the plugin says",
    };
    lines.push(("Ready means", ready.to_owned()));
    if descriptor.clock {
        lines.push(("Clock", "calls have the time".to_owned()));
    }
    let resync = descriptor.resync.map(std::time::Duration::from_millis);
    lines.push(("Resync", resync.map_or_else(|| "as the Plugin says".to_owned(), |resync| format!("{resync:?}"))));
    lines.extend(list("Metrics", descriptor.metrics.iter().map(|metric| metric.name.clone()).collect()));
    lines.extend(list("Imports", surface.imports.clone()));
    let unsupported: Vec<_> =
        surface.unsupported_imports.iter().map(|name| format!("{name}: calling it traps")).collect();
    if !unsupported.is_empty() {
        lines.extend(list("Unsupported", unsupported));
    }
    lines.extend(list("Exports", surface.exports.clone()));
    if surface.exports.iter().any(|export| ["/admission@", "/converter@"].iter().any(|name| export.contains(name))) {
        let note = "the host does not call admission or conversion yet: only the reconciler is used";
        lines.push(("Note", note.to_owned()));
    }
    // A component controls parts of the text, and must not be able to add lines of its own.
    let line = |(title, what): (&str, String)| format!("{title:<13}{}", one_line(&what)).trim_end().to_owned() + "\n";
    lines.into_iter().map(line).collect()
}

/// The version of Kubernetes that the rules of a carried CRD need.
fn needs(parent: &Parent) -> Needs {
    let Parent::Custom(definition) = parent else { return functions::needs(&Value::Null) };
    functions::needs(&serde_json::from_slice(definition).unwrap_or_default())
}

fn parent(parent: &Parent) -> String {
    match parent {
        Parent::Custom(definition) => {
            let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
            let at = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let scope = if at("/spec/scope") == "Namespaced" { "namespaced" } else { "cluster-scoped" };
            let (name, kind) = (at("/metadata/name"), at("/spec/names/kind"));
            format!("{kind} ({scope}), whose CRD {name} the component carries")
        }
        Parent::Existing(kind) => kind.to_string(),
    }
}

fn update(strategy: &UpdateStrategy) -> String {
    match strategy {
        UpdateStrategy::Apply => "applied in place".to_owned(),
        UpdateStrategy::Recreate => "deleted and recreated on a change".to_owned(),
        UpdateStrategy::OnDelete => "kept until a user deletes it".to_owned(),
        UpdateStrategy::Rolling { recreate, until } => {
            let how = if *recreate { "recreated" } else { "applied in place" };
            match until {
                Until::Ready => format!("{how} one by one, each after the one before is ready"),
                Until::Conditions(none) if none.is_empty() => format!("{how} one by one"),
                Until::Conditions(all) => {
                    format!("{how} one by one, each after the one before is {}", all.join(" and "))
                }
            }
        }
    }
}

/// The name of an update strategy in JSON.
fn update_name(strategy: &UpdateStrategy) -> Value {
    match strategy {
        UpdateStrategy::Apply => json!("apply"),
        UpdateStrategy::Recreate => json!("recreate"),
        UpdateStrategy::OnDelete => json!("on-delete"),
        UpdateStrategy::Rolling { recreate, until: Until::Ready } => {
            json!({"rolling": {"recreate": recreate, "until": "ready"}})
        }
        UpdateStrategy::Rolling { recreate, until: Until::Conditions(conditions) } => {
            json!({"rolling": {"recreate": recreate, "conditions": conditions.to_vec()}})
        }
    }
}

fn describe(surface: &Surface, descriptor: &Descriptor) -> Value {
    json!({
        "digest": surface.digest.to_string(),
        "size": surface.size,
        "contract": &*surface.contract,
        "kubernetes": format!("1.{}", needs(&descriptor.parent).minor),
        "descriptor": self::descriptor(descriptor),
        "imports": surface.imports,
        "unknownImports": surface.unsupported_imports,
        "exports": surface.exports,
    })
}

fn descriptor(descriptor: &Descriptor) -> Value {
    let mut parent = match &descriptor.parent {
        Parent::Custom(definition) => {
            let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
            json!({"customResourceDefinition": definition.pointer("/metadata/name")})
        }
        Parent::Existing(kind) => json!({"existing": kind.to_string()}),
    };
    let ParentSelector { labels, annotations } = &descriptor.selector;
    for (field, selector) in [("selector", labels), ("annotationSelector", annotations)] {
        if let (Some(parent), Some(selector)) = (parent.as_object_mut(), selector) {
            parent.insert(field.to_owned(), selector.as_str().into());
        }
    }
    let children: Vec<_> = descriptor
        .children
        .iter()
        .map(|rule| json!({"kind": rule.kind.to_string(), "update": update_name(&rule.update)}))
        .collect();
    json!({
        "name": descriptor.name,
        "version": descriptor.version,
        "description": descriptor.description,
        "parent": parent,
        "children": children,
        "related": descriptor.related.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "optional": descriptor.optional.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "finalizes": descriptor.finalizes,
        "orderedDeletion": descriptor.ordered_deletion,
        "clock": descriptor.clock,
        "readyMeans": match descriptor.ready_means {
            ReadyMeans::Children => "children",
            ReadyMeans::Applied => "applied",
            ReadyMeans::Plugin => "plugin",
        },
        "resyncMs": descriptor.resync,
        "metrics": descriptor.metrics.iter().map(|metric| metric.name.clone()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use windlass_core::contract::{ChildRule, Metric};
    use windlass_core::value::digest::Digest;
    use windlass_core::value::ids::Gvk;

    use super::*;

    #[test]
    fn component_is_described_as_text_and_as_json() {
        let rule = |kind: &str, update| ChildRule { kind: Gvk::from_api_version("v1", kind), update };
        let rolling = UpdateStrategy::Rolling { recreate: true, until: Until::Conditions(["Ready".to_owned()].into()) };
        let definition = json!({
            "metadata": {"name": "echoes.my-operator.dev"},
            "spec": {"scope": "Namespaced", "names": {"kind": "Echo"}},
        });
        let descriptor = Descriptor {
            name: "echo".to_owned(),
            version: "0.1.0".to_owned(),
            description: "Pods that\nare asked for".to_owned(),
            parent: Parent::Custom(definition.to_string().into_bytes()),
            selector: ParentSelector { labels: Some("team".to_owned()), annotations: Some("tier=web".to_owned()) },
            children: vec![rule("Pod", rolling), rule("Secret", UpdateStrategy::OnDelete)],
            related: Vec::new(),
            optional: vec![Gvk::from_api_version("v1", "Secret")],
            finalizes: true,
            ordered_deletion: true,
            ready_means: ReadyMeans::Children,
            clock: false,
            resync: Some(90_000),
            config_schema: None,
            metrics: Vec::<Metric>::new(),
        };
        let surface = Surface {
            digest: Digest::of(b"echo"),
            contract: "0.1.0".into(),
            imports: vec!["windlass:plugin/host@0.1.0".to_owned(), "wasi:sockets/tcp@0.2.0".to_owned()],
            exports: vec!["windlass:plugin/reconciler@0.1.0".to_owned(), "windlass:plugin/admission@0.1.0".to_owned()],
            unsupported_imports: vec!["wasi:sockets/tcp@0.2.0".to_owned()],
            size: 123_456,
        };
        expect![[r"
            Name         echo 0.1.0
            Description  Pods that are asked for
            Digest       sha256:092c79e8f80e559e404bcf660c48f3522b67aba9ff1484b0367e1a4ddef7431d
            Size         123456 bytes
            Contract     windlass:plugin@0.1.0
            Parent       Echo (namespaced), whose CRD echoes.my-operator.dev the component carries, those with the labels team and the annotations tier=web
            Kubernetes   1.30 or newer
            Children     Pod.v1, recreated one by one, each after the one before is Ready
                         Secret.v1 (optional), kept until a user deletes it
            Reads        none
            Finalizes    yes: parents get a finalizer
            Deletion     of the children by stage; parents get a finalizer
            Ready means  all children are applied and ready
            Resync       90s
            Metrics      none
            Imports      windlass:plugin/host@0.1.0
                         wasi:sockets/tcp@0.2.0
            Unsupported  wasi:sockets/tcp@0.2.0: calling it traps
            Exports      windlass:plugin/reconciler@0.1.0
                         windlass:plugin/admission@0.1.0
            Note         the host does not call admission or conversion yet: only the reconciler is used
        "]]
        .assert_eq(&text(&surface, &descriptor));
        let machine = describe(&surface, &descriptor).to_string();
        assert!(machine.contains(r#""update":"on-delete""#) && !machine.contains("OnDelete"), "{machine}");
    }
}
