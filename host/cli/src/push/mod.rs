//! `windlass push`: writes a component to a ConfigMap (or a head and its parts) or a registry, with its Plugin and,
//! optionally, its permissions.

mod args;
mod grants;
mod kept;
mod objects;
mod permissions;
mod progress;
mod roles;
mod safety;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_api::PluginStatus;
use windlass_core::contract::declared_parent::{DeclaredParent, text};
use windlass_core::contract::grant::may_be_parent;
use windlass_core::object::names::ANNOTATION_PUSHED_AT;
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_delivery::oci::{self, Http, NewArtifact, Reference, Registry, Version};
use windlass_engine::cluster::account::plugin_account;

pub use self::args::Args;
pub use self::grants::{Declared, GrantArgs};
pub use self::objects::{PluginFields, plugin_object};
use self::objects::{Pushed, own_by, split};
pub use self::permissions::check_parent;
pub use self::progress::{Progress, Push, wait};
pub use self::roles::Granted;
pub use self::safety::{check_schema, mark};
use super::applied::{self, Target, target};
use super::component::{Candidate, credentials_of_user};
use super::deleted::delete;
use super::output::print_objects;
use super::pushed::{FIELD_MANAGER, parts, reason_to_keep};
use super::{BLOCKED_BY_SETTING, INPUT_REJECTED, TIMED_OUT};

/// The objects that a push writes.
struct Manifests {
    plugin: Value,
    /// Permissions, and the ConfigMaps with the component.
    objects: Vec<Value>,
    /// The uid of the Plugin, if it exists.
    existing_uid: Option<String>,
}

/// One push of a component.
struct Delivery<'a> {
    args: &'a Args,
    candidate: Candidate,
    pushed: Pushed,
}

/// Writes the component and its Plugin, and waits until the Plugin is Ready.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let delivery = Delivery::new(args)?;
    super::block_on(async {
        if let Some(reference) = args.delivery.oci.as_ref().filter(|_| args.delivery.artifact_only) {
            // Where a component is built and signed, there may be no cluster.
            if args.write.dry_run.is_none() {
                delivery.push_artifact(reference).await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut manifests = delivery.manifests().await?;
        if let Some(client) = args.client().await? {
            delivery.check(&client, &manifests).await?;
        }
        if args.write.dry_run.is_some() {
            manifests.objects.push(manifests.plugin);
            print_objects(&manifests.objects, args.output)?;
            return Ok(ExitCode::SUCCESS);
        }
        delivery.write(manifests).await
    })
}

impl<'a> Delivery<'a> {
    fn new(args: &'a Args) -> anyhow::Result<Self> {
        let bytes = args.component.bytes()?;
        let component = args.component.load_of(&bytes)?;
        let candidate = Candidate::new(bytes, component, args.name.as_deref())?;
        let Candidate { bytes, component, name, .. } = &candidate;
        let pushed = match &args.delivery.oci {
            Some(Reference { version: Version::Digest(_), .. }) => {
                bail!("--oci takes a tag: the digest is the component's, and is printed")
            }
            Some(_) => Pushed { digest: component.digest(), parts: Vec::new(), objects: Vec::new() },
            None => split(name.as_str(), &args.host.host_namespace, bytes, args.delivery.signature()?.as_deref())?,
        };
        Ok(Self { args, candidate, pushed })
    }

    /// The objects to write, after all checks that need no write: of the existing Plugin, its CRD and its parent kind.
    async fn manifests(&self) -> anyhow::Result<Manifests> {
        let Self { args, candidate, pushed } = self;
        let Candidate { component, declared, name, .. } = candidate;
        let client = args.client().await?;
        let client = client.as_ref();
        // A push keeps the fields that it does not set.
        let existing = if let Some(client) = client { applied::plugin(client, name).await? } else { None };
        if let Some(plugin) = &existing {
            safety::check_plugin(plugin, args.name.is_some(), args.overwrites.overwrite)?;
            if args.delivery.no_verify {
                safety::check_no_verify(plugin)?;
            }
        }
        if let (Some(carried), Some(client)) = (declared.crd(), client) {
            safety::check_functions(client, carried).await?;
            check_schema(client, name, carried, args.overwrites.allow_schema_narrowing).await?;
        }
        let existing_uid = existing.as_ref().and_then(|plugin| plugin.metadata.uid.clone());
        let status = existing.as_ref().and_then(|plugin| plugin.status.clone()).unwrap_or_default();
        check_kind(name, &status, declared)?;
        let kinds = Declared::of(declared, component.descriptor());
        let grants = kinds.pushed(&args.grants, existing.as_ref())?;
        if args.create_rbac || client.is_some() {
            check_parent(client, kinds, &grants.whole).await?;
        }
        let spec = existing.as_ref().map(|plugin| &plugin.spec);
        let verify = args.delivery.verify(spec)?;
        let oci = args.delivery.oci.as_ref().map(|reference| args.delivery.oci_source(reference, spec));
        // The account that the existing Plugin names, or the plugin's default account.
        let account = spec.and_then(|spec| spec.service_account_name.clone());
        let account = account.unwrap_or_else(|| plugin_account(name.as_str()));
        let mut objects: Vec<Value> = pushed.objects.clone();
        if args.create_rbac {
            let granted = Granted {
                candidate,
                namespace: &args.host.host_namespace,
                account: &account,
                pull_secret: oci.as_ref().and_then(|oci| Some(&*oci.pull_secret_ref.as_ref()?.name)),
                grants: &grants.whole,
                existing: existing.as_ref(),
            };
            let (roles, notes) = granted.objects(client).await?;
            for note in notes {
                err!("{note}");
            }
            objects.extend(roles);
        }
        objects.iter_mut().for_each(mark);
        let source = match oci {
            Some(oci) => json!({"oci": oci}),
            None => json!({"configMap": {"namespace": args.host.host_namespace, "name": name.as_str()}}),
        };
        let may_narrow = args.overwrites.allow_schema_narrowing.then_some(pushed.digest);
        let grants = grants.written;
        let fields = PluginFields { name: name.as_str(), account: &account, source, verify, may_narrow, grants };
        let mut plugin = plugin_object(fields);
        mark(&mut plugin);
        Ok(Manifests { plugin, objects, existing_uid })
    }

    /// Checks that everything can be written: no object has another owner, the user has the permissions, and the API server
    /// accepts the Plugin and the permissions.
    async fn check(&self, client: &Client, Manifests { plugin, objects, .. }: &Manifests) -> anyhow::Result<()> {
        let mut others = Vec::new();
        for object in objects {
            others.push(target(client, object).await?);
        }
        if !self.args.overwrites.overwrite {
            safety::check_targets(&self.candidate.name, &others).await?;
        }
        apply(&target(client, plugin).await?, true).await?;
        for (other, object) in others.iter().zip(objects) {
            let kind = text(object, "/kind");
            if kind.ends_with("Binding") || kind == "ConfigMap" {
                // A binding is only accepted with its role, which may not exist yet; and ConfigMaps are large.
                safety::check_permission(client, other).await?;
            } else {
                apply(other, true).await?;
            }
        }
        Ok(())
    }

    /// Writes all objects, and waits until the Plugin is Ready.
    async fn write(&self, Manifests { plugin, objects, existing_uid }: Manifests) -> anyhow::Result<ExitCode> {
        let Self { args, candidate: Candidate { name, bytes, .. }, pushed } = self;
        let client = args.component.options.cluster.client().await?;
        let at = format!("{:.3}", jiff::Timestamp::now());
        let is_map = |object: &Value| text(object, "/kind") == "ConfigMap";
        let (maps, permissions): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_map);
        // Permissions are written first: a host that finds the component needs them, and if they cannot be written, no
        // component must be delivered.
        for permission in permissions {
            apply(&target(&client, &permission).await?, false).await?;
        }
        // A host that follows the tag loads the component as soon as the tag points to it.
        if let Some(reference) = &args.delivery.oci {
            self.push_artifact(reference).await?;
        }
        // A new Plugin is written before its ConfigMaps, which it owns, and every Plugin after them: then the host finds all
        // objects. The last write sets the time as an annotation, which makes the host reconcile the Plugin at once.
        let mut written = target(&client, &plugin).await?;
        let uid = if let Some(uid) = existing_uid { uid } else { apply(&written, false).await? };
        written.1.metadata.annotations = Some(BTreeMap::from([(ANNOTATION_PUSHED_AT.to_owned(), at.clone())]));
        for map in maps {
            apply(&target(&client, &own_by(map, &plugin, &uid)).await?, false).await?;
        }
        apply(&written, false).await?;
        out!("pushed {} ({} bytes) as Plugin {name}", pushed.digest, bytes.len());
        if args.write.no_wait {
            return Ok(ExitCode::SUCCESS);
        }
        let digest = pushed.digest.to_string();
        let push = Push { name, digest: &digest, at: &at, namespace: &args.host.host_namespace };
        let code = follow(&client, push, args.write.timeout).await?;
        if code == ExitCode::SUCCESS {
            remove_old_parts(&client, args, name, pushed).await?;
        }
        Ok(code)
    }

    /// Pushes the component to the registry.
    async fn push_artifact(&self, reference: &Reference) -> anyhow::Result<()> {
        let Self { args, candidate: Candidate { bytes, component, .. }, .. } = self;
        let (descriptor, surface) = (component.descriptor(), component.surface());
        let new = NewArtifact {
            bytes: bytes.clone(),
            imports: &surface.imports,
            exports: &surface.exports,
            annotations: BTreeMap::from([
                ("org.opencontainers.image.title", descriptor.name.as_str()),
                ("org.opencontainers.image.version", &descriptor.version),
            ]),
        };
        let credentials = credentials_of_user(reference)?;
        let plain_http = &args.component.options.registries.plain_http;
        let context = || format!("the component was not pushed to {reference}");
        let registry =
            Registry::new(&Http::default(), reference.clone(), credentials, plain_http).with_context(context)?;
        let manifest = oci::push(&registry, new).await.with_context(context)?;
        out!("pushed {} ({} bytes) to {}", component.digest(), bytes.len(), reference.at(manifest));
        Ok(())
    }
}

/// Waits for the outcome of the push; prints it and returns the exit code.
async fn follow(client: &Client, push: Push<'_>, timeout: Duration) -> anyhow::Result<ExitCode> {
    let Push { name, digest, .. } = push;
    match wait(client, push, timeout).await? {
        Progress::Ready => {
            out!("Plugin {name}: Ready with {digest}");
            if let Some(note) = progress::failing(client, name).await? {
                err!("{note}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Progress::Rejected(message) => {
            err!("error: Plugin {name} is not Ready with {digest}: {message}");
            Ok(ExitCode::from(INPUT_REJECTED))
        }
        Progress::BlockedBySetting(message) => {
            err!("error: {message}");
            Ok(ExitCode::from(BLOCKED_BY_SETTING))
        }
        Progress::Gone => bail!("Plugin {name} was deleted"),
        Progress::Unseen => {
            let why = push.unseen(client).await;
            err!("error: Plugin {name} was not Ready with {digest} within {} s: {why}", timeout.as_secs());
            Ok(ExitCode::from(TIMED_OUT))
        }
        Progress::Waiting(missing) => {
            err!("error: Plugin {name} was not Ready with {digest} within {} s:", timeout.as_secs());
            for line in missing {
                err!("  {line}");
            }
            Ok(ExitCode::from(TIMED_OUT))
        }
    }
}

/// Checks that the component's parent kind is allowed, and is the one that the Plugin has. The host would reject such a
/// component, but the push would already have written its roles.
fn check_kind(name: &PluginName, status: &PluginStatus, declared: &DeclaredParent) -> anyhow::Result<()> {
    let kind = declared.kind();
    if declared.crd().is_none() && !may_be_parent(kind) {
        bail!("the component is for {kind}, which is Windlass' own: no plugin may reconcile it; nothing was written");
    }
    let wanted = kind.group_kind();
    let has_parents = status.parents.is_some_and(|parents| parents > 0);
    let before = status.parent_kind.as_deref().and_then(|kind| kind.parse::<Gvk>().ok());
    match before.filter(|before| has_parents && before.group_kind() != wanted) {
        Some(before) => bail!(
            "Plugin {name} has parents of {before}, and the component is for {}; nothing was written. \
             Push it as another Plugin (--name)",
            wanted.kind
        ),
        None => Ok(()),
    }
}

/// Applies an object as a push does, or tries to as a dry run; returns its uid.
pub async fn apply(target: &Target, dry_run: bool) -> anyhow::Result<String> {
    applied::apply(target, PatchParams { dry_run, ..PatchParams::apply(FIELD_MANAGER).force() }).await
}

/// Deletes the parts of earlier components, which the head no longer names. Parts that other managers wrote as well are
/// kept.
async fn remove_old_parts(client: &Client, args: &Args, name: &PluginName, pushed: &Pushed) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &args.host.host_namespace);
    for part in parts(&api, name).await.context("old parts could not be listed")? {
        let kept = reason_to_keep(name, &part);
        let uid = part.uid;
        let Some(part) = part.name.filter(|part| !pushed.parts.contains(part)) else { continue };
        if let Some(reason) = kept {
            err!(
                "note: ConfigMap {}/{part} is labelled as an old part of Plugin {name} and was left: {reason}",
                args.host.host_namespace
            );
            continue;
        }
        delete(&api, &part, uid, DeleteParams::default()).await.with_context(|| format!("old part {part}"))?;
    }
    Ok(())
}
