//! JavaScript and TypeScript: esbuild joins the plugin's modules and the SDK to one script, and componentize-js makes a component
//! of it: the engine with the script already run, as a snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::contract::{WORLD, write_wit};
use crate::project::Project;
use crate::read;
use crate::tools::{Tools, run};

#[derive(Deserialize)]
struct Manifest {
    /// The module whose default export is the plugin.
    main: Option<PathBuf>,
}

pub(crate) fn build(project: &Project, tools: &Tools, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let home = project.folder.canonicalize()?;
    let installed = [home.join("node_modules/.bin")];
    let advice = "run `npm install` in the project (this needs Node.js 20 or newer), with @bytecodealliance/componentize-js and \
                  esbuild among its devDependencies";
    let esbuild = tools.find("esbuild", &installed, advice)?;
    let componentize = tools.find("componentize-js", &installed, advice)?;

    let manifest: Manifest = serde_json::from_slice(&fs::read(home.join("package.json"))?)?;
    let main =
        manifest.main.context("package.json has no field `main`, the module whose default export is the plugin")?;
    let entry = folder.join("entry.js");
    let imports = |path: &Path| serde_json::to_string(path).context("the path is not UTF-8");
    let script = format!(
        "import plugin from {};\nimport {{ component }} from '@windlass/plugin/component';\nexport const {{ reconciler }} = \
         component(plugin);\n",
        imports(&home.join(main))?
    );
    fs::write(&entry, script)?;
    let bundle = folder.join("plugin.js");
    let mut command = Command::new(&esbuild);
    command.arg(&entry).args(["--bundle", "--format=esm", "--platform=neutral", "--main-fields=module,main"]);
    command.args(["--external:windlass:*", "--external:wasi:*", "--log-level=warning"]);
    run(command.arg(format!("--outfile={}", bundle.display())).current_dir(&home))?;

    let wit = folder.join("wit");
    write_wit(&wit)?;
    let component = folder.join("component.wasm");
    let mut command = Command::new(&componentize);
    command.arg(&bundle).arg("--out").arg(&component).arg("--wit").arg(&wit).args(["--world-name", WORLD]);
    // The host serves no HTTP.
    run(command.args(["--disable", "http", "fetch-event"]))?;
    read(&component, "componentize-js")
}
