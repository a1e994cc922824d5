//! A puppet for parents of a kind that exists without the plugin: kind `Marionette`. The test installs its CRD.

use hostile_guests::puppet;
use windlass_plugin::{Kind, Parent};

struct Marionette;

impl Kind for Marionette {
    const API_VERSION: &str = "puppets.example/v1";
    const KIND: &str = "Marionette";
}

hostile_guests::puppet!(
    PuppetExisting,
    puppet::descriptor("puppet-existing", Parent::existing::<Marionette>()),
    puppet::obey
);
