//! Independent MySQL servers without replication. Each has a volume, which is kept when the cluster is deleted.

mod children;
mod spec;
mod status;
mod volumes;

use std::time::Duration;

use windlass_plugin::{
    ChildOptions, CustomResource, Descriptor, Event, Failure, Reconciler, Request, Response, StatusPhase,
    UpdateStrategy, crd,
    kinds::{PersistentVolumeClaim, Pod, Secret, Service},
    span,
};

pub use spec::MySQLClusterSpec;
pub use status::MySQLClusterStatus;
use volumes::Volumes;

/// The operator.
#[derive(Debug)]
pub struct MySQLCluster;

/// The source of `crd.json` (`UPDATE_EXPECT=1 cargo test` writes it).
fn kind() -> CustomResource {
    CustomResource::namespaced::<MySQLCluster>("database.example.com", "v1", "MySQLCluster")
        .short_name("mysql")
        .column("Phase", "string", ".status.phase")
        .column("Servers", "integer", ".spec.replicas")
        .column("ReadyServers", "integer", ".status.readyReplicas")
        .column("Version", "string", ".spec.version")
        // The Service has the same name, and the claims' names append up to `-data-8` to it.
        .rfc1035_name(56)
}

impl Reconciler for MySQLCluster {
    type Spec = MySQLClusterSpec;
    type Status = MySQLClusterStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("mysqlcluster", env!("CARGO_PKG_VERSION"), crd!("../crd.json", kind()))
            .description("Runs independent MySQL servers, each with a volume that survives the cluster")
            .child::<PersistentVolumeClaim>()
            .child::<Secret>()
            .child::<Service>()
            // A Pod's resources cannot change in place. One server at a time, so that the others stay available.
            .child_with::<Pod>(UpdateStrategy::rolling_recreate(["Ready"]))
            .resync(Duration::from_mins(5))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let replicas = request.spec.replicas.to_string();
        span::attribute("mysql.name", request.name());
        span::attribute("mysql.namespace", request.namespace());
        span::attribute("mysql.replicas", &replicas);
        request.spec.check()?;
        let volumes = Volumes::of(&request)?;
        let has_data = volumes.exist();
        let claims = volumes.desired(&request);
        span::event("pvc_ensured", &[("count", &claims.len().to_string())]);
        let secret = children::secret(&request, has_data)?;
        let data = ChildOptions::new().retain(!request.spec.delete_data);
        span::event("service_ensured", &[("name", request.name())]);
        span::event("pods_ensured", &[("count", &replicas)]);
        let terminal = children::first_terminal(&request);
        let pods = (0..request.spec.replicas).filter(|server| Some(*server) != terminal);
        let mut response = Response::new()
            .children_with(claims, &data)
            .children_with(secret, &data)
            .child(children::service(&request))
            .children(pods.map(|server| children::pod(&request, server)));
        if let Some(server) = terminal {
            let message = format!("Pod {}-{server} has ended and is recreated with its volume", request.name());
            response = response.event(Event::warning("ServerReplaced", message));
        }

        let status = MySQLClusterStatus::of(&request);
        let (phase, message) = (status.phase, status.message(&request));
        response = response.phase_status(&request, status, &message);
        if response.changes_status(&request) {
            span::event("status_updated", &[("phase", phase.as_str())]);
        }
        Ok(response)
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(MySQLCluster);
