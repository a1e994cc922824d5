//! Guests in other languages than Rust: plugins on the SDKs, which `windlass build` builds, and guests on the bare contract.
//! For Zig there is no SDK, so its plugins are on the bare contract, too.
//!
//! The tools take from seconds to a minute, and always rebuild. So each component is kept in the user's cache folder under the
//! hash of all its inputs: another checkout with the same inputs needs neither the tools nor the build.

mod go;
mod js;
mod python;
mod zig;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use windlass_build::{Project, Tools, WORLD};
use windlass_testbed::tools;

use super::{Guest, component};

/// The guests on the bare contract: a folder with a folder for each language.
const BARE: &str = "tests/guests/languages";
/// Folders of plugins with a folder for some of the languages, which are projects on the SDKs.
const PLUGINS: [&str; 4] = ["plugins/echo", "plugins/myapp", "plugins/postgres", "tests/guests/library"];
/// The plugin that ships with Windlass in another language alone: in the one that the repository needs anyway.
pub(super) const SHIPPED: &str = "postgres-go";
/// The probes: a folder with a folder for each language, which is a project on its SDK if it has one.
const PROBES: &str = "host/conformance/probe";
/// The first version of the contract: the host runs its components for good, so some are built as long as it does.
const FIRST: &str = "wit/0.1";
/// What tools leave in the folders of projects and SDKs.
const LEFTOVERS: [&str; 4] = ["__pycache__", "build", "node_modules", ".venv"];

/// A language.
struct Language {
    /// The name of its folder.
    name: &'static str,
    /// Builds the bytes of a guest on the bare contract.
    build: fn(&Places) -> Result<Vec<u8>>,
    /// The folder of the contract of these guests.
    contract: &'static str,
    /// Installs the tools with which `windlass build` builds a project; `None` if the language has no SDK.
    tools: Option<InstallTools>,
    /// The text of the module with these functions, and of the list of its tools: the guests are rebuilt after a change of
    /// either.
    recipe: [&'static str; 2],
    /// The versions of tools that are neither in the recipe nor in the guest's folder.
    versions: fn(&Path) -> Result<String>,
}

type InstallTools = fn(&Places) -> Result<Tools>;

const LANGUAGES: [Language; 4] = [
    Language {
        name: "go",
        build: go::build,
        contract: FIRST,
        tools: Some(go::tools),
        recipe: [include_str!("go.rs"), ""],
        versions: go::versions,
    },
    Language {
        name: "js",
        build: js::build,
        contract: FIRST,
        tools: Some(js::tools),
        recipe: [include_str!("js.rs"), js::LOCK],
        versions: none,
    },
    Language {
        name: "python",
        build: python::build,
        contract: FIRST,
        tools: Some(python::tools),
        recipe: [include_str!("python.rs"), python::REQUIREMENTS],
        versions: none,
    },
    Language {
        name: "zig",
        build: zig::build,
        contract: zig::CONTRACT,
        tools: None,
        recipe: [include_str!("zig.rs"), zig::REQUIREMENTS],
        versions: zig::versions,
    },
];

/// The recipe names all tools.
#[expect(clippy::unnecessary_wraps, reason = "others have to look")]
fn none(_root: &Path) -> Result<String> {
    Ok(String::new())
}

/// The entries of these crates of this program in `Cargo.lock`.
pub(super) fn crates(root: &Path, names: &[&str]) -> Result<String> {
    entries(&fs::read_to_string(root.join("Cargo.lock"))?, names)
}

fn entries(lock: &str, names: &[&str]) -> Result<String> {
    let mut found = String::new();
    for name in names {
        let is_of = |package: &&str| package.starts_with(&format!("name = \"{name}\"\n"));
        let mut packages = lock.split("[[package]]\n").filter(is_of).peekable();
        ensure!(packages.peek().is_some(), "Cargo.lock has no {name}");
        found.extend(packages);
    }
    Ok(found)
}

/// The folders for a language's tool.
struct Places {
    /// The contract.
    wit: PathBuf,
    /// A copy of the guest's source, because tools write files next to it.
    source: PathBuf,
    /// A copy of the language's SDK.
    sdk: PathBuf,
    /// A folder for intermediate files.
    work: PathBuf,
    /// The tools of all languages.
    tools: PathBuf,
}

/// Builds those of the chosen guests that changed, and prints their names.
pub(super) fn build(root: &Path, folder: &Path, is_chosen: impl Fn(&str) -> bool) -> Result<Vec<Guest>> {
    let mut guests = Vec::new();
    for language in &LANGUAGES {
        let bare = [(language.name.to_owned(), Path::new(BARE).join(language.name), None)];
        let plugin = |plugin: &&str| {
            let name = Path::new(plugin).file_name().unwrap_or_default().to_string_lossy();
            (format!("{name}-{}", language.name), Path::new(plugin).join(language.name), language.tools)
        };
        let probe = [(format!("probe-{}", language.name), Path::new(PROBES).join(language.name), language.tools)];
        for (name, source, tools) in bare.into_iter().chain(PLUGINS.iter().map(plugin)).chain(probe) {
            if !is_chosen(&name) || !root.join(&source).is_dir() {
                continue;
            }
            let bytes = component(root, &name, (&source, tools), language).with_context(|| format!("guest {name}"))?;
            guests.push(component::write(&bytes, &folder.join(name).with_extension("wasm"))?);
        }
    }
    Ok(guests)
}

/// The component, stored or built now.
fn component(
    root: &Path,
    name: &str,
    (source, sdk_tools): (&Path, Option<InstallTools>),
    language: &Language,
) -> Result<Vec<u8>> {
    let mut inputs = [files(&root.join("wit"))?, files(&root.join(source))?].concat();
    if sdk_tools.is_some() {
        let sdk = root.join("sdk").join(language.name);
        inputs.extend([files(&sdk)?, files(&root.join("host/build/src"))?].concat());
    }
    let versions = (language.versions)(root)?;
    let made_by = language.recipe.into_iter().chain([&*versions]);
    let file = format!("{name}.wasm");
    let what = format!("the guest {name}, up to a minute");
    let progress = |line: &str| println!("guests: {line}");
    let kept = tools::built_once(&file, hash(root, made_by, &inputs)?, &what, &progress, |folder| {
        let bytes = build_component(root, name, (source, sdk_tools), language)?;
        component::check(&bytes).context("builds, but is not a component that the host would load")?;
        Ok(fs::write(folder.join(&file), bytes)?)
    })?;
    Ok(fs::read(kept)?)
}

fn build_component(
    root: &Path,
    name: &str,
    (source, sdk_tools): (&Path, Option<InstallTools>),
    language: &Language,
) -> Result<Vec<u8>> {
    let sdk = Path::new("sdk").join(language.name);
    let home = root.join("target/guests-build").join(name);
    // The files of the build before.
    if home.is_dir() {
        fs::remove_dir_all(&home)?;
    }
    // The copies lie as in the repository: the manifests of projects name the SDK by its relative path.
    let places = Places {
        wit: root.join(language.contract),
        source: home.join(source),
        sdk: home.join(&sdk),
        work: home.join("work"),
        tools: root.join("target/tools"),
    };
    fs::create_dir_all(&places.work)?;
    copy(&root.join(source), &places.source)?;
    match sdk_tools {
        Some(tools) => {
            copy(&root.join(&sdk), &places.sdk)?;
            Ok(windlass_build::build(&Project::find(&places.source)?, &tools(&places)?)?)
        }
        None => (language.build)(&places),
    }
}

/// All files of a folder and its subfolders, always in the same order.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    entries.retain(|entry| !entry.file_name().is_some_and(|name| LEFTOVERS.iter().any(|leftover| name == *leftover)));
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

/// The hash of these texts, and of the names and contents of these files.
pub(super) fn hash<'a>(root: &Path, made_by: impl Iterator<Item = &'a str>, inputs: &[PathBuf]) -> Result<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_crates_change_only_with_these_crates() {
        let lock = include_str!("../../../../Cargo.lock");
        let names = ["wit-bindgen-core", "wit-bindgen-go"];
        let before = entries(lock, &names).expect("all crates are found");
        let with = |name: &str| {
            let changed =
                lock.replace(&format!("name = \"{name}\"\nversion = \""), &format!("name = \"{name}\"\nversion = \"9"));
            assert_ne!(changed, lock, "{name}");
            entries(&changed, &names).expect("all crates are found")
        };
        for name in names {
            assert_ne!(with(name), before, "{name}");
        }
        assert_eq!(with("anyhow"), before);
        entries(&lock.replace("wit-bindgen-go", "wit-bindgen-og"), &names).expect_err("a crate is missing");
    }
}
