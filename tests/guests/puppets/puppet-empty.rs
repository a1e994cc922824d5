//! A version of `puppet` that wants nothing: what new logic with a bug looks like.

use hostile_guests::puppet;
use windlass_plugin::Response;

hostile_guests::puppet!(PuppetEmpty, puppet::puppet::<PuppetEmpty>(), |_| Ok(Response::new()));
