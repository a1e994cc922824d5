//! The question, typed.

use std::{collections::BTreeMap, marker::PhantomData};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Condition, ConditionStatus, Failure, Kind, Phase, Reconciler,
    failure::{explained, reason},
    json, raw,
};

/// Everything that an answer may depend on.
#[derive(Debug)]
pub struct Request<R: Reconciler> {
    /// Why the plugin is called.
    pub phase: Phase,
    /// The parent's metadata.
    pub metadata: Metadata,
    /// The parent's spec.
    pub spec: R::Spec,
    raw: raw::Request,
}

/// What a plugin needs of an object's `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// `metadata.name`.
    pub name: String,
    /// Absent for a cluster-scoped object.
    pub namespace: Option<String>,
    /// Unlike any other object's, also of the same name later.
    pub uid: String,
    /// Moves with each change of the spec.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// RFC 3339.
    pub creation_timestamp: Option<String>,
    /// RFC 3339; present while the object is being deleted.
    pub deletion_timestamp: Option<String>,
}

/// Parts of an object, each read alone: what nobody asks for is skipped.
#[derive(Deserialize)]
pub(crate) struct WithMetadata {
    #[serde(default)]
    pub(crate) metadata: Metadata,
}

#[derive(Deserialize)]
struct WithSpec<S> {
    spec: Option<S>,
}

#[derive(Deserialize)]
struct WithStatus<S> {
    status: Option<S>,
}

impl<R: Reconciler> Request<R> {
    pub(crate) fn parse(raw: raw::Request) -> Result<Self, Failure> {
        let WithMetadata { metadata } =
            serde_json::from_slice(&raw.parent).map_err(|error| Failure::failed(format!("the parent: {error}")))?;
        let WithSpec { spec } = explained(&raw.parent, "").map_err(Failure::invalid)?;
        // A parent without spec is one whose fields all have defaults, or a built-in kind that has none.
        let spec = spec.map_or_else(|| explained(b"{}", "spec").map_err(Failure::invalid), Ok)?;
        Ok(Self { phase: raw.phase, metadata, spec, raw })
    }

    /// The parent's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The parent's namespace; empty for a cluster-scoped parent.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Whether the parent is cleaned up in a namespace that is being deleted. No child can be created there any more, and
    /// the host removes the finalizer after 30 seconds: a plugin that wants a Job to clean up must do without.
    pub fn is_namespace_terminating(&self) -> bool {
        self.raw.extensions.iter().any(|(name, _)| name == "namespace-terminating")
    }

    /// The parent's uid.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The parent's status as last written; `None` when there is none or it is of another shape (an older version's).
    pub fn status<S: DeserializeOwned>(&self) -> Option<S> {
        let WithStatus { status } = serde_json::from_slice(&self.raw.parent).ok()?;
        status
    }

    /// Whether all that an answer about this generation of the spec wanted has been applied: the host says so in
    /// `status.observedGeneration` and the condition `Stalled`. Until then what is observed was made of the spec before,
    /// however complete it looks, and is no reason to call the parent ready. Never true of a kind whose status does not keep
    /// these, as those that are built in.
    pub fn is_applied(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Seen {
            observed_generation: i64,
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        self.status::<Seen>().is_some_and(|seen| {
            let is_stalled =
                |condition: &Condition| condition.type_ == "Stalled" && condition.status == ConditionStatus::True;
            seen.observed_generation >= self.metadata.generation && !seen.conditions.iter().any(is_stalled)
        })
    }

    /// The whole parent, for kinds that keep things outside `spec`.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, when it is not a `T`.
    pub fn parent<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        explained(&self.raw.parent, "").map_err(Failure::invalid)
    }

    /// The Plugin's `spec.config`; without one, as if it were `{}`.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the field: the parent's user cannot mend it.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Failure> {
        let config = self.raw.config.as_deref().unwrap_or(b"{}");
        explained(config, "the Plugin's spec.config").map_err(Failure::failed)
    }

    /// The children of one kind that this parent owns, ordered by namespace and name. Those being deleted are among
    /// them.
    pub fn children_of<K: Kind>(&self) -> impl Iterator<Item = Object<'_, K>> {
        of_kind(&self.raw.children)
    }

    /// The child of this kind and name in the parent's namespace; of a cluster-scoped parent, the one without a namespace.
    pub fn child<K: Kind>(&self, name: &str) -> Option<Object<'_, K>> {
        self.child_in(self.namespace(), name)
    }

    /// The child of this kind and name in a namespace. Children of a cluster-scoped parent may have the same name in several.
    pub fn child_in<K: Kind>(&self, namespace: &str, name: &str) -> Option<Object<'_, K>> {
        self.children_of().find(|child| child.namespace() == namespace && child.name() == name)
    }

    /// What the requirement of this id found; `None` while it was not served yet. Answer then without what depends on
    /// it, but with the requirement: the host looks and calls again at once.
    pub fn related<K: Kind>(&self, id: &str) -> Option<impl Iterator<Item = Object<'_, K>>> {
        let related = self.raw.related.iter().find(|related| related.id == id)?;
        Some(of_kind(&related.objects))
    }

    /// What the contract carries, untyped.
    pub fn raw(&self) -> &raw::Request {
        &self.raw
    }
}

fn of_kind<K: Kind>(objects: &[raw::Observed]) -> impl Iterator<Item = Object<'_, K>> {
    objects
        .iter()
        .filter(|object| object.kind.name == K::KIND && object.kind.api_version == K::API_VERSION)
        .map(Object::new)
}

/// An object that exists: a child, or something related.
#[derive(Debug)]
pub struct Object<'a, K> {
    observed: &'a raw::Observed,
    kind: PhantomData<K>,
}

impl<'a, K: Kind> Object<'a, K> {
    pub(crate) fn new(observed: &'a raw::Observed) -> Self {
        Self { observed, kind: PhantomData }
    }

    /// `metadata.name`.
    pub fn name(&self) -> &'a str {
        &self.observed.name
    }

    /// Empty for a cluster-scoped object.
    pub fn namespace(&self) -> &'a str {
        self.observed.namespace.as_deref().unwrap_or_default()
    }

    /// The object as JSON, as the API server sent it.
    pub fn json(&self) -> &'a [u8] {
        &self.observed.object
    }

    /// The object as a `K`: a type of your own that takes what it needs, or k8s-openapi's.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the object, when it is not a `K`.
    pub fn read(&self) -> Result<K, Failure>
    where
        K: Deserialize<'a>,
    {
        self.read_as()
    }

    /// The object as any type, for kinds that are only names ([`kinds`](crate::kinds)).
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the object, when it is not a `T`.
    pub fn read_as<T: Deserialize<'a>>(&self) -> Result<T, Failure> {
        serde_json::from_slice(self.json())
            .map_err(|error| Failure::failed(format!("{} {}: {}", K::KIND, self.name(), reason(&error))))
    }

    /// The value at a JSON pointer (RFC 6901), as a `T`. None if the object has no such value, or if it is not a `T`. Only the
    /// value is parsed, not the whole object.
    ///
    /// ```
    /// # use windlass_plugin::{Quantity, Object, kinds::{Deployment, Pod}};
    /// # fn example(pod: Object<'_, Pod>, deployment: Object<'_, Deployment>) {
    /// let image: Option<String> = pod.get("/spec/containers/0/image");
    /// let cpu = pod.get::<Quantity>("/spec/containers/0/resources/limits/cpu");
    /// // In a name, `/` is written `~1` and `~` is written `~0`.
    /// let revision = deployment.get::<String>("/metadata/annotations/deployment.kubernetes.io~1revision");
    /// # }
    /// ```
    pub fn get<T: Deserialize<'a>>(&self, pointer: &str) -> Option<T> {
        serde_json::from_slice(json::at(self.json(), pointer)?).ok()
    }

    /// The value at a JSON pointer, as [`get`](Self::get); null if the object has no such value.
    ///
    /// ```
    /// # use windlass_plugin::{Object, kinds::Pod};
    /// # fn example(pod: Object<'_, Pod>) -> bool {
    /// pod.at("/spec/containers/0/image") == "nginx:1.29"
    /// # }
    /// ```
    pub fn at(&self, pointer: &str) -> Value {
        self.get(pointer).unwrap_or_default()
    }

    /// Its metadata.
    pub fn metadata(&self) -> Metadata {
        self.read_as::<WithMetadata>().map(|object| object.metadata).unwrap_or_default()
    }

    /// Whether it is on its way out.
    pub fn is_being_deleted(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// One of its `status.conditions`.
    pub fn condition(&self, type_: &str) -> Option<Condition> {
        let conditions: Vec<Condition> = self.get("/status/conditions")?;
        conditions.into_iter().find(|condition| condition.type_ == type_)
    }

    /// Whether one of its conditions has status True.
    pub fn is_true(&self, condition: &str) -> bool {
        self.condition(condition).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}
