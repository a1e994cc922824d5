//! Validates a plugin's response into children and status. Planning the writes from the result cannot fail.
//!
//! Scope, ownership and marks come from the host. A response that tries to set them, or that names anything the plugin
//! was not granted, is rejected as a whole: a doubtful response writes nothing.

mod grants;
mod kept;
mod options;
mod rejection;
mod secret;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use jiff::Timestamp;

use self::options::strip_options;
use self::secret::store_string_data;
use crate::contract::descriptor::check_update;
use crate::contract::grant::Presence;
use crate::contract::reserved::{BOOTSTRAP_SECRET, SYSTEM_NAMESPACES, TOKEN_SECRET};
use crate::contract::{ChildOptions, ChildRef, Limits, Response, UpdateStrategy};
use crate::object::child::ChildId;
use crate::object::name_rule::NameRule;
use crate::object::names;
use crate::object::once::Once;
use crate::object::order::install_rank;
use crate::object::parent::ParentRef;
use crate::value::digest::Digest;
use crate::value::ids::{GroupKind, Gvk, ObjectKey, Uid};
use crate::value::json::{self, Map, Value};

pub use grants::{Grant, Grants};
pub use kept::Kept;
pub use rejection::ResponseRejection;

/// Prefix of the annotation with the applied hash; it identifies the version of the hash.
pub const APPLIED_VERSION: &str = "1:";

/// Maximum number of conditions that a plugin may set: each is compared with all others, at the host's expense.
const CONDITIONS_MAX: usize = 100;

/// Maximum number of children that are created once: each is noted in an annotation of the parent, of at most half a kilobyte, and an
/// object has at most 256 KiB of annotations.
const ONCE_MAX: usize = 100;

/// Types of Secrets whose readers can log in to the API server.
const TOKENS: [&str; 2] = [TOKEN_SECRET, BOOTSTRAP_SECRET];

/// Memory limit for a response's parsed values, as a multiple of the response's size limit. Ordinary objects need three
/// times the size of their text, which fits; a response of tiny values needs fifty times, and is rejected.
const VALUE_MEMORY_FACTOR: usize = 8;

/// A validated response.
#[derive(Debug, Clone, Default)]
pub struct Desired {
    /// The children, by stage, and in install order within a stage.
    pub children: Vec<Arc<DesiredChild>>,
    /// The kinds of returned children that the cluster need not serve and does not: these children are left out.
    pub absent: Box<[Arc<Gvk>]>,
    /// Existing children that stay as they are.
    pub kept: Kept,
    /// What the plugin waits for, for users.
    pub waiting: Option<Box<str>>,
    /// The plugin's part of the status, if the response has one.
    pub status: Option<Map>,
    /// When the plugin asks to be called again.
    pub requeue: Option<Duration>,
    /// The time at which it asks for that, in milliseconds since 1970.
    pub requeue_at: Option<NonZero<u64>>,
    /// Whether the plugin has finished its cleanup, so that the finalizer can be removed.
    pub finalized: bool,
}

/// A child as it will be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredChild {
    /// The child's kind.
    pub kind: Arc<Gvk>,
    /// The child's namespace and name.
    pub key: ObjectKey,
    /// The complete object, with ownerReference, labels and the annotation with the applied hash.
    pub body: Map,
    /// The applied hash: the value of the annotation `windlass.dev/applied`. Equal hashes mean equal desired states.
    pub applied: String,
    /// The applied hash that Windlass 0.1 gives to a Secret with `stringData`: the same desired state, written in another way.
    pub applied_as_string_data: Option<String>,
    /// How an existing child is updated.
    pub update: UpdateStrategy,
    /// UID of the parent that controls the child; `None` if the child is retained.
    pub owner: Option<Uid>,
    /// Whether the apply forces ownership of fields that other managers own.
    pub force_ownership: bool,
    /// The child waits until those of lower stages are ready (rule R23).
    pub stage: u32,
    /// Whether the child is ready, if the plugin says so.
    pub ready: Option<bool>,
    /// The creation of a child that is created once (rule R25); none if it is created whenever it is missing.
    pub once: Option<Once>,
    /// The place of a child of its kind that is no longer desired, and goes first if the API server refuses this one beside it.
    pub replaces: Option<Box<(GroupKind, ObjectKey)>>,
}

impl DesiredChild {
    /// The child's kind, namespace and name.
    pub fn id(&self) -> ChildId {
        ChildId { kind: self.kind.clone(), key: self.key.clone() }
    }

    /// Whether it replaces this child.
    pub fn replaces(&self, other: &ChildId) -> bool {
        let is_it = |(kind, key): &(GroupKind, ObjectKey)| *key == other.key && *kind == other.kind.group_kind();
        self.replaces.as_deref().is_some_and(is_it)
    }

    /// Whether Kubernetes deletes the child some time after it has finished, so that it is created again.
    pub fn expires(&self) -> bool {
        let ttl = || self.body.get("spec").and_then(|spec| spec.at(&["ttlSecondsAfterFinished"]));
        self.once.is_none() && self.kind.is("batch/v1", "Job") && ttl().is_some_and(|ttl| !matches!(ttl, Value::Null))
    }
}

/// Validates a final response and completes its children. [`crate::contract::related`] handles its requirements.
///
/// # Errors
/// The first violation in the response; then the whole response is rejected.
pub fn validate(
    response: &Response,
    parent: &ParentRef,
    grants: &Grants,
    limits: &Limits,
) -> Result<Desired, ResponseRejection> {
    too_many("children", response.children.len(), limits.children)?;
    too_many("events", response.events.len(), limits.events)?;
    let mut room = usize::try_from(limits.response_bytes).unwrap_or(usize::MAX).saturating_mul(VALUE_MEMORY_FACTOR);
    if let Some(options) = response.options.as_ref().filter(|options| options.len() != response.children.len()) {
        let (children, options) = (response.children.len(), options.len());
        return Err(ResponseRejection::malformed(format!(
            "the response has {children} children and options for {options}"
        )));
    }
    let (mut seen, mut absent) = (HashSet::new(), Vec::new());
    let mut children = Vec::with_capacity(response.children.len());
    for (index, bytes) in response.children.iter().enumerate() {
        let malformed = |error| ResponseRejection::malformed(format!("child {index} is not valid JSON: {error}"));
        let value = json::parse_within(bytes, limits.json_depth, &mut room).map_err(malformed)?;
        let options = response.options.as_ref().and_then(|all| all.get(index));
        if let Some(kind) = absent_kind(&value, grants) {
            absent.push(kind.clone());
            continue;
        }
        let child = validate_child(index, (value, options), parent, grants)?;
        if !seen.insert((child.kind.group_kind(), child.key.clone())) {
            let child = describe(&child.kind, &child.key);
            return Err(ResponseRejection::not_allowed(format!("{child} is twice in the response")));
        }
        children.push(Arc::new(child));
    }
    for child in &children {
        if let Some(place) = child.replaces.as_deref().filter(|place| seen.contains(*place)) {
            let message = format!(
                "{} replaces {} {}, which the response returns as well",
                describe(&child.kind, &child.key),
                place.0.kind,
                place.1
            );
            return Err(ResponseRejection::not_allowed(message));
        }
    }
    too_many("children that are created once", children.iter().filter(|child| child.once.is_some()).count(), ONCE_MAX)?;
    children.sort_by_key(|child| (child.stage, install_rank(&child.kind)));
    let status = match &response.status {
        None => None,
        Some(bytes) => Some(validate_status(bytes, limits, &mut room)?),
    };
    let kept = Kept::of(response, parent, grants, limits.children, &seen)?;
    if let Some(child) = children.iter().find(|child| child.replaces.as_deref().is_some_and(|place| kept.is_at(place)))
    {
        let child = describe(&child.kind, &child.key);
        return Err(ResponseRejection::not_allowed(format!(
            "{child} replaces a child that the response keeps as it is"
        )));
    }
    let (waiting, requeue) = (response.waiting.clone(), response.requeue.map(asked_wait));
    let Response { requeue_at, finalized, .. } = *response;
    absent.sort();
    absent.dedup();
    let absent = absent.into();
    Ok(Desired { children, absent, kept, waiting, status, requeue, requeue_at, finalized })
}

/// Clamps a wait that a plugin asked for, in milliseconds, to at least one second, so that the plugin cannot keep the
/// host busy with one parent, and at most one year.
pub fn asked_wait(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(Duration::from_secs(1), Duration::from_hours(24 * 365))
}

/// The wait until a time in milliseconds since 1970, from `now`; none if it has passed.
pub fn until(at: NonZero<u64>, now: Timestamp) -> Option<Duration> {
    let now = u64::try_from(now.as_millisecond()).unwrap_or_default();
    at.get().checked_sub(now).filter(|left| *left > 0).map(Duration::from_millis)
}

fn too_many(what: &str, count: usize, limit: usize) -> Result<(), ResponseRejection> {
    let message = || format!("the response has {count} {what}, more than the limit of {limit}");
    if count > limit { Err(ResponseRejection::not_allowed(message())) } else { Ok(()) }
}

fn validate_status(bytes: &[u8], limits: &Limits, room: &mut usize) -> Result<Map, ResponseRejection> {
    let malformed = |error| ResponseRejection::malformed(format!("the status is not valid JSON: {error}"));
    match json::parse_within(bytes, limits.json_depth, room).map_err(malformed)? {
        Value::Object(map) => {
            let conditions = map.get("conditions").and_then(Value::as_array).unwrap_or_default();
            too_many("conditions", conditions.len(), CONDITIONS_MAX)?;
            Ok(map)
        }
        other => Err(ResponseRejection::malformed(format!("the status is {} instead of an object", other.type_name()))),
    }
}

/// How messages name a child.
pub fn describe(kind: &Gvk, key: &ObjectKey) -> String {
    format!("{} {key}", kind.kind)
}

/// The kind of a child, if the cluster need not serve it and does not.
fn absent_kind<'a>(child: &Value, grants: &'a Grants) -> Option<&'a Arc<Gvk>> {
    let Value::Object(body) = child else { return None };
    let (api_version, kind) = named_kind(body).ok()?;
    grants.of(api_version, kind).filter(|grant| grant.presence == Presence::Absent).map(|grant| &grant.kind)
}

fn validate_child(
    index: usize,
    (value, options): (Value, Option<&ChildOptions>),
    parent: &ParentRef,
    grants: &Grants,
) -> Result<DesiredChild, ResponseRejection> {
    let not_an_object =
        |problem: &str| ResponseRejection::malformed(format!("child {index} is not a Kubernetes object: {problem}"));
    let Value::Object(mut body) = value else {
        return Err(not_an_object(&format!("{} instead of an object", value.type_name())));
    };
    let meta = body.remove("metadata");
    let (api_version, kind) = named_kind(&body).map_err(|problem| not_an_object(&problem))?;
    let Some(Value::Object(mut meta)) = meta else {
        return Err(not_an_object("metadata is missing or not an object"));
    };
    let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() && meta.get("generateName").is_some() {
        let problem = "metadata.generateName asks for another name at every reconcile; give the child a metadata.name";
        return Err(not_an_object(problem));
    }
    let grant = grants.of(api_version, kind).ok_or_else(|| grants.rejection(name, api_version, kind))?;
    let rule = NameRule::of(&grant.kind);
    if !rule.accepts(name) {
        return Err(not_an_object(&format!("metadata.name {name:?} is not a valid name: that of a {kind} is {rule}")));
    }
    let namespace = named_namespace(&meta).map_err(not_an_object)?;
    let key = ObjectKey { namespace: placed(grant, parent, name, namespace)?, name: name.into() };
    let child = describe(&grant.kind, &key);
    if let Some(namespace) = key.namespace.as_deref().filter(|namespace| grants.host_namespace.is(namespace)) {
        return Err(ResponseRejection::not_allowed(format!(
            "{child} is in namespace {namespace}, which is the host's own: no plugin may have children there"
        )));
    }
    let is_secret = grant.kind.is("v1", "Secret");
    if is_secret && !grant.tokens {
        check_secret_type(&body, &child)?;
    }
    let options = strip_options(&mut meta, &child, options)?;
    check_options(&child, &options)?;
    complete_metadata(&mut meta, (&grant.kind, &key), parent, options.retain);
    // A child's status belongs to its own controller; typed builders write an empty one.
    body.remove("status");
    body.insert("metadata", meta);
    let applied_as_string_data = (is_secret && body.get("stringData").is_some()).then(|| hash_of(&body));
    if is_secret {
        store_string_data(&mut body, &child)?;
    }
    let once = options.once.as_deref().map(|text| Once::of(&parent.plugin, (&grant.kind, &key), text));
    let applied = set_applied_hash(&mut body, options.stage, once.as_ref());
    Ok(DesiredChild {
        kind: grant.kind.clone(),
        key,
        body,
        applied,
        applied_as_string_data,
        owner: (!options.retain).then(|| parent.uid.clone()),
        force_ownership: options.take_over,
        stage: options.stage,
        ready: options.ready,
        replaces: replaced(&child, options.replaces.as_ref(), parent, &grant.kind, grants)?,
        update: options.update.unwrap_or_else(|| grant.update.clone()),
        once,
    })
}

/// Checks the options of a child.
fn check_options(child: &str, options: &ChildOptions) -> Result<(), ResponseRejection> {
    if options.retain && options.once.is_some() {
        return Err(ResponseRejection::not_allowed(format!(
            "{child} is retained and created once: another text could not replace it, because retained children are never deleted"
        )));
    }
    let update = options.update.as_ref().map_or(Ok(()), check_update);
    update.map_err(|problem| ResponseRejection::not_allowed(format!("{child}: {problem}")))
}

/// The place of a child that another one replaces.
fn replaced(
    child: &str,
    of: Option<&ChildRef>,
    parent: &ParentRef,
    kind: &Gvk,
    grants: &Grants,
) -> Result<Option<Box<(GroupKind, ObjectKey)>>, ResponseRejection> {
    let Some(of) = of else { return Ok(None) };
    if of.kind.holds_data() || !of.kind.is_built_in() {
        return Err(ResponseRejection::not_allowed(format!(
            "{child} replaces {} {}: the host deletes objects with data and custom resources only when they are no longer desired",
            of.kind.kind, of.name
        )));
    }
    if of.kind.group_kind() != kind.group_kind() {
        return Err(ResponseRejection::not_allowed(format!(
            "{child} replaces {} {}, which is of another kind: the host could not tell whether that one is in the way",
            of.kind.kind, of.name
        )));
    }
    Ok(Some(Box::new((of.kind.group_kind(), kept::key_of(of, "replaces", parent, grants)?))))
}

/// The `apiVersion` and the kind that a child names.
fn named_kind(body: &Map) -> Result<(&str, &str), String> {
    let text = |field: &str| {
        let text = body.get(field).and_then(Value::as_str);
        text.ok_or_else(|| format!("{field} is missing or not a string"))
    };
    let api_version = text("apiVersion")?;
    if api_version.starts_with('/') {
        // The kind would resolve to the core group, but the object would be sent with another `apiVersion`.
        return Err(format!("apiVersion {api_version:?} has no group before its slash"));
    }
    Ok((api_version, text("kind")?))
}

/// Checks that a Secret is not one whose readers can log in to the API server.
fn check_secret_type(secret: &Map, child: &str) -> Result<(), ResponseRejection> {
    let secret_type = secret.get("type").and_then(Value::as_str);
    match secret_type.filter(|secret_type| TOKENS.contains(secret_type)) {
        Some(secret_type) => Err(ResponseRejection::not_allowed(format!(
            "{child} is of type {secret_type}: whoever reads it can log in to the API server as a ServiceAccount or a new node. The \
             plugin may have such children only if the Plugin's entry for Secret in spec.grants.children has serviceAccountTokens: true"
        ))),
        None => Ok(()),
    }
}

/// The namespace that the metadata of a child names, if any.
fn named_namespace(meta: &Map) -> Result<Option<&str>, &'static str> {
    match meta.get("namespace") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(namespace)) if namespace.is_empty() => Ok(None),
        Some(Value::String(namespace)) => Ok(Some(namespace.as_str())),
        Some(_) => Err("metadata.namespace is not a string"),
    }
}

/// Returns the namespace of a child, or why it is not allowed.
fn placed(
    grant: &Grant,
    parent: &ParentRef,
    name: &str,
    namespace: Option<&str>,
) -> Result<Option<Arc<str>>, ResponseRejection> {
    let scope = |problem: &str| ResponseRejection::not_allowed(format!("{} {name} {problem}", grant.kind.kind));
    match (grant.namespaced, &parent.key.namespace, namespace) {
        (true, Some(own), None) => Ok(Some(own.clone())),
        (true, Some(own), Some(wanted)) if **own == *wanted => Ok(Some(own.clone())),
        (true, Some(own), Some(wanted)) => {
            Err(scope(&format!("is in namespace {wanted}; it must be in {own}, the namespace of its parent")))
        }
        (true, None, Some(wanted)) => match &grant.namespaces {
            Some(named) if named.iter().any(|name| **name == *wanted) => Ok(Some(wanted.into())),
            Some(_) => Err(scope(&format!(
                "is in namespace {wanted}, which the Plugin's spec.grants.children does not grant for this kind"
            ))),
            None if SYSTEM_NAMESPACES.contains(&wanted) => Err(scope(&format!(
                "is in namespace {wanted}, which belongs to the control plane; name it in the namespaces of this kind in the \
                 Plugin's spec.grants.children if the plugin may have children there"
            ))),
            None => Ok(Some(wanted.into())),
        },
        (true, None, None) => Err(scope("sets no metadata.namespace; a child of a cluster-scoped parent must set one")),
        (false, Some(_), _) => Err(scope("is cluster-scoped and cannot be the child of a namespaced parent")),
        (false, None, None) => Ok(None),
        (false, None, Some(_)) => {
            Err(scope(&format!("sets metadata.namespace, but {} is cluster-scoped", grant.kind.kind)))
        }
    }
}

fn complete_metadata(meta: &mut Map, (kind, key): (&Gvk, &ObjectKey), parent: &ParentRef, retain: bool) {
    match &key.namespace {
        Some(namespace) => meta.insert("namespace", Value::from(&**namespace)),
        None => meta.remove("namespace"),
    };
    if let Some(labels) = meta.object_mut("labels") {
        for (label, value) in parent.child_labels() {
            labels.insert(label, value);
        }
    }
    let mark = parent.mark(&kind.group_kind(), key, retain).map(|mark| (names::ANNOTATION_MARK, mark));
    let retained_for = retain.then(|| (names::ANNOTATION_RETAINED_FOR, parent.retained_for()));
    if let Some(annotations) = meta.object_mut("annotations") {
        for (annotation, value) in mark.into_iter().chain(retained_for) {
            annotations.insert(annotation, value);
        }
    }
    if !retain {
        meta.insert("ownerReferences", vec![Value::Object(parent.owner_reference())]);
    }
}

/// The applied hash of a child without the annotation.
fn hash_of(body: &Map) -> String {
    let mut text = String::with_capacity(1024);
    body.write(&mut text);
    format!("{APPLIED_VERSION}{}", Digest::of(text.as_bytes()).hex())
}

/// Hashes the child, writes the hash into its annotation and returns it (rule R7). The annotations with its stage and its creation are no part
/// of the hash: a child that moves to another stage is not another desired state, which might have to be recreated.
fn set_applied_hash(body: &mut Map, stage: u32, once: Option<&Once>) -> String {
    let applied = hash_of(body);
    if let Some(annotations) = body.object_mut("metadata").and_then(|meta| meta.object_mut("annotations")) {
        annotations.insert(names::ANNOTATION_APPLIED, applied.as_str());
        if stage > 0 {
            annotations.insert(names::ANNOTATION_STAGE, stage.to_string());
        }
        if let Some(once) = once {
            annotations.insert(names::ANNOTATION_ONCE, once.mark());
        }
    }
    applied
}

#[cfg(test)]
mod tests;
