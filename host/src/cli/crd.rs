//! `windlass crd`: prints the Plugin CRD, or the CRD of a component.

use std::process::ExitCode;

use windlass_api as api;
use windlass_core::contract::Parent;

use super::component::{ComponentArgs, ComponentRef, RegistryArgs};
use super::connect::ClusterArgs;
use super::output::{Format, print};

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
    cluster: ClusterArgs,
    #[command(flatten)]
    registries: RegistryArgs,
    /// Folder of compiled components; default: `$XDG_CACHE_HOME/windlass/components`, or `~/.cache/windlass/components`
    #[arg(long, env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<std::path::PathBuf>,
}

/// Prints the CRDs.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let Some(component) = args.component else {
        print!("{}", api::crds_yaml()?);
        return Ok(ExitCode::SUCCESS);
    };
    let Args { cluster, registries, cache_dir, .. } = args;
    let component = ComponentArgs { component, cluster, registries, cache_dir }.load()?;
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
