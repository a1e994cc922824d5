//! Formats the host's decisions for the terminal.

use std::fmt::Write as _;
use std::time::Duration;

use windlass_core::object::reason::ParentReason;
use windlass_engine::telemetry::{Cause, Decision, Failure, Happening, LogLine, Write, one_line};

use super::terminal::Tone;

/// The text about something that happened; none if a plugin's author need not know it.
pub fn text_of(happening: &Happening) -> Option<(Tone, String)> {
    match happening {
        Happening::Reconciled(decision) => text_of_decision(decision),
        Happening::Logged(line) => text_of_line(line),
    }
}

fn text_of_decision(decision: &Decision) -> Option<(Tone, String)> {
    let Decision { kind, namespace, name, calls, writes, failure, outcome, requeue_ms, logs, .. } = decision;
    let mut steps = Vec::new();
    match calls[..] {
        [] => {}
        [time] => steps.push(format!("plugin called in {}", milliseconds(time))),
        _ => steps.push(format!("plugin called {} times in {}", calls.len(), milliseconds(calls.iter().sum()))),
    }
    if !writes.is_empty() {
        let written: Vec<_> = writes.iter().map(|write| text_of_write(write, namespace)).collect();
        steps.push(written.join(", "));
    }
    match failure {
        Some(failure) => steps.push(text_of_failure(failure)),
        None if !calls.is_empty() && writes.is_empty() => steps.push("nothing to change".to_owned()),
        None if steps.is_empty() => steps.push(outcome_without_step(outcome)?.to_owned()),
        None => {}
    }
    if let Some(after) = requeue_ms.filter(|after| *after > 0 && failure.is_none()) {
        steps.push(format!("again in {:.1?}", Duration::from_millis(after)));
    }
    let at = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let mut text = format!("{kind} {at}: {} → {}", causes_of(decision, &at), steps.join(" → "));
    for line in logs {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{} {}", line.level, line.message);
        let fields = line.field("fields");
        if !fields.is_empty() {
            let _ = write!(text, " {fields}");
        }
    }
    Some((if failure.is_some() { Tone::Bad } else { Tone::Plain }, text))
}

/// What a reconcile without a call, a write and a failure came to; none if nothing happened.
fn outcome_without_step(outcome: &str) -> Option<&'static str> {
    match outcome {
        "gone" => Some("gone"),
        "deleting" => Some("its children go with it"),
        "suspended" | "Suspended" => Some("suspended: nothing is done"),
        "not_selected" => Some("not selected by the Plugin"),
        _ => None,
    }
}

fn causes_of(decision: &Decision, at: &str) -> String {
    let cause_of = |cause: &Cause| {
        if cause.kind == decision.kind && cause.object == at {
            return cause.change.clone();
        }
        format!("{} {} {}", cause.kind, within(&cause.object, &decision.namespace), cause.change)
    };
    let mut causes: Vec<_> = decision.causes.iter().map(cause_of).collect();
    if decision.trigger == "sweep" {
        causes.insert(0, "new component".to_owned());
    }
    if causes.is_empty() {
        let cause = match &*decision.trigger {
            "resync" => "resync",
            "retry" => "again after a failure",
            _ => "again",
        };
        causes.push(cause.to_owned());
    }
    causes.join(", ")
}

/// An object's name, with its namespace unless it is this one.
fn within<'a>(object: &'a str, namespace: &str) -> &'a str {
    object.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')).unwrap_or(object)
}

fn text_of_write(Write { verb, object, code }: &Write, namespace: &str) -> String {
    let is_done = (200..300).contains(code);
    let (kind, key) = object.split_once(' ').unwrap_or((object, ""));
    let kind = kind.split('.').next().unwrap_or(kind);
    let subject = match within(key, namespace).strip_suffix("/status") {
        Some(_) => "status".to_owned(),
        None => format!("{kind} {}", within(key, namespace)),
    };
    let done = match &**verb {
        "create" => "created",
        "delete" => "deleted",
        _ if subject == "status" => "written",
        _ => "updated",
    };
    match code {
        _ if is_done => format!("{subject} {done}"),
        0 => format!("{subject} perhaps {done} (the API server did not respond)"),
        code => format!("{subject} not {done} (HTTP {code})"),
    }
}

fn text_of_failure(Failure { reason, message }: &Failure) -> String {
    let advice = reason.parse::<ParentReason>().map_or("the host tries again", advice);
    let reason = if reason.is_empty() { "the status was not written" } else { reason };
    format!("failed ({reason}): {}; {advice}", one_line(message))
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
        ParentReason::NotSelected
        | ParentReason::HostNamespace
        | ParentReason::Succeeded
        | ParentReason::Waiting
        | ParentReason::HostError
        | ParentReason::Conflict
        | ParentReason::FieldConflict
        | ParentReason::ApiError
        | ParentReason::Outdated
        | ParentReason::CacheBehind
        | ParentReason::ChildrenTerminating
        | ParentReason::RollingUpdate
        | ParentReason::DeletionBlocked
        | ParentReason::BlockedAtPlugin
        | ParentReason::SpecUnchanged
        | ParentReason::ComponentChanged
        | ParentReason::Thrashing
        | ParentReason::Quarantined
        | ParentReason::Suspended
        | ParentReason::NamespaceTerminating
        | ParentReason::Finalizing
        | ParentReason::FinalizerRemoved
        | ParentReason::ReadForbidden
        | ParentReason::RateLimited
        | ParentReason::RequirementsUnsettled => "docs/troubleshooting/parents.md says what this means",
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
    use tracing::Level;

    use super::*;

    fn decision() -> Decision {
        Decision {
            plugin: "greeting".to_owned(),
            kind: "Greeting".to_owned(),
            namespace: "default".to_owned(),
            name: "hello".to_owned(),
            trigger: "changed".to_owned(),
            ..Decision::default()
        }
    }

    fn cause(kind: &str, object: &str, change: &str) -> Cause {
        Cause { kind: kind.to_owned(), object: object.to_owned(), change: change.to_owned() }
    }

    fn write(verb: &str, object: &str, code: u16) -> Write {
        Write { verb: verb.to_owned(), object: object.to_owned(), code }
    }

    fn said(decision: Decision) -> Option<String> {
        text_of(&Happening::Reconciled(Box::new(decision))).map(|(_, text)| text)
    }

    #[test]
    fn decision_is_one_line_with_cause_call_and_writes() {
        let decision = Decision {
            causes: vec![cause("Greeting", "default/hello", "spec.replicas changed")],
            calls: vec![400],
            writes: vec![
                write("apply", "ConfigMap.v1 default/hello", 200),
                write("create", "Pod.v1 other/a", 403),
                write("apply", "Greeting default/hello/status", 200),
            ],
            requeue_ms: Some(10_000),
            ..decision()
        };
        assert_eq!(
            said(decision).as_deref(),
            Some(
                "Greeting default/hello: spec.replicas changed → plugin called in 0.4 ms → ConfigMap hello updated, Pod \
                 other/a not created (HTTP 403), status written → again in 10.0s"
            )
        );
    }

    #[test]
    fn other_objects_and_new_components_are_named_as_causes() {
        let causes = vec![cause("ConfigMap", "default/hello", "deleted"), cause("Node", "a", "appeared")];
        let of = |trigger: &str, causes| {
            said(Decision { trigger: trigger.to_owned(), causes, calls: vec![1, 2], ..decision() }).expect("a text")
        };
        assert!(of("event", causes).starts_with("Greeting default/hello: ConfigMap hello deleted, Node a appeared → "));
        assert!(
            of("sweep", Vec::new()).contains(": new component → plugin called 2 times in 0.0 ms → nothing to change")
        );
        assert!(of("resync", Vec::new()).contains(": resync → "));
        assert!(of("retry", Vec::new()).contains(": again after a failure → "));
        assert!(of("pause", Vec::new()).contains(": again → "));
    }

    #[test]
    fn failure_has_the_plugins_message_and_what_to_do() {
        let failure =
            Failure { reason: "InvalidSpec".to_owned(), message: "spec.message: must be one line".to_owned() };
        let text = said(Decision { failure: Some(failure), calls: vec![400], ..decision() }).expect("a text");
        assert!(
            text.contains("failed (InvalidSpec): spec.message: must be one line; change the object's spec"),
            "{text}"
        );
    }

    #[test]
    fn log_of_the_plugin_is_below_its_decision_and_a_reconcile_without_a_step_is_left_out() {
        let logs = vec![LogLine {
            level: Level::INFO,
            message: "hello".to_owned(),
            fields: vec![("plugin", "greeting".to_owned()), ("fields", "n=1".to_owned())],
        }];
        let text = said(Decision { logs, calls: vec![400], ..decision() }).expect("a text");
        assert!(text.ends_with("nothing to change\nINFO hello n=1"), "{text}");
        assert_eq!(said(Decision { outcome: "unchanged".to_owned(), ..decision() }), None);
        assert!(said(Decision { outcome: "gone".to_owned(), ..decision() }).is_some());
    }

    #[test]
    fn only_warnings_and_the_activation_of_a_component_are_shown_of_the_hosts_log() {
        let line = |level, message: &str| {
            Happening::Logged(LogLine { level, message: message.to_owned(), fields: Vec::new() })
        };
        assert_eq!(text_of(&line(Level::INFO, "Lease acquired")).map(|(tone, _)| tone), None);
        assert_eq!(text_of(&line(Level::INFO, "component activated")).map(|(tone, _)| tone), Some(Tone::Good));
        assert_eq!(text_of(&line(Level::WARN, "watch stalled")).map(|(tone, _)| tone), Some(Tone::Bad));
    }
}
