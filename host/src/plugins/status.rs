//! Writes the status of a Plugin when it changes.

use http::Request;
use kube::Client;
use kube::core::ApiResource;
use windlass_core::budget::Cost;
use windlass_core::conditions::{condition, stamp};
use windlass_core::events::Note;
use windlass_core::guard::RolloutRecord;
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::json::{Map, Value};
use windlass_core::names::{ANNOTATION_PUSHED_AT, ANNOTATION_ROLLBACK, plugin_condition as condition_type};
use windlass_core::object::Object;
use windlass_core::observed_status::observed;
use windlass_core::outcome::bounded;
use windlass_core::plugin_events;
use windlass_core::readiness::{Found, Obstacle, Readiness, readiness};
use windlass_core::reason::PluginReason;
use windlass_core::shards::FailingShare;

use super::claim;
use super::findings::Findings;
use super::former_kinds::FormerKinds;
use super::leftovers::plain;
use super::problem::{Problem, Step};
use super::resource::parse;
use crate::cluster::writer::audit::about;
use crate::cluster::writer::response::Ack;
use crate::cluster::writer::{request, send};
use crate::live::Live;
use crate::live::component_state::Share;
use crate::live::failures::{LastFailure, Sums};
use crate::telemetry::one_line;

/// Updates the status from the last reconcile and the live component. Returns the events for the changes.
///
/// `before_sharing` is called before a status is sent by which other hosts reconcile parents.
pub(super) async fn write(
    client: &Client,
    resource: &ApiResource,
    object: &Object,
    standing: Standing<'_>,
    before_sharing: impl FnOnce(),
) -> anyhow::Result<Vec<Note>> {
    let before = observed(object);
    let sums = standing.live.map(|live| {
        let own = live.records.begin_report(before.count("failing"), |parent| live.knows(parent));
        standing.elsewhere.iter().fold(own, Sums::with)
    });
    let next = next(object, &before, standing, sums, jiff::Timestamp::now());
    if next == before {
        return Ok(Vec::new());
    }
    let notes = plugin_events::notes(&before, &next);
    // A delayed request must not let other hosts reconcile parents that the leader has taken back.
    let request = if is_shared(&next) {
        before_sharing();
        request::status_if_unchanged(resource, object, next)
    } else {
        request::status(resource, object, next, None)
    };
    let request = request.map_err(|problem| anyhow::anyhow!("{problem:?}"))?;
    written(send(client, of_plugin(request, object)).await)?;
    Ok(notes)
}

/// The result of a write of the status. A failed write is retried, also after a conflict, because no other event may
/// ever queue the Plugin.
fn written(response: Result<Ack, kube::Error>) -> anyhow::Result<()> {
    match response {
        Ok(_) => Ok(()),
        // The Plugin is gone; its deletion event follows.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
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
    let request = request::status(resource, object, next, None);
    let request = request.map_err(|problem| unwritten(consequence, &format!("{problem:?}")))?;
    send(client, of_plugin(request, object)).await.map_err(|error| unwritten(consequence, &plain(&error)))
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
        rollout.insert("children", whole(children as u64));
        rollout.insert("since", format!("{since:.0}").as_str());
    }
    Value::Object(rollout)
}

/// State of a Plugin from which its status follows.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    pub live: Option<&'a Live>,
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
        Some(live) => insert_live(&mut next, (object, before), live, former_kinds, now),
        // Keep the previous values: the next start restores their component, and the Plugin's deletion finds its kinds
        // in them.
        None => keep(&mut next, before, &OF_LIVE_LOGIC),
    }
    if let Some(pushed) = object.marks.get(ANNOTATION_PUSHED_AT) {
        next.insert("lastHandledPush", pushed);
    }
    if live.is_some_and(|live| live.finalizes) || before.get("setFinalizers").is_some() {
        next.insert("setFinalizers", true);
    }
    if let Some(sums) = &sums {
        next.insert("failing", whole(sums.failing));
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
        Some(live) if next.get("reconciledDigest") != next.get("activeDigest") => live.state.unreconciled(),
        Some(_) | None => 0,
    };
    let conditions = conditions(object.generation, wants_signatures, unreconciled, standing);
    next.insert("conditions", stamp(conditions, before, now));
    next
}

/// Sets the status fields of the live component: see [`OF_LIVE_LOGIC`].
fn insert_live(
    next: &mut Map,
    (object, before): (&Object, &Map),
    live: &Live,
    former_kinds: &FormerKinds,
    now: jiff::Timestamp,
) {
    next.insert("activeDigest", live.digest().to_string());
    next.insert("digest12", live.digest().short());
    next.insert("version", live.version.as_str());
    next.insert("parentKind", live.parents.id.kind.to_string());
    next.insert("parentKindSince", held_since(object, before, &live.parents.id.kind, now));
    let names = |kinds: &[&Gvk]| kinds.iter().map(|kind| Value::from(kind.to_string())).collect::<Vec<_>>();
    next.insert("childKinds", names(&live.grants.kinds()));
    let former = former_kinds.kinds(&live.grants);
    if !former.is_empty() {
        next.insert("formerChildKinds", names(&former.iter().collect::<Vec<_>>()));
    }
    if !live.owns_kind() {
        next.insert("decorates", true);
    }
    next.insert("parents", whole(live.parents.store.size() as u64));
}

/// Sets the progress of the rollout and the blocked deletions. While no component is live, both keep their values.
fn insert_decisions(next: &mut Map, before: &Map, Standing { live, result, is_taken_back, .. }: Standing<'_>) {
    let Some(live) = live else {
        keep(next, before, &["reconciledDigest", "blockedDeletionsHash", "rollout"]);
        // Otherwise the members go on with their shares: only this host has a problem with the component.
        if is_taken_back || result.as_ref().is_err_and(Problem::is_about_kind) {
            remove_shared(next);
        }
        return;
    };
    // The previous component's value stays until this component was called for all parents.
    if live.state.unreconciled() == 0 {
        next.insert("reconciledDigest", live.digest().to_string());
    } else {
        keep(next, before, &["reconciledDigest"]);
    }
    if let Some(hash) = live.state.blocked_hash() {
        next.insert("blockedDeletionsHash", hash);
    }
    let mut rollout = rollout(&live.state.record_of_rollout());
    if live.state.share().is_some_and(Share::is_open)
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

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
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

fn conditions(
    generation: Option<i64>,
    wants_signatures: bool,
    unreconciled: usize,
    standing: Standing<'_>,
) -> Vec<Map> {
    let Standing { live, former_kinds, result, .. } = standing;
    // Components control parts of some messages, and a status that is too large could not be written.
    let write = |kind: &str, status: &str, reason: PluginReason, message: &str| {
        condition(kind, status, reason.as_str(), &bounded(one_line(message).into_owned()), generation)
    };
    let granted = result.as_ref().map(|findings| granted(findings, live, former_kinds));
    let is_refused = result.as_ref().is_err_and(|problem| problem.step == Step::Verified);
    let steps = STEPS
        .into_iter()
        // `Verified` is omitted if signatures are not checked.
        .filter(|(step, _)| *step != Step::Verified || wants_signatures || is_refused)
        .map(|(step, kind)| {
            let (status, reason, message) = step_condition(step, result, &granted);
            write(kind, status, reason, &message)
        });
    let whole = as_a_whole(unreconciled, live, result, &granted);
    let whole = [
        (condition_type::READY, Some(whole.ready)),
        (condition_type::AVAILABLE, Some(whole.available)),
        (condition_type::RECONCILING, whole.reconciling),
        (condition_type::STALLED, whole.stalled),
    ];
    let whole = whole.into_iter().filter_map(|(kind, found)| {
        let found = found?;
        Some(write(kind, if found.is_true { "True" } else { "False" }, found.reason, &found.message))
    });
    steps.chain(whole).collect()
}

/// The message of the condition `Granted` for a live component, or the reason and message of the missing grants.
type Granted = Result<String, (PluginReason, String)>;

const STEPS: [(Step, &str); 5] = [
    (Step::Fetched, condition_type::FETCHED),
    (Step::Verified, condition_type::VERIFIED),
    (Step::Compiled, condition_type::COMPILED),
    (Step::Granted, condition_type::GRANTED),
    (Step::Synced, condition_type::SYNCED),
];

/// Status, reason and message of one step's condition.
fn step_condition(
    step: Step,
    result: &Result<Findings, Problem>,
    granted: &Result<Granted, &Problem>,
) -> (&'static str, PluginReason, String) {
    let succeeded = |message: String| ("True", PluginReason::Succeeded, message);
    match (result, granted) {
        (Ok(_), Ok(Ok(message))) if step == Step::Granted => succeeded(message.clone()),
        (Ok(_), Ok(Err((reason, message)))) if step == Step::Granted => ("False", *reason, message.clone()),
        (Ok(Findings { file: Some(file), .. }), _) if step == Step::Fetched => {
            succeeded(format!("From {} and not from spec.source, by --plugins of the host", file.display()))
        }
        (Ok(Findings { stalled: Some(stalled), .. }), _) if step == Step::Synced => {
            ("False", PluginReason::WatchStalled, stalled.clone())
        }
        (Ok(findings), _) if step == Step::Compiled => succeeded(unsupported(findings)),
        (Ok(_), _) => succeeded(String::new()),
        (Err(problem), _) if step < problem.step => succeeded(String::new()),
        (Err(problem), _) if step == problem.step => ("False", problem.reason, problem.message.clone()),
        (Err(_), _) => ("Unknown", PluginReason::Blocked, "A step before this one failed".to_owned()),
    }
}

/// The conditions of the Plugin as a whole.
fn as_a_whole(
    unreconciled: usize,
    live: Option<&Live>,
    result: &Result<Findings, Problem>,
    granted: &Result<Granted, &Problem>,
) -> Readiness {
    let (obstacle, rejected) = match (result, granted) {
        (Err(problem), _) => {
            let rejected = problem.candidate.map(|candidate| candidate.to_string());
            (Some((problem.reason, problem.message.clone())), rejected)
        }
        (Ok(findings), granted) => {
            let withheld = || granted.as_ref().ok()?.as_ref().err().cloned();
            let rolled_back = || live.and(rolled_back(findings));
            let stalled = || findings.stalled.clone().map(|message| (PluginReason::WatchStalled, message));
            // Obstacles that stop all work come before obstacles that stop some of it.
            (live.and_then(obstacle).or_else(stalled).or_else(withheld).or_else(rolled_back), None)
        }
    };
    let digest = live.map(|live| live.digest().to_string());
    readiness(Found {
        live: digest.as_deref(),
        caches_are_current: live.is_some_and(Live::is_followed),
        is_suspended: live.is_some_and(|live| live.suspended),
        obstacle: obstacle.as_ref().map(|(reason, message)| Obstacle {
            reason: *reason,
            message,
            rejected: rejected.as_deref(),
        }),
        unreconciled,
    })
}

/// The obstacle that keeps a live component from working.
fn obstacle(live: &Live) -> Option<(PluginReason, String)> {
    if !live.is_followed() {
        return Some((PluginReason::ApiError, "a kind of the plugin cannot be watched".to_owned()));
    }
    if let Some(blocked) = live.state.blocked_of_all() {
        return Some((PluginReason::DeletionBlocked, blocked.message_for_plugin(&live.name)));
    }
    if let Some(cost) = live.budget.lock().empty(jiff::Timestamp::now()) {
        return Some((PluginReason::RateLimited, over_rate(cost)));
    }
    if live.state.is_quarantined() {
        let message = format!(
            "calls of {} failed too often in a row, for several parents: it is called only now and then. The conditions of \
             the failing parents name the failures",
            live.digest()
        );
        return Some((PluginReason::Quarantined, message));
    }
    None
}

fn over_rate(cost: Cost) -> String {
    let (what, example) = match cost {
        Cost::Write => ("writes of children", "wants children of other names"),
        Cost::Review => ("access reviews", "requires other objects"),
    };
    format!(
        "the component wants more {what} than a plugin's rate allows (docs/limits.md), so its parents wait. A component that \
         {example} at each call does that; mend it, or go back to the one before with {ANNOTATION_ROLLBACK}"
    )
}

/// The reason and message of a rollback, if the live component is the result of one.
fn rolled_back(findings: &Findings) -> Option<(PluginReason, String)> {
    match findings {
        Findings { rolled_back_from: Some(from), rolled_back: true, .. } => {
            let message = format!("rolled back from {from} by {ANNOTATION_ROLLBACK}; remove the annotation to go on");
            Some((PluginReason::RolledBack, message))
        }
        _ => None,
    }
}

fn unsupported(findings: &Findings) -> String {
    match &*findings.unsupported {
        [] => String::new(),
        imports => format!("Unsupported imports; calling one traps: {}", imports.join(", ")),
    }
}

/// The message about the grants, or the reason and message of the missing grants.
fn granted(
    findings: &Findings,
    live: Option<&Live>,
    former_kinds: &FormerKinds,
) -> Result<String, (PluginReason, String)> {
    let left = former_kinds.message();
    let withheld = |reason: PluginReason, message: String| {
        let messages: Vec<_> = std::iter::once(message).chain(left.clone()).collect();
        Err((reason, messages.join(". ")))
    };
    if !findings.not_granted.is_empty() {
        let message = format!(
            "The component asks for {}, which spec.grants.children does not grant; responses with such children are rejected",
            findings.not_granted.join(", ")
        );
        return withheld(PluginReason::NotGranted, message);
    }
    if !findings.not_readable.is_empty() {
        let message = format!(
            "The component asks to read {}, which is cluster-scoped and which spec.grants.related does not name; responses that \
             require such objects are refused",
            findings.not_readable.join(", ")
        );
        return withheld(PluginReason::NotGranted, message);
    }
    if let Some(lacking) = &findings.lacking {
        return withheld(PluginReason::Forbidden, lacking.to_string());
    }
    if let Some(left) = left {
        return Err((PluginReason::ChildrenLeft, left));
    }
    let mut messages = Vec::new();
    if !findings.conditions_kept {
        messages.push(
            "The parent kind's schema prunes status.conditions or status.observedGeneration, so they are not written"
                .to_owned(),
        );
    }
    if let Some(live) = live.filter(|live| live.state.gave_unwritten_status()) {
        messages.push(unwritten_status(&live.parents.id.kind, live.owns_kind()));
    }
    if !findings.capped.is_empty() {
        let capped: Vec<_> = findings.capped.iter().map(ToString::to_string).collect();
        messages.push(format!("The host caps spec.limits: {}", capped.join(", ")));
    }
    Ok(messages.join(". "))
}

/// The message about a status that the component returns and the host does not write.
fn unwritten_status(kind: &Gvk, owns_kind: bool) -> String {
    let why = if owns_kind {
        "its CustomResourceDefinition has no status subresource"
    } else {
        "the kind is not the plugin's own"
    };
    format!("The component gives a status to {kind}, which is not written: {why}")
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::Limits;
    use windlass_core::json;

    use std::sync::LazyLock;

    use super::*;
    use crate::plugins::caps;

    fn failure(message: &str, second: i64) -> LastFailure {
        LastFailure {
            reason: windlass_core::reason::ParentReason::Conflict,
            object: "n/a".to_owned(),
            message: message.to_owned(),
            time: jiff::Timestamp::from_second(second).expect("a time"),
        }
    }

    #[test]
    fn e10_failed_write_of_a_status_is_retried_also_after_a_conflict() {
        let response = |code: u16| {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            written(Err(kube::Error::Api(Box::new(status))))
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
    fn without_component(result: &Result<Findings, Problem>) -> Standing<'_> {
        static NO_KINDS: LazyLock<FormerKinds> = LazyLock::new(FormerKinds::default);
        Standing { live: None, elsewhere: &[], is_taken_back: false, former_kinds: &NO_KINDS, result }
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
            super::super::load::was_blocked(&plugin).map(str::to_owned)
        };
        assert_eq!(next(br#"{"blockedDeletionsHash":"c27db0e670d5"}"#), Some("c27db0e670d5".to_owned()));
        assert_eq!(next(b"{}"), None);
    }

    #[test]
    fn capped_limits_are_reported_by_the_granted_condition() {
        let granted_with = |requested: &Limits, conditions_kept| {
            let (_, capped) = caps::of_flags(&[]).expect("defaults").clamp(requested);
            let findings = Findings {
                not_granted: Vec::new(),
                not_readable: Vec::new(),
                unsupported: Vec::new(),
                lacking: None,
                stalled: None,
                rolled_back_from: None,
                rolled_back: false,
                file: None,
                capped,
                conditions_kept,
            };
            let result = Ok(findings);
            let standing = without_component(&result);
            let all = conditions(Some(1), false, 0, standing);
            let granted = all.iter().find(|one| one.get("type").and_then(Value::as_str) == Some("Granted")).cloned();
            let granted = granted.expect("the condition");
            let text = |field| granted.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("status"), text("message"))
        };
        let much = Limits { memory: 1 << 30, children: 20_000, ..Limits::default() };
        let capped = "The host caps spec.limits: memory at 256Mi (--max-memory), children at 10000 (--max-children)";
        assert_eq!(granted_with(&much, true), ("True".to_owned(), capped.to_owned()));
        assert!(granted_with(&much, false).1.ends_with(&format!(", so they are not written. {capped}")));
        assert_eq!(granted_with(&Limits::default(), true), ("True".to_owned(), String::new()));
    }

    #[test]
    fn stalled_watch_sets_synced_and_ready_to_false() {
        let stalled = "the host's watch of Pod.v1 has stalled: no progress since 2026-11-23T08:00:00Z: 503";
        let result = Err(Problem::new(Step::Synced, PluginReason::WatchStalled, stalled));
        let standing = without_component(&result);
        let all = conditions(Some(1), false, 0, standing);
        let condition = |kind: &str| {
            let one = all.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(kind)).expect(kind);
            ["status", "reason", "message"].map(|field| one.get(field).and_then(Value::as_str).unwrap_or_default())
        };
        assert_eq!(condition("Granted"), ["True", "Succeeded", ""]);
        assert_eq!(condition("Synced"), ["False", "WatchStalled", stalled]);
        assert_eq!(condition("Ready"), ["False", "WatchStalled", stalled]);
        assert_eq!(condition("Available")[0], "False");
        assert_eq!(condition("Reconciling")[1], "WatchStalled", "the watch recovers by itself");
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
