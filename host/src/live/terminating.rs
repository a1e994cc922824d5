//! Parents that are finalized in a namespace that is being deleted. No child can be created there any more, so a clean-up Job
//! that the plugin wants may never exist (rule R14).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_core::ids::{ObjectKey, PluginName, Uid};
use windlass_core::object::Object;
use windlass_core::outcome::WriteProblem;
use windlass_core::plan::ChildId;

/// For each parent the time since which the API server refuses its children.
#[derive(Debug, Default)]
pub struct Terminating(Mutex<HashMap<(PluginName, ObjectKey), (Uid, Instant)>>);

impl Terminating {
    /// Whether the API server refused a child of this parent.
    pub fn is_known(&self, plugin: &PluginName, parent: &Object) -> bool {
        let known = self.0.lock();
        !known.is_empty() && known.get(&(plugin.clone(), parent.key.clone())).is_some_and(|(uid, _)| *uid == parent.uid)
    }

    /// Records that the API server refuses a child of this parent. Returns for how long it has.
    pub fn refused(&self, plugin: &PluginName, parent: &Object, now: Instant) -> Duration {
        let mut known = self.0.lock();
        let entry = known.entry((plugin.clone(), parent.key.clone())).or_insert_with(|| (parent.uid.clone(), now));
        if entry.0 != parent.uid {
            *entry = (parent.uid.clone(), now);
        }
        now.saturating_duration_since(entry.1)
    }

    /// Forgets a parent that is gone.
    pub fn forget(&self, plugin: &PluginName, parent: &ObjectKey) {
        let mut known = self.0.lock();
        if !known.is_empty() {
            known.remove(&(plugin.clone(), parent.clone()));
        }
    }
}

/// Whether the API server refused a child because the parent's own namespace is being deleted. The namespace of a cluster-scoped
/// parent's child does not count: that parent does not block its deletion, and may have other children to clean up.
pub fn refuses(parent: &Object, problems: &[(ChildId, WriteProblem)]) -> bool {
    parent.key.namespace.is_some()
        && problems.iter().any(|(child, problem)| {
            matches!(problem, WriteProblem::NamespaceTerminating) && child.key.namespace == parent.key.namespace
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::ids::Gvk;

    use super::*;

    fn parent(uid: &str, namespace: &str) -> Object {
        let kind = Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo"));
        let text = format!(r#"{{"metadata":{{"name":"web","uid":"{uid}","resourceVersion":"1"{namespace}}}}}"#);
        Object::from_api(&kind, &text).expect("an object")
    }

    #[test]
    fn r14_the_time_of_a_parent_in_a_terminating_namespace_runs_from_the_first_refusal() {
        let terminating = Terminating::default();
        let (plugin, begin): (PluginName, _) = ("echo".parse().expect("a name"), Instant::now());
        let (web, namesake) = (parent("1", ""), parent("2", ""));
        assert!(!terminating.is_known(&plugin, &web));
        for seconds in [0, 10, 40].map(Duration::from_secs) {
            assert_eq!(terminating.refused(&plugin, &web, begin + seconds), seconds);
            assert!(terminating.is_known(&plugin, &web) && !terminating.is_known(&plugin, &namesake));
        }
        assert_eq!(terminating.refused(&plugin, &namesake, begin + Duration::from_secs(50)), Duration::ZERO);
        terminating.forget(&plugin, &namesake.key);
        assert!(!terminating.is_known(&plugin, &namesake));
    }

    #[test]
    fn r14_only_the_parents_own_namespace_counts() {
        let kind = Arc::new(Gvk::from_api_version("batch/v1", "Job"));
        let of = |namespace: &str| ChildId { kind: kind.clone(), key: ObjectKey::new(Some(namespace), "clean") };
        let (namespaced, cluster_scoped) = (parent("1", r#","namespace":"n""#), parent("1", ""));
        let refused = |namespace: &str| [(of(namespace), WriteProblem::NamespaceTerminating)];
        assert!(refuses(&namespaced, &refused("n")));
        assert!(!refuses(&namespaced, &refused("m")) && !refuses(&cluster_scoped, &refused("n")));
        assert!(!refuses(&namespaced, &[(of("n"), WriteProblem::Outdated)]));
    }
}
