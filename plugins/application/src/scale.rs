//! Who says how many Pods there are: the spec, or an autoscaler.
//!
//! An autoscaler writes the number into the Deployment itself. From then on the Deployment is applied without it: applied
//! with another number it would be a conflict, and every change of the autoscaler's undone. Until then it is applied with
//! the number to begin with: taken out while nobody else has written it, it would be 1, the API server's default.
//!
//! The number to begin with is written beside itself, into an annotation. Where the two differ, somebody else has written:
//! the autoscaler, or a person who scaled within or beyond its bounds and leaves the rest to it. That this has happened is
//! remembered in another annotation: the fields are somebody else's still when the autoscaler is deleted by hand.

use windlass_plugin::{Request, Value, json, kinds::Deployment};

use crate::Application;

const SCALED_BY: &str = "apps.example.com/scaled-by";
const AUTOSCALER: &str = "autoscaler";
const BEGAN_WITH: &str = "apps.example.com/replicas";

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
    /// The spec says with how many an autoscaler begins.
    Beginning {
        /// How many.
        replicas: u32,
        /// The Deployment was there before the autoscaler: whoever wrote a number then has to let it go.
        over: bool,
    },
    /// Another number has been written since.
    Autoscaler,
}

impl Scale {
    pub(crate) fn of(request: &Request<Application>) -> Self {
        let deployment = request.child::<Deployment>(request.name());
        let annotations = deployment.as_ref().map(|deployment| deployment.metadata().annotations).unwrap_or_default();
        let began_with = annotations.get(BEGAN_WITH);
        let wanted = deployment.as_ref().map(|deployment| deployment.rollout().wanted.to_string());
        let was_autoscaled = annotations.get(SCALED_BY).is_some_and(|scaled_by| scaled_by == AUTOSCALER)
            || (began_with.is_some() && began_with != wanted.as_ref());
        match &request.spec.scaling {
            None => Self::Spec { replicas: request.spec.replicas, back: was_autoscaled },
            Some(_) if was_autoscaled => Self::Autoscaler,
            // What an autoscaler would make of it at once.
            Some(scaling) => Self::Beginning {
                replicas: request.spec.replicas.clamp(scaling.min_replicas, scaling.max_replicas),
                over: deployment.is_some() && began_with.is_none(),
            },
        }
    }

    pub(crate) fn replicas(self) -> Option<u32> {
        match self {
            Self::Spec { replicas, .. } | Self::Beginning { replicas, .. } => Some(replicas),
            Self::Autoscaler => None,
        }
    }

    /// Whether the number is taken over from who wrote another.
    pub(crate) fn is_taken_over(self) -> bool {
        matches!(self, Self::Spec { back: true, .. } | Self::Beginning { over: true, .. })
    }

    pub(crate) fn annotations(self) -> Option<Value> {
        match self {
            Self::Spec { .. } => None,
            Self::Beginning { replicas, .. } => Some(json!({ BEGAN_WITH: replicas.to_string() })),
            Self::Autoscaler => Some(json!({ SCALED_BY: AUTOSCALER })),
        }
    }
}
