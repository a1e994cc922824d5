//! Watches: the changes of a collection from a version on.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ApiServer, Call, Change, Filter, Query, Response, Target, metadata_alone};

/// A watch: what it shows, and how far it is.
#[derive(Debug, Clone)]
pub struct Cursor {
    filter: Filter,
    metadata_only: bool,
    api_version: String,
    kind: String,
    /// The event that the version is too old, until it is shown.
    outdated: Option<Value>,
    /// The next change in the log.
    next: usize,
    /// Seconds after which the API server ends the watch.
    pub seconds: u64,
}

impl ApiServer {
    /// Begins a watch.
    ///
    /// # Errors
    /// The refusal: the kind is not served, or the caller may not watch it. A version that is too old is no refusal: an event says so, and
    /// no other one follows.
    pub fn watch(&self, call: &Call) -> Result<Cursor, Response> {
        let target = Target::of(&call.path).ok_or_else(Response::not_served)?;
        if self.is_denied(&call.user, "watch", &target) {
            return Err(Response::forbidden(&target, &call.user, "watch"));
        }
        let kind = self.kind_of(&target).ok_or_else(Response::not_served)?;
        let query = Query::of(Some(&call.query));
        let from = query.number("resourceVersion").unwrap_or(self.version);
        let outdated = (from < self.oldest).then(|| {
            let message = format!("too old resource version: {from} ({})", self.oldest);
            let status = Response::failure(410, "Expired", &message, &json!({})).body;
            json!({ "type": "ERROR", "object": status })
        });
        let next =
            if outdated.is_some() { usize::MAX } else { self.log.partition_point(|change| change.version <= from) };
        Ok(Cursor {
            filter: Filter::of(kind, &target, &query)?,
            metadata_only: call.metadata_only,
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            outdated,
            next,
            seconds: query.number("timeoutSeconds").unwrap_or(1800),
        })
    }

    /// The next event of a watch; none if it has shown everything.
    pub fn next_event(&self, cursor: &mut Cursor) -> Option<Value> {
        if let Some(event) = cursor.outdated.take() {
            return Some(event);
        }
        while let Some(change) = self.log.get(cursor.next) {
            cursor.next += 1;
            if let Some(event) = cursor.event(change) {
                return Some(event);
            }
        }
        None
    }

    /// An event that says only how far a watch is, once it has shown everything.
    pub fn bookmark(&self, cursor: &Cursor) -> Value {
        let object = json!({
            "kind": cursor.kind, "apiVersion": cursor.api_version,
            "metadata": { "resourceVersion": self.version.to_string() },
        });
        cursor.shown("BOOKMARK", &object)
    }
}

impl Cursor {
    /// The resource that is watched.
    pub fn resource(&self) -> &str {
        &self.filter.resource
    }

    /// A change as this watch shows it: what leaves the selection is deleted, what enters it is added.
    fn event(&self, change: &Change) -> Option<Value> {
        let selects = |object: &Option<Arc<Value>>| {
            object.as_ref().filter(|found| self.filter.selects(&change.id, found)).cloned()
        };
        match (selects(&change.before), selects(&change.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(self.shown("ADDED", &after)),
            (Some(_), Some(after)) => Some(self.shown("MODIFIED", &after)),
            (Some(before), None) => {
                // The object as it was selected, with the version of the change.
                let mut last = (*before).clone();
                if let Some(meta) = last.get_mut("metadata").and_then(Value::as_object_mut) {
                    meta.insert("resourceVersion".to_owned(), change.version.to_string().into());
                }
                Some(self.shown("DELETED", &last))
            }
        }
    }

    fn shown(&self, what: &str, object: &Value) -> Value {
        let object = if self.metadata_only { metadata_alone(object) } else { object.clone() };
        json!({ "type": what, "object": object })
    }
}
