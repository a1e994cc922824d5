//! What a diff knows before it reads a parent: the installed Plugin, the kinds as the cluster serves them, and the
//! grants.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use kube::discovery::Scope as KindScope;
use kube::{Api, Client};
use serde_json::Value;
use windlass_api::Plugin;
use windlass_core::contract::Limits;
use windlass_core::contract::declared_parent::{CarriedCrd, storage_of, text};
use windlass_core::contract::desired::Grants;
use windlass_core::contract::grant::SpecGrants;
use windlass_core::contract::offer::Offer;
use windlass_core::contract::related::ReadGrants;
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::object::Object;
use windlass_core::object::mark::MarkKey;
use windlass_core::object::observed_status::StatusShape;
use windlass_core::object::parent::ParentRef;
use windlass_core::plugin::schema::structural as schema;
use windlass_core::reconcile::next_step::CleanUp;
use windlass_core::reconcile::terms::{Settings, StatusWriter, Terms};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_engine::cluster::discovery::{Discovery, is_missing};
use windlass_engine::cluster::secret_key::{SecretKey, SecretKeyError};
use windlass_engine::live::GrantedReads;
use windlass_engine::plugins::caps::Caps;
use windlass_engine::plugins::rbac::MARK_KEY_SECRET;
use windlass_engine::plugins::{config_of, resolve_grants, resolve_reads, settings_of, status_shape};
use windlass_sandbox::Component;

use super::super::connect::plain;
use super::super::manifests::config;
use super::super::offline::Offline;
use super::super::push::Declared;
use super::Args;

/// The component in its cluster.
pub struct Scope {
    /// The client of the user.
    pub client: Client,
    /// The component, with the grants of the cluster.
    pub offline: Offline,
    /// The Plugin's name.
    pub plugin: PluginName,
    /// The installed Plugin, if there is one.
    pub installed: Option<Plugin>,
    /// The parent kind as the cluster serves it.
    pub parents: ApiResource,
    /// Namespace of the parents; none for all namespaces, and for cluster-scoped parents.
    pub namespace: Option<String>,
    /// The granted kinds of children.
    pub children: Vec<(Arc<Gvk>, ApiResource)>,
    /// The granted kinds of related objects.
    pub reads: GrantedReads,
    /// On which terms the host would reconcile the parents.
    pub terms: Terms,
    /// Whether the component or its config is not the live one.
    pub is_new: bool,
    /// The host's namespace.
    pub host_namespace: HostNamespace,
    /// Why the host would not reconcile the parents, if the Plugin does not grant their kind.
    pub ungranted: Option<String>,
}

impl Scope {
    /// Looks up the Plugin and the kinds of a component.
    ///
    /// # Errors
    /// If a kind is not served in the component's version, or something cannot be read; the message says what to do.
    pub async fn find(args: &Args, component: Arc<Component>) -> anyhow::Result<Self> {
        let client = args.component.options.cluster.client().await?;
        let digest = component.digest();
        let offline = Offline::new(component)?;
        let plugin = match &args.plugin {
            Some(name) => name.clone(),
            None => offline.described.descriptor.name.parse()?,
        };
        let installed = installed(&client, &plugin).await?;
        let settings = installed.as_ref().map(|plugin| settings_of(plugin, &offline.described.descriptor));
        let settings = settings.transpose().map_err(|problem| anyhow::anyhow!("Plugin {plugin}: {problem}"))?;
        let live_config = installed.as_ref().map(config_of).transpose()?.flatten();
        let config = config(args.config.as_deref())?.or_else(|| live_config.clone());
        offline.described.check_config(config.as_deref())?;
        let live_digest = installed.as_ref().and_then(|plugin| plugin.status.as_ref()?.active_digest.clone());
        let is_new = live_digest != Some(digest.to_string()) || config != live_config;

        let discovery = Discovery::new(client.clone());
        let (parents, scope) = parent_kind(&discovery, &offline).await?;
        let shape = match offline.described.declared.crd() {
            Some(carried) => shape_of(&client, carried).await?,
            None => StatusShape::NONE,
        };
        let is_namespaced = scope == KindScope::Namespaced;
        let host_namespace = HostNamespace::new(&args.host.host_namespace);
        let spec_grants = installed.as_ref().map(|plugin| plugin.spec.grants.spec_grants()).unwrap_or_default();
        let descriptor = &offline.described.descriptor;
        let ungranted = ungranted(&offline, &spec_grants, is_namespaced);
        let granted = resolve_grants(&discovery, descriptor, &spec_grants, is_namespaced, &host_namespace).await;
        let granted = granted.map_err(|problem| anyhow::anyhow!(problem.message))?;
        let reads = resolve_reads(&discovery, descriptor, &spec_grants, &host_namespace).await;
        let reads = reads.map_err(|problem| anyhow::anyhow!(problem.message))?;
        let limits = installed.as_ref().map(limits_of).transpose()?.unwrap_or_else(|| offline.described.limits.clone());
        let mark_key = if is_namespaced { None } else { mark_key(&client, &args.host.host_namespace).await? };
        let is_one = is_namespaced && !args.all_namespaces;
        let namespace = if is_one { Some(args.namespace.find(&args.component.options.cluster).await?) } else { None };
        let terms = Terms {
            shape,
            offer: Arc::new(Offer::of(&granted.grants, &reads.grants)),
            grants: granted.grants,
            reads: reads.grants.clone(),
            config,
            limits,
            mark_key,
            ..terms_of(&plugin, (&offline, digest), settings)
        };
        Ok(Self {
            offline,
            client,
            plugin,
            installed,
            parents,
            namespace,
            children: granted.resources,
            reads,
            terms,
            is_new,
            host_namespace,
            ungranted,
        })
    }

    /// How children refer to a parent.
    pub fn parent_ref(&self, parent: &Object) -> ParentRef {
        ParentRef::of(&self.plugin, parent, self.terms.mark_key.as_ref())
    }

    /// A parent with the defaults of the CRD that the component carries, as the host would read it once that CRD is installed, and what does
    /// not fit its schema.
    pub fn with_defaults(&self, stored: &Value) -> (Value, Vec<String>) {
        let mut filled = stored.clone();
        let Some(schema) = self.offline.described.schema() else { return (filled, Vec::new()) };
        schema::fill_in(schema, &mut filled);
        let problems = schema::problems(schema, &filled);
        (filled, problems)
    }

    /// The resource of a granted kind of children.
    pub fn resource_of(&self, kind: &Gvk) -> Option<&ApiResource> {
        let wanted = kind.group_kind();
        self.children.iter().find(|(kind, _)| kind.group_kind() == wanted).map(|(_, resource)| resource)
    }
}

/// The terms of a component as this Plugin. A diff compares no hashes of different terms.
fn terms_of(plugin: &PluginName, (offline, digest): (&Offline, Digest), settings: Option<Settings>) -> Terms {
    let descriptor = &offline.described.descriptor;
    Terms {
        name: plugin.clone(),
        parents: offline.described.kind.clone(),
        owns_kind: offline.described.declared.crd().is_some(),
        status_writer: StatusWriter::Host,
        shape: StatusShape::NONE,
        call_inputs: digest,
        rules: digest,
        version: descriptor.version.clone(),
        clean_up: CleanUp::of(descriptor),
        clock: descriptor.clock,
        offer: Arc::default(),
        ready_means: descriptor.ready_means,
        grants: Grants::default(),
        reads: ReadGrants::default(),
        config: None,
        limits: Limits::default(),
        mark_key: None,
        settings: Settings { resync: Duration::MAX, ..settings.unwrap_or_default() },
    }
}

/// A note if the Plugin does not grant the existing kind of the parents.
fn ungranted(offline: &Offline, grants: &SpecGrants, namespaced: bool) -> Option<String> {
    let kinds = Declared::of(&offline.described.declared, &offline.described.descriptor);
    let (what, flag) = kinds.ungranted_parent(grants, namespaced)?;
    Some(format!(
        "the host changes nothing, because {what}. If you trust the component with that, push it with --grant {flag}"
    ))
}

/// The limits of a Plugin, as in the host: whoever may change a Plugin decides neither about the host nor about this machine.
fn limits_of(plugin: &Plugin) -> anyhow::Result<Limits> {
    let limits = plugin.spec.limits.resolve();
    let limits = limits.map_err(|problem| {
        anyhow::anyhow!("Plugin {}: {problem}", plugin.metadata.name.as_deref().unwrap_or_default())
    })?;
    Ok(Caps::without_flags()?.clamp(&limits).0)
}

/// The Plugin, if it exists.
async fn installed(client: &Client, name: &PluginName) -> anyhow::Result<Option<Plugin>> {
    let found = Api::<Plugin>::all(client.clone()).get_opt(name.as_str()).await;
    found.map_err(plain).with_context(|| {
        format!("Plugin {name} cannot be read, whose config, grants and limits decide; get permission to read it")
    })
}

/// The parent kind in the component's version.
async fn parent_kind(discovery: &Discovery, offline: &Offline) -> anyhow::Result<(ApiResource, KindScope)> {
    let kind = &offline.described.kind;
    match discovery.find(kind).await {
        Ok((resource, capabilities)) => return Ok((resource, capabilities.scope)),
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(plain(error)).with_context(|| format!("{kind} could not be looked up")),
    }
    let other = discovery.find_any_version(kind).await.map_err(plain);
    match (other.with_context(|| format!("{kind} could not be looked up"))?, offline.described.declared.crd()) {
        (Some((ApiResource { api_version, .. }, _)), _) => bail!(
            "the cluster serves {} as {api_version}, but the component is written for {kind}; compare with a component for \
             {api_version}",
            kind.kind
        ),
        (None, Some(carried)) => bail!(
            "CustomResourceDefinition {} is not installed, so there are no parents; install it with `windlass push`, or \
             with `windlass crd COMPONENT | kubectl apply --server-side -f -`",
            carried.name()
        ),
        (None, None) => bail!(
            "the cluster does not serve {kind}, which the component reconciles; install the operator or the CRD that \
             defines it"
        ),
    }
}

/// The status fields of the parents, after a check that the kind is stored in the component's version.
async fn shape_of(client: &Client, carried: &CarriedCrd) -> anyhow::Result<StatusShape> {
    let of_carried = || storage_of(carried.json()).map_or(StatusShape::NONE, status_shape);
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = match crds.get_opt(carried.name()).await {
        Ok(found) => found,
        // A user who may read the objects may not be permitted to read their CRD.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(of_carried()),
        Err(error) => return Err(plain(error)).with_context(|| format!("CustomResourceDefinition {}", carried.name())),
    };
    let Some(found) = found.map(serde_json::to_value).transpose()? else { return Ok(of_carried()) };
    let Some(stored) = storage_of(&found) else { return Ok(of_carried()) };
    ensure!(
        text(stored, "/name") == &*carried.kind().version,
        "{} is stored as {}, but the component is written for {:?}; the host would reject the component",
        carried.name(),
        text(stored, "/name"),
        carried.kind().version
    );
    Ok(status_shape(stored))
}

/// The key of the marks on children of cluster-scoped parents; none if no host has created one, so that there are no
/// such children.
async fn mark_key(client: &Client, namespace: &str) -> anyhow::Result<Option<MarkKey>> {
    let key = SecretKey::new(client.clone(), namespace, MARK_KEY_SECRET).read().await;
    let key = key.map_err(|error| match error {
        SecretKeyError::Api { error, .. } => anyhow::anyhow!(error),
        other => other.into(),
    });
    let key = key.with_context(|| {
        format!(
            "the parents are cluster-scoped, and their children carry marks by the key in Secret {MARK_KEY_SECRET} of \
             namespace {namespace}, which cannot be read; run the command as a user who may get it"
        )
    })?;
    Ok(key.map(MarkKey::new))
}
