//! Waits for the outcome of a push: derives it from the Plugin's status, and names the missing steps.

use std::time::Duration;

use anyhow::Context as _;
use futures::future::OptionFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::sleep;
use windlass_api::{Plugin, PluginStatus};
use windlass_core::object::names::{ANNOTATION_ROLLBACK, plugin_condition as condition};
use windlass_core::object::reason::PluginReason;
use windlass_core::value::ids::PluginName;

use super::super::connect::plain;
use super::super::host_lease::why_idle;

/// How long the host may take until the command says that it has not acted.
const MOMENT: Duration = Duration::from_secs(5);

/// In a line about a missing step: that permissions are missing.
const FORBIDDEN: &str = "(Forbidden)";

/// State of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The component is live, works, and every parent was reconciled with it.
    Ready,
    /// The host has not acted on the push.
    Unseen,
    /// The push is not finished: one line for each missing step.
    Waiting(Vec<String>),
    /// The host will not continue by itself: the reason.
    Rejected(String),
    /// A setting of the Plugin keeps the component from working: how to change it.
    BlockedBySetting(String),
    /// The Plugin was deleted.
    Gone,
}

/// The push to wait for.
#[derive(Debug, Clone, Copy)]
pub struct Push<'a> {
    /// Name of the Plugin.
    pub name: &'a PluginName,
    /// Digest of the component.
    pub digest: &'a str,
    /// Value of the annotation `windlass.dev/pushed-at`: a status from before the host saw this value is about an
    /// earlier push.
    pub at: &'a str,
    /// Namespace of the host.
    pub namespace: &'a str,
}

impl Push<'_> {
    /// The state of the push, by the current state of the Plugin.
    pub fn judge(self, plugin: &Plugin) -> Progress {
        let Self { name, digest, at, .. } = self;
        let status = plugin.status.clone().unwrap_or_default();
        if let Some(message) = self.blocked_by_setting(plugin, &status) {
            return Progress::BlockedBySetting(message);
        }
        let is_live = status.active_digest.as_deref() == Some(digest);
        // Both are RFC 3339 times with equally many digits, so they compare as text. If the host has handled a later
        // push by another user, it has seen this one, too.
        if status.last_handled_push.as_deref().is_none_or(|handled| handled < at) {
            return Progress::Unseen;
        }
        let is_ready = find(&status, condition::READY).is_some();
        if is_live && is_ready && plugin.spec.suspend {
            return Progress::BlockedBySetting(format!(
                "{digest} is live, but spec.suspend keeps Plugin {name} from reconciling. To go on: kubectl patch \
                 plugins.windlass.dev {name} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'"
            ));
        }
        if is_live && is_ready && status.reconciled_digest.as_deref() == Some(digest) {
            return Progress::Ready;
        }
        let is_candidate = status.candidate_digest.as_deref() == Some(digest);
        if let Some(stalled) = find(&status, condition::STALLED).filter(|_| is_live || is_candidate) {
            return Progress::Rejected(format!("{} ({})", stalled.message, stalled.reason));
        }
        Progress::Waiting(missing(&status, digest))
    }

    /// The user's setting that keeps this component from being live, if there is one.
    fn blocked_by_setting(self, plugin: &Plugin, status: &PluginStatus) -> Option<String> {
        let Self { name, digest, .. } = self;
        let annotations = plugin.metadata.annotations.as_ref();
        let rolls_back = annotations.and_then(|all| all.get(ANNOTATION_ROLLBACK)).is_some_and(|value| value == "true");
        if rolls_back && status.rolled_back_from.as_deref() == Some(digest) {
            return Some(format!(
                "Plugin {name} was rolled back from {digest} by {ANNOTATION_ROLLBACK}; remove it to go on: kubectl annotate \
                 plugins.windlass.dev {name} {ANNOTATION_ROLLBACK}-"
            ));
        }
        let pinned = plugin.spec.digest.as_deref().filter(|pinned| *pinned != digest)?;
        Some(format!(
            "spec.digest pins Plugin {name} to {pinned}. To have {digest}: kubectl patch plugins.windlass.dev {name} \
             --type=merge -p '{{\"spec\":{{\"digest\":\"{digest}\"}}}}'"
        ))
    }

    /// That the host has not acted, and why that may be so.
    pub async fn unseen(self, client: &Client) -> String {
        let why = why_idle(client, self.namespace).await;
        format!("the host has not acted on this push of Plugin {} yet: {why}", self.name)
    }
}

/// The steps and conditions that are missing, one line each.
fn missing(status: &PluginStatus, digest: &str) -> Vec<String> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is_kstatus = |kind: &str| [condition::RECONCILING, condition::STALLED].contains(&kind);
    let not_true = conditions.iter().filter(|one| !is_kstatus(&one.type_) && one.status != "True");
    // The Plugin's overall conditions repeat the failure of a step; list each reason once.
    let mut lines: Vec<String> = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    for one in not_true.filter(|one| one.reason != PluginReason::Blocked.as_str()) {
        if !listed.contains(&one.reason.as_str()) {
            lines.push(format!("{}={} ({}): {}", one.type_, one.status, one.reason, one.message));
            listed.push(&one.reason);
        }
    }
    if lines.is_empty() {
        lines.extend(find(status, condition::RECONCILING).map(|one| one.message.clone()));
    }
    let (active, candidate) = (status.active_digest.as_deref(), status.candidate_digest.as_deref());
    if active != Some(digest) && candidate != Some(digest) {
        let live = active.map_or_else(|| "no component".to_owned(), ToOwned::to_owned);
        lines.push(format!("the host runs {live} and has not loaded {digest} yet"));
    }
    lines
}

fn find<'a>(status: &'a PluginStatus, kind: &str) -> Option<&'a Condition> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Watches the Plugin until the push has an outcome, or until the timeout; then the last state is returned.
/// Prints each change of the missing steps to standard error.
pub async fn wait(client: &Client, push: Push<'_>, timeout: Duration) -> anyhow::Result<Progress> {
    // Nearly every push is seen after a moment.
    let mut moment = Some(Box::pin(sleep(MOMENT)));
    let mut plugins = std::pin::pin!(watch_object(Api::<Plugin>::all(client.clone()), push.name.as_str()));
    let mut end = std::pin::pin!(sleep(timeout));
    let mut last = Progress::Unseen;
    loop {
        tokio::select! {
            () = &mut end => return Ok(last),
            () = OptionFuture::from(moment.as_mut()).map(drop), if moment.is_some() => {
                moment = None;
                match &last {
                    Progress::Unseen => err!("waiting: {}", push.unseen(client).await),
                    Progress::Waiting(missing) if missing.iter().any(|line| line.contains(FORBIDDEN)) => err!(
                        "waiting at most {} s for somebody to grant this; a user who may write roles does so with --create-rbac",
                        timeout.as_secs()
                    ),
                    _ => {}
                }
            }
            plugin = plugins.next() => {
                let plugin = plugin.with_context(|| format!("the watch of Plugin {} ended", push.name))?;
                let plugin = plugin.context("the Plugin could not be watched")?;
                let now = plugin.map_or(Progress::Gone, |plugin| push.judge(&plugin));
                match &now {
                    Progress::Waiting(missing) if now != last => missing.iter().for_each(|line| err!("waiting: {line}")),
                    Progress::Waiting(_) | Progress::Unseen => {}
                    Progress::Ready | Progress::Rejected(_) | Progress::BlockedBySetting(_) | Progress::Gone => return Ok(now),
                }
                last = now;
            }
        }
    }
}

/// A note on the number of failing parents, as counted so far; none if none fails. Failing parents do not keep a Plugin
/// from being Ready.
pub async fn failing(client: &Client, name: &PluginName) -> anyhow::Result<Option<String>> {
    let plugin = Api::<Plugin>::all(client.clone()).get_opt(name.as_str()).await.map_err(plain)?;
    let status = plugin.and_then(|plugin| plugin.status).unwrap_or_default();
    let failing = status.failing.filter(|failing| *failing > 0);
    Ok(failing.map(|failing| {
        let parents = status.parents.unwrap_or(failing);
        let last = status.last_failure.map(|last| format!("; the last: {}: {}", last.object, last.message));
        format!("note: {failing} of {parents} parents fail{}", last.unwrap_or_default())
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NEW: &str = "sha256:ab12";
    const OLD: &str = "sha256:9f00";
    const AT: &str = "2026-11-23T05:00:00.500Z";

    fn judge(annotations: &Value, spec: Value, status: &Value) -> Progress {
        let mut plugin = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "echo", "annotations": annotations},
            "spec": {"source": {"configMap": {"namespace": "n", "name": "echo"}}},
            "status": status,
        });
        let Value::Object(more) = spec else { panic!("{spec}") };
        plugin["spec"].as_object_mut().expect("an object").extend(more);
        let name = "echo".parse().expect("a name");
        Push { name: &name, digest: NEW, at: AT, namespace: "n" }
            .judge(&serde_json::from_value(plugin).expect("a Plugin"))
    }

    fn conditions(all: &[(&str, &str, &str, &str)]) -> Value {
        let one = |(kind, status, reason, message): &(&str, &str, &str, &str)| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-11-23T05:00:00Z",
            })
        };
        all.iter().map(one).collect()
    }

    fn of(status: &Value) -> Progress {
        judge(&json!({}), json!({}), status)
    }

    fn live(conditions: &Value) -> Value {
        json!({
            "lastHandledPush": AT, "activeDigest": NEW, "reconciledDigest": NEW, "conditions": conditions,
        })
    }

    #[test]
    fn push_is_done_when_its_component_is_ready_and_reconciled_every_parent() {
        let ready = conditions(&[("Ready", "True", "Succeeded", "")]);
        assert_eq!(of(&live(&ready)), Progress::Ready);
        for (field, value) in
            [("activeDigest", OLD), ("reconciledDigest", OLD), ("lastHandledPush", "2026-11-23T04:59:59.999Z")]
        {
            let mut status = live(&ready);
            status[field] = value.into();
            assert!(matches!(of(&status), Progress::Waiting(_) | Progress::Unseen), "{field}");
        }
        // Deletions that are blocked two seconds after the component went live.
        let blocked = conditions(&[
            ("Ready", "False", "DeletionBlocked", "annotate it"),
            ("Stalled", "True", "DeletionBlocked", "annotate it"),
        ]);
        assert_eq!(of(&live(&blocked)), Progress::Rejected("annotate it (DeletionBlocked)".to_owned()));
    }

    #[test]
    fn failure_of_an_earlier_push_is_not_attributed_to_this_one() {
        let stalled = conditions(&[("Stalled", "True", "NotAComponent", "no wasm")]);
        let mut status =
            json!({"candidateDigest": NEW, "conditions": stalled, "lastHandledPush": "2026-11-23T04:00:00.000Z"});
        assert_eq!(of(&status), Progress::Unseen);
        status["lastHandledPush"] = AT.into();
        assert_eq!(of(&status), Progress::Rejected("no wasm (NotAComponent)".to_owned()));
        status["candidateDigest"] = OLD.into();
        assert!(matches!(of(&status), Progress::Waiting(_)), "the host has not seen the new source yet");
    }

    #[test]
    fn missing_condition_is_reported_once_with_its_message() {
        let waiting = conditions(&[
            ("Fetched", "True", "Succeeded", ""),
            ("Granted", "False", "Forbidden", "may not create Pod.v1"),
            ("Ready", "False", "Forbidden", "may not create Pod.v1. Still running"),
            ("Reconciling", "True", "Forbidden", "may not create Pod.v1"),
        ]);
        let progress = of(&json!({"lastHandledPush": AT, "candidateDigest": NEW, "conditions": waiting}));
        assert_eq!(progress, Progress::Waiting(vec!["Granted=False (Forbidden): may not create Pod.v1".to_owned()]));
        let unreconciled = conditions(&[
            ("Ready", "True", "Succeeded", ""),
            ("Reconciling", "True", "Progressing", "3 parents were not reconciled"),
        ]);
        let mut status = live(&unreconciled);
        status["reconciledDigest"] = OLD.into();
        assert_eq!(of(&status), Progress::Waiting(vec!["3 parents were not reconciled".to_owned()]));
    }

    #[test]
    fn setting_that_keeps_the_component_back_is_named_with_the_command_that_removes_it() {
        let ready = conditions(&[("Ready", "True", "Suspended", "")]);
        let rolled_back = json!({"activeDigest": OLD, "rolledBackFrom": NEW});
        let rollback = json!({"windlass.dev/rollback": "true"});
        for (annotations, spec, status, words) in [
            (rollback.clone(), json!({}), rolled_back, "windlass.dev/rollback; remove it to go on: kubectl annotate"),
            (json!({}), json!({"digest": OLD}), json!({}), "spec.digest pins Plugin echo to sha256:9f00"),
            (json!({}), json!({"suspend": true}), live(&ready), "spec.suspend keeps Plugin echo from reconciling"),
        ] {
            let Progress::BlockedBySetting(message) = judge(&annotations, spec, &status) else { panic!("{words}") };
            assert!(message.contains(words) && message.contains("kubectl"), "{message}");
        }
        // A component that is newer than the one that was rolled back from goes live.
        let other = json!({"activeDigest": OLD, "rolledBackFrom": OLD});
        assert!(matches!(judge(&rollback, json!({}), &other), Progress::Unseen));
    }
}
