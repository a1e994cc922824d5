//! A web application: its Deployment, its Service and, if it has a host name, its Ingress.

mod admission;
mod children;
mod spec;
mod status;

use std::time::Duration;

use windlass_plugin::{
    CustomResource, Descriptor, Event, Failure, Reconciler, Request, Response, clock, crd,
    kinds::{Deployment, Ingress, Service},
};

pub use spec::MyAppSpec;
pub use status::MyAppStatus;

/// How soon to look again at an application that has failed: it may be mended by what the host does not watch.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// The operator.
#[derive(Debug)]
pub struct MyApp;

/// `crd.json` is made of it (`UPDATE_EXPECT=1 cargo test`).
fn kind() -> CustomResource {
    CustomResource::namespaced::<MyApp>("example.com", "v1", "MyApp")
        .short_name("ma")
        .column("Phase", "string", ".status.phase")
        .column("Replicas", "integer", ".status.replicas")
        // The Service has the same name, and the Pods have it as a label.
        .rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
            "name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most 63 characters",
        )
}

impl Reconciler for MyApp {
    type Spec = MyAppSpec;
    type Status = MyAppStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("myapp", env!("CARGO_PKG_VERSION"), crd!("../crd.json", kind()))
            .description("Runs a web application, with its Service and Ingress")
            .child::<Deployment>()
            .child::<Service>()
            .child::<Ingress>()
            .finalizes()
            .resync(Duration::from_mins(1))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        if request.is_finalizing() {
            return Ok(released(&request));
        }
        request.spec.check()?;
        let status = MyAppStatus::of(&request);
        let before = request.status().map(|before| before.phase);
        let mut response = Response::new()
            .child(children::deployment(&request))
            .child(children::service(&request))
            .children(children::ingress(&request))
            .condition("Ready", status.phase.is_running(), status.phase.as_str(), &status.message);
        if before.is_some_and(|before| before != status.phase) {
            response = response.event(status.event());
        }
        if status.phase.has_failed() {
            response = response.requeue(AFTER_FAILURE);
        }
        Ok(response.status(clock::steady(request.status(), status, |status| &mut status.last_update_time)))
    }
}

/// Where an operator gives back what it holds outside the cluster: a DNS record, say. This one has nothing there, and says
/// so; what it has in the cluster goes because it is not in the response.
fn released(request: &Request<MyApp>) -> Response<MyApp> {
    let message = format!("Nothing of {} is left outside the cluster", request.name());
    Response::new().event(Event::normal("CleanedUp", message)).finalized()
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(MyApp);
#[cfg(not(feature = "library"))]
windlass_plugin::export_admission!(MyApp);
