//! A puppet whose children change one by one: kind `RollingPuppet`. Dolls change in place and Masks are recreated, each
//! after the one before is `Ready`. The test installs their CRDs and sets their conditions.

use hostile_guests::puppet;
use windlass_plugin::{Kind, UpdateStrategy};

const API_VERSION: &str = "puppets.example/v1";

struct Doll;

impl Kind for Doll {
    const API_VERSION: &str = API_VERSION;
    const KIND: &str = "Doll";
}

struct Mask;

impl Kind for Mask {
    const API_VERSION: &str = API_VERSION;
    const KIND: &str = "Mask";
}

hostile_guests::puppet!(
    PuppetRolling,
    puppet::descriptor("puppet-rolling", puppet::namespaced::<PuppetRolling>("RollingPuppet"))
        .child_with::<Doll>(UpdateStrategy::rolling(["Ready"]))
        .child_with::<Mask>(UpdateStrategy::rolling_recreate(["Ready"])),
    puppet::obey
);
