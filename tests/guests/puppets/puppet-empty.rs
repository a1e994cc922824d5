//! A version of `puppet` that desires no children, as a new component with a bug might.

use hostile_guests::puppet;
use windlass_plugin::Response;

hostile_guests::puppet!(PuppetEmpty, puppet::puppet::<PuppetEmpty>(), |_| Ok(Response::new()));
