//! A puppet (a guest that does what its parent's spec says) with a finalizer: kind `FinalizingPuppet`, which may own Jobs to clean up with.

use hostile_guests::puppet::{self, Job};

hostile_guests::puppet!(
    PuppetFinalizes,
    puppet::descriptor("puppet-finalizes", puppet::namespaced::<PuppetFinalizes>("FinalizingPuppet"))
        .child::<Job>()
        .finalizes(),
    puppet::obey
);
