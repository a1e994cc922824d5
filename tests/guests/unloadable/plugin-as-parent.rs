//! Declares Plugins as its parents, so that it could control what the host runs. The host rejects it.

use hostile_guests::{Descriptor, Hostile, descriptor, existing};

struct PluginAsParent;

impl Hostile for PluginAsParent {
    const KIND: &str = "PluginAsParent";

    fn describe() -> Descriptor {
        Descriptor { parent: existing("windlass.dev/v1alpha1", "Plugin"), ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(PluginAsParent);
