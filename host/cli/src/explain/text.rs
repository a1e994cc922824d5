//! The explanation as text.

use std::fmt::Write as _;

use windlass_core::contract::Selection;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::recording::{
    Change, Changed, Document, RecordedCall, RecordedDecision, RecordedResponse, RecordedResult,
};
use windlass_engine::telemetry::one_line;

use super::Explained;

/// Maximum number of lines about the changes of one reconcile, and of children that are named.
const SHOWN: usize = 20;
/// Width of the labels.
const LABEL: usize = 11;

/// The explanation of reconciles of one parent, the newest first.
pub(super) fn text(explained: &[Explained]) -> String {
    let mut text = String::new();
    if let Some(Explained { reconcile, .. }) = explained.first() {
        let _ =
            writeln!(text, "{}", one_line(&format!("{} {}", reconcile.parent.kind.api_version(), reconcile.parent)));
    }
    for one in explained {
        text.push('\n');
        text.push_str(&of_one(one));
    }
    text
}

fn of_one(Explained { changes, reconcile }: &Explained) -> String {
    let RecordedCall { at, plugin, duration_us, repeated, trigger, trace_id, decision, .. } = reconcile;
    // Several plugins may have an object of a built-in kind as a parent.
    let mut lines = vec![one_line(&format!("{at:.0}  Plugin {plugin}  {}", headline(decision))).into_owned()];
    let mut add = |label: &str, text: &str| {
        let label = if label.is_empty() { String::new() } else { format!("{label}:") };
        lines.push(format!("  {label:LABEL$} {}", one_line(text)));
    };
    add("trigger", &format!("{}; it took {} ms", reason_of(trigger), duration_us.div_ceil(1000)));
    if *repeated > 0 {
        add("repeated", &format!("{repeated} times before, with the same inputs and the same result"));
    }
    let inputs = input_lines(changes.as_deref(), reconcile);
    for (label, lines) in [("inputs", inputs), ("plugin", result_lines(reconcile)), ("written", write_lines(reconcile))]
    {
        for (at, line) in lines.iter().enumerate() {
            add(if at == 0 { label } else { "" }, line);
        }
    }
    for failed in &decision.failed {
        add("failed", &failed.message);
    }
    if !decision.message.is_empty() && decision.progress.as_deref() != Some("applied") {
        let is_blocked = decision.outcome == ParentReason::DeletionBlocked.as_str();
        add(if is_blocked { "blocked" } else { "problem" }, &decision.message);
    }
    if decision.status != "unchanged" {
        add("status", if decision.status == "failed" { "the write of the parent's status failed" } else { "written" });
    }
    if let Some(next) = &decision.next {
        add("next", &format!("{next}, or when one of its objects changes"));
    }
    if let Some(trace) = trace_id {
        add("trace", trace);
    }
    lines.join("\n") + "\n"
}

fn headline(decision: &RecordedDecision) -> String {
    match (decision.progress.as_deref(), decision.outcome.as_str()) {
        (Some("applied"), outcome) => format!("{outcome}: {}", decision.message),
        (Some(progress), outcome) => format!("{outcome} ({progress})"),
        (None, "CalledAgain") => "the plugin required other objects, and was called again with them".to_owned(),
        (None, "unchanged") => "nothing to do: the response is that of the call before".to_owned(),
        (None, "finalizer_removed") => "the plugin has cleaned up, and its finalizer was removed".to_owned(),
        (None, "finalizer_skipped") => "an annotation skips the clean-up, and the finalizer was removed".to_owned(),
        (None, "finalizer_unneeded") => "the component does not clean up, and the finalizer was removed".to_owned(),
        (None, "finalizer_not_called") => {
            "the finalizer was removed without a clean-up, because no plugin is called in the host's namespace"
                .to_owned()
        }
        (None, "finalizer_abandoned") => {
            "the finalizer was removed without a clean-up, because the namespace is being deleted".to_owned()
        }
        (None, outcome) => outcome.replace('_', " "),
    }
}

fn reason_of(trigger: &str) -> &str {
    match trigger {
        "resync" => "the resync interval, or the time that the plugin asked for, has passed",
        "pause" => "the time that the plugin asked for, or that the host waited, has passed",
        "retry" => "the backoff after the failure before has passed",
        "sweep" => "all parents of the plugin were reconciled, for example with a new component",
        "event" => "one of its objects or a setting of its Plugin changed, or its deletions were allowed",
        "changed" => "the parent is new, its spec changed, or the name of a child became free",
        other => other,
    }
}

fn input_lines(changes: Option<&[Change]>, reconcile: &RecordedCall) -> Vec<String> {
    match (changes, &reconcile.call) {
        (None, Some(_)) => vec!["no earlier call to compare with".to_owned()],
        (None, None) => Vec::new(),
        (Some([]), _) => vec!["no change that matters since the call before".to_owned()],
        (Some(changes), _) => shown(changes.iter().flat_map(lines_of).collect()),
    }
}

/// The first lines, and the number of the others.
fn shown(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.truncate(SHOWN);
        lines.push(format!("and {more} more; -o json has all"));
    }
    lines
}

/// A change, one line for each field.
pub fn lines_of(change: &Change) -> Vec<String> {
    let Change { subject, change } = change;
    match change {
        Changed::Added => vec![format!("{subject}: added")],
        Changed::Removed => vec![format!("{subject}: removed")],
        Changed::Bytes => vec![format!("{subject}: the same values, but other bytes")],
        Changed::Fields(fields) => fields
            .iter()
            .map(|field| match (field.path.is_empty(), &field.old, &field.new) {
                (true, Some(old), Some(new)) => format!("{subject}: {old} → {new}"),
                _ => format!("{subject}: {field}"),
            })
            .collect(),
    }
}

fn result_lines(reconcile: &RecordedCall) -> Vec<String> {
    if reconcile.is_call_omitted {
        return vec!["called; the call was too large for --recent-calls-memory of the host".to_owned()];
    }
    let Some(call) = &reconcile.call else { return vec!["not called".to_owned()] };
    match &call.result {
        RecordedResult::Response(response) => response_lines(response),
        RecordedResult::Invalid(message) => vec![format!("rejected the spec: {message}")],
        RecordedResult::Retry { message, after_ms } => {
            vec![format!("asked to be called again in {after_ms} ms: {message}")]
        }
        RecordedResult::Failed(message) => vec![format!("failed: {message}")],
        RecordedResult::Aborted(message) => vec![format!("the call was aborted: {message}")],
    }
}

fn response_lines(response: &RecordedResponse) -> Vec<String> {
    let children = &response.children;
    let mut lines = vec![match children.as_slice() {
        [] => "desires no children".to_owned(),
        [one] => format!("desires 1 child: {}", name_of(one)),
        several => {
            let names: Vec<_> = several.iter().take(SHOWN).map(name_of).collect();
            let more = several.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("desires {} children: {}{more}", several.len(), names.join(", "))
        }
    }];
    lines.extend(response.status.as_ref().map(|status| format!("status {}", shortened(status.get()))));
    lines.extend(
        response.events.iter().map(|event| format!("{} event {}: {}", event.event_type, event.reason, event.message)),
    );
    for one in &response.requirements {
        let (Selection::Name(what) | Selection::Labels(what)) = &one.select;
        lines.push(format!("requires {} {what}", one.kind.kind));
    }
    lines
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Kind and name of a desired child.
fn name_of(child: &Document) -> String {
    let child: serde_json::Value = serde_json::from_str(child.get()).unwrap_or_default();
    let text = |path: &str| child.pointer(path).and_then(serde_json::Value::as_str).unwrap_or("?").to_owned();
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

fn write_lines(reconcile: &RecordedCall) -> Vec<String> {
    let RecordedDecision { written, failed, .. } = &reconcile.decision;
    let mut lines = shown(written.iter().map(|one| format!("{} {}", one.verb, one.object)).collect());
    let Some(RecordedResult::Response(response)) = reconcile.call.as_ref().map(|call| &call.result) else {
        return lines;
    };
    // Deletions are of children that the plugin does not desire.
    let touched = written.iter().filter(|one| one.verb != "deleted").count() + failed.len();
    let same = response.children.len().saturating_sub(touched);
    let is_applied = matches!(reconcile.decision.progress.as_deref(), Some("applied" | "unready" | "failed"));
    match (lines.is_empty(), same) {
        (true, _) => lines.push("no child".to_owned()),
        (false, 1) if is_applied => lines.push("the other one is as desired".to_owned()),
        (false, 2..) if is_applied => lines.push(format!("the other {same} are as desired")),
        (false, _) => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;

    /// A reconcile whose call has this result, and whose decision has these fields.
    fn reconcile(result: &Value, decision: &Value) -> RecordedCall {
        let mut all = json!({"outcome": "Succeeded", "progress": "applied", "message": "2 children applied", "status": "unchanged"});
        for (name, value) in decision.as_object().expect("fields") {
            all[name] = value.clone();
        }
        let limits = json!({"memory": 1, "tableElements": 1, "instances": 1, "deadlineMs": 1, "requestBytes": 1,
            "responseBytes": 1, "children": 1, "logBytes": 1, "events": 1, "requirements": 1, "jsonDepth": 1});
        let call = json!({
            "component": "sha256:0", "contract": "0.1.0", "now": "2026-01-01T00:00:00Z", "seed": "0", "limits": limits,
            "request": {"phase": "sync", "parent": {}}, "result": result, "guestTimeUs": 1, "memoryPeak": 1, "isImpure": false,
        });
        let parent = json!({"apiVersion": "my-operator.dev/v1", "kind": "Echo", "namespace": "shop", "name": "web"});
        let recorded = json!({"number": 1, "at": "2026-01-01T00:00:00Z", "plugin": "echo", "parent": parent,
            "trigger": "changed", "durationUs": 4200, "repeated": 0, "call": call, "decision": all});
        serde_json::from_str(&recorded.to_string()).expect("a recorded call")
    }

    fn pod(name: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name}})
    }

    #[test]
    fn explanation_says_what_changed_what_was_returned_and_what_was_written() {
        let web = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-1"});
        let response = json!({"response": {"children": [pod("web-0"), pod("web-1")], "status": {"ready": 1},
            "events": [{"type": "Normal", "reason": "Scaled", "message": "to 2"}]}});
        let decision =
            json!({"written": [{"verb": "created", "object": web}], "status": "written", "next": "at the next resync"});
        let field = json!({"path": "spec.replicas", "old": "1", "new": "2"});
        let changes = json!([{"subject": "parent", "change": {"fields": [field]}}]);
        let changes = serde_json::from_value(changes).expect("changes");
        let newest = Explained { changes: Some(changes), reconcile: reconcile(&response, &decision) };
        let failed =
            json!({"outcome": "Trapped", "progress": "reconciling", "message": "The plugin's call failed: trap: boom"});
        let mut failed = reconcile(&json!({"aborted": "trap: boom"}), &failed);
        failed.repeated = 3;
        let oldest = Explained { changes: None, reconcile: failed };
        expect![[r#"
            my-operator.dev/v1 Echo shop/web

            2026-01-01T00:00:00Z  Plugin echo  Succeeded: 2 children applied
              trigger:    the parent is new, its spec changed, or the name of a child became free; it took 5 ms
              inputs:     parent: spec.replicas: 1 → 2
              plugin:     desires 2 children: Pod web-0, Pod web-1
                          status {"ready":1}
                          Normal event Scaled: to 2
              written:    created Pod shop/web-1
                          the other one is as desired
              status:     written
              next:       at the next resync, or when one of its objects changes

            2026-01-01T00:00:00Z  Plugin echo  Trapped (reconciling)
              trigger:    the parent is new, its spec changed, or the name of a child became free; it took 5 ms
              repeated:   3 times before, with the same inputs and the same result
              inputs:     no earlier call to compare with
              plugin:     the call was aborted: trap: boom
              problem:    The plugin's call failed: trap: boom
        "#]]
        .assert_eq(&text(&[newest, oldest]));
    }

    #[test]
    fn host_adds_no_line_by_any_text() {
        let odd = "a\nb\u{1b}[2J\u{202e}\u{2028}";
        let mut one = reconcile(
            &json!({"failed": odd}),
            &json!({"outcome": odd, "message": odd, "progress": odd, "next": odd,
            "status": odd, "failed": [{"object": {"apiVersion": "v1", "kind": odd, "name": odd}, "message": odd}]}),
        );
        one.plugin = odd.to_owned();
        one.parent.key.name = odd.into();
        one.trigger = odd.to_owned();
        one.trace_id = Some(odd.to_owned());
        let shown = text(&[Explained { changes: None, reconcile: one }]);
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{2028}']), "{shown:?}");
        let is_known =
            |line: &&str| line.is_empty() || ["my-", "2026", "  "].iter().any(|begin| line.starts_with(begin));
        assert!(shown.lines().all(|line| is_known(&line)), "{shown}");
    }

    #[test]
    fn blocked_deletions_are_labelled_and_long_lists_are_shortened() {
        let blocked =
            json!({"outcome": "DeletionBlocked", "progress": "stalled", "message": "Blocked: 5 of 6 children"});
        let children: Vec<_> = (0..30).map(|at| pod(&format!("web-{at}"))).collect();
        let shown = of_one(&Explained {
            changes: Some(Vec::new()),
            reconcile: reconcile(&json!({"response": {"children": children}}), &blocked),
        });
        for words in ["blocked:    Blocked: 5 of 6", "no change that matters", "and 10 more", "written:    no child"] {
            assert!(shown.contains(words), "no {words:?} in {shown}");
        }
    }
}
