//! A cluster-scoped puppet, kind `ClusterPuppet`: its children and requirements name their namespaces.

use hostile_guests::puppet;

hostile_guests::puppet!(
    PuppetCluster,
    puppet::descriptor("puppet-cluster", puppet::cluster_scoped::<PuppetCluster>("ClusterPuppet")),
    puppet::obey
);
