//! The writer of the Deployment's number of replicas: this plugin or an autoscaler.
//!
//! An autoscaler writes `spec.replicas` of the Deployment. From then on the plugin applies the Deployment without the field:
//! with it, the apply would conflict, or undo every change of the autoscaler. Until then the plugin applies an initial
//! number: without one, the API server's default is 1.
//!
//! An annotation has the initial number too. If `spec.replicas` differs from it, another writer has set the field: the
//! autoscaler, or a user with `kubectl scale`. Another annotation records this, because the other writer still owns the field
//! after the autoscaler is deleted.

use windlass_plugin::{Request, Value, json, kinds::Deployment};

use crate::Application;

const SCALED_BY: &str = "apps.example.com/scaled-by";
const AUTOSCALER: &str = "autoscaler";
const INITIAL_REPLICAS: &str = "apps.example.com/replicas";

/// The writer of the number of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The plugin, with the spec's number.
    Spec {
        /// The number.
        replicas: u32,
        /// Whether an autoscaler wrote the field before: the plugin takes it over.
        was_autoscaled: bool,
    },
    /// The plugin, with the number with which an autoscaler starts.
    Initial {
        /// The number.
        replicas: u32,
        /// Whether the Deployment is older than the autoscaler, and may have another owner of the field: the plugin takes it
        /// over.
        is_older: bool,
    },
    /// An autoscaler or a user, who has written another number.
    Autoscaler,
}

impl Scale {
    pub(crate) fn of(request: &Request<Application>) -> Self {
        let deployment = request.child::<Deployment>(request.name());
        let annotations = deployment.as_ref().map(|deployment| deployment.metadata().annotations).unwrap_or_default();
        let initial = annotations.get(INITIAL_REPLICAS);
        let live = deployment.as_ref().map(|deployment| deployment.rollout().desired.to_string());
        let was_autoscaled = annotations.get(SCALED_BY).is_some_and(|scaled_by| scaled_by == AUTOSCALER)
            || (initial.is_some() && initial != live.as_ref());
        match &request.spec.scaling {
            None => Self::Spec { replicas: request.spec.replicas, was_autoscaled },
            Some(_) if was_autoscaled => Self::Autoscaler,
            // Within the bounds of the autoscaler, which would change any other number at once.
            Some(scaling) => Self::Initial {
                replicas: request.spec.replicas.clamp(scaling.min_replicas, scaling.max_replicas),
                is_older: deployment.is_some() && initial.is_none(),
            },
        }
    }

    pub(crate) fn replicas(self) -> Option<u32> {
        match self {
            Self::Spec { replicas, .. } | Self::Initial { replicas, .. } => Some(replicas),
            Self::Autoscaler => None,
        }
    }

    /// Whether the plugin takes over the number, because another field manager may own it.
    pub(crate) fn takes_over(self) -> bool {
        matches!(self, Self::Spec { was_autoscaled: true, .. } | Self::Initial { is_older: true, .. })
    }

    pub(crate) fn annotations(self) -> Option<Value> {
        match self {
            Self::Spec { .. } => None,
            Self::Initial { replicas, .. } => Some(json!({ INITIAL_REPLICAS: replicas.to_string() })),
            Self::Autoscaler => Some(json!({ SCALED_BY: AUTOSCALER })),
        }
    }
}
