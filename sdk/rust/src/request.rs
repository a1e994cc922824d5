//! The request of a call, typed.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Condition, ConditionStatus, Failure, Kind, Reconciler,
    failure::{parse, reason},
    json, kinds,
    raw::{self, ChildRef, FinalizeCause, Finalizing, LeftOut, Phase, Readiness},
};

/// Everything that a response may depend on. `S` is [`Unread`] in a call to clean up.
#[derive(Debug)]
pub struct Request<R: Reconciler, S = <R as Reconciler>::Spec> {
    /// The parent's metadata.
    pub metadata: Metadata,
    /// The parent's spec.
    pub spec: S,
    raw: raw::Request,
    plugin: PhantomData<R>,
}

/// The spec in a call to clean up ([`Reconciler::finalize`]). It may be invalid: [`Request::read_spec`] reads it.
#[derive(Debug)]
pub struct Unread;

/// The fields of an object's `metadata` that plugins need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The namespace; none for a cluster-scoped object.
    pub namespace: Option<String>,
    /// The unique id: a later object of the same name has another one.
    pub uid: String,
    /// The generation, which grows with each change of the spec.
    pub generation: i64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The time of creation in RFC 3339.
    pub creation_timestamp: Option<String>,
    /// The time of the deletion request in RFC 3339; none while the object is not being deleted.
    pub deletion_timestamp: Option<String>,
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
pub(crate) struct WithMetadata {
    #[serde(default)]
    pub(crate) metadata: Metadata,
}

#[derive(Deserialize)]
struct WithSpec<S> {
    spec: Option<S>,
}

impl<R: Reconciler> Request<R, Unread> {
    pub(crate) fn parse(raw: raw::Request) -> Result<Self, Failure> {
        let WithMetadata { metadata } =
            serde_json::from_slice(&raw.parent).map_err(|error| Failure::failed(format!("the parent: {error}")))?;
        Ok(Self { metadata, spec: Unread, raw, plugin: PhantomData })
    }

    /// The same request with the parent's spec.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, if the spec is not an `R::Spec`.
    pub fn read_spec(self) -> Result<Request<R>, Failure> {
        let WithSpec { spec } = parse(&self.raw.parent, "").map_err(Failure::Invalid)?;
        // A parent without spec is one whose fields all have defaults, or a built-in kind that has no spec.
        let spec = spec.map_or_else(|| parse(b"{}", "spec").map_err(Failure::Invalid), Ok)?;
        Ok(Request { metadata: self.metadata, spec, raw: self.raw, plugin: PhantomData })
    }
}

impl<R: Reconciler, S> Request<R, S> {
    /// The parent's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The parent's namespace; empty for a cluster-scoped parent.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The parent's uid.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Whether the parent is being deleted or has left the selector, and the plugin has to clean up
    /// ([`Descriptor::finalizes`](crate::Descriptor::finalizes)). The response then lists the children that must still exist, and
    /// [`Response::finalized`](crate::Response::finalized) ends the parent.
    pub fn is_finalizing(&self) -> bool {
        self.finalizing().is_some()
    }

    /// Why the plugin has to clean up; none if it has not.
    pub fn cause(&self) -> Option<FinalizeCause> {
        Some(self.finalizing()?.cause)
    }

    fn finalizing(&self) -> Option<Finalizing> {
        match self.raw.phase {
            Phase::Sync => None,
            Phase::Finalize(finalizing) => Some(finalizing),
        }
    }

    /// Whether the parent is being finalized in a namespace that is being deleted. No child can be created there, and the host
    /// removes the finalizer after 30 seconds: a plugin that cleans up with a Job must do without it.
    pub fn is_namespace_terminating(&self) -> bool {
        self.finalizing().is_some_and(|finalizing| finalizing.namespace_terminating)
    }

    /// The time at which the reconcile began, to the millisecond.
    ///
    /// # Panics
    ///
    /// If the descriptor does not ask for the time ([`Descriptor::clock`](crate::Descriptor::clock)).
    #[allow(clippy::expect_used, reason = "a mistake in the plugin, which its first call shows")]
    pub fn now(&self) -> SystemTime {
        let now = self.raw.now.expect("Request::now needs Descriptor::clock");
        SystemTime::UNIX_EPOCH + Duration::from_millis(now)
    }

    /// Whether a kind that the descriptor declares as optional exists in the cluster, and the Plugin grants it.
    pub fn has_kind<K: Kind>(&self) -> bool {
        self.raw.kinds.iter().any(is::<K>)
    }

    /// The largest children, if the request would exceed `spec.limits.requestBytes` of the Plugin with them. They are not among the
    /// live children, and the host neither changes, deletes nor recreates them.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.raw.left_out
    }

    /// The namespaces in which no plugin may have children: the host's, and those that the Plugin does not grant by name. One child
    /// in such a namespace makes the host reject the response.
    pub fn closed_namespaces(&self) -> &[String] {
        &self.raw.capabilities.closed_namespaces
    }

    /// The parent's status as last written; none if there is no status, or if it is not an `R::Status` (an older version may have
    /// written it).
    pub fn status(&self) -> Option<R::Status>
    where
        R::Status: DeserializeOwned,
    {
        self.status_as()
    }

    /// The parent's status as another type, as [`status`](Self::status).
    pub fn status_as<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(json::at(&self.raw.parent, "/status")?).ok()
    }

    /// Whether the children of the last response for the current generation of the spec have been applied: the host writes
    /// this into `status.observedGeneration` and the condition `Stalled`, whose reason `ChildFailed` is about applied children. Until
    /// then the live children belong to an older spec: however complete they look, the parent is not ready. Always false for kinds
    /// whose status has no such fields, as built-in kinds.
    pub fn is_spec_applied(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Applied {
            observed_generation: i64,
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        self.status_as::<Applied>().is_some_and(|applied| {
            let is_stalled = |condition: &Condition| {
                (&*condition.type_, condition.status) == ("Stalled", ConditionStatus::True)
                    && condition.reason != "ChildFailed"
            };
            applied.observed_generation >= self.metadata.generation && !applied.conditions.iter().any(is_stalled)
        })
    }

    /// The whole parent, for kinds with fields outside `spec`.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, if the parent is not a `T`.
    pub fn parent<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        parse(&self.raw.parent, "").map_err(Failure::Invalid)
    }

    /// The Plugin's `spec.config`; without one, `{}` is read.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the field: the parent's user cannot correct it.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Failure> {
        let config = self.raw.config.as_deref().unwrap_or(b"{}");
        parse(config, "the Plugin's spec.config").map_err(|invalid| Failure::failed(invalid.to_string()))
    }

    /// The live children of one kind, ordered by namespace and name. Children that are being deleted are among them.
    /// Those that are [left out](Self::left_out) are not.
    pub fn children_of<K: Kind>(&self) -> impl Iterator<Item = Object<'_, K>> {
        of_kind(&self.raw.children)
    }

    /// The live child of this kind and name in the parent's namespace; for a cluster-scoped parent, the cluster-scoped child.
    pub fn child<K: Kind>(&self, name: &str) -> Option<Object<'_, K>> {
        self.child_in(self.namespace(), name)
    }

    /// The live child of this kind and name in a namespace. A cluster-scoped parent may have children of the same name in several
    /// namespaces.
    pub fn child_in<K: Kind>(&self, namespace: &str, name: &str) -> Option<Object<'_, K>> {
        self.children_of().find(|child| child.namespace() == namespace && child.name() == name)
    }

    /// A generated value that stays: the text of this key in the live child Secret of this name, or, if there is none, what `make`
    /// returns. The plugin returns the value in the Secret again, so that the next call finds it.
    ///
    /// ```
    /// # use windlass_plugin::{Reconciler, Request, Response, json};
    /// # mod random { pub fn text(_: usize) -> String { String::new() } }
    /// # fn example<R: Reconciler>(request: Request<R>) -> Response<R> {
    /// // `windlass_plugin::random`, with feature `random`.
    /// let password = request.generated("database", "password", || random::text(24));
    /// Response::new().child(json!({
    ///     "apiVersion": "v1",
    ///     "kind": "Secret",
    ///     "metadata": { "name": "database" },
    ///     "stringData": { "password": password },
    /// }))
    /// # }
    /// ```
    pub fn generated(&self, secret: &str, key: &str, make: impl FnOnce() -> String) -> String {
        let is_here =
            |child: &Object<'_, kinds::Secret>| self.namespace().is_empty() || child.namespace() == self.namespace();
        let live = self.children_of::<kinds::Secret>().find(|child| child.name() == secret && is_here(child));
        let value = live.and_then(|secret| base64(secret.get(&format!("/data/{key}"))?));
        value.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(make)
    }

    /// The related objects that the requirement of this id selects. None while the host has not served the requirement: return a
    /// response with the requirement and without whatever depends on it, and the host calls again at once. An object that does not
    /// exist is served as no object.
    ///
    /// ```
    /// # use windlass_plugin::{Reconciler, Request, Requirement, Response, Value, json, kinds::Secret};
    /// # fn ingress<R: Reconciler>(_: &Request<R>, certificate: &str) -> Value { json!({ "tls": certificate }) }
    /// # fn example<R: Reconciler>(request: Request<R>) -> Response<R> {
    /// // In every response, also when the objects have been served.
    /// let response = Response::new().require(Requirement::named::<Secret>("certificate", "shop-tls"));
    /// let certificate = request.related::<Secret>("certificate").and_then(|mut secrets| secrets.next());
    /// response.children(certificate.map(|secret| ingress(&request, secret.name())))
    /// # }
    /// ```
    pub fn related<K: Kind>(&self, id: &str) -> Option<impl Iterator<Item = Object<'_, K>>> {
        let related = self.raw.related.iter().find(|related| related.id == id)?;
        Some(of_kind(&related.objects))
    }

    /// The untyped request of the contract.
    pub fn raw(&self) -> &raw::Request {
        &self.raw
    }
}

fn of_kind<K: Kind>(objects: &[raw::Observed]) -> impl Iterator<Item = Object<'_, K>> {
    objects.iter().filter(|object| is::<K>(&object.kind)).map(Object::new)
}

fn is<K: Kind>(kind: &raw::Kind) -> bool {
    kind.name == K::KIND && kind.api_version == K::API_VERSION
}

/// The bytes of a text in base64, as the values of a Secret; none if it is no such text.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = ((bits << 6) | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

/// A live object: a child or a related object.
#[derive(Debug)]
pub struct Object<'a, K> {
    observed: &'a raw::Observed,
    kind: PhantomData<K>,
}

impl<'a, K: Kind> Object<'a, K> {
    pub(crate) fn new(observed: &'a raw::Observed) -> Self {
        Self { observed, kind: PhantomData }
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        &self.observed.name
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &'a str {
        self.observed.namespace.as_deref().unwrap_or_default()
    }

    /// The object as JSON, as the API server sent it.
    pub fn json(&self) -> &'a [u8] {
        &self.observed.object
    }

    /// The object as a `K`: a type of k8s-openapi (feature `k8s-openapi`), or your own [`Kind`] with the fields that you need.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the object, if it is not a `K`.
    pub fn read(&self) -> Result<K, Failure>
    where
        K: Deserialize<'a>,
    {
        self.read_as()
    }

    /// The object as any type, for the [`kinds`](crate::kinds) that are only names.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the object, if it is not a `T`.
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

    /// The metadata.
    pub fn metadata(&self) -> Metadata {
        self.get("/metadata").unwrap_or_default()
    }

    /// Whether the object is being deleted (`metadata.deletionTimestamp`).
    pub fn is_being_deleted(&self) -> bool {
        self.get::<&str>("/metadata/deletionTimestamp").is_some()
    }

    /// Whether the object does what its spec says, as the host sees it: built-in kinds by the rules of kstatus, custom kinds by their
    /// conditions `Ready`, `Reconciling` and `Stalled`.
    pub fn readiness(&self) -> &'a Readiness {
        &self.observed.readiness
    }

    /// Whether the object is [ready](Self::readiness).
    pub fn is_ready(&self) -> bool {
        self.readiness().is_ready()
    }

    /// The entry of `status.conditions` with this type.
    pub fn condition(&self, type_: &str) -> Option<Condition> {
        let conditions: Vec<Condition> = self.get("/status/conditions")?;
        conditions.into_iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition of this type has status True.
    pub fn is_condition_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

impl Readiness {
    /// Whether the object is ready.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    /// What is missing, or why the object failed; none if it is ready, or if that is unknown.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Progressing(message) | Self::Failed(message) => Some(message),
            Self::Ready | Self::Unknown => None,
        }
    }
}

impl ChildRef {
    /// The child of this kind and name in the parent's namespace, or the cluster-scoped one.
    pub fn new<K: Kind>(name: &str) -> Self {
        Self { kind: kinds::raw::<K>(), namespace: None, name: name.to_owned() }
    }

    /// The child in this namespace, for a cluster-scoped parent.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }
}

/// A live child, to keep it ([`Response::keep`](crate::Response::keep)).
impl<K> From<Object<'_, K>> for ChildRef {
    fn from(Object { observed, .. }: Object<'_, K>) -> Self {
        Self { kind: observed.kind.clone(), namespace: observed.namespace.clone(), name: observed.name.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_each_padding_is_decoded() {
        for (text, bytes) in [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("Pz8/fn5+", "???~~~")] {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64("a b"), None);
    }
}
