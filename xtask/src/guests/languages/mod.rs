//! Guests in other languages than Rust, each built by the tool of its language.
//!
//! These tools take from seconds to a minute, and always rebuild. So each component is stored under the hash of all its
//! inputs.

mod go;
mod js;
mod python;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::{Guest, component};

/// The world of all of them.
const WORLD: &str = "plugin";

/// The programs that exist in every language: the prefix of the component's name, before the language, and the folder
/// with a folder for each language.
const PROGRAMS: [(&str, &str); 2] = [("", "tests/guests/languages"), ("echo-", "plugins/echo")];

/// A language.
struct Language {
    /// The name of its folder.
    name: &'static str,
    /// Builds the component's bytes.
    build: fn(&Places) -> Result<Vec<u8>>,
    /// The text of the module with `build`, and of the list of its tools: the guests are rebuilt after a change of
    /// either.
    recipe: [&'static str; 2],
    /// The versions of tools that are neither in the recipe nor in the guest's folder.
    tools: fn(&Path) -> Result<String>,
}

const LANGUAGES: [Language; 3] = [
    Language { name: "go", build: go::build, recipe: [include_str!("go.rs"), ""], tools: go::tools },
    Language { name: "js", build: js::build, recipe: [include_str!("js.rs"), js::LOCK], tools: none },
    Language {
        name: "python",
        build: python::build,
        recipe: [include_str!("python.rs"), python::REQUIREMENTS],
        tools: none,
    },
];

/// The recipe names all tools.
#[expect(clippy::unnecessary_wraps, reason = "others have to look")]
fn none(_root: &Path) -> Result<String> {
    Ok(String::new())
}

/// The folders for a language's tool.
struct Places {
    /// The contract.
    wit: PathBuf,
    /// A copy of the guest's source, because tools write files next to it.
    source: PathBuf,
    /// A folder for intermediate files.
    work: PathBuf,
    /// The tools of all languages.
    tools: PathBuf,
}

/// Builds the guests that changed, and prints their names.
pub(super) fn build(root: &Path, folder: &Path) -> Result<Vec<Guest>> {
    let mut guests = Vec::new();
    for (prefix, source) in PROGRAMS {
        for language in &LANGUAGES {
            let name = format!("{prefix}{}", language.name);
            let source = root.join(source).join(language.name);
            let bytes = component(root, &name, &source, language).with_context(|| format!("guest {name}"))?;
            guests.push(component::write(&bytes, &folder.join(name).with_extension("wasm"))?);
        }
    }
    Ok(guests)
}

/// The component, stored or built now.
fn component(root: &Path, name: &str, source: &Path, language: &Language) -> Result<Vec<u8>> {
    let wit = root.join("wit");
    let inputs = [files(&wit)?, files(source)?].concat();
    let home = root.join("target/guests-build").join(name);
    let tools = (language.tools)(root)?;
    let made_by = language.recipe.into_iter().chain([&*tools]);
    let kept = home.join(hash(root, made_by, &inputs)?).with_extension("wasm");
    if kept.is_file() {
        return Ok(fs::read(kept)?);
    }
    println!("guests: building {name}, up to a minute");
    // Remove components of other inputs, and the files of an interrupted build.
    if home.is_dir() {
        fs::remove_dir_all(&home)?;
    }
    let places = Places { wit, source: home.join("source"), work: home.join("work"), tools: root.join("target/tools") };
    fs::create_dir_all(&places.work)?;
    copy(source, &places.source)?;
    let bytes = (language.build)(&places)?;
    component::check(&bytes).context("builds, but is not a component that the host would load")?;
    let part = kept.with_extension("part");
    fs::write(&part, &bytes)?;
    fs::rename(&part, &kept)?;
    Ok(bytes)
}

/// All files of a folder and its subfolders, always in the same order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() { files.extend(self::files(&entry)?) } else { files.push(entry) }
    }
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in files(from)? {
        let copy = to.join(file.strip_prefix(from)?);
        fs::create_dir_all(copy.parent().unwrap_or(to))?;
        fs::copy(&file, &copy)?;
    }
    Ok(())
}

fn hash<'a>(root: &Path, made_by: impl Iterator<Item = &'a str>, inputs: &[PathBuf]) -> Result<String> {
    let mut hash = Sha256::new();
    for text in made_by {
        hash.update(Sha256::digest(text));
    }
    for input in inputs {
        hash.update(Sha256::digest(input.strip_prefix(root)?.as_os_str().as_encoded_bytes()));
        hash.update(Sha256::digest(fs::read(input)?));
    }
    Ok(hex::encode(hash.finalize()))
}
