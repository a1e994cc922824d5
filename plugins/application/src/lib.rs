//! An application with health checks, autoscaling, storage and network rules.

mod check;
mod children;
mod measures;
mod scale;
mod spec;
mod status;
mod storage;

use std::time::Duration;

use serde::de::IgnoredAny;
use windlass_plugin::{
    ChildOptions, CustomResource, Descriptor, Failure, Reconciler, Request, Response, crd,
    kinds::{Deployment, HorizontalPodAutoscaler, NetworkPolicy, PersistentVolumeClaim, Service},
};

use scale::Scale;
pub use spec::ApplicationSpec;
pub use status::{ApplicationStatus, Phase};

/// How soon to look again at an application that has failed: it may be mended by what the host does not watch.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// The operator.
#[derive(Debug)]
pub struct Application;

/// `crd.json` is made of it (`UPDATE_EXPECT=1 cargo test`).
fn kind() -> CustomResource {
    CustomResource::namespaced::<Application>("apps.example.com", "v1alpha1", "Application")
        .short_name("app")
        .column("Phase", "string", ".status.phase")
        .column("Wanted", "integer", ".status.desiredReplicas")
        .column("Available", "integer", ".status.availableReplicas")
        // The Service has the same name, and the Pods have it as a label.
        .rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
            "name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most 63 characters",
        )
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
        // The host writes one with its first answer, also where that is a refusal.
        if request.status_as::<IgnoredAny>().is_none() {
            measures::first_seen();
        }
        let before = request.status();
        check::check(&request.spec).and_then(|()| storage::check(&request)).inspect_err(|_| measures::refused())?;

        let scale = Scale::of(&request);
        let status = ApplicationStatus::of(&request, scale, before.as_ref());
        measures::reconciled(&request, &status);

        let claims = &request.spec.storage.persistent_volume_claims;
        let deployment = children::deployment(&request, scale);
        let mut response = Response::new()
            .children(claims.iter().map(|claim| children::claim(&request, claim)))
            .child(children::service(&request))
            .child_if(request.spec.security.network_policy, children::network_policy(&request))
            .children(children::autoscaler(&request))
            .child_with(deployment, ChildOptions::new().force_ownership(scale.forces_ownership()));

        let events = before.iter().flat_map(|before| status.events(before));
        response = events.fold(response, Response::event);
        if status.phase == Phase::Failed {
            response = response.requeue(AFTER_FAILURE);
        }
        let is_changing = matches!(status.phase, Phase::Creating | Phase::Scaling | Phase::Updating);
        let (reason, message) = (status.phase.as_str(), status.message.clone());
        Ok(response
            .condition("Ready", status.phase == Phase::Running, reason, &message)
            .condition("Available", status.available_replicas >= status.desired_replicas, reason, &message)
            .condition("Progressing", is_changing, reason, &message)
            .status(status))
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(Application);
