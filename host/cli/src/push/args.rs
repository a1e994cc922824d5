//! The flags of `windlass push`.

use std::path::PathBuf;

use kube::Client;
use serde_json::{Value, json};
use windlass_api::{OciSource, PluginSpec, SecretRef};
use windlass_delivery::Trust;
use windlass_delivery::oci::Reference;

use super::super::applied::WriteArgs;
use super::super::component::ComponentArgs;
use super::super::connect::HostNamespaceArgs;
use super::super::files;
use super::super::output::{DryRun, Objects};
use super::grants::GrantArgs;

/// Flags of `windlass push`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("no_wait", |arg| arg.help("Do not wait until the Plugin is Ready with the component")))]
#[command(after_help = "Examples:
  windlass push echo.wasm --name echo --create-rbac
  windlass push echo.wasm --name echo --dry-run=client > echo.yaml
  kubectl apply --server-side -f echo.yaml
  windlass push echo.wasm --name echo --create-rbac --dry-run=server -o name
  windlass push tenants.wasm --name tenants --create-rbac --grant Role --grant RoleBinding
  windlass push echo.wasm --name echo --oci registry.example/team/echo:1.2 --pull-secret regcred \\
    --create-rbac

Signed, in a registry:
  windlass push echo.wasm --oci registry.example/team/echo:1.2 --artifact-only
  cosign sign --key cosign.key --use-signing-config=false --tlog-upload=false \\
    registry.example/team/echo@sha256:…
  windlass push echo.wasm --name echo --oci registry.example/team/echo:1.2 --public-key cosign.pub

Signed, in a ConfigMap:
  cosign sign-blob --key cosign.key --use-signing-config=false --tlog-upload=false \\
    --bundle echo.sigstore.json echo.wasm
  windlass push echo.wasm --name echo --signature echo.sigstore.json --public-key cosign.pub

--dry-run=client prints the same bytes for the same component and flags, so its output can be kept in a repository. It reads no \
cluster, so it does not know the existing Plugin (set --grant, --public-key and --pull-secret again), the owner of the installed CRD, \
the rules that a rollback needs, and the plurals of custom kinds, which it assumes. --dry-run=server prints what a push to the cluster \
would write. Apply the output with `kubectl apply --server-side`, as push itself does: client-side apply would copy the component into an annotation, which is limited to 256 KiB. The Plugin owns the ConfigMaps, so they are \
deleted with it; `windlass remove` deletes the other objects.

--grant and --grant-all-declared write spec.grants of the Plugin. A list there replaces the default, so it is written as a \
whole, with the kinds that the plugin may use already. Later pushes keep it.

Exit codes:
  0  the component is live and works, and every parent has been reconciled with it (with --no-wait: it was written)
  1  the host rejected the component or blocked its deletions, or waits for another change by a user (the Plugin \
is Stalled)
  2  wrong usage
  3  the command failed; the message says why
  4  the Plugin was not Ready in time; the message says what is missing
  5  a setting of the Plugin keeps the component from working: a rollback, another pinned digest, or spec.suspend; \
takes precedence over 1")]
pub struct Args {
    #[command(flatten)]
    pub(super) component: ComponentArgs,
    /// Name of the Plugin and of its ConfigMap; default: the name that the component declares, if no Plugin has that
    /// name
    #[arg(long)]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) delivery: DeliveryArgs,
    #[command(flatten)]
    pub(super) host: HostNamespaceArgs,
    /// Also create the plugin's ServiceAccount and roles, and the host's role for the plugin's kinds. Review these
    /// objects first with --dry-run=server
    #[arg(long)]
    pub(super) create_rbac: bool,
    #[command(flatten)]
    pub(super) grants: GrantArgs,
    #[command(flatten)]
    pub(super) overwrites: OverwriteArgs,
    #[command(flatten)]
    pub(super) write: WriteArgs,
    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub(super) output: Objects,
}

/// What a push may overwrite.
#[derive(Debug, clap::Args)]
pub(super) struct OverwriteArgs {
    /// Overwrite a Plugin, ConfigMap or role of the same name that `windlass push` did not write
    #[arg(long)]
    pub overwrite: bool,
    /// Replace the installed CustomResourceDefinition even if the component's is narrower: objects lose dropped fields
    /// at their next write
    #[arg(long)]
    pub allow_schema_narrowing: bool,
}

/// How the component is delivered.
#[derive(Debug, clap::Args)]
pub(super) struct DeliveryArgs {
    /// Push the component to a registry instead of a ConfigMap, as in registry.example/team/echo:1.2; uses the
    /// credentials of `docker login`
    #[arg(long, value_name = "REFERENCE")]
    pub oci: Option<Reference>,
    /// Push only the artifact to the registry, so that it can be signed there; write no Plugin
    #[arg(long, requires = "oci")]
    pub artifact_only: bool,
    /// Secret in the host's namespace with the host's credentials for the registry
    #[arg(long, value_name = "SECRET", requires = "oci")]
    pub pull_secret: Option<String>,
    /// Signature of the component, as written by `cosign sign-blob --bundle`
    #[arg(long, value_name = "FILE", conflicts_with = "oci")]
    pub signature: Option<PathBuf>,
    /// Public key in PEM that must have signed the component. May be repeated: a signature by any one of the keys is
    /// enough. Default: the keys of the existing Plugin, which --dry-run=client does not read: without this flag, the Plugin
    /// that it prints has no spec.verify
    #[arg(long, value_name = "FILE")]
    pub public_key: Vec<PathBuf>,
    /// Remove spec.verify: signatures are no longer checked
    #[arg(long, conflicts_with = "public_key")]
    pub no_verify: bool,
}

impl DeliveryArgs {
    /// The text of the signature, if there is one.
    pub fn signature(&self) -> anyhow::Result<Option<String>> {
        self.signature.as_ref().map(|file| files::text("signature", file)).transpose()
    }

    /// The Plugin's `spec.verify`: the keys of the flags, or those of the existing Plugin.
    pub fn verify(&self, existing: Option<&PluginSpec>) -> anyhow::Result<Option<Value>> {
        if self.no_verify {
            return Ok(None);
        }
        if self.public_key.is_empty() {
            let verify = existing.and_then(|spec| spec.verify.as_ref());
            return Ok(verify.map(serde_json::to_value).transpose()?);
        }
        let keys = self.public_key.iter().map(|file| files::text("key", file)).collect::<anyhow::Result<Vec<_>>>()?;
        let named = self.public_key.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let texts = named.iter().zip(&keys).map(|(name, key)| (name.as_str(), key.as_bytes()));
        Trust::of_pem(texts).map_err(anyhow::Error::msg)?;
        let keys: Vec<_> = keys.into_iter().map(|key| json!({"inline": key})).collect();
        Ok(Some(json!({"publicKeys": keys})))
    }

    /// The Plugin's `spec.source` for an artifact. Fields that no flag sets are those of the existing Plugin.
    pub fn oci_source(&self, reference: &Reference, existing: Option<&PluginSpec>) -> OciSource {
        let before = existing.and_then(|spec| spec.source.oci.clone()).unwrap_or_default();
        let given = self.pull_secret.clone().map(|name| SecretRef { name });
        OciSource {
            reference: reference.to_string(),
            pull_secret_ref: given.or(before.pull_secret_ref),
            interval: before.interval,
            ..OciSource::default()
        }
    }
}

impl Args {
    /// A client for the cluster; none if the push must not read it: a dry run of the client needs a cluster only for a component
    /// in a ConfigMap.
    pub(super) async fn client(&self) -> anyhow::Result<Option<Client>> {
        if self.write.dry_run == Some(DryRun::Client) {
            return Ok(None);
        }
        self.component.options.cluster.client().await.map(Some)
    }
}
