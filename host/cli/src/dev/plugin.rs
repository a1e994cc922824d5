//! Builds the plugin and hands it to the host: permissions, component, Plugin.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use kube::{Api, Client};
use serde_json::json;
use windlass_api::Plugin;
use windlass_build::{Project, Tools};
use windlass_core::object::names::ANNOTATION_PUSHED_AT;
use windlass_core::value::ids::PluginName;
use windlass_engine::cluster::account::plugin_account;

use super::FIELD_MANAGER;
use super::cluster::MADE_BY;
use super::terminal::{Terminal, Tone};
use crate::applied::target;
use crate::component::{CacheArgs, Candidate};
use crate::connect::plain;
use crate::push::{Declared, GrantArgs, Granted, PluginFields, apply, check_parent, check_schema, mark, plugin_object};

/// A component that was delivered to the host.
pub struct Delivered {
    /// The component.
    pub built: Candidate,
    /// Value of the annotation `windlass.dev/pushed-at`, by which the Plugin's status shows that the host has seen the component.
    pub at: String,
}

/// Builds a project, and loads the component once, which compiles it into the folder.
///
/// # Errors
/// If the project does not build, or the host cannot load its component.
pub fn build(
    project: &Project,
    (cache, folder): (&CacheArgs, PathBuf),
    terminal: &Terminal,
) -> anyhow::Result<Candidate> {
    terminal.print(Tone::Plain, &format!("building {} ({})", project.name, project.language));
    let began = Instant::now();
    let bytes = windlass_build::build(project, &Tools::default())?;
    let component = cache.load_into(folder, &bytes).context("the host cannot load the component")?;
    let built = Candidate::new(bytes, component, None)?;
    let (seconds, size) = (began.elapsed().as_secs_f64(), built.bytes.len().div_ceil(1024));
    let (name, version) = (&built.name, &built.component.descriptor().version);
    terminal.print(Tone::Good, &format!("built in {seconds:.1} s: {name} {version}, {size} KiB"));
    Ok(built)
}

/// Writes the plugin's permissions, the component and the Plugin, so that the host loads the component at once. The CRD may narrow
/// the installed schema, as a kind changes while it is developed; a note says what is lost. Returns the value of the annotation
/// `windlass.dev/pushed-at`, and notes about the permissions. `namespace` is that of the host, and `folder` the one from which it
/// takes components. `client` is that of the user.
///
/// # Errors
/// If an object cannot be written, or the Plugin is that of another namespace.
pub async fn deliver(
    built: &Candidate,
    client: &Client,
    (namespace, folder): (&str, &Path),
    grants: &GrantArgs,
) -> anyhow::Result<(String, Vec<String>)> {
    let Candidate { bytes, component, declared, name } = built;
    let existing = Api::<Plugin>::all(client.clone()).get_opt(name.as_str()).await.map_err(plain);
    let existing = existing.with_context(|| format!("Plugin {name} could not be read"))?;
    let source = existing.as_ref().and_then(|plugin| plugin.spec.source.config_map.as_ref());
    let elsewhere = source.map(|source| &source.namespace).filter(|other| *other != namespace);
    ensure!(
        elsewhere.is_none(),
        "Plugin {name} was made by `windlass dev` with --host-namespace {}; use that namespace, or delete the Plugin",
        elsewhere.map_or("", String::as_str)
    );
    if let Some(carried) = declared.crd() {
        check_schema(client, name, carried, true).await?;
    }
    let account = plugin_account(name.as_str());
    let kinds = Declared::of(declared, component.descriptor());
    let grants = kinds.pushed(grants, existing.as_ref())?;
    check_parent(Some(client), kinds, &grants.whole).await?;
    let granted = Granted {
        candidate: built,
        namespace,
        account: &account,
        pull_secret: None,
        grants: &grants.whole,
        existing: existing.as_ref(),
    };
    let (mut roles, notes) = granted.objects(Some(client)).await?;
    roles.iter_mut().for_each(mark);
    for role in &roles {
        apply(&target(client, role).await?, false).await?;
    }
    put(folder, name, bytes)?;
    let fields = PluginFields {
        name: name.as_str(),
        account: &account,
        // The host takes the component from its folder. A host without this folder finds none, and runs nothing.
        source: json!({"configMap": {"namespace": namespace, "name": name.as_str()}}),
        verify: None,
        may_narrow: Some(component.digest()),
        grants: grants.written,
    };
    let at = format!("{:.3}", jiff::Timestamp::now());
    let mut plugin = target(client, &plugin_object(fields)).await?;
    let one = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    plugin.1.metadata.annotations = one(ANNOTATION_PUSHED_AT, &at);
    plugin.1.metadata.labels = one(MADE_BY, FIELD_MANAGER);
    apply(&plugin, false).await?;
    Ok((at, notes))
}

/// Replaces the file of a component as a whole: the host must not load a part of it.
fn put(folder: &Path, name: &PluginName, bytes: &[u8]) -> anyhow::Result<()> {
    let (fresh, file) = (folder.join("fresh"), folder.join(format!("{name}.wasm")));
    let written = fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, &file));
    written.with_context(|| format!("{} was not written", file.display()))
}
