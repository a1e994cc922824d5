//! Statuses with a phase.

use super::*;

/// An operator whose spec is the status that it sets.
struct Scripted;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct ScriptedStatus {
    phase: windlass_plugin::Phase,
    pods: u32,
    changed: Option<String>,
}

impl PhaseStatus for ScriptedStatus {
    type Phase = windlass_plugin::Phase;
    #[cfg(feature = "clock")]
    const LAST_UPDATE: Option<windlass_plugin::clock::TimeField<Self>> = Some(|status| &mut status.changed);

    fn phase(&self) -> Self::Phase {
        self.phase
    }
}

impl Reconciler for Scripted {
    type Spec = ScriptedStatus;
    type Status = ScriptedStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("scripted", "1.0.0", CustomResource::namespaced::<Self>("example.com", "v1", "Scripted"))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let response = Response::new().phase_status(&request, request.spec.clone(), "2/3 Pods");
        if response.changes_status(&request) {
            windlass_plugin::log::info("changed");
        }
        Ok(response)
    }
}

/// The response for a status with this phase and number of Pods, after another status.
fn scripted(phase: &str, pods: u32, before: &Value) -> testing::Response {
    let spec = json!({ "phase": phase, "pods": pods });
    testing::request::<Scripted>(json!({ "spec": spec, "status": before })).call().unwrap()
}

#[test]
fn a_phase_sets_the_condition_ready() {
    for (phase, ready) in [("Pending", "False"), ("Running", "True"), ("Failed", "False")] {
        let status = scripted(phase, 2, &Value::Null).status.unwrap();
        let condition = json!({ "type": "Ready", "status": ready, "reason": phase, "message": "2/3 Pods" });
        assert_eq!(status["conditions"], json!([condition]));
        assert_eq!((&status["phase"], &status["pods"]), (&phase.into(), &2.into()));
    }
}

#[test]
fn phase_change_emits_an_event() {
    let events = |phase, before| {
        let events = scripted(phase, 2, before).events.into_iter();
        events.map(|event| (event.event_type, event.reason, event.message)).collect::<Vec<_>>()
    };
    let before = json!({ "phase": "Pending", "pods": 1 });
    let event = |event_type, reason: &str| vec![(event_type, reason.to_owned(), "2/3 Pods".to_owned())];
    assert_eq!(events("Running", &before), event(raw::EventType::Normal, "Running"));
    assert_eq!(events("Failed", &before), event(raw::EventType::Warning, "Failed"));
    assert_eq!(events("Pending", &before), []);
    assert_eq!(events("Running", &Value::Null), [], "the first status is not a change");
}

#[test]
fn a_failed_phase_is_requeued() {
    assert_eq!(scripted("Failed", 2, &Value::Null).requeue, Some(Duration::from_secs(30)));
    assert_eq!(scripted("Running", 2, &Value::Null).requeue, None);
}

#[cfg(feature = "clock")]
#[test]
fn timestamp_of_a_status_changes_only_with_the_status() {
    let before = json!({ "phase": "Running", "pods": 2, "changed": "2020-01-01T00:00:00Z" });
    let same = scripted("Running", 2, &before);
    assert_eq!((&same.status.unwrap()["changed"], same.logs.len()), (&before["changed"], 0));
    let other = scripted("Running", 3, &before);
    assert_eq!((&other.status.unwrap()["changed"], other.logs.len()), (&"2026-01-01T00:00:00Z".into(), 1));
}
