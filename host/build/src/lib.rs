//! Builds the component of a plugin's project with the tools of its language. It installs none of them: an error names the
//! missing tool, and how to get it.

mod contract;
mod go;
mod javascript;
mod module;
mod new;
mod project;
mod python;
mod rust;
mod tools;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

pub use contract::WORLD;
pub use module::{of_go, of_rust};
pub use new::Template;
pub use project::{Language, Project};
pub use tools::Tools;

/// The folder in a project for the component, and for the files that its tools make on the way.
pub const FOLDER: &str = "build";

/// Builds the component of a project and returns its bytes. The tools print their own progress and errors to standard error.
///
/// # Errors
/// If a tool is missing or fails, or if the result is not a component.
pub fn build(project: &Project, tools: &Tools) -> anyhow::Result<Vec<u8>> {
    let folder = project.folder.join(FOLDER);
    create(&folder)?;
    let folder = folder.canonicalize()?;
    // Copies of the project in version control or an image need nothing of this folder.
    let ignore = folder.join(".gitignore");
    if !ignore.exists() {
        write(&ignore, "*\n")?;
    }
    match project.language {
        Language::Rust => rust::build(project, tools),
        Language::Go => go::build(project, tools, &folder),
        Language::JavaScript => javascript::build(project, tools, &folder),
        Language::Python => python::build(project, tools, &folder),
    }
}

fn create(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
