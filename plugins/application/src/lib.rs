//! An application with health checks, autoscaling, storage and network rules.

mod check;
mod children;
mod measures;
mod scale;
mod spec;
mod status;
mod storage;

use std::time::Duration;

use scale::Scale;
use serde::de::IgnoredAny;
pub use spec::ApplicationSpec;
pub use status::{ApplicationStatus, Phase};
use windlass_plugin::{
    ChildOptions, CustomResource, Descriptor, Failure, Reconciler, Request, Response, StatusPhase, crd,
    kinds::{Deployment, HorizontalPodAutoscaler, NetworkPolicy, PersistentVolumeClaim, Service},
};

/// The operator.
#[derive(Debug)]
pub struct Application;

/// The source of `crd.json` (`UPDATE_EXPECT=1 cargo test` writes it).
fn kind() -> CustomResource {
    CustomResource::namespaced::<Application>("apps.example.com", "v1alpha1", "Application")
        .short_name("app")
        .column("Phase", "string", ".status.phase")
        .column("Desired", "integer", ".status.desiredReplicas")
        .column("Available", "integer", ".status.availableReplicas")
        // The Service has the same name.
        .rfc1035_name(63)
}

impl Reconciler for Application {
    type Spec = ApplicationSpec;
    type Status = ApplicationStatus;

    fn descriptor() -> Descriptor {
        let descriptor = Descriptor::new("application", env!("CARGO_PKG_VERSION"), crd!("../crd.json", kind()))
            .description("Runs an application with health checks, autoscaling, storage and network rules")
            .child::<PersistentVolumeClaim>()
            .child::<Service>()
            .child::<Deployment>()
            .child::<HorizontalPodAutoscaler>()
            .child::<NetworkPolicy>()
            .resync(Duration::from_mins(5));
        measures::declared().into_iter().fold(descriptor, Descriptor::metric)
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        // The host writes a status after the first call, even if that fails.
        if request.status_as::<IgnoredAny>().is_none() {
            measures::first_seen();
        }
        check::check(&request.spec).and_then(|()| storage::check(&request)).inspect_err(|_| measures::refused())?;

        let scale = Scale::of(&request);
        let status = ApplicationStatus::of(&request, scale);
        measures::reconciled(&request, &status);

        let claims = &request.spec.storage.persistent_volume_claims;
        let deployment = children::deployment(&request, scale);
        let is_changing = matches!(status.phase, Phase::Creating | Phase::Scaling | Phase::Updating);
        let is_available = status.available_replicas >= status.desired_replicas;
        let (reason, message) = (status.phase.as_str(), status.message.clone());
        Ok(Response::new()
            .children(claims.iter().map(|claim| children::claim(&request, claim)))
            .child(children::service(&request))
            .child_if(request.spec.security.network_policy, children::network_policy(&request))
            .children(children::autoscaler(&request))
            .child_with(deployment, ChildOptions::new().take_over(scale.takes_over()))
            .phase_status(&request, status, &message)
            .condition("Available", is_available, reason, &message)
            .condition("Progressing", is_changing, reason, &message))
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(Application);
