//! A puppet that may own objects of many kinds: kind `KindsPuppet`. The test installs the custom ones.

use hostile_guests::puppet;
use windlass_plugin::{Kind, UpdateStrategy};

macro_rules! kinds {
    ($($kind:ident $api_version:literal),* $(,)?) => {
        $(
            struct $kind;

            impl Kind for $kind {
                const API_VERSION: &str = $api_version;
                const KIND: &str = stringify!($kind);
            }
        )*

        hostile_guests::puppet!(
            PuppetKinds,
            puppet::descriptor("puppet-kinds", puppet::namespaced::<PuppetKinds>("KindsPuppet"))
                $(.child::<$kind>())*
                .child_with::<Relay>(UpdateStrategy::Recreate),
            puppet::obey
        );
    };
}

/// A custom kind whose objects are recreated.
struct Relay;

impl Kind for Relay {
    const API_VERSION: &str = "convergence.example/v1";
    const KIND: &str = "Relay";
}

kinds! {
    Deployment "apps/v1",
    StatefulSet "apps/v1",
    DaemonSet "apps/v1",
    Service "v1",
    Ingress "networking.k8s.io/v1",
    NetworkPolicy "networking.k8s.io/v1",
    CronJob "batch/v1",
    HorizontalPodAutoscaler "autoscaling/v2",
    PodDisruptionBudget "policy/v1",
    Secret "v1",
    ServiceAccount "v1",
    Role "rbac.authorization.k8s.io/v1",
    RoleBinding "rbac.authorization.k8s.io/v1",
    Gauge "convergence.example/v1",
    Valve "convergence.example/v1",
}
