//! Why a Pod does not run, from its status.

use serde::Deserialize;

use crate::{
    Object,
    kinds::{Is, Pod},
};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: String,
    message: String,
    init_container_statuses: Vec<Container>,
    container_statuses: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    ready: bool,
    restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    started_at: String,
    finished_at: String,
}

impl Terminated {
    /// Whether the container failed within ten minutes: after ten minutes the kubelet resets its back-off.
    fn has_failed_soon(&self) -> bool {
        let seconds = |time: &str| {
            let mut parts = time.trim_end_matches('Z').splitn(3, ':').map(str::parse::<u32>);
            let mut next = || parts.next()?.ok();
            Some((next()? * 60 + next()?) * 60 + next()?)
        };
        let day_and_second = |time: &str| {
            let (day, time) = time.split_once('T')?;
            Some((day.to_owned(), seconds(time)?))
        };
        match (day_and_second(&self.started_at), day_and_second(&self.finished_at)) {
            (Some((began_on, began)), Some((ended_on, ended))) => {
                self.exit_code != 0 && began_on == ended_on && ended < began + 600
            }
            _ => false,
        }
    }
}

impl Container {
    /// Why the container does not run. The message is the same in every attempt, so that a status with it is steady.
    fn failure_message(&self) -> Option<String> {
        let ended = [&self.state.terminated, &self.last_state.terminated];
        // A restarted container runs for a moment before it crashes again. One restart may have another cause.
        if !self.ready && self.restart_count > 1 && ended.into_iter().flatten().any(Terminated::has_failed_soon) {
            return Some(sentence(&[&self.name, "CrashLoopBackOff"]));
        }
        let Waiting { reason, message } = self.state.waiting.as_ref()?;
        match &**reason {
            // The kubelet is about to start the container.
            "" | "ContainerCreating" | "PodInitializing" => None,
            // The kubelet alternates between these two, and only the first has the longer message.
            "ErrImagePull" | "ImagePullBackOff" => Some(sentence(&[&self.name, "ImagePullBackOff"])),
            "CrashLoopBackOff" => Some(sentence(&[&self.name, "CrashLoopBackOff"])),
            _ => Some(sentence(&[&self.name, reason, message])),
        }
    }
}

impl<K: Is<Pod>> Object<'_, K> {
    /// Whether the Pod is in a terminal phase (`Failed`, as after an eviction, or `Succeeded`): it never runs again.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.status().phase, "Failed" | "Succeeded")
    }

    /// Why the Pod does not run and will not without a change: an image that cannot be pulled (`app: ImagePullBackOff`), a
    /// container that keeps crashing (`app: CrashLoopBackOff`), an eviction (`failed: Evicted`). None for a Pod that runs, starts
    /// or has succeeded.
    pub fn failure_message(&self) -> Option<String> {
        let status = self.status();
        if status.phase == "Failed" {
            return Some(sentence(&["failed", &status.reason, &status.message]));
        }
        status.init_container_statuses.iter().chain(&status.container_statuses).find_map(Container::failure_message)
    }

    fn status(&self) -> Status {
        self.get("/status").unwrap_or_default()
    }
}

fn sentence(parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).copied().collect();
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Object, Pod};
    use crate::testing::observed;

    fn outcome(status: &Value) -> (bool, Option<String>) {
        let observed = observed(&json!({ "status": status }));
        let pod = Object::<Pod>::new(&observed);
        (pod.is_terminal(), pod.failure_message())
    }

    #[test]
    fn a_pod_that_runs_or_starts_has_no_failure_message() {
        for status in [
            json!({}),
            json!({ "phase": "Running", "containerStatuses": [{ "name": "a", "state": { "running": {} } }] }),
            json!({ "containerStatuses": [{ "name": "a", "state": { "waiting": { "reason": "ContainerCreating" } } }] }),
        ] {
            assert_eq!(outcome(&status), (false, None), "{status}");
        }
    }

    #[test]
    fn a_crash_loop_has_the_same_message_in_every_state() {
        let ran = |from: &str, to: &str| {
            let time = |time: &str| format!("2026-01-01T{time}Z");
            json!({ "terminated": { "exitCode": 1, "reason": "Error", "startedAt": time(from), "finishedAt": time(to) } })
        };
        let ended = ran("10:59:58", "11:00:07");
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } });
        let crash_loop = (false, Some("mysql: CrashLoopBackOff".to_owned()));
        for (state, last) in [(ended.clone(), json!({})), (waiting, ended.clone()), (json!({ "running": {} }), ended)] {
            let container =
                json!({ "name": "mysql", "ready": false, "restartCount": 5, "state": state, "lastState": last });
            let but = |field: &str, value: Value| {
                let mut container = container.clone();
                container[field] = value;
                outcome(&json!({ "phase": "Running", "containerStatuses": [container] }))
            };
            assert_eq!(but("restartCount", json!(5)), crash_loop, "{state}");
            if state.get("running").is_some() {
                assert_eq!(but("ready", json!(true)), (false, None));
                assert_eq!(but("restartCount", json!(1)), (false, None), "one restart is no crash loop");
                let ran_long = but("lastState", ran("10:00:00", "10:30:00"));
                assert_eq!(ran_long, (false, None), "the container ran for half an hour");
            }
        }
        let done = json!([{ "name": "setup", "ready": false, "state": { "terminated": { "exitCode": 0 } } }]);
        assert_eq!(outcome(&json!({ "phase": "Running", "initContainerStatuses": done })), (false, None));
    }

    #[test]
    fn a_failed_pull_has_the_same_message_between_attempts() {
        for reason in ["ErrImagePull", "ImagePullBackOff"] {
            let waiting = json!([{ "name": "mysql", "state": { "waiting": { "reason": reason, "message": "40s" } } }]);
            let expected = (false, Some("mysql: ImagePullBackOff".to_owned()));
            assert_eq!(outcome(&json!({ "phase": "Pending", "containerStatuses": waiting })), expected);
        }
    }

    #[test]
    fn a_waiting_container_has_its_reason_and_message() {
        let waiting = json!([{ "name": "mysql", "state": { "waiting": { "reason": "CreateContainerConfigError", "message": "not found" } } }]);
        let expected = (false, Some("mysql: CreateContainerConfigError: not found".to_owned()));
        assert_eq!(outcome(&json!({ "phase": "Pending", "containerStatuses": waiting })), expected);
        assert_eq!(outcome(&json!({ "phase": "Pending", "initContainerStatuses": waiting })), expected);
    }

    #[test]
    fn a_pod_in_a_terminal_phase_is_terminal() {
        assert_eq!(
            outcome(&json!({ "phase": "Failed", "reason": "Evicted" })),
            (true, Some("failed: Evicted".to_owned()))
        );
        assert_eq!(outcome(&json!({ "phase": "Succeeded" })), (true, None));
    }
}
