//! Python, by componentize-py: its runtime with the plugin's modules already imported, as a snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::contract::{ADMITTING_WORLD, WORLD, write_wit};
use crate::project::Project;
use crate::read;
use crate::tools::{Tools, run};

/// What pyproject.toml has for the build.
#[derive(Deserialize)]
struct Manifest {
    tool: Tool,
}

#[derive(Deserialize)]
struct Tool {
    windlass: Settings,
}

#[derive(Deserialize)]
struct Settings {
    /// Module and class of the plugin: `greeting:Greeting`.
    plugin: String,
    /// Whether the plugin exports its admission.
    #[serde(default)]
    admission: bool,
}

/// Prints the folders in which Python finds installed packages, also those of editable installs.
const PACKAGES: &str = "\
import os, sys, sysconfig
own = {sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib')}
print(*[p for p in sys.path if p and os.path.isdir(p) and p not in own and not p.endswith('lib-dynload')], sep='\\n')";

pub(crate) fn build(project: &Project, tools: &Tools, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let home = project.folder.canonicalize()?;
    let installed = [home.join(".venv/bin")];
    let advice = "run `python3 -m venv .venv`, then `.venv/bin/pip install -r requirements.txt` in the project";
    let componentize = tools.find("componentize-py", &installed, advice)?;
    let needs = "pyproject.toml needs a table `[tool.windlass]` with `plugin = \"MODULE:CLASS\"`";
    let manifest = String::from_utf8(read(&home.join("pyproject.toml"))?)?;
    let Manifest { tool: Tool { windlass: settings } } = toml::from_str(&manifest).context(needs)?;
    let (module, class) = settings.plugin.split_once(':').context(needs)?;

    let entry = folder.join("entry");
    fs::create_dir_all(&entry)?;
    let script = format!(
        "from windlass_plugin.component import export\nfrom {module} import {class}\n\nReconciler, Admission = export({class})\n"
    );
    fs::write(entry.join("windlass_entry.py"), script)?;

    let wit = folder.join("wit");
    write_wit(&wit)?;
    let component = folder.join("component.wasm");
    let mut command = Command::new(&componentize);
    let world = if settings.admission { ADMITTING_WORLD } else { WORLD };
    command.current_dir(&home).arg("--quiet").arg("--wit-path").arg(&wit);
    command.args(["--world", world, "componentize", "windlass_entry"]);
    for path in [entry, home.clone()].into_iter().chain(packages(&installed, tools)?) {
        command.arg("--python-path").arg(path);
    }
    run(command.arg("--output").arg(&component))?;
    read(&component)
}

/// The folders of the packages that the project's Python has.
fn packages(installed: &[PathBuf], tools: &Tools) -> anyhow::Result<Vec<PathBuf>> {
    if !tools.python_packages.is_empty() {
        return Ok(tools.python_packages.clone());
    }
    let python = tools.find("python3", installed, "install Python 3.10 or newer")?;
    let folders = run(Command::new(python).args(["-c", PACKAGES]))?;
    Ok(String::from_utf8(folders)?.lines().map(PathBuf::from).collect())
}
