//! Fuzzes responses with arbitrary bytes, from the corpus and mutated: accepted responses read back unchanged, and the
//! planned writes stay inside the grants.

use jiff::Timestamp;
use windlass_fuzz::Target;

use super::strange::stays_inside;
use super::*;
use crate::contract::{Event, EventType};
use crate::reconcile::events::Note;
use crate::reconcile::outcome::{Outcome, Problem, SuspendedBy};
use crate::reconcile::status;
use crate::value::json::{self, Malformed, Map, Value};

/// A plugin's event with the text as reason and as message.
fn event(text: &str) -> Event {
    Event { event_type: EventType::Warning, reason: text.to_owned(), message: text.to_owned() }
}

/// JSON that the strict reader accepts is read alike by other readers, and the reader accepts what its writer writes.
fn reads_back(bytes: &[u8]) -> Result<Value, Malformed> {
    let depth = Limits::default().json_depth;
    let value = json::parse(bytes, depth)?;
    let canonical = value.to_string();
    assert_eq!(json::parse(canonical.as_bytes(), depth).as_ref(), Ok(&value));
    assert_eq!(value.to_string(), canonical);
    // The reader's number range exceeds that of serde_json, which also reads no deeper than 128 levels.
    if let Ok(theirs) = serde_json::from_slice::<Json>(bytes) {
        assert_eq!(serde_json::from_str::<Json>(&canonical).ok(), Some(theirs));
    }
    Ok(value)
}

fn is_accepted(children: &[&[u8]], update: usize) -> bool {
    let response = Response { children: children.iter().map(|child| child.to_vec()).collect(), ..Response::default() };
    stays_inside(&response, update).is_some()
}

#[test]
fn fuzz_responses_with_one_child() {
    Target::new("answers", 30_000).attack(0.05, |child| {
        let _ = reads_back(child);
        (0..4).all(|update| is_accepted(&[child], update))
    });
}

#[test]
fn fuzz_responses_with_several_children() {
    let target = Target::new("answers", 30_000);
    let children = proptest::collection::vec(target.inputs(), 1..4);
    target.run(0.015, &(children, 0..4_usize), |(children, update)| {
        let children: Vec<&[u8]> = children.iter().map(|child| &**child).collect();
        is_accepted(&children, *update)
    });
}

#[test]
fn fuzz_statuses() {
    Target::new("statuses", 8_000).attack(0.15, |status| {
        let limits = Limits::default();
        let suspended = Problem::Suspended(SuspendedBy::Parent);
        let response = Response { status: Some(status.to_vec()), ..Response::default() };
        let Ok(desired) = crate::contract::desired::validate(&response, &parent_ref(), &grants_with_apply(), &limits)
        else {
            return false;
        };
        let accepted = Value::Object(desired.status.expect("a status"));
        assert_eq!(reads_back(status), Ok(accepted.clone()));
        let conditions = accepted.as_object().and_then(|map| map.get("conditions")?.as_array());
        assert!(conditions.is_none_or(|conditions| conditions.len() <= 100));
        for (outcome, is_applied) in [(Outcome::applied(3, None), true), (Outcome::from(&suspended), false)] {
            let now = Timestamp::UNIX_EPOCH;
            let next = status::next(&parent_with(&json!({})), accepted.as_object(), &outcome, SHAPE, now);
            are_conditions(&next.expect("the status was empty before"), is_applied);
        }
        true
    });
}

/// The conditions conform to `metav1.Condition`: each type occurs once, and the host sets the conditions that it owns.
fn are_conditions(status: &Map, is_applied: bool) {
    let conditions = status.get("conditions").and_then(Value::as_array).expect("conditions");
    let text = |condition: &Value, field: &str| condition.at(&[field]).and_then(Value::as_str).map(str::to_owned);
    let mut types: Vec<_> = conditions.iter().map(|condition| text(condition, "type").expect("a type")).collect();
    assert!(
        !types.iter().any(|kind| matches!(kind.as_str(), "Reconciling" | "Stalled")),
        "Reconciling or Stalled is set although neither applies"
    );
    let count = types.len();
    types.sort();
    types.dedup();
    assert_eq!(types.len(), count, "a condition type occurs twice");
    for condition in conditions {
        let of = |field| text(condition, field).expect(field);
        assert!(matches!(of("status").as_str(), "True" | "False" | "Unknown"));
        assert!(!of("reason").is_empty() && of("lastTransitionTime").parse::<Timestamp>().is_ok());
        assert!(
            is_applied || of("type") != "Ready" || of("status") == "False",
            "Ready is True although the children were not applied"
        );
    }
    assert_eq!(status.get("observedGeneration").is_some(), is_applied);
}

#[test]
fn fuzz_events() {
    let target = Target::new("statuses", 30_000);
    target.run(1.0, &target.inputs(), |text| {
        let text = String::from_utf8_lossy(text);
        let note = Note::of_plugin(&event(&text));
        assert!((1..=128).contains(&note.reason.len()) && note.reason.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(note.message.len() <= 1024, "{}", note.message.len());
        true
    });
}

fn grants_with_apply() -> crate::contract::desired::Grants {
    crate::fixtures::grants_with(&UpdateStrategy::Apply)
}
