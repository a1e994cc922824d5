//! Python, by componentize-py: its runtime with the plugin's modules already imported, as a snapshot.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::contract::{WORLD, write_wit};
use crate::project::Project;
use crate::read;
use crate::tools::{Tools, run};

#[derive(Deserialize)]
struct Manifest {
    tool: Tool,
}

#[derive(Deserialize)]
struct Tool {
    windlass: Windlass,
}

#[derive(Deserialize)]
struct Windlass {
    /// Module and class of the plugin: `greeting:Greeting`.
    plugin: String,
}

pub(crate) fn build(project: &Project, tools: &Tools, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let installed = [project.folder.join(".venv/bin")];
    let advice = "run `python3 -m venv .venv` and `.venv/bin/pip install componentize-py` in the project";
    let componentize = tools.find("componentize-py", &installed, advice)?;

    let manifest = fs::read_to_string(project.folder.join("pyproject.toml"))?;
    let needs = "pyproject.toml needs `[tool.windlass]` with `plugin = \"MODULE:CLASS\"`";
    let manifest: Manifest = toml::from_str(&manifest).context(needs)?;
    let (module, class) = manifest.tool.windlass.plugin.split_once(':').context(needs)?;
    let entry = folder.join("entry");
    fs::create_dir_all(&entry)?;
    let script = format!(
        "from windlass_plugin.component import component\nfrom {module} import {class}\n\nReconciler = component({class})\n"
    );
    fs::write(entry.join("windlass_entry.py"), script)?;

    let wit = folder.join("wit");
    write_wit(&wit)?;
    let component = folder.join("component.wasm");
    let mut command = Command::new(&componentize);
    command.arg("--quiet").arg("--wit-path").arg(&wit).args(["--world", WORLD, "componentize", "windlass_entry"]);
    for path in [&entry, &project.folder, &project.folder.join("sdk")] {
        command.arg("--python-path").arg(path);
    }
    run(command.arg("--output").arg(&component))?;
    read(&component, "componentize-py")
}
