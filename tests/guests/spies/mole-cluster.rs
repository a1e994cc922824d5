//! A cluster-scoped spy, kind `ClusterMole`: it has no namespace of its own, and names one in each requirement.

use hostile_guests::{puppet, spy};
use serde_json::Value;

hostile_guests::puppet!(
    MoleCluster,
    puppet::descriptor("mole-cluster", puppet::cluster_scoped::<MoleCluster>("ClusterMole")).config::<spy::Anything>(),
    |request| spy::spy(request, &Value::Null)
);
