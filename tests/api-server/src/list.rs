//! Lists, in pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{ApiServer, Call, Filter, Id, Query, Response, Served, Target};

impl ApiServer {
    pub(super) fn list(&self, kind: &Served, target: &Target, call: &Call) -> Result<Response, Response> {
        let query = Query::of(Some(&call.query));
        let filter = Filter::of(kind, target, &query)?;
        let token = query.get("continue").filter(|token| !token.is_empty());
        let page = token.map(|token| Page::of(token).ok_or_else(|| invalid_token(target))).transpose()?;
        let version = page.as_ref().map_or(self.version, |page| page.version);
        if version < self.oldest {
            let message = "The provided continue parameter is too old to display a consistent list result.";
            return Err(Response::failure(410, "Expired", message, &json!({})));
        }
        let objects = self.objects_at(version, &filter);
        let follows =
            |id: &Id| page.as_ref().is_none_or(|page| (&*id.namespace, &*id.name) > (&*page.namespace, &*page.name));
        let mut left = objects.iter().filter(|(id, _)| follows(id)).peekable();
        let limit = query.number("limit").and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let selected = left.by_ref().filter(|(id, object)| filter.selects(id, object));
        let items: Vec<_> = selected.take(limit.unwrap_or(usize::MAX)).collect();
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        // A page continues if any objects are left, selected or not.
        if let (Some((last, _)), true) = (items.last(), left.peek().is_some()) {
            metadata["continue"] = format!("{version}/{}/{}", last.namespace, last.name).into();
            if filter.labels.is_none() && filter.name.is_none() {
                metadata["remainingItemCount"] = left.count().into();
            }
        }
        let items: Vec<&Value> = items.into_iter().map(|(_, object)| &**object).collect();
        Ok(Response::ok(json!({
            "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata, "items": items,
        })))
    }

    /// The objects of a list as they were at a version.
    fn objects_at(&self, version: u64, filter: &Filter) -> BTreeMap<Id, Arc<Value>> {
        let is_about = |(id, _): &(&Id, &Arc<Value>)| filter.is_about(id);
        let mut objects: BTreeMap<_, _> =
            self.objects.iter().filter(is_about).map(|(id, object)| (id.clone(), object.clone())).collect();
        let later = self.log.iter().rev().take_while(|change| change.version > version);
        for change in later.filter(|change| filter.is_about(&change.id)) {
            match &change.before {
                Some(before) => objects.insert(change.id.clone(), before.clone()),
                None => objects.remove(&change.id),
            };
        }
        objects
    }
}

/// Where the next page of a list begins: after an object, at the version of the first page.
struct Page {
    version: u64,
    namespace: String,
    name: String,
}

impl Page {
    fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('/');
        let mut next = || parts.next().map(str::to_owned);
        Some(Self { version: next()?.parse().ok()?, namespace: next()?, name: next()? })
    }
}

fn invalid_token(target: &Target) -> Response {
    Response::invalid(target, 400, "continue key is not valid")
}
