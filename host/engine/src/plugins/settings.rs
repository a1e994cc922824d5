//! Settings of a Plugin's spec that do not change the desired state. They take effect at once, also while the newest
//! component fails to load.

use std::time::Duration;

use windlass_api::{Plugin, positive};
use windlass_core::contract::Descriptor;
use windlass_core::contract::desired::asked_wait;
use windlass_core::guard::deletions::DeletionGuard;
use windlass_core::reconcile::terms::Settings;

/// Resync interval of a plugin that sets none.
const DEFAULT_RESYNC: Duration = Duration::from_mins(10);

/// The settings of a Plugin, for a component with this descriptor.
///
/// # Errors
/// If a setting is invalid; the text is for users.
pub fn settings_of(plugin: &Plugin, descriptor: &Descriptor) -> Result<Settings, String> {
    let spec = &plugin.spec;
    Ok(Settings {
        suspended: spec.suspend,
        adopts: spec.adopt,
        guard: DeletionGuard {
            max_percent: u8::try_from(spec.deletion_guard.max_percent.clamp(0, 100)).unwrap_or(100),
            min_children: usize::try_from(spec.deletion_guard.min_children).unwrap_or(0),
        },
        concurrency: usize::try_from(spec.concurrency).unwrap_or(1).max(1),
        resync: match &spec.resync {
            Some(resync) => positive(resync).map_err(|error| format!("spec.resync: {error}"))?,
            None => descriptor.resync.map_or(DEFAULT_RESYNC, asked_wait),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_core::contract::Parent;

    use super::*;

    fn settings(spec: &Value) -> Result<Settings, String> {
        let mut plugin = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "echo"},
            "spec": {"source": {"configMap": {"namespace": "n", "name": "echo"}}},
        });
        for (key, value) in spec.as_object().expect("an object") {
            plugin["spec"][key] = value.clone();
        }
        let descriptor =
            Descriptor { resync: Some(30_000), ..Descriptor::about("echo", "1.0.0", Parent::Custom(Vec::new())) };
        settings_of(&serde_json::from_value(plugin).expect("a Plugin"), &descriptor)
    }

    #[test]
    fn r09_deletion_guard_has_its_defaults_unless_the_plugin_sets_it() {
        let plain = settings(&json!({})).expect("valid");
        assert_eq!((plain.guard, plain.suspended), (DeletionGuard::default(), false));
        assert_eq!(plain.resync, Duration::from_secs(30), "the component's resync");
        let custom = json!({"deletionGuard": {"maxPercent": 0}, "suspend": true, "resync": "1m", "concurrency": 3});
        let custom = settings(&custom).expect("valid");
        assert_eq!((custom.guard.max_percent, custom.guard.min_children, custom.suspended), (0, 4, true));
        assert_eq!((custom.resync, custom.concurrency), (Duration::from_mins(1), 3));
        assert!(settings(&json!({"resync": "0s"})).is_err());
    }

    #[test]
    fn r16_changed_suspension_affects_the_parents_and_changed_concurrency_does_not() {
        let plain = settings(&json!({})).expect("valid");
        for (spec, is_affected) in [
            (json!({"suspend": true}), true),
            (json!({"deletionGuard": {"minChildren": 1}}), true),
            (json!({"resync": "2h"}), true),
            (json!({"adopt": true}), true),
            (json!({"concurrency": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(settings(&spec).expect("valid").concern_parents(plain), is_affected, "{spec}");
        }
    }
}
