//! Lists the live parents and children, and reads the objects that a plugin requires.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{GetParams, ListParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource as _};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OnceCell;
use windlass_api::Plugin;
use windlass_core::contract::related::{Need, Place, Select};
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::object::parent::ParentRef;
use windlass_core::object::selector::{Labels, Selector};
use windlass_core::object::{Object, OwnerKey};
use windlass_core::value::ids::{Gvk, ObjectKey, PluginName, Uid};
use windlass_engine::cluster::in_time;

use super::super::connect::plain;
use super::Args;
use super::cluster::Scope;

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// The parents to preview, and all children of the plugin in the same namespaces.
pub struct Parents {
    /// The parents that the component and its Plugin select.
    pub selected: Vec<Arc<Object>>,
    /// Why other parents are left out.
    pub notes: Vec<String>,
    /// The children.
    pub children: Children,
}

/// Children by their owner.
#[derive(Default)]
pub struct Children {
    by_owner: HashMap<OwnerKey, Vec<Arc<Object>>>,
    /// The Plugins that the children may belong to besides this one: they do not exist any more.
    pub gone: BTreeSet<String>,
}

impl Children {
    /// The objects that may be children of a parent.
    pub fn candidates(&self, parent: &ParentRef) -> Vec<Arc<Object>> {
        let owners = [OwnerKey::Uid(Uid::clone(&parent.uid)), parent.retained_key()];
        owners.iter().filter_map(|owner| self.by_owner.get(owner)).flatten().cloned().collect()
    }

    /// Number of this Plugin's children that none of these parents may have.
    fn without_parent(&self, plugin: &PluginName, parents: impl Iterator<Item = ParentRef>) -> usize {
        let owners = |parent: ParentRef| [parent.retained_key(), OwnerKey::Uid(parent.uid)];
        let known: HashSet<_> = parents.flat_map(owners).collect();
        let unknown = self.by_owner.iter().filter(|(owner, _)| !known.contains(*owner));
        unknown.flat_map(|(_, children)| children).filter(|child| child.plugin() == Some(plugin.as_str())).count()
    }
}

/// Lists the parents that the flags select.
///
/// # Errors
/// If the objects of a kind cannot be listed; the message names the kind.
pub async fn list(args: &Args, scope: &Scope) -> anyhow::Result<Parents> {
    let kind = &scope.offline.described.kind;
    let of_component = &scope.offline.described.descriptor.selector;
    let annotations = of_component.annotations().map(str::parse::<Selector>).transpose()?;
    let of_component = of_component.labels();
    let of_component = of_component.map(|selector| ("the component's selector", selector.to_owned()));
    let of_user = args.selector.clone().map(|selector| ("--selector", selector));
    let selectors: Vec<_> = [of_component, of_user].into_iter().flatten().collect();
    let mut query = ListParams::default();
    if let Some(name) = &args.name {
        // The selectors are compared here, because a message names the one that an existing parent does not match.
        query.field_selector = Some(format!("metadata.name={name}"));
    } else {
        let all: Vec<_> = selectors.iter().map(|(_, selector)| selector.as_str()).collect();
        query.label_selector = Some(all.join(",")).filter(|selectors| !selectors.is_empty());
    }
    let found = objects(&scope.client, (kind, &scope.parents), scope.namespace.as_deref(), query).await?;
    let namespaces = Namespaces::of(scope, &found).await?;
    let (mut selected, mut notes) = (Vec::new(), Vec::new());
    for parent in found {
        let not_matched = if args.name.is_some() { not_matched(&selectors, &parent)? } else { None };
        let is_annotated = |selector: &Selector| parent.with_annotations(|all| selector.matches(all));
        let not_annotated = annotations.as_ref().filter(|selector| !is_annotated(selector));
        let not_annotated =
            not_annotated.map(|selector| format!("its annotations do not match the component's selector {selector}"));
        if args.name.is_none() && not_annotated.is_some() {
            // As objects that the label selector does not select.
            continue;
        }
        match not_matched.or(not_annotated).or_else(|| namespaces.why_left_out(scope, &parent).map(str::to_owned)) {
            Some(why) => notes.push(format!("{} {} is left out: {why}", kind.kind, parent.key)),
            None => selected.push(parent),
        }
    }
    let children = if selected.is_empty() { Children::default() } else { children(scope).await? };
    if args.name.is_none() && args.selector.is_none() {
        let parents = selected.iter().map(|parent| scope.parent_ref(parent));
        let count = children.without_parent(&scope.plugin, parents);
        if count > 0 {
            notes.push(format!(
                "{count} children of Plugin {} have none of these parents, and are not compared: their parents are gone, \
                 or are not selected by the component or the Plugin",
                scope.plugin
            ));
        }
    }
    Ok(Parents { selected, notes, children })
}

/// Why a parent is not selected, by selectors of which each has a name; none if it matches all.
fn not_matched(selectors: &[(&str, String)], parent: &Object) -> anyhow::Result<Option<String>> {
    let bytes = parent.json.bytes();
    let labels = Labels::of(&bytes);
    for (name, text) in selectors {
        let selector = text.parse::<Selector>().with_context(|| (*name).to_owned())?;
        if !selector.matches(&labels) {
            return Ok(Some(format!("its labels do not match {name} {text}")));
        }
    }
    Ok(None)
}

/// The namespaces that the Plugin's `spec.namespaceSelector` selects; none if it is not set.
struct Namespaces(Option<BTreeSet<String>>);

impl Namespaces {
    async fn of(scope: &Scope, parents: &[Arc<Object>]) -> anyhow::Result<Self> {
        let wanted = scope.installed.as_ref().and_then(|plugin| plugin.spec.namespace_selector.clone());
        let Some(wanted) = wanted else { return Ok(Self(None)) };
        let selector: Selector = kube::core::Selector::try_from(wanted)
            .map_err(|error| error.to_string())
            .and_then(|selector| selector.to_string().parse().map_err(|error| format!("{error}")))
            .map_err(|error| anyhow::anyhow!("Plugin {}: spec.namespaceSelector: {error}", scope.plugin))?;
        let api: Api<Namespace> = Api::all(scope.client.clone());
        let mut selected = BTreeSet::new();
        let names: BTreeSet<_> = parents.iter().filter_map(|parent| parent.key.namespace.clone()).collect();
        for name in names {
            let found = api.get_metadata(&name).await.map_err(plain).with_context(|| {
                format!("Namespace {name} cannot be read, whose labels decide whether the Plugin selects it")
            })?;
            if selector.matches(&Labels::of(serde_json::to_string(&found)?.as_bytes())) {
                selected.insert(name.to_string());
            }
        }
        Ok(Self(Some(selected)))
    }

    fn why_left_out(&self, scope: &Scope, parent: &Object) -> Option<&'static str> {
        let namespace = parent.key.namespace.as_deref()?;
        if scope.host_namespace.is(namespace) {
            return Some("it is in the host's namespace, where the host reconciles no parents");
        }
        let is_selected = self.0.as_ref().is_none_or(|selected| selected.contains(namespace));
        (!is_selected).then_some("its namespace is not selected by the Plugin")
    }
}

/// The children of the plugin, and of Plugins that are gone, as the host would re-adopt them.
async fn children(scope: &Scope) -> anyhow::Result<Children> {
    let selector = selector_of_children(scope).await?;
    let mut children = Children::default();
    for (kind, resource) in &scope.children {
        let query = ListParams { label_selector: Some(selector.clone()), ..ListParams::default() };
        for child in objects(&scope.client, (kind, resource), scope.namespace.as_deref(), query).await? {
            if let Some(plugin) = child.plugin().filter(|plugin| *plugin != scope.plugin.as_str()) {
                children.gone.insert(plugin.to_owned());
            }
            if let Some(owner) = child.owner_key() {
                children.by_owner.entry(owner).or_default().push(child);
            }
        }
    }
    Ok(children)
}

/// The label selector of the children. A component that carries the CRD of its parents re-adopts children of Plugins
/// that are gone, if the user may list the Plugins that exist.
async fn selector_of_children(scope: &Scope) -> anyhow::Result<String> {
    let own = format!("{LABEL_PLUGIN}={}", scope.plugin);
    if scope.offline.described.declared.crd().is_none() {
        return Ok(own);
    }
    let plugins = match Api::<Plugin>::all(scope.client.clone()).list_metadata(&ListParams::default()).await {
        Ok(plugins) => plugins,
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(own),
        Err(error) => return Err(plain(error)).context("the Plugins cannot be listed"),
    };
    let names = plugins.items.into_iter().filter_map(|plugin| plugin.metadata.name);
    let others: Vec<_> = names.filter(|name| name != scope.plugin.as_str()).collect();
    Ok(match &*others.join(",") {
        "" => LABEL_PLUGIN.to_owned(),
        others => format!("{LABEL_PLUGIN},{LABEL_PLUGIN} notin ({others})"),
    })
}

/// A page of a list, with the objects as JSON text: numbers must reach the plugin as they are.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Lists the objects of a kind, page by page.
async fn objects(
    client: &Client,
    (kind, resource): (&Arc<Gvk>, &ApiResource),
    namespace: Option<&str>,
    mut query: ListParams,
) -> anyhow::Result<Vec<Arc<Object>>> {
    let what = || match namespace {
        Some(namespace) => format!("{kind} in namespace {namespace} cannot be listed"),
        None => format!("{kind} cannot be listed"),
    };
    query.limit = Some(PAGE);
    let mut found = Vec::new();
    loop {
        let request = kube::core::Request::new(DynamicObject::url_path(resource, namespace)).list(&query)?;
        let text = in_time(client.request_text(request)).await.map_err(plain).with_context(what)?;
        let page: Page = serde_json::from_str(&text).with_context(what)?;
        for item in page.items {
            found.push(Arc::new(Object::from_api(kind, item.get()).with_context(what)?));
        }
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(next) => query.continue_token = Some(next),
            None => return Ok(found),
        }
    }
}

/// Reads one object; none if it does not exist.
///
/// # Errors
/// If it cannot be read.
pub async fn object(
    client: &Client,
    (kind, resource): (&Arc<Gvk>, &ApiResource),
    key: &ObjectKey,
) -> anyhow::Result<Option<Arc<Object>>> {
    let what = || format!("{} {key} cannot be read", kind.kind);
    let url = DynamicObject::url_path(resource, key.namespace.as_deref());
    let request = kube::core::Request::new(url).get(&key.name, &GetParams::default())?;
    match in_time(client.request_text(request)).await {
        Ok(text) => Ok(Some(Arc::new(Object::from_api(kind, &text).with_context(what)?))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(plain(error)).with_context(what),
    }
}

/// The objects that a requirement selects, without its id.
type Question = (Arc<Gvk>, Place, Select, bool);
type Objects = Vec<Arc<Object>>;

/// Reads the objects that the plugin requires, each once: many parents may require the same ones.
#[derive(Default)]
pub struct Related {
    found: Mutex<HashMap<Question, Arc<OnceCell<Objects>>>>,
}

impl Related {
    /// The objects that a requirement selects.
    ///
    /// # Errors
    /// If the user may not read them, or the API server does not respond.
    pub async fn find(&self, scope: &Scope, need: &Need) -> anyhow::Result<Vec<Arc<Object>>> {
        let question = (need.kind.clone(), need.place.clone(), need.select.clone(), need.metadata_only);
        let cell = self.found.lock().entry(question).or_default().clone();
        let found = cell.get_or_try_init(|| read(scope, need)).await?;
        Ok(found.clone())
    }
}

async fn read(scope: &Scope, need: &Need) -> anyhow::Result<Vec<Arc<Object>>> {
    let resource = || {
        let of_kind = scope.reads.resources.get(&*need.kind);
        of_kind.with_context(|| format!("{} is not a kind that the plugin may read", need.kind))
    };
    let (kind, namespace) = (&need.kind, need.place.namespace().map(|namespace| &**namespace));
    let mut found: Vec<_> = match &need.select {
        Select::Name(name) if matches!(need.place, Place::AllBut(_)) => {
            let query = ListParams::default().fields(&format!("metadata.name={name}"));
            objects(&scope.client, (kind, resource()?), None, query).await?
        }
        Select::Name(name) => {
            let key = ObjectKey::new(namespace, name);
            object(&scope.client, (kind, resource()?), &key).await?.into_iter().collect()
        }
        Select::Labels(selector) => {
            let query = ListParams {
                label_selector: Some(selector.to_string()).filter(|selector| !selector.is_empty()),
                ..ListParams::default()
            };
            objects(&scope.client, (kind, resource()?), namespace, query).await?
        }
        Select::Nothing => Vec::new(),
    };
    found.retain(|object| need.selects(object));
    Ok(found.into_iter().map(|object| need.part_of(object)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_core::object::names::LABEL_PARENT_UID;

    use super::*;

    fn object(kind: &str, name: &str, labels: &Value) -> Arc<Object> {
        let metadata =
            json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": labels});
        let kind = Arc::new(Gvk::from_api_version("v1", kind));
        Arc::new(Object::from_api(&kind, &json!({"metadata": metadata}).to_string()).expect("an object"))
    }

    #[test]
    fn selector_that_a_parent_does_not_match_is_named() {
        let parent = object("Echo", "web", &json!({"team": "blue"}));
        let why = |of_component: &str, of_user: &str| {
            let selectors = [("the component's selector", of_component.to_owned()), ("--selector", of_user.to_owned())];
            not_matched(&selectors, &parent).expect("valid selectors")
        };
        assert_eq!(why("team", "team=blue"), None);
        assert_eq!(why("team", "team=red").as_deref(), Some("its labels do not match --selector team=red"));
        assert_eq!(why("a=b", "").as_deref(), Some("its labels do not match the component's selector a=b"));
    }

    #[test]
    fn children_of_other_parents_are_counted_and_those_of_other_plugins_are_not() {
        let plugin: PluginName = "echo".parse().expect("a name");
        let mut children = Children::default();
        for (parent, plugin, name) in [("web", "echo", "a"), ("old", "echo", "b"), ("old", "gone", "c")] {
            let labels = json!({LABEL_PLUGIN: plugin, LABEL_PARENT_UID: parent});
            let child = object("Pod", name, &labels);
            children.by_owner.entry(child.owner_key().expect("a label")).or_default().push(child);
        }
        let parent = ParentRef::of(&plugin, &object("Echo", "web", &json!({})), None);
        assert_eq!(children.without_parent(&plugin, [parent].into_iter()), 1);
        assert_eq!(children.without_parent(&plugin, [].into_iter()), 2);
    }
}
