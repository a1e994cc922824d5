//! JavaScript and TypeScript: esbuild joins the plugin's modules and the SDK to one script, and componentize-js makes a component
//! of it: the engine with the script already run, as a snapshot.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::contract::{WORLD, write_wit};
use crate::project::Project;
use crate::read;
use crate::tools::{Tools, run};

/// What package.json has for the build.
#[derive(Deserialize)]
struct Manifest {
    windlass: Settings,
}

#[derive(Deserialize)]
struct Settings {
    /// The module whose default export is the plugin, relative to package.json.
    plugin: String,
    /// The world of the contract.
    world: Option<String>,
}

pub(crate) fn build(project: &Project, tools: &Tools, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let home = project.folder.canonicalize()?;
    let installed = [home.join("node_modules/.bin")];
    let advice = "run `npm install` in the project; package.json needs it among its devDependencies, and npm needs Node.js 20 or \
                  newer";
    let esbuild = tools.find("esbuild", &installed, advice)?;
    let componentize = tools.find("componentize-js", &installed, advice)?;
    let manifest: Manifest = serde_json::from_slice(&read(&home.join("package.json"))?)
        .context("package.json needs `\"windlass\": { \"plugin\": \"src/plugin.js\" }`")?;

    let entry = folder.join("entry.js");
    let plugin = serde_json::to_string(&format!("../{}", manifest.windlass.plugin))?;
    let script = format!(
        "import * as host from 'windlass:plugin/host@0.2.0-rc.1';\nimport * as schedule from 'windlass:plugin/schedule@0.2.0-rc.1';\n\
         import {{ component }} from '@windlass/plugin/component';\nimport plugin from {plugin};\n\
         export const {{ reconciler, admission }} = component(plugin, host, schedule);\n"
    );
    fs::write(&entry, script)?;
    // It stays there: the lines in stack traces are those of this file.
    let bundle = folder.join("component.js");
    let mut command = Command::new(&esbuild);
    command.current_dir(&home).arg(&entry).args(["--bundle", "--format=esm", "--target=es2022", "--platform=neutral"]);
    command.args(["--main-fields=module,main", "--external:windlass:*", "--charset=utf8", "--log-level=warning"]);
    run(command.arg(format!("--outfile={}", bundle.display())))?;

    let wit = folder.join("wit");
    write_wit(&wit)?;
    let component = folder.join("component.wasm");
    let mut command = Command::new(&componentize);
    command.arg(&bundle).arg("--out").arg(&component).arg("--wit").arg(&wit);
    command.args(["--world-name", manifest.windlass.world.as_deref().unwrap_or(WORLD)]);
    // The host serves no HTTP.
    run(command.args(["--disable", "http", "fetch-event"]))?;
    read(&component)
}
