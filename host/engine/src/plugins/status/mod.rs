//! Writes the status of a Plugin when it changes.

mod conditions;

use http::Request;
use kube::Client;
use kube::core::ApiResource;
use windlass_core::guard::deletions::RolloutRecord;
use windlass_core::hosts::shards::FailingShare;
use windlass_core::object::Object;
use windlass_core::object::conditions::stamp;
use windlass_core::object::names::{ANNOTATION_PUSHED_AT, ANNOTATION_ROLLBACK};
use windlass_core::object::observed_status::observed;
use windlass_core::object::reason::PluginReason;
use windlass_core::plugin::events;
use windlass_core::reconcile::api_response::{Ack, Refused};
use windlass_core::reconcile::events::Note;
use windlass_core::reconcile::shared::component_state::{Decisions, Share};
use windlass_core::reconcile::shared::failures::{LastFailure, Sums};
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_core::value::json::{Map, Value};

use self::conditions::conditions;
use super::claim;
use super::findings::Findings;
use super::former_kinds::FormerKinds;
use super::problem::{Problem, Step};
use super::resource::parse;
use crate::clock;
use crate::cluster::writer::audit::about;
use crate::cluster::writer::request::{self, To};
use crate::cluster::writer::send;
use crate::live::Live;
use crate::telemetry::int;

/// Updates the status from the last reconcile and the live component. Returns the events for the changes, and the version of the Plugin
/// after the write; none if nothing had to be written.
///
/// `is_behind`: the object is older than the host's last write of its status, so that an equal status in it proves nothing.
/// `before_sharing` is called before a status is sent by which other hosts reconcile parents.
pub(super) async fn write(
    client: &Client,
    resource: &ApiResource,
    object: &Object,
    is_behind: bool,
    standing: Standing<'_>,
    before_sharing: impl FnOnce(),
) -> anyhow::Result<(Vec<Note>, Option<u64>)> {
    let before = observed(object);
    let sums = standing.live.map(|live| {
        let own = live.shared.records.begin_report(before.count("failing"), |parent| live.knows(parent));
        standing.elsewhere.iter().fold(own, |sums, share| share.added_to(sums))
    });
    let next = next(object, &before, standing, sums, clock::date());
    if next == before && !is_behind {
        return Ok((Vec::new(), None));
    }
    let notes = events::notes(&before, &next);
    // A delayed request must not let other hosts reconcile parents that the leader has taken back.
    let version = is_shared(&next).then_some(object.resource_version);
    if version.is_some() {
        before_sharing();
    }
    let request = request::status(To::own(resource), object, version, next);
    let request = request.map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let version = written(send(client, of_plugin(request, object)).await)?;
    Ok((notes, Some(version)))
}

/// The version after a write of the status. A failed write is retried, also after a conflict, because no other event may
/// ever queue the Plugin.
fn written(response: Result<Ack, Refused>) -> anyhow::Result<u64> {
    match response {
        Ok(ack) => Ok(ack.resource_version()),
        // The Plugin is gone; its deletion event follows.
        Err(Refused::ByServer(status)) if status.code == 404 => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Records the rollout of a component that is about to go live, if the status does not have it yet. Without the record,
/// a host that is killed right after would count the component's new children among the earlier ones.
pub(super) async fn record_rollout(
    client: &Client,
    resource: &ApiResource,
    object: &Object,
    record: &RolloutRecord,
) -> Result<(), Problem> {
    let mut next = observed(object);
    let rollout = rollout(record);
    if record.is_decided || next.get("rollout") == Some(&rollout) {
        return Ok(());
    }
    next.insert("rollout", rollout);
    send_rollout(client, resource, object, next, "the component does not go live yet").await.map(drop)
}

/// Tells the other hosts to end their reconciles of the Plugin's parents. Returns the version of the Plugin that says so.
pub(super) async fn write_unshared(client: &Client, resource: &ApiResource, object: &Object) -> Result<u64, Problem> {
    let mut next = observed(object);
    remove_shared(&mut next);
    match send_rollout(client, resource, object, next, UNSHARED).await?.resource_version() {
        0 => Err(unwritten(UNSHARED, "the response has no version")),
        version => Ok(version),
    }
}

/// What follows if other hosts cannot be told to end their reconciles.
const UNSHARED: &str = "other hosts reconcile some of the parents yet";

/// Writes a status with another `rollout`. `consequence`: what follows if that fails.
async fn send_rollout(
    client: &Client,
    resource: &ApiResource,
    object: &Object,
    next: Map,
    consequence: &str,
) -> Result<Ack, Problem> {
    let request = request::status(To::own(resource), object, None, next);
    let request = request.map_err(|problem| unwritten(consequence, &problem.to_string()))?;
    send(client, of_plugin(request, object)).await.map_err(|refused| unwritten(consequence, &refused.to_string()))
}

fn unwritten(consequence: &str, why: &str) -> Problem {
    let message = format!("status.rollout could not be written, so {consequence}: {why}");
    Problem::new(Step::Granted, PluginReason::ApiError, message)
}

/// Names the Plugin's status in the audit line.
fn of_plugin(request: Request<Vec<u8>>, object: &Object) -> Request<Vec<u8>> {
    match object.key.name.parse::<PluginName>() {
        Ok(name) => about(request, &name, None, &format!("Plugin {name}/status")),
        Err(_) => request,
    }
}

fn remove_shared(status: &mut Map) {
    if is_shared(status)
        && let Some(rollout) = status.object_mut("rollout")
    {
        rollout.remove("shared");
    }
}

fn is_shared(status: &Map) -> bool {
    let rollout = status.get("rollout").and_then(Value::as_object);
    rollout.is_some_and(|rollout| rollout.get("shared") == Some(&Value::Bool(true)))
}

fn rollout(record: &RolloutRecord) -> Value {
    let mut rollout = Map::from([("decided", record.is_decided.into()), ("hash", Value::from(record.hash.as_str()))]);
    if let Some((children, since)) = record.began {
        rollout.insert("children", int(children));
        rollout.insert("since", format!("{since:.0}").as_str());
    }
    Value::Object(rollout)
}

/// State of a Plugin from which its status follows.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    pub live: Option<&'a Live>,
    /// What is decided about the deletions of the live component.
    pub decisions: Option<&'a Decisions>,
    /// The failing parents in the shares of other hosts.
    pub elsewhere: &'a [FailingShare],
    /// Whether the leader takes back the parents that it shared.
    pub is_taken_back: bool,
    pub former_kinds: &'a FormerKinds,
    pub result: &'a Result<Findings, Problem>,
}

/// Status fields that describe the live component.
const OF_LIVE_LOGIC: [&str; 9] = [
    "activeDigest",
    "digest12",
    "version",
    "parentKind",
    "parentKindSince",
    "childKinds",
    "formerChildKinds",
    "decorates",
    "parents",
];

fn next(object: &Object, before: &Map, standing: Standing<'_>, sums: Option<Sums>, now: jiff::Timestamp) -> Map {
    let Standing { live, former_kinds, result, .. } = standing;
    let mut next = Map::default();
    if let Some(generation) = object.generation {
        next.insert("observedGeneration", generation);
    }
    match live {
        Some(live) => insert_live(&mut next, object, before, live, former_kinds, now),
        // Keep the previous values: the next start restores their component, and the Plugin's deletion finds its kinds
        // in them.
        None => keep(&mut next, before, &OF_LIVE_LOGIC),
    }
    if let Some(pushed) = object.marks.get(ANNOTATION_PUSHED_AT) {
        next.insert("lastHandledPush", pushed);
    }
    if live.is_some_and(|live| live.terms.sets_finalizer()) || before.get("setFinalizers").is_some() {
        next.insert("setFinalizers", true);
    }
    if let Some(sums) = &sums {
        next.insert("failing", int(sums.failing));
    }
    if let Some(last) = last_failure(before.get("lastFailure"), sums.and_then(|sums| sums.last)) {
        next.insert("lastFailure", last);
    }
    insert_decisions(&mut next, before, standing);
    if let Some(previous) = previous_digest(before, live) {
        next.insert("previousDigest", previous);
    }
    if let Some(from) = rolled_back_from(object, before, result) {
        next.insert("rolledBackFrom", from);
    }
    if let Err(Problem { candidate: Some(candidate), .. }) = result
        && live.is_none_or(|live| live.digest() != *candidate)
    {
        next.insert("candidateDigest", candidate.to_string());
    }
    let wants_signatures = parse(object).is_ok_and(|plugin| plugin.spec.verify.is_some());
    let unreconciled = match live {
        Some(live) if next.get("reconciledDigest") != next.get("activeDigest") => live.shared.state.unreconciled(),
        Some(_) | None => 0,
    };
    let conditions = conditions(object.generation, wants_signatures, unreconciled, standing);
    next.insert("conditions", stamp(conditions, before, now));
    next
}

/// Sets the status fields of the live component: see [`OF_LIVE_LOGIC`].
fn insert_live(
    next: &mut Map,
    object: &Object,
    before: &Map,
    live: &Live,
    former_kinds: &FormerKinds,
    now: jiff::Timestamp,
) {
    next.insert("activeDigest", live.digest().to_string());
    next.insert("digest12", live.digest().short());
    next.insert("version", live.terms.version.as_str());
    next.insert("parentKind", live.terms.parents.to_string());
    next.insert("parentKindSince", held_since(object, before, &live.terms.parents, now));
    let names = |kinds: &[&Gvk]| kinds.iter().map(|kind| Value::from(kind.to_string())).collect::<Vec<_>>();
    next.insert("childKinds", names(&live.terms.grants.kinds()));
    let former = former_kinds.kinds(&live.terms.grants);
    if !former.is_empty() {
        next.insert("formerChildKinds", names(&former.iter().collect::<Vec<_>>()));
    }
    if !live.terms.owns_kind {
        next.insert("decorates", true);
    }
    next.insert("parents", int(live.caches.parent_count()));
}

/// Sets the progress of the rollout and the blocked deletions. While no component is live, both keep their values.
fn insert_decisions(next: &mut Map, before: &Map, standing: Standing<'_>) {
    let Standing { live, decisions, result, is_taken_back, .. } = standing;
    let Some((live, decisions)) = live.zip(decisions) else {
        keep(next, before, &["reconciledDigest", "blockedDeletionsHash", "rollout"]);
        // Otherwise the members go on with their shares: only this host has a problem with the component.
        if is_taken_back || result.as_ref().is_err_and(Problem::is_about_kind) {
            remove_shared(next);
        }
        return;
    };
    // The previous component's value stays until this component was called for all parents.
    if live.shared.state.unreconciled() == 0 {
        next.insert("reconciledDigest", live.digest().to_string());
    } else {
        keep(next, before, &["reconciledDigest"]);
    }
    if let Some(hash) = &decisions.blocked_hash {
        next.insert("blockedDeletionsHash", hash.as_str());
    }
    let mut rollout = rollout(&decisions.rollout);
    if live.shared.state.share().is_some_and(Share::is_open)
        && let Value::Object(rollout) = &mut rollout
    {
        rollout.insert("shared", true);
    }
    next.insert("rollout", rollout);
}

/// Digest of the component that was live before the live one.
fn previous_digest(before: &Map, live: Option<&Live>) -> Option<Value> {
    let was = before.get("activeDigest").and_then(Value::as_str);
    match (was, live) {
        (Some(was), Some(live)) if live.digest().to_string() != was => Some(was.into()),
        _ => before.get("previousDigest").cloned(),
    }
}

fn keep(next: &mut Map, before: &Map, fields: &[&str]) {
    for field in fields {
        if let Some(was) = before.get(field) {
            next.insert(field, was.clone());
        }
    }
}

/// Time since which the Plugin has its parent kind; it decides which of several Plugins keeps a kind.
fn held_since(object: &Object, before: &Map, kind: &Gvk, now: jiff::Timestamp) -> Value {
    let was = before.get("parentKind").and_then(Value::as_str).and_then(|kind| kind.parse::<Gvk>().ok());
    if was.is_none_or(|was| was.group_kind() != kind.group_kind()) {
        return format!("{now:.0}").as_str().into();
    }
    // A Plugin whose status was written before this field existed counts from its creation.
    before.get("parentKindSince").cloned().unwrap_or_else(|| claim::created(object).as_str().into())
}

/// The component that a user rolled back from, as long as the annotation is set, even while the rollback fails.
fn rolled_back_from(object: &Object, before: &Map, result: &Result<Findings, Problem>) -> Option<Value> {
    let found = result.as_ref().ok().and_then(|findings| findings.rolled_back_from);
    let before = || before.get("rolledBackFrom").cloned();
    let is_wanted = object.marks.is_true(ANNOTATION_ROLLBACK);
    found.map(|from| from.to_string().into()).or_else(before).filter(|_| is_wanted)
}

/// The newest failure. A failure that the status already has keeps its time, also after a restart of the host.
fn last_failure(before: Option<&Value>, last: Option<LastFailure>) -> Option<Value> {
    let Some(last) = last else { return before.cloned() };
    let mut next = Map::from([
        ("message", last.message.as_str().into()),
        ("object", last.object.as_str().into()),
        ("reason", last.reason.as_str().into()),
    ]);
    let before = before.and_then(Value::as_object);
    let same = before.filter(|before| next.iter().all(|(field, value)| before.get(field) == Some(value)));
    let time = same.and_then(|before| before.get("time").cloned());
    next.insert("time", time.unwrap_or_else(|| Value::from(format!("{:.0}", last.time))));
    Some(Value::Object(next))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use windlass_core::reconcile::api_response;
    use windlass_core::value::json;

    use super::super::load::recorded;
    use super::*;

    fn failure(message: &str, second: i64) -> LastFailure {
        LastFailure {
            reason: windlass_core::object::reason::ParentReason::Conflict,
            object: "n/a".to_owned(),
            message: message.to_owned(),
            time: jiff::Timestamp::from_second(second).expect("a time"),
        }
    }

    #[test]
    fn e10_failed_write_of_a_status_is_retried_also_after_a_conflict() {
        let response = |code: u16| {
            let status = api_response::Status { code, ..api_response::Status::default() };
            written(Err(Refused::ByServer(Box::new(status))))
        };
        for code in [400, 403, 409, 422, 429, 500, 503, 504] {
            assert!(response(code).is_err(), "{code}");
        }
        assert!(response(404).is_ok(), "the Plugin is gone");
    }

    #[test]
    fn r07_failure_that_is_already_in_the_status_keeps_its_time_and_needs_no_write() {
        let first = last_failure(None, Some(failure("taken", 1))).expect("a failure");
        assert_eq!(
            first.to_string(),
            r#"{"message":"taken","object":"n/a","reason":"Conflict","time":"1970-01-01T00:00:01Z"}"#
        );
        assert_eq!(last_failure(Some(&first), Some(failure("taken", 2))), Some(first.clone()));
        assert_eq!(last_failure(Some(&first), None), Some(first.clone()), "no failure since the host started");
        assert_ne!(last_failure(Some(&first), Some(failure("taken by another", 2))), Some(first));
    }

    /// The state of a Plugin without a live component.
    pub(super) fn without_component(result: &Result<Findings, Problem>) -> Standing<'_> {
        static NO_KINDS: LazyLock<FormerKinds> = LazyLock::new(FormerKinds::default);
        Standing { live: None, decisions: None, elsewhere: &[], is_taken_back: false, former_kinds: &NO_KINDS, result }
    }

    #[test]
    fn h03_plugin_that_lost_its_kind_or_is_taken_back_is_not_shared_and_other_problems_leave_it_shared() {
        let kind = std::sync::Arc::new(windlass_api::plugin_kind());
        let object = r#"{"metadata":{"name":"echo","uid":"1","resourceVersion":"1","generation":1}}"#;
        let object = Object::from_api(&kind, object).expect("a Plugin");
        let rollout = |before: &str, reason, is_taken_back| {
            let result = Err(Problem::new(Step::Granted, reason, "a problem"));
            let before = json::parse(before.as_bytes(), 8).expect("JSON");
            let standing = Standing { is_taken_back, ..without_component(&result) };
            let before = before.as_object().expect("an object");
            next(&object, before, standing, None, jiff::Timestamp::UNIX_EPOCH).get("rollout").cloned()
        };
        let shared = r#"{"rollout":{"decided":true,"hash":"a","shared":true}}"#;
        let is_shared = |rollout: Option<Value>| {
            rollout.as_ref().and_then(Value::as_object).map(|rollout| rollout.get("shared").is_some())
        };
        assert_eq!(is_shared(rollout(shared, PluginReason::SourceNotFound, false)), Some(true));
        assert_eq!(is_shared(rollout(shared, PluginReason::ParentKindTaken, false)), Some(false));
        assert_eq!(is_shared(rollout(shared, PluginReason::SourceNotFound, true)), Some(false));
        assert_eq!(rollout("{}", PluginReason::ParentKindTaken, false), None, "no component was ever live");
    }

    #[test]
    fn r09_blocked_deletions_stay_blocked_while_no_component_is_live() {
        let kind = std::sync::Arc::new(windlass_api::plugin_kind());
        let object = r#"{"metadata":{"name":"echo","uid":"1","resourceVersion":"1","generation":1}}"#;
        let object = Object::from_api(&kind, object).expect("a Plugin");
        let result = Err(Problem::new(Step::Fetched, PluginReason::SourceNotFound, "gone"));
        let next = |before: &[u8]| {
            let before = json::parse(before, 8).expect("JSON");
            let standing = without_component(&result);
            let before = before.as_object().expect("an object");
            let next = next(&object, before, standing, None, jiff::Timestamp::UNIX_EPOCH);
            let plugin = format!(
                r#"{{"metadata":{{}},"spec":{{"source":{{"configMap":{{"namespace":"n","name":"n"}}}}}},"status":{}}}"#,
                Value::Object(next)
            );
            let plugin: windlass_api::Plugin = serde_json::from_str(&plugin).expect("a Plugin");
            recorded(plugin.status.as_ref()).1.map(str::to_owned)
        };
        assert_eq!(next(br#"{"blockedDeletionsHash":"c27db0e670d5"}"#), Some("c27db0e670d5".to_owned()));
        assert_eq!(next(b"{}"), None);
    }

    #[test]
    fn status_keeps_the_last_component_while_none_is_live() {
        let kind = std::sync::Arc::new(windlass_api::plugin_kind());
        let object = r#"{"metadata":{"name":"echo","uid":"1","resourceVersion":"1","generation":1}}"#;
        let object = Object::from_api(&kind, object).expect("a Plugin");
        let was = r#"{"activeDigest":"sha256:a","childKinds":["Pod.v1"],"formerChildKinds":["Secret.v1"],"parentKind":"Echo.v1.g","parents":3}"#;
        let before = json::parse(was.as_bytes(), 8).expect("JSON");
        let mut last = before.as_object().expect("an object").clone();
        for _ in 0..2 {
            let result = Err(Problem::new(Step::Granted, PluginReason::Terminating, "stuck"));
            let standing = without_component(&result);
            last = next(&object, &last, standing, None, jiff::Timestamp::UNIX_EPOCH);
        }
        for (field, value) in before.as_object().expect("an object").iter() {
            assert_eq!(last.get(field), Some(value), "{field}");
        }
    }

    #[test]
    fn parent_kind_since_restarts_when_the_parent_kind_changes() {
        let kind = std::sync::Arc::new(windlass_api::plugin_kind());
        let object = r#"{"metadata":{"name":"echo","uid":"1","resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z"}}"#;
        let object = Object::from_api(&kind, object).expect("a Plugin");
        let since = |before: &str, kind: &str| {
            let before = json::parse(before.as_bytes(), 8).expect("JSON");
            let kind: Gvk = kind.parse().expect("a kind");
            let now = jiff::Timestamp::UNIX_EPOCH;
            held_since(&object, before.as_object().expect("an object"), &kind, now).as_str().map(str::to_owned)
        };
        let now = Some("1970-01-01T00:00:00Z".to_owned());
        let known = r#"{"parentKind":"Echo.v1.g","parentKindSince":"2026-02-01T00:00:00Z"}"#;
        assert_eq!(since("{}", "Echo.v1.g"), now);
        assert_eq!(since(known, "Other.v1.g"), now);
        assert_eq!(
            since(known, "Echo.v2.g"),
            Some("2026-02-01T00:00:00Z".to_owned()),
            "another version of the same kind"
        );
        assert_eq!(since(r#"{"parentKind":"Echo.v1.g"}"#, "Echo.v1.g"), Some("2026-01-01T00:00:00Z".to_owned()));
    }

    #[test]
    fn counts_are_read_from_a_status() {
        let status = json::parse(br#"{"failing":12,"parents":"x"}"#, 8).expect("JSON");
        let status = status.as_object().expect("an object");
        assert_eq!((status.count("failing"), status.count("parents"), status.count("none")), (Some(12), None, None));
    }
}
