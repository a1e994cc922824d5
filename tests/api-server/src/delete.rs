//! Deletions: what an object waits for, and its end.

use std::sync::Arc;

use serde_json::{Value, json};

use super::collector::{FOREGROUND, ORPHAN};
use super::write::{Terms, compared, has_finalizers, meta, text};
use super::{ApiServer, Response, Served, Target};

impl ApiServer {
    pub(super) fn delete(&mut self, terms: &Terms, options: &Value) -> Result<Response, Response> {
        let target = &terms.target;
        let before = self.get(&terms.kind, target)?;
        for (what, field) in [("UID", "uid"), ("ResourceVersion", "resourceVersion")] {
            let expected = options.pointer(&format!("/preconditions/{field}")).and_then(Value::as_str);
            let own = text(&before, &format!("/metadata/{field}")).unwrap_or_default();
            if let Some(expected) = expected.filter(|expected| *expected != own) {
                if terms.kind.plural == "namespaces" {
                    let why = format!(
                        "Precondition failed: {what} in precondition: {expected}, {what} in object meta: {own}"
                    );
                    return Err(Response::conflict(target, &why));
                }
                let why =
                    format!("the {what} in the precondition ({expected}) does not match the {what} in record ({own})");
                // It names the kind instead of the resource.
                let kind = Target { plural: terms.kind.kind.clone(), ..target.clone() };
                return Err(Response::conflict(&kind, &why));
            }
        }
        let policy = text(options, "/propagationPolicy");
        if loses_finalizers(&before, policy) {
            if terms.is_dry_run {
                // The API server returns an object that it did not fill.
                let Served { kind, is_custom, .. } = &terms.kind;
                let mut empty = json!({ "kind": kind, "apiVersion": terms.kind.api_version() });
                if !is_custom {
                    empty["metadata"] = json!({});
                }
                return Ok(Response::ok(empty));
            }
            if options.pointer("/preconditions/resourceVersion").is_some() {
                // It compares the version a second time, with one that it did not read.
                return Err(Response::conflict(target, "Precondition failed: ResourceVersion in precondition: "));
            }
        }
        if let Some(after) = self.deleted(terms, &before, policy) {
            return Ok(Response::ok(after));
        }
        let details = json!({
            "name": target.name, "group": target.group, "kind": target.plural, "uid": before.pointer("/metadata/uid"),
        });
        let body =
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
        Ok(Response::ok(body))
    }

    /// Marks an object as deleted, and returns it; or removes it if nothing must be done before.
    pub(super) fn deleted(&mut self, terms: &Terms, before: &Arc<Value>, policy: Option<&str>) -> Option<Value> {
        let is_namespace = terms.kind.plural == "namespaces";
        let is_deleting = before.pointer("/metadata/deletionTimestamp").is_some();
        if is_namespace && is_deleting && has_finalizers(before) {
            // Its first deletion decided what it waits for.
            return Some((**before).clone());
        }
        let mut after = (**before).clone();
        let generation = after.pointer("/metadata/generation").and_then(Value::as_u64);
        let waits_for = finalizers_of_deletion(before, policy);
        let fields = meta(&mut after);
        if waits_for.is_empty() {
            fields.remove("finalizers");
        } else {
            fields.insert("finalizers".to_owned(), waits_for.into());
        }
        if !is_deleting {
            fields.insert("deletionTimestamp".to_owned(), terms.time.clone().into());
            if !is_namespace {
                fields.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            }
            if let Some(generation) = generation {
                fields.insert("generation".to_owned(), (generation + 1).into());
            }
        }
        if is_namespace {
            after["status"]["phase"] = "Terminating".into();
        }
        if compared(before) == compared(&after) {
            return Some(after);
        }
        let stays = has_finalizers(&after);
        let after = self.store(terms, Some(before.clone()), after);
        stays.then_some(after)
    }
}

/// What an object waits for once it is deleted: its finalizers, with those of the garbage collector by the policy. Without a policy,
/// these stay as they are.
fn finalizers_of_deletion(object: &Value, policy: Option<&str>) -> Vec<Value> {
    let own = object.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(policy) = policy else { return own };
    let wanted = match policy {
        "Orphan" => Some(ORPHAN),
        "Foreground" => Some(FOREGROUND),
        _ => None,
    };
    let of_collector = |one: &Value| one == ORPHAN || one == FOREGROUND;
    let as_wanted = own.iter().filter(|one| of_collector(one)).map(Value::as_str).eq(wanted.map(Some));
    if as_wanted {
        return own;
    }
    let others = own.into_iter().filter(|one| !of_collector(one));
    others.chain(wanted.map(Value::from)).collect()
}

/// Whether a deletion takes the last finalizers off an object, by its policy.
fn loses_finalizers(object: &Value, policy: Option<&str>) -> bool {
    has_finalizers(object)
        && object.pointer("/spec/finalizers").is_none()
        && finalizers_of_deletion(object, policy).is_empty()
}
