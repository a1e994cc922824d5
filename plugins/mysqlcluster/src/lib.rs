//! Independent MySQL servers, each with a volume of its own, that survive their cluster. No replication is claimed.

mod children;
mod spec;
mod status;
mod volumes;

use std::time::Duration;

use windlass_plugin::{
    ChildOptions, CustomResource, Descriptor, Event, Failure, Reconciler, Request, Response, UpdateStrategy, clock,
    crd,
    kinds::{PersistentVolumeClaim, Pod, Secret, Service},
    span,
};

pub use spec::MySQLClusterSpec;
pub use status::MySQLClusterStatus;
use volumes::Volumes;

/// How soon to look again at a cluster that has failed: it may be mended by what the host does not watch.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// The operator.
#[derive(Debug)]
pub struct MySQLCluster;

/// `crd.json` is made of it (`UPDATE_EXPECT=1 cargo test`).
fn kind() -> CustomResource {
    CustomResource::namespaced::<MySQLCluster>("database.example.com", "v1", "MySQLCluster")
        .short_name("mysql")
        .column("Phase", "string", ".status.phase")
        .column("Servers", "integer", ".spec.replicas")
        .column("ReadyServers", "integer", ".status.readyReplicas")
        .column("Version", "string", ".spec.version")
        // The Service has the same name, the Pods have it as a label, and `-data-8` follows it.
        .rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 56",
            "name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most 56 characters",
        )
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
            // A Pod's resources and version cannot change in place, and never are all servers down for it.
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
        let status = MySQLClusterStatus::of(&request);

        let mut response = Response::new();
        let claims = volumes.desired(&request);
        span::event("pvc_ensured", &[("count", &claims.len().to_string())]);
        let data = ChildOptions::new().retain(!request.spec.delete_data);
        response = response.children_with(claims, data).children_with(children::secret(&request, has_data)?, data);
        response = response.child(children::service(&request));
        span::event("service_ensured", &[("name", request.name())]);
        let terminal = children::first_terminal(&request);
        response = response.children(
            (0..request.spec.replicas).filter(|at| Some(*at) != terminal).map(|at| children::pod(&request, at)),
        );
        span::event("pods_ensured", &[("count", &replicas)]);
        if let Some(at) = terminal {
            let message = format!("Pod {}-{at} has ended and is made anew, with its volume", request.name());
            response = response.event(Event::warning("ServerReplaced", message));
        }

        let before = request.status().map(|before| before.phase);
        if before.is_some_and(|before| before != status.phase) {
            response = response.event(status.event(&request));
        }
        if status.phase.has_failed() {
            response = response.requeue(AFTER_FAILURE);
        }
        let message = status.message(&request);
        response = response.condition("Ready", status.phase.is_running(), status.phase.as_str(), &message);
        let status = clock::steady(request.status(), status, |status| &mut status.last_update);
        if request.status().as_ref() != Some(&status) {
            span::event("status_updated", &[("phase", status.phase.as_str())]);
        }
        Ok(response.status(status))
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(MySQLCluster);
