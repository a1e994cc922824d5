//! A plugin of contract 0.2 with a clock and on the bare contract: from the time on that the spec of its parent names (`at`, in milliseconds since 1970), it
//! returns the `children` of that spec. Before that, it asks to be called then. With a `schedule` in a `timeZone`, its times after `at` are meant, and
//! the status has the latest of them.

use std::time::{Duration, SystemTime};

use hostile_guests::open_kind;
use serde_json::{Value, json};
use windlass_plugin::raw::{
    ChildRule, Create, CustomParent, Descriptor, DesiredChild, Failure, Invalid, Keep, Kind, Parent, ParentSelector,
    ReadyMeans, Request, Response, UpdateStrategy, exports::windlass::plugin::reconciler::Guest,
};
use windlass_plugin::schedule::Schedule;

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

/// The latest time of a parent that was reached, if any was, and the next one.
fn due(spec: &Value, at: u64, now: u64) -> Result<(Option<u64>, u64), Failure> {
    let Some(schedule) = spec["schedule"].as_str() else {
        // Afterwards in a year: nothing else is due.
        return Ok(if now >= at { (Some(at), at + 365 * 24 * 3_600_000) } else { (None, at) });
    };
    let schedule = Schedule::new(schedule).in_zone(spec["timeZone"].as_str().unwrap_or_default());
    let time = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
    let milliseconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or_default()
    };
    let due = schedule.due(time(at), time(now))?;
    Ok((due.time.map(milliseconds), milliseconds(due.next)))
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
        let (spec, name) = (&parent["spec"], parent["metadata"]["name"].as_str().unwrap_or_default());
        let (Some(at), Some(now)) = (spec["at"].as_u64(), request.now) else {
            let (field, message) = (Some("spec.at".to_owned()), "is no time".to_owned());
            return Err(Failure::Invalid(Invalid { field, message }));
        };
        let (due, next) = due(spec, at, now)?;
        let children = spec["children"].to_string().replace("${name}", name);
        let children: Vec<Value> = serde_json::from_str(&children).unwrap_or_default();
        Ok(Response {
            children: children.iter().filter(|_| due.is_some()).map(child).collect(),
            keep: Keep::None,
            status: due.map(|time| json!({ "time": time }).to_string().into_bytes()),
            waiting: due.is_none().then(|| "Waits for its time".to_owned()),
            requeue: None,
            requeue_at: Some(next),
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
