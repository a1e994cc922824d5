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
#[serde(default)]
struct Container {
    name: String,
    state: State,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
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
        status.init_container_statuses.iter().chain(&status.container_statuses).find_map(|container| {
            let waiting = container.state.waiting.as_ref()?;
            // What a kubelet says of a container that it is about to start.
            let passes = matches!(&*waiting.reason, "" | "ContainerCreating" | "PodInitializing");
            (!passes).then(|| sentence(&[&container.name, &waiting.reason, &waiting.message]))
        })
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
    fn a_container_that_waits_is_told_with_the_reason() {
        let waiting = json!([{ "name": "mysql", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "not found" } } }]);
        let expected = (false, Some("mysql: ImagePullBackOff: not found".to_owned()));
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
