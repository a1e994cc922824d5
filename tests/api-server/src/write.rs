//! Writes: create, update, patch and server-side apply.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_field_management::{self as fields, Refusal, Write};

use super::kinds::established;
use super::{ApiServer, Call, Change, Id, Query, Response, Served, Target, validate};

/// What a write has besides its object.
pub(super) struct Terms {
    pub(super) kind: Served,
    pub(super) target: Target,
    /// Who sends the request.
    user: String,
    manager: String,
    pub(super) time: String,
    pub(super) is_dry_run: bool,
}

impl Terms {
    /// Who writes, for managedFields.
    fn writer<'a>(&'a self, api_version: &'a str) -> Write<'a> {
        let subresource = Some(&*self.target.subresource).filter(|name| !name.is_empty());
        Write { manager: &self.manager, api_version, subresource, time: &self.time }
    }

    fn is_of_status(&self) -> bool {
        self.target.subresource == "status"
    }
}

/// How an existing object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The whole object is sent.
    Put,
    /// The object is changed as it is.
    Patch,
    /// As a patch, and the entries of managedFields are as they must be.
    Apply,
}

/// Seconds, as the API server writes times of metadata.
fn seconds(now: Timestamp) -> String {
    let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    seconds.to_string()
}

/// The metadata of an object.
pub(super) fn meta(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let fields = object.as_object_mut().expect("an object");
    let found = fields.entry("metadata").or_insert_with(|| json!({}));
    if !found.is_object() {
        *found = json!({});
    }
    found.as_object_mut().expect("an object")
}

pub(super) fn text<'a>(object: &'a Value, at: &str) -> Option<&'a str> {
    object.pointer(at).and_then(Value::as_str)
}

/// Whether something must still be done before the object may go.
pub(super) fn has_finalizers(object: &Value) -> bool {
    ["/metadata/finalizers", "/spec/finalizers"]
        .iter()
        .any(|at| object.pointer(at).and_then(Value::as_array).is_some_and(|list| !list.is_empty()))
}

/// The object without what a write changes that changes nothing else.
pub(super) fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    let meta = meta(&mut object);
    meta.remove("resourceVersion");
    for entry in meta.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    object
}

impl ApiServer {
    pub(super) fn write(&mut self, kind: &Served, target: &Target, call: &Call) -> Result<Response, Response> {
        let query = Query::of(Some(&call.query));
        let options = delete_options(call, &query);
        let is_dry_run = match &*call.method {
            "DELETE" => options.get("dryRun").and_then(Value::as_array).is_some_and(|all| all.contains(&"All".into())),
            _ => query.get("dryRun") == Some("All"),
        };
        let terms = Terms {
            kind: kind.clone(),
            target: target.clone(),
            user: call.user.clone(),
            manager: query.get("fieldManager").unwrap_or("windlass").to_owned(),
            time: seconds(call.now),
            is_dry_run,
        };
        let body = call.body.clone().unwrap_or(Value::Null);
        self.check_bound(target, call)?;
        match (&*call.method, &*call.content_type) {
            ("POST", _) => self.create(terms, body),
            ("PUT", _) => {
                let before = self.get(kind, target)?;
                self.replace(&terms, &before, body, Way::Put).map(|(found, _)| Response::ok(found))
            }
            ("PATCH", "application/apply-patch+yaml") => self.apply(terms, &body, query.is("force")),
            ("PATCH", content_type) => {
                let before = self.get(kind, target)?;
                let mut after = (*before).clone();
                patch(&mut after, &body, content_type == "application/json-patch+json", target)?;
                self.replace(&terms, &before, after, Way::Patch).map(|(found, _)| Response::ok(found))
            }
            ("DELETE", _) => self.delete(&terms, &options),
            (method, _) => Err(Response::invalid(target, 405, &format!("{method} is not modelled"))),
        }
    }

    fn create(&mut self, mut terms: Terms, mut object: Value) -> Result<Response, Response> {
        set_defaults(&terms.kind, &mut object);
        let prefix = text(&object, "/metadata/generateName").filter(|_| text(&object, "/metadata/name").is_none());
        let prefix = prefix.map(str::to_owned);
        // A refusal before the name is generated has the prefix for one.
        let name = prefix.as_deref().or_else(|| text(&object, "/metadata/name"));
        terms.target.name = name.unwrap_or_default().to_owned();
        self.admit(&terms)?;
        if let Some(prefix) = prefix {
            terms.target.name = format!("{prefix}{:05}", self.uids);
            meta(&mut object).insert("name".to_owned(), terms.target.name.clone().into());
        }
        let has_version = text(&object, "/metadata/resourceVersion").is_some();
        meta(&mut object).remove("managedFields");
        if terms.kind.has_status {
            object.as_object_mut().expect("an object").remove("status");
        }
        self.complete(&terms, &mut object);
        fields::update(None, &mut object, &terms.writer(&terms.kind.api_version()), &terms.kind.shape);
        validate(&terms, &object)?;
        if has_version && !terms.is_dry_run {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Response::failure(500, "", message, &json!({})));
        }
        if self.objects.contains_key(&Self::id(&terms.target)) {
            return Err(Response::already_exists(&terms.target));
        }
        finish(&terms.kind, &mut object);
        Ok(Response::created(self.store(&terms, None, object)))
    }

    /// Checks that an object may be created where the target is.
    fn admit(&self, terms: &Terms) -> Result<(), Response> {
        let Terms { kind, target, .. } = terms;
        if kind.namespaced == target.namespace.is_empty() {
            return Err(Response::not_served());
        }
        if target.name.is_empty() {
            return Err(Response::invalid(target, 422, "metadata.name: Required value: name is required"));
        }
        if !kind.namespaced {
            return Ok(());
        }
        let Some(namespace) = self.objects.get(&Id::new("namespaces", "", &target.namespace)) else {
            let missing = Target {
                plural: "namespaces".to_owned(),
                group: String::new(),
                name: target.namespace.clone(),
                ..target.clone()
            };
            return Err(Response::not_found(&missing));
        };
        if namespace.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(Response::terminating(target));
        }
        Ok(())
    }

    /// Adds what the API server gives to a new object.
    fn complete(&mut self, terms: &Terms, object: &mut Value) {
        self.uids += 1;
        let uid = format!("00000000-0000-4000-8000-{:012}", self.uids);
        let fields = object.as_object_mut().expect("an object");
        fields.insert("apiVersion".to_owned(), terms.kind.api_version().into());
        fields.insert("kind".to_owned(), terms.kind.kind.clone().into());
        let meta = meta(object);
        meta.insert("uid".to_owned(), uid.into());
        meta.insert("name".to_owned(), terms.target.name.clone().into());
        meta.insert("creationTimestamp".to_owned(), terms.time.clone().into());
        meta.remove("resourceVersion");
        meta.remove("deletionTimestamp");
        if terms.kind.namespaced {
            meta.insert("namespace".to_owned(), terms.target.namespace.clone().into());
        }
        if terms.kind.has_generation {
            meta.insert("generation".to_owned(), 1.into());
        }
    }

    fn apply(&mut self, mut terms: Terms, applied: &Value, force: bool) -> Result<Response, Response> {
        let before = self.objects.get(&Self::id(&terms.target)).cloned();
        let api_version = terms.kind.api_version();
        if applied.pointer("/metadata/managedFields").is_some() {
            let message = "metadata.managedFields must be nil";
            return Err(Response::invalid(&terms.target, 400, message));
        }
        if before.is_none() {
            if terms.is_of_status() {
                return Err(Response::not_found(&terms.target));
            }
            if let Some(uid) = text(applied, "/metadata/uid") {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(Response::conflict(&terms.target, &why));
            }
            self.admit(&terms)?;
            if self.is_denied(&terms.user, "create", &terms.target) {
                return Err(Response::forbidden(&terms.target, &terms.user, "create"));
            }
        }
        let writer = terms.writer(&api_version);
        let defaults = |object: &mut Value| set_defaults(&terms.kind, object);
        let merged =
            fields::apply_with_defaults(before.as_deref(), applied, &writer, force, &terms.kind.shape, defaults);
        let mut merged = merged.map_err(refused)?;
        let Some(before) = before else {
            self.complete(&terms, &mut merged);
            validate(&terms, &merged)?;
            finish(&terms.kind, &mut merged);
            terms.target.subresource.clear();
            return Ok(Response::created(self.store(&terms, None, merged)));
        };
        // What a caller expects of the object is in the applied configuration, not in the merged object.
        for field in ["uid", "resourceVersion"] {
            match applied.pointer(&format!("/metadata/{field}")) {
                Some(expected) => meta(&mut merged).insert(field.to_owned(), expected.clone()),
                None => meta(&mut merged).remove(field),
            };
        }
        self.replace(&terms, &before, merged, Way::Apply).map(|(found, _)| Response::ok(found))
    }

    /// Stores the next state of an object, with the fields that a write cannot change. Returns it, and whether it changed.
    fn replace(
        &mut self,
        terms: &Terms,
        before: &Arc<Value>,
        mut after: Value,
        way: Way,
    ) -> Result<(Value, bool), Response> {
        let target = &terms.target;
        check_expected(terms, before, &after, way)?;
        // A default that stands again, where the write left it out, is no change of the generation.
        set_defaults(&terms.kind, &mut after);
        keep(&mut after, before, terms);
        let is_deleting = before.pointer("/metadata/deletionTimestamp").is_some();
        if is_deleting && adds_finalizer(before, &after) {
            let message = format!(
                "{} \"{}\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
                terms.kind.kind, target.name
            );
            return Err(Response::invalid(target, 422, &message));
        }
        if way != Way::Apply {
            fields::update(Some(before), &mut after, &terms.writer(&terms.kind.api_version()), &terms.kind.shape);
        }
        keep_deletion(&mut after, before, terms);
        validate(terms, &after)?;
        invalid(terms, validate::change(&terms.kind, before, &after))?;
        if compared(before) == compared(&after) {
            return Ok(((**before).clone(), false));
        }
        Ok((self.store(terms, Some(before.clone()), after), true))
    }

    /// Stores an object under the next version, and notes the change. An object that is being deleted and waits for nothing is removed.
    pub(super) fn store(&mut self, terms: &Terms, before: Option<Arc<Value>>, mut after: Value) -> Value {
        let version = self.version + 1;
        meta(&mut after).insert("resourceVersion".to_owned(), version.to_string().into());
        if terms.is_dry_run {
            return after;
        }
        self.version = version;
        let id = Self::id(&terms.target);
        let is_gone = after.pointer("/metadata/deletionTimestamp").is_some() && !has_finalizers(&after);
        let stored = Arc::new(after.clone());
        if is_gone {
            self.objects.remove(&id);
        } else {
            self.objects.insert(id.clone(), stored.clone());
        }
        let after_it = (!is_gone).then_some(stored);
        self.follow_definition(&id, after_it.as_deref());
        self.log.push(Change { id, version, at: terms.time.parse().unwrap_or_default(), before, after: after_it });
        after
    }

    /// Changes an object as a controller of Kubernetes does.
    pub(super) fn amend(&mut self, id: &Id, now: Timestamp, change: impl FnOnce(&mut Value)) {
        let Some((terms, before)) = self.terms_of(id, now) else { return };
        let mut after = (*before).clone();
        change(&mut after);
        // Objects and kinds that the model itself changes have no conflicts.
        let _ = self.replace(&terms, &before, after, Way::Patch);
    }

    /// Deletes an object as a controller of Kubernetes does.
    pub(super) fn remove(&mut self, id: &Id, policy: &str, now: Timestamp) {
        let Some((terms, before)) = self.terms_of(id, now) else { return };
        self.deleted(&terms, &before, Some(policy));
    }

    /// Lets an empty namespace go, as the namespace controller does.
    pub(super) fn close(&mut self, id: &Id, now: Timestamp) {
        let Some((terms, before)) = self.terms_of(id, now) else { return };
        let mut after = (*before).clone();
        after["spec"] = json!({});
        self.store(&terms, Some(before), after);
    }

    fn terms_of(&self, id: &Id, now: Timestamp) -> Option<(Terms, Arc<Value>)> {
        let before = self.objects.get(id)?.clone();
        let kind = self.kinds.iter().find(|kind| super::target::resource(&kind.plural, &kind.group) == id.resource)?;
        let target = Target {
            group: kind.group.clone(),
            version: kind.version.clone(),
            plural: kind.plural.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            subresource: String::new(),
        };
        let (manager, time) = ("kube-controller-manager".to_owned(), seconds(now));
        let user = "system:kube-controller-manager".to_owned();
        Some((Terms { kind: kind.clone(), target, user, manager, time, is_dry_run: false }, before))
    }
}

/// Checks an object's metadata.
fn validate(terms: &Terms, object: &Value) -> Result<(), Response> {
    invalid(terms, validate::problem(&terms.kind, object))
}

/// The refusal of an object that is not valid: the field, and why.
fn invalid(terms: &Terms, problem: Option<(&str, &str)>) -> Result<(), Response> {
    let Some((field, why)) = problem else { return Ok(()) };
    let message = format!("{} \"{}\" is invalid: {field}: Invalid value: {why}", terms.kind.kind, terms.target.name);
    Err(Response::invalid(&terms.target, 422, &message))
}

/// The options of a deletion: its body or, without one, its query.
fn delete_options(call: &Call, query: &Query) -> Value {
    if let Some(body) = call.body.as_ref().filter(|body| body.is_object()) {
        return body.clone();
    }
    let mut options = json!({});
    if let Some(policy) = query.get("propagationPolicy") {
        options["propagationPolicy"] = policy.into();
    }
    if let Some(dry_run) = query.get("dryRun") {
        options["dryRun"] = json!([dry_run]);
    }
    options
}

/// Checks the uid and the resource version that a write expects. The API server compares the uid of a PUT before all else, and takes
/// that of a patch for an attempt to change it.
fn check_expected(terms: &Terms, before: &Value, after: &Value, way: Way) -> Result<(), Response> {
    let target = &terms.target;
    let own = text(before, "/metadata/uid").unwrap_or_default();
    let other = text(after, "/metadata/uid").filter(|uid| *uid != own);
    if let (Way::Put, Some(uid)) = (way, other) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
        return Err(Response::conflict(target, &why));
    }
    match text(after, "/metadata/resourceVersion") {
        None if way == Way::Put && terms.kind.needs_version => {
            let message = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            return Err(Response::invalid(target, 422, message));
        }
        Some(version) if Some(version) != text(before, "/metadata/resourceVersion") => {
            return Err(Response::outdated(target));
        }
        _ => {}
    }
    match other {
        // A status write leaves the metadata alone.
        Some(_) if !terms.is_of_status() => {
            Err(Response::invalid(target, 422, "metadata.uid: Invalid value: field is immutable"))
        }
        _ => Ok(()),
    }
}

/// Sets the defaults of a schema, where an object has the fields around them.
fn set_defaults_of(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if let Some(default) = below.get("default").filter(|_| !fields.contains_key(name)) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    set_defaults_of(below, field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_defaults_of(&schema["items"], item)),
        _ => {}
    }
}

/// Sets what the API server sets before it manages fields.
fn set_defaults(kind: &Served, object: &mut Value) {
    set_defaults_of(&kind.schema, object);
    fields::set_defaults(&kind.group, &kind.kind, object);
    if kind.plural != "namespaces" {
        return;
    }
    if let Some(name) = text(object, "/metadata/name").map(str::to_owned) {
        let labels = meta(object).entry("labels").or_insert_with(|| json!({}));
        labels["kubernetes.io/metadata.name"] = name.into();
    }
}

/// Sets what the API server, or a controller, gives to a new object after its fields are managed.
fn finish(kind: &Served, object: &mut Value) {
    set_defaults(kind, object);
    match &*kind.plural {
        "namespaces" => {
            object["spec"] = json!({ "finalizers": ["kubernetes"] });
            object["status"] = json!({ "phase": "Active" });
        }
        "customresourcedefinitions" => object["status"] = established(object),
        _ => {}
    }
}

/// Puts back what this write cannot change.
fn keep(after: &mut Value, before: &Value, terms: &Terms) {
    if terms.is_of_status() {
        let (status, managed) = (after.get("status").cloned(), after.pointer("/metadata/managedFields").cloned());
        *after = before.clone();
        match status {
            Some(status) => after["status"] = status,
            None => {
                after.as_object_mut().expect("an object").remove("status");
            }
        }
        if let Some(managed) = managed {
            meta(after).insert("managedFields".to_owned(), managed);
        }
    } else if terms.kind.has_status {
        match before.get("status") {
            Some(status) => after["status"] = status.clone(),
            None => {
                after.as_object_mut().expect("an object").remove("status");
            }
        }
    }
    for field in ["apiVersion", "kind"] {
        after[field] = before[field].clone();
    }
    let kept = ["name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"];
    keep_metadata(after, before, &kept);
    let generation = before.pointer("/metadata/generation").and_then(Value::as_u64);
    if let Some(generation) = generation.filter(|_| !terms.is_of_status() && specified(before) != specified(after)) {
        meta(after).insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Puts back what deletions write. The fields are managed before: a PUT without these takes them from their manager.
fn keep_deletion(after: &mut Value, before: &Value, terms: &Terms) {
    keep_metadata(after, before, &["deletionTimestamp", "deletionGracePeriodSeconds"]);
    if terms.kind.plural == "namespaces" {
        after["spec"] = before["spec"].clone();
    }
}

fn keep_metadata(after: &mut Value, before: &Value, fields: &[&str]) {
    for field in fields {
        match before.pointer(&format!("/metadata/{field}")) {
            Some(value) => meta(after).insert((*field).to_owned(), value.clone()),
            None => meta(after).remove(*field),
        };
    }
}

/// What the generation counts: everything but metadata and status.
fn specified(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status")).collect()
}

fn adds_finalizer(before: &Value, after: &Value) -> bool {
    let list =
        |object: &Value| object.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let had = list(before);
    list(after).iter().any(|finalizer| !had.contains(finalizer))
}

fn patch(object: &mut Value, body: &Value, is_json_patch: bool, target: &Target) -> Result<(), Response> {
    let unusable = || {
        let message = "the server rejected our request due to an error in our request";
        Response::failure(422, "Invalid", message, &json!({}))
    };
    if is_json_patch {
        let patch: json_patch::Patch = serde_json::from_value(body.clone())
            .map_err(|error| Response::invalid(target, 400, &format!("error decoding patch: {error}")))?;
        json_patch::patch(object, &patch).map_err(|_| unusable())?;
    } else {
        json_patch::merge(object, body);
    }
    if has_readable_labels(object) { Ok(()) } else { Err(unusable()) }
}

/// Whether labels and annotations are maps of texts, without which no kind can be read.
fn has_readable_labels(object: &Value) -> bool {
    ["/metadata/labels", "/metadata/annotations"].iter().all(|at| match object.pointer(at) {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.values().all(|value| value.is_string() || value.is_null()),
        Some(_) => false,
    })
}

fn refused(refusal: Refusal) -> Response {
    match refusal {
        Refusal::Invalid(message) => Response::failure(500, "", &message, &json!({})),
        Refusal::Conflicts(conflicts) => {
            let causes: Vec<_> = conflicts
                .iter()
                .map(|one| json!({ "reason": "FieldManagerConflict", "message": one.message, "field": one.field }))
                .collect();
            Response::failure(409, "Conflict", &fields::conflict_message(&conflicts), &json!({ "causes": causes }))
        }
    }
}
