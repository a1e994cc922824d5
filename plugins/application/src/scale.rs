//! Who says how many Pods there are: the spec, or an autoscaler.
//!
//! An autoscaler writes the number into the Deployment itself. From then on the Deployment is applied without it: applied
//! with another number it would be a conflict, and every change of the autoscaler's undone. Until then it is applied with
//! the number to begin with: taken out while nobody else has written it, it would be 1, the API server's default.
//!
//! That one has written is remembered in an annotation of the Deployment: its fields are the autoscaler's still when somebody
//! has deleted that one by hand.

use serde::Deserialize;
use windlass_plugin::{
    Metadata, Object, Request, Value, json,
    kinds::{Deployment, HorizontalPodAutoscaler},
};

use crate::Application;

const SCALED_BY: &str = "apps.example.com/scaled-by";
const AUTOSCALER: &str = "autoscaler";

/// Who says how many Pods there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The spec does.
    Spec {
        /// How many.
        replicas: u32,
        /// An autoscaler did before: its number is taken over.
        back: bool,
    },
    /// An autoscaler has written its first number.
    Autoscaler,
}

impl Scale {
    pub(crate) fn of(request: &Request<Application>) -> Self {
        let name = request.name();
        let deployment = request.child::<Deployment>(name).map(|deployment| deployment.metadata());
        let autoscaler = request.child::<HorizontalPodAutoscaler>(name);
        let was_autoscaled = deployment.is_some_and(|deployment| {
            let marked = deployment.annotations.get(SCALED_BY).is_some_and(|scaled_by| scaled_by == AUTOSCALER);
            marked || autoscaler.is_some_and(|autoscaler| has_scaled(&autoscaler, &deployment))
        });
        match &request.spec.scaling {
            None => Self::Spec { replicas: request.spec.replicas, back: was_autoscaled },
            Some(_) if was_autoscaled => Self::Autoscaler,
            Some(scaling) => {
                // What an autoscaler would make of it at once.
                let replicas = request.spec.replicas.clamp(scaling.min_replicas, scaling.max_replicas);
                Self::Spec { replicas, back: false }
            }
        }
    }

    pub(crate) fn replicas(self) -> Option<u32> {
        match self {
            Self::Spec { replicas, .. } => Some(replicas),
            Self::Autoscaler => None,
        }
    }

    /// Whether the number is taken over from an autoscaler.
    pub(crate) fn comes_back(self) -> bool {
        matches!(self, Self::Spec { back: true, .. })
    }

    pub(crate) fn annotations(self) -> Option<Value> {
        matches!(self, Self::Autoscaler).then(|| json!({ SCALED_BY: AUTOSCALER }))
    }
}

/// Whether an autoscaler has ever written a number into this very Deployment, and not into one of its name before.
fn has_scaled(autoscaler: &Object<HorizontalPodAutoscaler>, deployment: &Metadata) -> bool {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Whole {
        status: Status,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Status {
        last_scale_time: Option<String>,
    }

    // Both are RFC 3339 in UTC and to the second, so text compares as time.
    autoscaler.read_as::<Whole>().unwrap_or_default().status.last_scale_time > deployment.creation_timestamp
}
