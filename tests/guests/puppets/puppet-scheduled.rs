//! A plugin of contract 0.2 with a clock and on the bare contract: from the time on that the spec of its parent names (`at`, in milliseconds since 1970), it
//! returns the `children` of that spec. Before that, it asks to be called then.

use hostile_guests::open_kind;
use serde_json::Value;
use windlass_plugin::raw::{
    ChildRule, Create, CustomParent, Descriptor, DesiredChild, Failure, Invalid, Keep, Kind, Parent, ParentSelector,
    ReadyMeans, Request, Response, UpdateStrategy, exports::windlass::plugin::reconciler::Guest,
};

/// A child of the parent's spec.
fn child(object: &Value) -> DesiredChild {
    DesiredChild {
        object: object.to_string().into_bytes(),
        stage: 0,
        retain: false,
        take_over: false,
        create: Create::Always,
        ready: None,
        update: None,
        replaces: None,
    }
}

struct Scheduled;

impl Guest for Scheduled {
    fn describe() -> Descriptor {
        let kind = Kind { api_version: "v1".to_owned(), name: "ConfigMap".to_owned() };
        let selector = ParentSelector { labels: None, annotations: None };
        Descriptor {
            name: "puppet-scheduled".to_owned(),
            version: "0.1.0".to_owned(),
            description: "Returns what the spec of its parent says from a time on".to_owned(),
            parent: Parent::Custom(CustomParent { definition: open_kind::definition("ScheduledPuppet"), selector }),
            children: vec![ChildRule { kind, update: UpdateStrategy::Apply, optional: false }],
            related: Vec::new(),
            endpoints: Vec::new(),
            finalizes: false,
            ordered_deletion: false,
            ready_means: ReadyMeans::Children,
            clock: true,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        let parent: Value = serde_json::from_slice(&request.parent).unwrap_or_default();
        let (at, name) = (parent["spec"]["at"].as_u64(), parent["metadata"]["name"].as_str().unwrap_or_default());
        let children = parent["spec"]["children"].to_string().replace("${name}", name);
        let children: Vec<Value> = serde_json::from_str(&children).unwrap_or_default();
        let (Some(at), Some(now)) = (at, request.now) else {
            let (field, message) = (Some("spec.at".to_owned()), "is no time".to_owned());
            return Err(Failure::Invalid(Invalid { field, message }));
        };
        let is_due = now >= at;
        Ok(Response {
            children: children.iter().filter(|_| is_due).map(child).collect(),
            keep: Keep::None,
            status: None,
            waiting: (!is_due).then(|| "Waits for its time".to_owned()),
            requeue: None,
            // Afterwards in a year: nothing else is due.
            requeue_at: Some(if is_due { at + 365 * 24 * 3_600_000 } else { at }),
            events: Vec::new(),
            requirements: Vec::new(),
            http: Vec::new(),
            finalized: false,
            extensions: Vec::new(),
        })
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(Scheduled with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = Scheduled::describe;
