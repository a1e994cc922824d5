//! Reads a Plugin resource for its reconcile.

use std::sync::Arc;

use windlass_api::{ConfiguredSource, Plugin};
use windlass_core::object::Object;
use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;

use super::problem::{Problem, Step};

/// The stored Plugin.
///
/// # Errors
/// If the Plugin cannot be parsed, or sets a renamed field.
pub(super) fn parse(object: &Object) -> Result<Plugin, Problem> {
    let invalid = |message| Problem::new(Step::Fetched, PluginReason::InvalidSpec, message);
    let plugin: Plugin = serde_json::from_slice(&object.json.bytes())
        .map_err(|error| invalid(format!("the Plugin cannot be read: {error}")))?;
    plugin.spec.check_replaced_fields().map_err(invalid)?;
    Ok(plugin)
}

/// The digest that the Plugin pins, if any.
pub(super) fn pinned(plugin: &Plugin) -> Result<Option<Digest>, Problem> {
    let invalid = |error| Problem::lasting(Step::Fetched, PluginReason::InvalidSpec, format!("spec.digest: {error}"));
    plugin.spec.digest.as_ref().map(|text| text.parse::<Digest>().map_err(invalid)).transpose()
}

/// The source of the Plugin's component.
pub(super) fn configured_source(plugin: &Plugin) -> Result<ConfiguredSource<'_>, Problem> {
    let invalid = |error| Problem::lasting(Step::Fetched, PluginReason::InvalidSpec, error);
    plugin.spec.source.configured().map_err(invalid)
}

/// `spec.config`, as it is passed to the plugin.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn config_of(plugin: &Plugin) -> serde_json::Result<Option<Arc<[u8]>>> {
    plugin.spec.config.as_ref().map(|config| serde_json::to_vec(config).map(Into::into)).transpose()
}
