//! A version of `puppet` that may own `ConfigMaps` and nothing else: what was made of the other kinds is left to the host.

use hostile_guests::puppet;

hostile_guests::puppet!(
    PuppetNarrow,
    puppet::descriptor("puppet-narrow", puppet::namespaced::<PuppetNarrow>("Puppet")),
    puppet::obey
);
