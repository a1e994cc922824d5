//! Wants to reconcile Plugins, so that it could rule over what the host runs. The host refuses it.

use hostile_guests::{Descriptor, Hostile, descriptor, existing};

struct PluginAsParent;

impl Hostile for PluginAsParent {
    const KIND: &str = "PluginAsParent";

    fn describe() -> Descriptor {
        Descriptor { parent: existing("windlass.dev/v1alpha1", "Plugin"), ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(PluginAsParent);
