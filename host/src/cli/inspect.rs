//! `windlass inspect`: what a component is, without running it on anything.

use std::process::ExitCode;

use serde_json::{Value, json};
use windlass_core::contract::{Descriptor, Parent};
use windlass_sandbox::Component;

use super::component::ComponentArgs;
use super::output::{Format, print};

/// Flags of `windlass inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass inspect echo.wasm
  windlass inspect configmap/windlass-system/echo -o json")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
}

/// Prints it.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    print(&describe(&*args.component.load()?), args.output)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(component: &Component) -> Value {
    let surface = component.surface();
    json!({
        "digest": surface.digest.to_string(),
        "size": surface.size,
        "contract": surface.contract,
        "descriptor": descriptor(component.descriptor()),
        "imports": surface.imports,
        "unknownImports": surface.unknown_imports,
        "exports": surface.exports,
    })
}

fn descriptor(descriptor: &Descriptor) -> Value {
    let parent = match &descriptor.parent {
        Parent::Custom(definition) => {
            let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
            json!({"customResourceDefinition": definition.pointer("/metadata/name")})
        }
        Parent::Existing { kind, selector } => json!({"existing": kind.to_string(), "selector": selector}),
    };
    let children: Vec<_> = descriptor
        .children
        .iter()
        .map(|rule| json!({"kind": rule.kind.to_string(), "update": format!("{:?}", rule.update)}))
        .collect();
    json!({
        "name": descriptor.name,
        "version": descriptor.version,
        "description": descriptor.description,
        "parent": parent,
        "children": children,
        "related": descriptor.related.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "finalizes": descriptor.finalizes,
        "resyncMs": descriptor.resync,
        "metrics": descriptor.metrics.iter().map(|metric| metric.name.clone()).collect::<Vec<_>>(),
    })
}
