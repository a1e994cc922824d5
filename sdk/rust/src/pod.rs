//! How a Pod fares: its status, read once and for all.

use serde::Deserialize;

use crate::{Object, kinds::Pod};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Whole {
    status: Status,
}

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
    /// Whether it failed before it had run for ten minutes: after those a kubelet takes a container to be well.
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
    /// What keeps it from running. The same from one attempt to the next, so that a status which tells it rests.
    fn trouble(&self) -> Option<String> {
        let ended = [&self.state.terminated, &self.last_state.terminated];
        // Started once more it runs for a moment, and is as far as it was. Once is no habit.
        if !self.ready && self.restart_count > 1 && ended.into_iter().flatten().any(Terminated::has_failed_soon) {
            return Some(sentence(&[&self.name, "CrashLoopBackOff"]));
        }
        let Waiting { reason, message } = self.state.waiting.as_ref()?;
        match &**reason {
            // What a kubelet says of a container that it is about to start.
            "" | "ContainerCreating" | "PodInitializing" => None,
            // It says these in turn, and the longer message with the first alone.
            "ErrImagePull" | "ImagePullBackOff" => Some(sentence(&[&self.name, "ImagePullBackOff"])),
            "CrashLoopBackOff" => Some(sentence(&[&self.name, "CrashLoopBackOff"])),
            _ => Some(sentence(&[&self.name, reason, message])),
        }
    }
}

impl Object<'_, Pod> {
    /// Whether it has ended for good, as an evicted one has: nothing starts it again.
    pub fn has_ended(&self) -> bool {
        matches!(&*self.status().phase, "Failed" | "Succeeded")
    }

    /// What keeps it from running that will not pass by itself, in a sentence: an image that cannot be had, a container
    /// that crashes again and again.
    pub fn trouble(&self) -> Option<String> {
        let status = self.status();
        if status.phase == "Failed" {
            return Some(sentence(&["failed", &status.reason, &status.message]));
        }
        status.init_container_statuses.iter().chain(&status.container_statuses).find_map(Container::trouble)
    }

    fn status(&self) -> Status {
        self.read_as::<Whole>().unwrap_or_default().status
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

    fn told(status: &Value) -> (bool, Option<String>) {
        let observed = observed(&json!({ "status": status }));
        let pod = Object::<Pod>::new(&observed);
        (pod.has_ended(), pod.trouble())
    }

    #[test]
    fn what_passes_by_itself_is_no_trouble() {
        for status in [
            json!({}),
            json!({ "phase": "Running", "containerStatuses": [{ "name": "a", "state": { "running": {} } }] }),
            json!({ "containerStatuses": [{ "name": "a", "state": { "waiting": { "reason": "ContainerCreating" } } }] }),
        ] {
            assert_eq!(told(&status), (false, None), "{status}");
        }
    }

    #[test]
    fn a_container_that_crashes_again_and_again_is_in_trouble_all_the_while() {
        let ran = |from: &str, to: &str| {
            let time = |time: &str| format!("2026-01-01T{time}Z");
            json!({ "terminated": { "exitCode": 1, "reason": "Error", "startedAt": time(from), "finishedAt": time(to) } })
        };
        let ended = ran("10:59:58", "11:00:07");
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } });
        let trouble = (false, Some("mysql: CrashLoopBackOff".to_owned()));
        for (state, last) in [(ended.clone(), json!({})), (waiting, ended.clone()), (json!({ "running": {} }), ended)] {
            let container =
                json!({ "name": "mysql", "ready": false, "restartCount": 5, "state": state, "lastState": last });
            let but = |field: &str, value: Value| {
                let mut container = container.clone();
                container[field] = value;
                told(&json!({ "phase": "Running", "containerStatuses": [container] }))
            };
            assert_eq!(but("restartCount", json!(5)), trouble, "{state}");
            if state.get("running").is_some() {
                assert_eq!(but("ready", json!(true)), (false, None));
                assert_eq!(but("restartCount", json!(1)), (false, None), "it may have been the node");
                let long_ago = but("lastState", ran("10:00:00", "10:30:00"));
                assert_eq!(long_ago, (false, None), "it had run well");
            }
        }
        let done = json!([{ "name": "setup", "ready": false, "state": { "terminated": { "exitCode": 0 } } }]);
        assert_eq!(told(&json!({ "phase": "Running", "initContainerStatuses": done })), (false, None));
    }

    #[test]
    fn an_image_that_cannot_be_had_is_told_alike_whether_it_is_tried_or_waited_for() {
        for reason in ["ErrImagePull", "ImagePullBackOff"] {
            let waiting = json!([{ "name": "mysql", "state": { "waiting": { "reason": reason, "message": "40s" } } }]);
            let expected = (false, Some("mysql: ImagePullBackOff".to_owned()));
            assert_eq!(told(&json!({ "phase": "Pending", "containerStatuses": waiting })), expected);
        }
    }

    #[test]
    fn a_container_that_waits_is_told_with_the_reason() {
        let waiting = json!([{ "name": "mysql", "state": { "waiting": { "reason": "CreateContainerConfigError", "message": "not found" } } }]);
        let expected = (false, Some("mysql: CreateContainerConfigError: not found".to_owned()));
        assert_eq!(told(&json!({ "phase": "Pending", "containerStatuses": waiting })), expected);
        assert_eq!(told(&json!({ "phase": "Pending", "initContainerStatuses": waiting })), expected);
    }

    #[test]
    fn a_pod_that_has_ended_stays_so() {
        assert_eq!(
            told(&json!({ "phase": "Failed", "reason": "Evicted" })),
            (true, Some("failed: Evicted".to_owned()))
        );
        assert_eq!(told(&json!({ "phase": "Succeeded" })), (true, None));
    }
}
