//! Tells what the host decides: each reconcile in one line, with its causes before, and the plugin's log below.

use std::collections::HashMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use parking_lot::Mutex;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::reconcile::recent::{Decision, Reconciled, StatusResult};
use windlass_core::value::ids::ObjectKey;
use windlass_engine::telemetry::{AUDIT, CAUSE, FAILURE, GUEST, LogLine, one_line};

use super::terminal::Tone;

/// The text of the line about a status that was not written.
const UNWRITTEN: &str = "status was not written";

/// Largest number of causes that are kept for one parent, and of parents of which something is kept.
const KEPT: (usize, usize) = (4, 1000);

/// Turns reconciles, and lines of the host's log, into texts.
#[derive(Default)]
pub struct Teller(Mutex<HashMap<[String; 3], Before>>);

/// What is told with the next reconcile of a parent, which is known by Plugin, namespace and name.
#[derive(Default)]
struct Before {
    causes: Vec<Cause>,
    logs: Vec<String>,
}

/// A change of an object that queued the parent.
struct Cause {
    kind: String,
    /// Namespace and name of the object.
    object: String,
    /// What changed, as in `spec.replicas changed`.
    change: String,
    at: Timestamp,
}

impl Teller {
    /// The text about a line of the host's log; none if a plugin's author need not know it, or not yet.
    pub fn text_of_line(&self, line: &LogLine) -> Option<(Tone, String)> {
        let of_parent = ["plugin", "namespace", "name"].map(|name| line.field(name).to_owned());
        match line.target {
            CAUSE => {
                let [kind, object, change] = ["kind", "object", "change"].map(|name| line.field(name).to_owned());
                let cause = Cause { kind, object, change, at: Timestamp::now() };
                let is_same = |other: &Cause| {
                    (&other.kind, &other.object, &other.change) == (&cause.kind, &cause.object, &cause.change)
                };
                let mut all = self.0.lock();
                // Many parents at once, or those of a component that never becomes live, are not kept.
                if all.len() < KEPT.1 || all.contains_key(&of_parent) {
                    let causes = &mut all.entry(of_parent).or_default().causes;
                    if causes.len() < KEPT.0 && !causes.iter().any(is_same) {
                        causes.push(cause);
                    }
                }
                None
            }
            GUEST if !line.field("name").is_empty() => {
                let text = format!("{} {} {}", line.level, line.message, line.field("fields"));
                // The rate of log lines bounds them until the reconcile ends.
                self.0.lock().entry(of_parent).or_default().logs.push(text.trim_end().to_owned());
                None
            }
            FAILURE if line.message == UNWRITTEN => {
                let text = format!("{}: {UNWRITTEN}: {}", line.field("object"), line.field("message"));
                Some((Tone::Bad, one_line(&text).into_owned()))
            }
            // The decisions tell the same.
            AUDIT | FAILURE => None,
            _ => text_of_line(line),
        }
    }

    /// The text about a reconcile; none if nothing happened.
    pub fn text_of(&self, reconciled: &Reconciled) -> Option<(Tone, String)> {
        let Reconciled { parent, trigger, call, decision, next, .. } = reconciled;
        let namespace = parent.key.namespace.as_deref().unwrap_or_default();
        let of_parent = [parent.plugin.to_string(), namespace.to_owned(), parent.key.name.to_string()];
        let before = self.take(of_parent, reconciled.at);
        let called = call.as_ref().map(|call| format!("plugin called in {}", milliseconds(call.guest_time_us)));
        let (writes, failure) = (writes(decision, &parent.key), failure(decision));
        let (is_called, is_written, is_failed) = (called.is_some(), writes.is_some(), failure.is_some());
        let mut steps: Vec<_> = called.into_iter().chain(writes).chain(failure).collect();
        if steps.is_empty() || is_called && !is_written && !is_failed {
            steps.push(without_write(decision.outcome, is_called)?.to_owned());
        }
        if let Some(Requeue::Pause(after) | Requeue::After(after) | Requeue::Settled(Some(after))) = *next
            && !after.is_zero()
            && !is_failed
        {
            steps.push(format!("again in {after:.1?}"));
        }
        let (kind, at) = (&*parent.kind.kind, parent.key.to_string());
        let causes = causes(&before.causes, (kind, &at, namespace), trigger);
        let mut text = format!("{kind} {at}: {causes} → {}", steps.join(" → "));
        for line in before.logs {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{line}");
        }
        Some((if is_failed { Tone::Bad } else { Tone::Plain }, text))
    }

    /// What is told with a reconcile that began at this time. Later changes are causes of the next one.
    fn take(&self, of_parent: [String; 3], began: Timestamp) -> Before {
        let mut all = self.0.lock();
        let mut before = all.remove(&of_parent).unwrap_or_default();
        let later: Vec<_> = before.causes.extract_if(.., |cause| cause.at > began).collect();
        if !later.is_empty() {
            all.insert(of_parent, Before { causes: later, logs: Vec::new() });
        }
        before
    }
}

/// What a reconcile without a write and a failure came to; none if nothing happened.
fn without_write(outcome: &str, is_called: bool) -> Option<&'static str> {
    match outcome {
        "gone" => Some("gone"),
        "deleting" => Some("its children go with it"),
        "suspended" | "Suspended" => Some("suspended: nothing is done"),
        "not_selected" => Some("not selected by the Plugin"),
        "CalledAgain" => Some("the plugin required other objects"),
        _ => is_called.then_some("nothing to change"),
    }
}

fn causes(causes: &[Cause], (kind, at, namespace): (&str, &str, &str), trigger: &str) -> String {
    let mut texts: Vec<_> = (trigger == "sweep").then(|| "new component".to_owned()).into_iter().collect();
    texts.extend(causes.iter().map(|Cause { kind: of, object, change, .. }| {
        let is_parent = of == kind && object == at;
        if is_parent { change.clone() } else { format!("{of} {} {change}", within(object, namespace)) }
    }));
    let without_cause = match trigger {
        "resync" => "resync",
        "retry" => "again after a failure",
        _ => "again",
    };
    if texts.is_empty() { without_cause.to_owned() } else { texts.join(", ") }
}

/// An object's name, with its namespace unless it is this one.
fn within<'a>(object: &'a str, namespace: &str) -> &'a str {
    object.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')).unwrap_or(object)
}

/// The writes, as one step; empty if there were none.
fn writes(decision: &Decision, parent: &ObjectKey) -> Option<String> {
    let namespace = parent.namespace.as_deref().unwrap_or_default();
    let of_children = decision.changes.kinds().into_iter().flat_map(|(_, verb, children)| {
        children.iter().map(move |child| {
            let key = child.key.to_string();
            format!("{verb} {} {}", child.kind.kind, within(&key, namespace))
        })
    });
    let of_status = match decision.status {
        StatusResult::Unchanged => None,
        StatusResult::Written => Some("status written".to_owned()),
        StatusResult::Failed => Some("status not written".to_owned()),
    };
    let all: Vec<_> = of_children.chain(of_status).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Why a reconcile failed, and what to do, if it did.
fn failure(decision: &Decision) -> Option<String> {
    let Decision { outcome, message, .. } = decision;
    let advice = outcome.parse::<ParentReason>().map_or("the host tries again", advice);
    decision.is_failure.then(|| format!("failed ({outcome}): {}; {advice}", one_line(message)))
}

/// What the author of a plugin can do about a failed reconcile.
fn advice(reason: ParentReason) -> &'static str {
    match reason {
        ParentReason::InvalidSpec => "change the object's spec: the plugin is called again then",
        ParentReason::PluginFailed => "the host calls the plugin again after a while",
        ParentReason::DeadlineExceeded
        | ParentReason::MemoryLimit
        | ParentReason::Trapped
        | ParentReason::LimitExceeded
        | ParentReason::MalformedResponse
        | ParentReason::ResponseRejected
        | ParentReason::ChildRejected
        | ParentReason::StatusRejected => "change the plugin: it is built again when a source file is saved",
        // A test checks that every reason has a section there.
        _ => "docs/troubleshooting/parents.md says what this means",
    }
}

/// A guest's time in microseconds, for people.
fn milliseconds(micros: u64) -> String {
    let tenths = micros.saturating_add(50) / 100;
    format!("{}.{} ms", tenths / 10, tenths % 10)
}

fn text_of_line(line: &LogLine) -> Option<(Tone, String)> {
    match &*line.message {
        "component activated" => {
            let (version, digest, parents) = (line.field("version"), line.field("digest"), line.field("parents"));
            Some((Tone::Good, format!("live: version {version}, {digest}; objects to reconcile: {parents}")))
        }
        "installing the CustomResourceDefinition" => {
            Some((Tone::Plain, format!("CustomResourceDefinition {} applied", line.field("name"))))
        }
        // The command itself reports this, with the state of the Plugin.
        "plugin not brought up to date" => None,
        _ if line.level > tracing::Level::WARN => None,
        message => {
            let mut text = format!("host: {message}");
            for (name, value) in &line.fields {
                let _ = write!(text, " {name}={value}");
            }
            Some((Tone::Bad, one_line(&text).into_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tracing::Level;
    use windlass_core::contract::snapshot::Snapshot;
    use windlass_core::contract::{Limits, Phase, Response};
    use windlass_core::object::Object;
    use windlass_core::object::child::ChildId;
    use windlass_core::object::parent::ParentRef;
    use windlass_core::reconcile::events::Changes;
    use windlass_core::reconcile::recent::{Call, KeptResult};
    use windlass_core::value::digest::Digest;
    use windlass_core::value::ids::Gvk;

    use super::*;

    /// A reconcile of Greeting default/hello in which the plugin was called.
    fn reconciled(trigger: &'static str, decision: Decision) -> Reconciled {
        let json = r#"{"metadata":{"name":"hello","namespace":"default","uid":"1","resourceVersion":"1"}}"#;
        let kind = Arc::new(Gvk::from_api_version("hello.example.com/v1", "Greeting"));
        let object = Arc::new(Object::from_api(&kind, json).expect("an object"));
        let parent = ParentRef::of(&"greeting".parse().expect("a name"), &object, None);
        let call = Call {
            snapshot: Snapshot::new(parent.clone(), object, [], None, |_| false),
            phase: Phase::Sync,
            hash: Digest::of(b""),
            component: Digest::of(b""),
            contract: "windlass:operator@0.1.0".into(),
            now: Timestamp::UNIX_EPOCH,
            limits: Limits::default(),
            result: KeptResult::new(&Ok(Ok(Response::default()))),
            guest_time_us: 400,
            memory_peak: 0,
            is_impure: false,
        };
        Reconciled {
            number: 0,
            parent,
            plural: "greetings".into(),
            at: Timestamp::now(),
            trigger,
            duration: Duration::ZERO,
            trace: None,
            call: Some(call),
            is_call_omitted: false,
            decision,
            next: None,
            repeated: 0,
        }
    }

    fn line(target: &'static str, level: Level, message: &str, fields: &[(&'static str, &str)]) -> LogLine {
        let of_parent = [("plugin", "greeting"), ("namespace", "default"), ("name", "hello")];
        let fields = of_parent.iter().chain(fields).map(|(name, value)| (*name, (*value).to_owned()));
        LogLine { target, level, message: message.to_owned(), fields: fields.collect() }
    }

    fn told(causes: &[[&str; 3]], trigger: &'static str, decision: Decision) -> String {
        told_of(causes, &reconciled(trigger, decision))
    }

    fn told_of(causes: &[[&str; 3]], first: &Reconciled) -> String {
        let teller = Teller::default();
        for [kind, object, change] in causes {
            let fields = [("kind", *kind), ("object", *object), ("change", *change)];
            assert_eq!(teller.text_of_line(&line(CAUSE, Level::DEBUG, "parent queued", &fields)), None);
        }
        let log = line(GUEST, Level::INFO, "hello", &[("fields", "n=1")]);
        assert_eq!(teller.text_of_line(&log), None);
        let first = Reconciled { at: Timestamp::now(), ..first.clone() };
        let text = teller.text_of(&first).expect("a text").1;
        let next = teller.text_of(&Reconciled { trigger: "event", ..first }).expect("a text").1;
        assert!(next.starts_with("Greeting default/hello: again → "), "a cause belongs to one reconcile: {next}");
        text.strip_suffix("\nINFO hello n=1").expect("the plugin's log is below").to_owned()
    }

    fn id(kind: &str, namespace: &str) -> ChildId {
        let kind = Arc::new(Gvk::from_api_version("v1", kind));
        ChildId { kind, key: ObjectKey::new(Some(namespace), "hello") }
    }

    #[test]
    fn decision_is_one_line_with_cause_call_and_writes() {
        let (created, updated) = (vec![id("ConfigMap", "default")], vec![id("Pod", "other")]);
        let decision = Decision {
            changes: Changes { created, updated, ..Changes::default() },
            status: StatusResult::Written,
            ..Decision::default()
        };
        let next = Some(Requeue::Settled(Some(Duration::from_secs(10))));
        let reconciled = Reconciled { next, ..reconciled("changed", decision) };
        assert_eq!(
            told_of(&[["Greeting", "default/hello", "spec.replicas changed"]; 2], &reconciled),
            "Greeting default/hello: spec.replicas changed → plugin called in 0.4 ms → created ConfigMap hello, updated Pod \
             other/hello, status written → again in 10.0s"
        );
    }

    #[test]
    fn other_objects_and_new_components_are_named_as_causes() {
        let causes = [["ConfigMap", "default/hello", "deleted"], ["Node", "a", "appeared"]];
        let of = |trigger, causes: &[_]| told(causes, trigger, Decision::default());
        assert!(
            of("event", &causes).starts_with("Greeting default/hello: ConfigMap hello deleted, Node a appeared → ")
        );
        assert!(of("sweep", &[]).contains(": new component → plugin called in 0.4 ms → nothing to change"));
        assert!(of("resync", &[]).contains(": resync → "));
        assert!(of("retry", &[]).contains(": again after a failure → "));
        assert!(of("pause", &[]).contains(": again → "));
    }

    #[test]
    fn failure_has_the_plugins_message_and_what_to_do() {
        let (outcome, message) = ("InvalidSpec", "spec.message: must be one line".to_owned());
        let decision = Decision { outcome, message, is_failure: true, ..Decision::default() };
        let text = told(&[], "changed", decision);
        let expected = "failed (InvalidSpec): spec.message: must be one line; change the object's spec";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn change_during_a_reconcile_is_a_cause_of_the_next_one() {
        let teller = Teller::default();
        let begun = reconciled("event", Decision::default());
        let fields = [("kind", "ConfigMap"), ("object", "default/hello"), ("change", "appeared")];
        assert_eq!(teller.text_of_line(&line(CAUSE, Level::DEBUG, "parent queued", &fields)), None);
        let of = |reconciled: &Reconciled| teller.text_of(reconciled).expect("a text").1;
        assert!(of(&begun).contains(": again → "));
        assert!(of(&reconciled("event", Decision::default())).contains(": ConfigMap hello appeared → "));
    }

    #[test]
    fn status_that_is_not_written_is_told_with_the_reason() {
        let unwritten = line(FAILURE, Level::WARN, UNWRITTEN, &[("object", "Greeting hello"), ("message", "no quota")]);
        let told = Teller::default().text_of_line(&unwritten);
        assert_eq!(told, Some((Tone::Bad, "Greeting hello: status was not written: no quota".to_owned())));
    }

    #[test]
    fn reconcile_without_a_step_is_left_out_unless_the_parent_needs_nothing_any_more() {
        let of = |outcome| {
            let decision = Decision { outcome, ..Decision::default() };
            Teller::default().text_of(&Reconciled { call: None, ..reconciled("event", decision) }).map(|(_, text)| text)
        };
        assert_eq!(of("unchanged"), None);
        assert_eq!(of("gone").as_deref(), Some("Greeting default/hello: again → gone"));
    }

    #[test]
    fn only_warnings_and_the_activation_of_a_component_are_shown_of_the_hosts_log() {
        let tone = |target, level, message| {
            Teller::default().text_of_line(&line(target, level, message, &[])).map(|(tone, _)| tone)
        };
        assert_eq!(tone("windlass_engine", Level::INFO, "Lease acquired"), None);
        assert_eq!(tone("windlass_engine", Level::INFO, "component activated"), Some(Tone::Good));
        assert_eq!(tone("windlass_engine", Level::WARN, "watch stalled"), Some(Tone::Bad));
        assert_eq!(tone(AUDIT, Level::INFO, "write"), None);
    }
}
