//! Calls a component with the same code as the host, for the commands that need neither a host nor a cluster: `windlass render` and
//! `windlass test`.

use std::collections::{BTreeSet, HashSet};
use std::future::ready;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_core::contract::declared_parent::{DeclaredParent, text};
use windlass_core::contract::desired::{self, Desired, Grant, Grants, ResponseRejection};
use windlass_core::contract::grant::Presence;
use windlass_core::contract::offer::Offer;
use windlass_core::contract::related::{Need, Needs, ReadGrant, ReadGrants, Refusal, Rounds};
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::contract::snapshot::{Served, Snapshot};
use windlass_core::contract::{
    CallFailure, Descriptor, Limits, Namespaces, PluginResult, Request, Requirement, Response,
};
use windlass_core::object::Object;
use windlass_core::object::parent::ParentRef;
use windlass_core::plugin::schema::structural as schema;
use windlass_core::reconcile::outcome::Problem;
use windlass_core::reconcile::rounds::{Ask, respond};
use windlass_core::value::ids::{Gvk, ObjectKey, PluginName};
use windlass_sandbox::{Component, run_here};

use super::fields::{object_of, set};

/// A component, and what is known of it without a cluster.
pub struct Offline {
    /// The component.
    pub component: Arc<Component>,
    /// What is known of it.
    pub described: Described,
}

impl Offline {
    /// Prepares calls of a component.
    ///
    /// # Errors
    /// If the descriptor names no valid parent kind or plugin.
    pub fn new(component: Arc<Component>) -> anyhow::Result<Self> {
        let described = Described::new(component.descriptor().clone())?;
        Ok(Self { component, described })
    }

    /// The same, in a cluster that does not serve these optional kinds.
    ///
    /// # Errors
    /// If the component does not declare one of them as optional.
    pub fn without(self, absent: Vec<Gvk>) -> anyhow::Result<Self> {
        Ok(Self { described: self.described.without(absent)?, ..self })
    }
}

/// What a plugin says of itself, and what follows from that without a cluster.
pub struct Described {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The declared parent kind.
    pub declared: DeclaredParent,
    /// The parent kind.
    pub kind: Arc<Gvk>,
    plugin: PluginName,
    /// Optional kinds that do not exist.
    absent: Vec<Gvk>,
    /// Limits of its calls and responses.
    pub limits: Limits,
}

impl Described {
    /// What follows from a descriptor.
    ///
    /// # Errors
    /// If it names no valid parent kind or plugin.
    pub fn new(descriptor: Descriptor) -> anyhow::Result<Self> {
        let declared = DeclaredParent::of(&descriptor).map_err(anyhow::Error::msg)?;
        let (kind, plugin) = (Arc::new(declared.kind().clone()), descriptor.name.parse()?);
        Ok(Self { descriptor, declared, kind, plugin, absent: Vec::new(), limits: Limits::default() })
    }

    /// The same, in a cluster that does not serve these optional kinds.
    ///
    /// # Errors
    /// If the component does not declare one of them as optional.
    pub fn without(self, absent: Vec<Gvk>) -> anyhow::Result<Self> {
        let optional = &self.descriptor.optional;
        match absent.iter().find(|kind| !optional.contains(kind)) {
            None => Ok(Self { absent, ..self }),
            Some(kind) if optional.is_empty() => bail!("{kind} is not optional: the component has no optional kinds"),
            Some(kind) => {
                let optional: Vec<_> = optional.iter().map(ToString::to_string).collect();
                bail!("{kind} is not optional: the optional kinds of the component are {}", optional.join(", "))
            }
        }
    }

    /// The schema of the parent kind, if the component carries its CRD.
    pub fn schema(&self) -> Option<&Value> {
        self.declared.crd().and_then(|crd| schema::of_definition(crd.json()))
    }

    /// Checks a Plugin's `spec.config` as the host does.
    ///
    /// # Errors
    /// If it does not fit the schema that the component declares; the message has the paths.
    pub fn check_config(&self, config: Option<&[u8]>) -> anyhow::Result<()> {
        windlass_core::plugin::config::check(self.descriptor.config_schema.as_deref(), config)
            .map_err(anyhow::Error::msg)
    }

    /// Whether the parents have a namespace.
    pub fn is_namespaced(&self) -> bool {
        match &self.declared {
            DeclaredParent::Own(crd) => crd.is_namespaced(),
            DeclaredParent::Existing(kind) => !is_cluster_scoped(kind),
        }
    }

    /// A parent, completed with the fields that the API server would have set.
    ///
    /// # Errors
    /// If it is not a stored Kubernetes object.
    pub fn parent(&self, parent: Value) -> anyhow::Result<Object> {
        Ok(Object::from_api(&self.kind, &self.completed(parent).to_string())?)
    }

    /// A parent with the metadata that the API server would have set.
    pub fn completed(&self, mut parent: Value) -> Value {
        let namespace = if self.is_namespaced() { Some("default") } else { None };
        complete(&mut parent, "00000000-0000-0000-0000-000000000000", namespace);
        parent
    }

    /// How children refer to a parent.
    pub fn parent_ref(&self, parent: &Object) -> ParentRef {
        ParentRef::of(&self.plugin, parent, None)
    }

    /// A request at this time, if the component asks for the time.
    pub fn at(&self, time: SystemTime, request: Request) -> Request {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = self.descriptor.clock.then(|| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        Request { now, offer: self.offer(), ..request }
    }

    /// What a component is offered without a cluster: all its optional kinds exist, but for those that a user leaves out.
    fn offer(&self) -> Arc<Offer> {
        let kinds = self.descriptor.optional.iter().filter(|kind| !self.absent.contains(kind));
        Arc::new(Offer { kinds: kinds.cloned().collect(), ..Offer::default() })
    }

    fn presence(&self, kind: &Gvk) -> Presence {
        match (self.absent.contains(kind), self.descriptor.optional.contains(kind)) {
            (true, _) => Presence::Absent,
            (false, true) => Presence::Served,
            (false, false) => Presence::Required,
        }
    }

    /// Calls the plugin until its requirements are final. `call` runs one call, `find` returns the objects that a
    /// requirement selects, and `known` are objects that show whether their kinds are namespaced. Returns the final response.
    ///
    /// # Errors
    /// If a call or the plugin fails, or if the requirements are rejected or never settle.
    pub fn settle(
        &self,
        mut snapshot: Snapshot,
        known: &[Arc<Object>],
        find: impl Fn(&Need) -> Vec<Arc<Object>>,
        call: impl FnMut(&Snapshot) -> Result<PluginResult, CallFailure>,
    ) -> Result<Response, Problem> {
        snapshot.offer = self.offer();
        snapshot.fit(self.limits.request_bytes);
        let parent = snapshot.parent.key.clone();
        let mut asking = Asking { described: self, parent, known, find, call };
        let rounds = Rounds::starting_with(Needs::default());
        let responded = run_here(respond(&mut asking, &mut snapshot, rounds, self.limits.request_bytes));
        responded.map(|(response, _)| response)
    }

    /// Validates a final response as the host does.
    ///
    /// # Errors
    /// The first violation in the response.
    pub fn validate(&self, response: &Response, parent: &ParentRef) -> Result<Desired, ResponseRejection> {
        desired::validate(response, parent, &self.grants(response), &self.limits)
    }

    /// Checks the requirements of a response as the host does. `known`: objects that show whether their kinds are namespaced.
    ///
    /// # Errors
    /// The first requirement that the host refuses.
    pub fn check_requirements(
        &self,
        required: &[Requirement],
        parent: &ObjectKey,
        known: &[Arc<Object>],
    ) -> Result<(), Refusal> {
        self.read_grants(known, required).resolve(required, parent, self.limits.requirements).map(drop)
    }

    /// Read grants without a Plugin and a cluster: every namespace may be read. Whether a kind is namespaced follows
    /// from its given objects; if there are none, from the requirements or the parent.
    fn read_grants(&self, known: &[Arc<Object>], required: &[Requirement]) -> ReadGrants {
        let grants = self.descriptor.related.iter().map(|kind| {
            let mut known = known.iter().filter(|object| *object.kind == *kind).peekable();
            let of_known = || known.clone().filter_map(|object| object.key.namespace.clone()).collect();
            let of_one = |one: &Requirement| match &one.namespaces {
                Namespaces::OfParent => Vec::new(),
                Namespaces::Named(names) => names.iter().map(|name| Arc::from(name.as_str())).collect(),
                Namespaces::All => of_known(),
            };
            let named: BTreeSet<Arc<str>> = required.iter().filter(|one| one.kind == *kind).flat_map(of_one).collect();
            ReadGrant {
                kind: Arc::new(kind.clone()),
                namespaced: match known.peek() {
                    Some(_) => known.any(|object| object.key.namespace.is_some()),
                    None => !is_cluster_scoped(kind) && (self.is_namespaced() || !named.is_empty()),
                },
                namespaces: Some(named.into_iter().collect()),
                presence: self.presence(kind),
            }
        });
        ReadGrants::new(HostNamespace::default(), grants)
    }

    /// Child grants without discovery: children of a namespaced parent are in its namespace; for a cluster-scoped
    /// parent, the children themselves show whether their kind is namespaced.
    fn grants(&self, response: &Response) -> Grants {
        let namespaced = self.is_namespaced();
        let placed: HashSet<Gvk> = response
            .children
            .iter()
            .filter_map(|child| serde_json::from_slice::<Value>(child).ok())
            .filter(|child| child.pointer("/metadata/namespace").is_some_and(Value::is_string))
            .map(|child| gvk_of(&child))
            .collect();
        let grants = self.descriptor.children.iter().map(|rule| Grant {
            kind: Arc::new(rule.kind.clone()),
            namespaced: namespaced || placed.contains(&rule.kind),
            update: rule.update.clone(),
            namespaces: None,
            tokens: false,
            presence: self.presence(&rule.kind),
        });
        // The host's namespace is unknown here.
        Grants::new(HostNamespace::default(), grants)
    }
}

/// The calls for one parent without a host.
struct Asking<'a, F, C> {
    described: &'a Described,
    parent: ObjectKey,
    known: &'a [Arc<Object>],
    find: F,
    call: C,
}

impl<F, C> Ask for Asking<'_, F, C>
where
    F: Fn(&Need) -> Vec<Arc<Object>>,
    C: FnMut(&Snapshot) -> Result<PluginResult, CallFailure>,
{
    fn call(&mut self, snapshot: &Snapshot) -> impl Future<Output = Result<Response, Problem>> + Send {
        let called = (self.call)(snapshot).map_err(Problem::Call);
        ready(called.and_then(|result| result.map_err(Problem::Plugin)))
    }

    fn resolve(&self, required: &[Requirement]) -> Result<Vec<Need>, Refusal> {
        let granted = self.described.read_grants(self.known, required);
        granted.resolve(required, &self.parent, self.described.limits.requirements)
    }

    fn serve(&mut self, needs: &Needs) -> impl Future<Output = Result<Vec<Served>, Problem>> + Send {
        // What comes from a file is an object.
        let part = |need: &Need| (self.find)(need).into_iter().filter_map(|object| need.part_of(object).ok()).collect();
        ready(Ok(Served::of(needs, needs.iter().map(part))))
    }
}

/// Built-in cluster-scoped kinds that plugins may declare: without a cluster there is no discovery.
const CLUSTER_SCOPED: [(&str, &str); 11] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("storage.k8s.io", "StorageClass"),
    ("networking.k8s.io", "IngressClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// Whether the objects of a kind have no namespace, as far as its name tells it.
pub fn is_cluster_scoped(kind: &Gvk) -> bool {
    CLUSTER_SCOPED.contains(&(&*kind.group, &*kind.kind))
}

/// The kind of an object, by its fields `apiVersion` and `kind`.
pub fn gvk_of(object: &Value) -> Gvk {
    Gvk::from_api_version(text(object, "/apiVersion"), text(object, "/kind"))
}

/// A child, completed as if this parent owned it.
///
/// # Errors
/// If it is not a stored Kubernetes object.
pub fn existing_child(mut child: Value, parent: &ParentRef) -> anyhow::Result<Arc<Object>> {
    let kind = Arc::new(gvk_of(&child));
    complete(&mut child, "00000000-0000-0000-0000-000000000001", parent.key.namespace.as_deref());
    set(&mut child, &["metadata", "ownerReferences"], vec![object_of(&parent.owner_reference())]);
    for (label, value) in parent.child_labels() {
        set(&mut child, &["metadata", "labels", label], value);
    }
    Ok(Arc::new(Object::from_api(&kind, &child.to_string())?))
}

/// A related object; `at` makes its UID.
///
/// # Errors
/// If it is not a stored Kubernetes object.
pub fn related_object(at: usize, mut object: Value) -> anyhow::Result<Arc<Object>> {
    let kind = Arc::new(gvk_of(&object));
    complete(&mut object, &format!("00000000-0000-0000-0001-{at:012}"), None);
    Ok(Arc::new(
        Object::from_api(&kind, &object.to_string())
            .with_context(|| format!("related object {} (a document that is no parent is a related object)", at + 1))?,
    ))
}

/// When an object was created that does not say so: the time of the SDKs' test harnesses.
const CREATED: &str = "2026-01-01T00:00:00Z";

/// Adds what the API server would have set: metadata, and the data of a Secret that has it as text.
pub fn complete(object: &mut Value, uid: &str, namespace: Option<&str>) {
    if object["apiVersion"] == "v1" && object["kind"] == "Secret" {
        encode_text(object);
    }
    let Some(meta) =
        object.as_object_mut().and_then(|object| object.entry("metadata").or_insert_with(|| json!({})).as_object_mut())
    else {
        return;
    };
    meta.entry("uid").or_insert_with(|| uid.into());
    meta.entry("resourceVersion").or_insert_with(|| "1".into());
    meta.entry("generation").or_insert_with(|| 1.into());
    meta.entry("creationTimestamp").or_insert_with(|| CREATED.into());
    if let Some(namespace) = namespace {
        meta.entry("namespace").or_insert_with(|| namespace.into());
    }
}

/// Moves `stringData` of a Secret into `data`.
fn encode_text(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|secret| secret.remove("stringData")) else {
        return;
    };
    for (key, text) in texts {
        set(secret, &["data", &key], STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_metadata_that_the_api_server_sets() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let meta = |object: Value| {
            let object = related_object(7, object).expect("an object");
            serde_json::from_slice::<Value>(&object.json.bytes()).expect("JSON")["metadata"].clone()
        };
        let expected = json!({"name": "n", "uid": "00000000-0000-0000-0001-000000000007", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(meta(node.clone()), expected);
        let mut stored = node;
        stored["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        assert_eq!(meta(stored)["creationTimestamp"], "2020-01-01T00:00:00Z");
    }

    #[test]
    fn secret_given_as_text_has_its_data_in_base64() {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new", "c": "ü"},
        });
        complete(&mut secret, "u", None);
        assert_eq!(secret["data"], json!({"a": "bmV3", "b": "Yg==", "c": "w7w="}));
        assert_eq!(secret.get("stringData"), None);
    }
}
