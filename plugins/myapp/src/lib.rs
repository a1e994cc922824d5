//! A web application: a Deployment, a Service and, for a host name, an Ingress.

mod admission;
mod children;
mod spec;
mod status;

use std::time::Duration;

use windlass_plugin::{
    CustomResource, Descriptor, Event, Failure, Reconciler, Request, Response, Unread, crd,
    kinds::{Deployment, Ingress, Service},
};

pub use spec::MyAppSpec;
pub use status::MyAppStatus;

/// The operator.
#[derive(Debug)]
pub struct MyApp;

/// The source of `crd.json` (`UPDATE_EXPECT=1 cargo test` writes it).
fn kind() -> CustomResource {
    CustomResource::namespaced::<MyApp>("example.com", "v1", "MyApp")
        .short_name("ma")
        .column("Phase", "string", ".status.phase")
        .column("Replicas", "integer", ".status.replicas")
        // The Service has the same name.
        .rfc1035_name(63)
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
        request.spec.check()?;
        let status = MyAppStatus::of(&request);
        let message = status.message.clone();
        Ok(Response::new()
            .child(children::deployment(&request))
            .child(children::service(&request))
            .children(children::ingress(&request))
            .phase_status(&request, status, &message))
    }

    /// Cleans up outside the cluster: a DNS record, for example. MyApp has nothing there, and only emits an event. The response
    /// has no children, so the host deletes the live ones.
    fn finalize(request: Request<Self, Unread>) -> Result<Response<Self>, Failure> {
        let message = format!("Nothing of {} is left outside the cluster", request.name());
        Ok(Response::new().event(Event::normal("CleanedUp", message)).finalized())
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(MyApp);
#[cfg(not(feature = "library"))]
windlass_plugin::export_admission!(MyApp);
