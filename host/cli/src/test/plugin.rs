//! Calls a component for the checks, as the host does.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use windlass_core::contract::Failure;
use windlass_core::contract::declared_parent::storage_of;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::contract::related::{Need, Place, Select};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::Object;
use windlass_core::object::observed_status::StatusShape;
use windlass_core::object::selector::Selector;
use windlass_core::plugin::schema::structural as schema;
use windlass_core::reconcile::outcome::{Outcome, Problem};
use windlass_core::reconcile::status;
use windlass_engine::plugins::status_shape;
use windlass_sandbox::{Ambient, run_here};

use super::call::{CallResult, Input, Plugin, Seed, Stock};
use super::generate::{Examples, ParentKind};
use super::reply::{Child, Reply};
use super::world::{healthy_status, timestamp};
use crate::fields::{object_of, set};
use crate::offline::{Offline, gvk_of};

/// A component under test.
pub struct Tested<'a> {
    /// The component, as it is called without a host.
    pub offline: &'a Offline,
    config: Option<Arc<[u8]>>,
    shape: StatusShape,
}

impl<'a> Tested<'a> {
    /// Prepares calls of a component with this `spec.config`.
    pub fn new(offline: &'a Offline, config: Option<Arc<[u8]>>) -> Self {
        let version = offline.described.declared.crd().and_then(|crd| storage_of(crd.json()));
        // For a kind whose CRD the component does not carry, the host writes no status.
        Self { offline, config, shape: version.map_or(StatusShape::NONE, status_shape) }
    }

    /// The kind of the component's parents.
    pub fn kind(&self) -> ParentKind {
        let kind = &self.offline.described.kind;
        let selector = &self.offline.described.descriptor.selector;
        let selected = |selector: Option<&str>| {
            selector.and_then(|selector| selector.parse().ok()).map(|selector| labels_of(&selector)).unwrap_or_default()
        };
        ParentKind {
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            schema: self.offline.described.schema().cloned(),
            labels: selected(selector.labels()),
            annotations: selected(selector.annotations()),
            namespaced: self.offline.described.is_namespaced(),
            examples: Examples::default(),
        }
    }

    fn try_call(&self, input: Input<'_>) -> anyhow::Result<CallResult> {
        let Input { world, phase, stock, seed, is_reversed } = input;
        let parent = Arc::new(self.offline.described.parent(world.parent.clone())?);
        let parent_ref = self.offline.described.parent_ref(&parent);
        let children = world
            .live
            .iter()
            .map(|live| anyhow::Ok(Arc::new(Object::from_api(&Arc::new(gvk_of(live)), &live.to_string())?)));
        let children = children.collect::<anyhow::Result<Vec<_>>>()?;
        let snapshot = Snapshot::new(parent_ref.clone(), parent.clone(), children, self.config.clone(), |_| false);
        // The request of a plugin with a clock differs at another time.
        let (is_impure, has_related) = (Cell::new(self.offline.described.descriptor.clock), Cell::new(false));
        let find = |need: &Need| {
            has_related.set(true);
            match stock {
                Stock::Empty => Vec::new(),
                Stock::Plausible => plausible(need),
            }
        };
        let call = |snapshot: &Snapshot| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(world.now);
            let mut request = self.offline.described.at(time, snapshot.request(phase));
            if is_reversed {
                request.children.reverse();
                request.related.iter_mut().for_each(|related| related.objects.reverse());
            }
            let component = &self.offline.component;
            let seed = match seed {
                Seed::OfRequest => *snapshot.hash(&component.digest(), phase).as_bytes(),
                Seed::Fixed => [7; 32],
                Seed::OtherFixed => [8; 32],
            };
            let ambient = Ambient { seed, now: time };
            let (result, report) = run_here(component.reconcile(&request, &self.offline.described.limits, ambient));
            is_impure.set(is_impure.get() || report.impure);
            result
        };
        let response = match self.offline.described.settle(snapshot, &[], find, call) {
            Ok(response) => response,
            Err(stopped) => return Ok(without_response(stopped, has_related.get())),
        };
        let desired = match self.offline.described.validate(&response, &parent_ref) {
            Ok(desired) => desired,
            Err(rejection) => return Ok(CallResult::Rejected(rejection.to_string())),
        };
        let now = timestamp(world.now).parse().unwrap_or_default();
        let outcome = Outcome::applied(desired.children.len(), None);
        let next = status::next(&parent, desired.status.as_ref(), &outcome, self.shape, now);
        let next_status = next.map(|next| self.stored(object_of(&next)));
        Ok(CallResult::Response(Box::new(Reply {
            children: desired.children.iter().map(|child| as_child(child)).collect(),
            status: response.status.as_deref().map(serde_json::from_slice).transpose()?,
            next_status,
            finalized: desired.finalized,
            is_impure: is_impure.get(),
            has_related: !response.requirements.is_empty(),
            raw: response,
        })))
    }

    /// A status as the API server stores it.
    fn stored(&self, mut status: Value) -> Value {
        if let Some(schema) = self.offline.described.schema().and_then(|schema| schema.pointer("/properties/status")) {
            schema::prune(schema, &mut status);
            schema::fill_in(schema, &mut status);
        }
        status
    }
}

impl Plugin for Tested<'_> {
    fn call(&self, input: Input<'_>) -> CallResult {
        // The objects come from validated responses, so an error here is a child that the API server would refuse.
        self.try_call(input).unwrap_or_else(|error| CallResult::Rejected(format!("{error:#}")))
    }

    fn finalizes(&self) -> bool {
        self.offline.described.descriptor.finalizes
    }
}

fn without_response(problem: Problem, has_related: bool) -> CallResult {
    match problem {
        Problem::Call(failure) => CallResult::Trap(failure.to_string()),
        Problem::Plugin(Failure::Invalid(message)) => CallResult::Invalid(message),
        Problem::Plugin(Failure::Retry { message, .. }) => CallResult::Retry(message),
        Problem::Plugin(Failure::Failed(message)) => CallResult::Failed { message, has_related },
        problem => CallResult::Rejected(Outcome::from(&problem).message),
    }
}

fn as_child(child: &DesiredChild) -> Child {
    Child { body: object_of(&child.body), update: child.update.clone(), is_retained: child.owner.is_none() }
}

/// The objects that a requirement selects: by name one, and by labels two that differ, because their order may matter.
pub fn plausible(need: &Need) -> Vec<Arc<Object>> {
    let (names, labels) = match &need.select {
        Select::Name(name) => (vec![&**name], Map::new()),
        Select::Labels(selector) => (vec!["plausible", "plausible-2"], labels_of(selector)),
        Select::Nothing => (Vec::new(), Map::new()),
    };
    let objects = names.into_iter().enumerate().filter_map(|(at, name)| plausible_object(need, (at, name), &labels));
    objects.filter(|object| need.selects(object)).map(Arc::new).collect()
}

/// An object of a requirement's kind; its number makes its UID and its values.
fn plausible_object(need: &Need, (at, name): (usize, &str), labels: &Map<String, Value>) -> Option<Object> {
    let (value, encoded) = if at == 0 { ("value", "dmFsdWU=") } else { ("other", "b3RoZXI=") };
    let data = match &*need.kind.kind {
        "Secret" => json!({"password": "aHVudGVyMg==", "key": encoded}),
        "ConfigMap" => json!({"key": value}),
        _ => Value::Null,
    };
    let namespace = match &need.place {
        Place::Cluster => None,
        Place::In(namespace) => Some(&**namespace),
        Place::AllBut(_) => Some("default"),
    };
    let described = json!({
        "apiVersion": need.kind.api_version(), "kind": *need.kind.kind,
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels, "resourceVersion": "900",
            "uid": format!("2b0f4a6e-7a0e-4d0c-8a52-0c1f6f3f9f0{}", at + 1), "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "data": data,
    });
    // A merge leaves out what is null: the API server stores no null.
    let mut object = json!({});
    json_patch::merge(&mut object, &described);
    if let Some(status) = healthy_status(&object) {
        set(&mut object, &["status"], status);
    }
    Object::from_api(&need.kind, &object.to_string()).ok()
}

/// Labels that a selector matches.
fn labels_of(selector: &Selector) -> Map<String, Value> {
    selector.example().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_that_a_selector_matches() {
        for (selector, labels) in [
            ("", json!({})),
            ("a=b,c", json!({"a": "b", "c": "any"})),
            ("a in (x,y), b==z, !c, d != e, f notin (g)", json!({"a": "x", "b": "z"})),
            ("windlass.dev/guard=true", json!({"windlass.dev/guard": "true"})),
        ] {
            assert_eq!(Value::Object(labels_of(&selector.parse().expect(selector))), labels, "{selector}");
        }
    }
}
