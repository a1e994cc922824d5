//! A version of `puppet` that may own only `ConfigMaps`: existing children of the other kinds are left to the host.

use hostile_guests::puppet;

hostile_guests::puppet!(
    PuppetNarrow,
    puppet::descriptor("puppet-narrow", puppet::namespaced::<PuppetNarrow>("Puppet")),
    puppet::obey
);
