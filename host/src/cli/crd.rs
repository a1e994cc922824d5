//! `windlass crd`: prints the Plugin CRD, or the CRD of a component.

use std::process::ExitCode;

use windlass_api as api;
use windlass_core::contract::Parent;

use super::component::{ComponentArgs, ComponentRef, LoadArgs};
use super::output::{Format, print, write};

/// Flags of `windlass crd`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass crd | kubectl apply --server-side -f -
  windlass crd echo.wasm > echo-crd.yaml

--kubeconfig and --context are used only for a component in `configmap/NAMESPACE/NAME`.

Exit codes:
  0  the CRD was printed
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    /// Component whose CRD to print: a file, `oci://REFERENCE`, or `configmap/NAMESPACE/NAME`; default: the
    /// Plugin CRD
    #[arg(value_name = "COMPONENT")]
    component: Option<ComponentRef>,
    #[command(flatten)]
    options: LoadArgs,
}

/// Prints the CRDs.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let Some(component) = args.component else {
        write(&api::crds_yaml()?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let component = ComponentArgs { component, options: args.options }.load()?;
    match &component.descriptor().parent {
        Parent::Custom(definition) => {
            print(&serde_json::from_slice(definition)?, Format::Yaml)?;
            Ok(ExitCode::SUCCESS)
        }
        Parent::Existing { kind, .. } => {
            anyhow::bail!("the component carries no CRD: it reconciles {kind}, which exists already")
        }
    }
}
