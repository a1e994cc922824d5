//! A namespaced kind whose spec is a script (see `src/puppet.rs`): `ConfigMaps`, Secrets and Deployments are applied,
//! Pods are recreated, Services are left unchanged.

use hostile_guests::puppet;

hostile_guests::puppet!(Puppet, puppet::puppet::<Puppet>(), puppet::obey);
