//! Builds every component: the plugins, and the scripted, hostile and other guests of the tests.
//!
//! A guest is built for `wasm32-unknown-unknown` by the compiler that [`WasmCompiler`] finds, and then made a component.
//! All of them are kept in the user's cache folder for other checkouts; in one checkout, cargo rebuilds only what changed. Guests in other languages than Rust have
//! their own tools (see [`languages`]).

mod component;
mod languages;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use windlass_testbed::tools::{
    self,
    wasm_compiler::{WasmCompiler, cargo},
};

/// Flags: what to build.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// Build only the plugins in plugins/ and the variants of Echo, not the other guests of the tests. Needs neither
    /// Node.js nor Python
    #[arg(long)]
    pub plugins_only: bool,
    /// Build only the guests with these names, as in `echo,never-finalizes,probe-go`, and leave the other components
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "plugins_only")]
    pub only: Vec<String>,
}

/// A component that was built.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Its crate's or example's name: `echo`.
    pub name: String,
    /// For example `target/guests/echo.wasm` or `target/guests/hostile/trap.wasm`.
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    /// `sha256:…` of the bytes.
    pub digest: String,
}

/// Builds the guests into `target/guests`, and prints its progress to standard output.
///
/// # Errors
///
/// If there is no compiler for wasm and none can be installed (the message says what to install), if a guest does not
/// build, or if it is not a valid component.
pub fn build(options: &Options) -> Result<Vec<Guest>> {
    let root = root()?;
    let compiler = compiler()?;
    let folder = root.join("target/guests");
    if !options.only.is_empty() {
        let guests = build_named(&root, &compiler, &options.only, &folder)?;
        return Ok(listed(guests));
    }

    let mut guests = if options.plugins_only {
        // The names of Echo's variants begin with its name.
        components(&compile_all(&compiler, &root, &["--example", "echo-*"])?, &folder)?
    } else {
        kept(&compiler, &root, &folder)?
    };
    if !options.plugins_only {
        for text in texts(&root.join(TEXTS))? {
            let path = folder.join("unloadable").join(text.file_stem().unwrap_or_default()).with_extension("wasm");
            let guest = component::assemble(&text, &path);
            guests.push(guest.with_context(|| format!("{} is not valid WebAssembly text", text.display()))?);
        }
    }
    let is_chosen = |name: &str| !options.plugins_only || name == languages::SHIPPED;
    guests.extend(languages::build(&root, &folder.join("languages"), is_chosen)?);
    remove_others(&folder, &guests, options)?;
    Ok(listed(guests))
}

/// Compiles all plugins that ship, and these examples of tests/guests.
fn compile_all(compiler: &WasmCompiler, root: &Path, examples: &[&str]) -> Result<Vec<Module>> {
    println!("guests: {compiler}");
    let mut modules = Vec::new();
    for package in shipped_in(root)? {
        modules.extend(compile_plugin(compiler, root, &package)?);
    }
    modules.extend(compile(compiler.cargo("build"), root, "tests/guests", examples)?);
    Ok(modules)
}

/// All guests in Rust, from the user's cache folder if nothing has changed since they were built there: link-time optimization of a
/// hundred guests takes minutes in a fresh clone.
fn kept(compiler: &WasmCompiler, root: &Path, folder: &Path) -> Result<Vec<Guest>> {
    let made_by = [
        compiler.to_string(),
        fs::read_to_string(root.join("rust-toolchain.toml"))?,
        languages::crates(root, &CRATES)?,
    ];
    let inputs = INPUTS.map(|folder| languages::files(&root.join(folder))).into_iter().collect::<Result<Vec<_>>>()?;
    let hash = languages::hash(root, made_by.iter().map(String::as_str), &inputs.concat())?;
    let progress = |line: &str| println!("guests: {line}");
    let list = tools::built_once(LIST, hash, "the guests in Rust, some minutes", &progress, |built| {
        let mut modules = compile_all(compiler, root, &["--examples"])?;
        modules.extend(compile_examples(compiler, root, &["--examples"])?);
        let guests = components(&modules, built)?;
        let names = guests.iter().map(|guest| Ok(guest.path.strip_prefix(built)?.display().to_string() + "\n"));
        Ok(fs::write(built.join(LIST), names.collect::<Result<String>>()?)?)
    })?;
    let names = fs::read_to_string(&list)?;
    names.lines().map(|name| component::write(&fs::read(list.with_file_name(name))?, &folder.join(name))).collect()
}

/// The folders with the sources of the guests in Rust, and of what makes them.
const INPUTS: [&str; 6] = ["plugins", "tests/guests", "sdk/rust", "wit", "host/build/src", "xtask/src/guests"];
/// The crates of this program that make components of modules.
const CRATES: [&str; 4] = ["wasm-encoder", "wasmparser", "wit-component", "wit-parser"];
/// The file with the names of the guests that were built.
const LIST: &str = "guests-in-rust";

/// Builds the guests with these names.
fn build_named(root: &Path, compiler: &WasmCompiler, names: &[String], folder: &Path) -> Result<Vec<Guest>> {
    println!("guests: {compiler}");
    let plugins = shipped_in(root)?;
    let plugin_examples = examples(&root.join("plugins/Cargo.toml"))?;
    let others = examples(&root.join("tests/guests/Cargo.toml"))?;
    let mut modules = Vec::new();
    for name in names {
        if plugins.contains(name) {
            modules.extend(compile_plugin(compiler, root, name)?);
        } else if plugin_examples.contains(name) {
            modules.extend(compile_examples(compiler, root, &["--example", name])?);
        } else if others.contains(name) {
            modules.extend(compile(compiler.cargo("build"), root, "tests/guests", &["--example", name])?);
        }
    }
    let mut guests = components(&modules, folder)?;
    guests.extend(languages::build(root, &folder.join("languages"), |name| names.iter().any(|one| one == name))?);
    let missing = names.iter().find(|name| guests.iter().all(|guest| guest.name != **name));
    match missing {
        Some(name) => bail!("no guest is named {name}; `cargo xtask guests` builds and lists all"),
        None => Ok(guests),
    }
}

/// Sorts the guests, and prints them.
fn listed(mut guests: Vec<Guest>) -> Vec<Guest> {
    guests.sort_by(|a, b| a.path.cmp(&b.path));
    for guest in &guests {
        println!("{:<20}{:>8} bytes  {}", guest.name, guest.size, guest.digest);
    }
    guests
}

/// Builds one plugin and one example of tests/guests into `target/guests`, and leaves the other components there.
///
/// # Errors
/// As [`build`].
pub fn build_two(plugin: &str, example: &str) -> Result<Vec<Guest>> {
    let root = root()?;
    let compiler = compiler()?;
    println!("guests: {compiler}");
    let mut modules = compile_plugin(&compiler, &root, plugin)?;
    modules.extend(compile(compiler.cargo("build"), &root, "tests/guests", &["--example", example])?);
    components(&modules, &root.join("target/guests"))
}

/// Builds the component that `cargo xtask bench` measures into a folder.
///
/// # Errors
/// As [`build`].
pub fn build_load(folder: &Path) -> Result<Guest> {
    let modules = compile(compiler()?.cargo("build"), &root()?, "bench/guest", &[])?;
    let module = modules.first().context("bench/guest builds no module")?;
    component::make(&module.path, &folder.join("load.wasm")).context("bench/guest builds, but is not a valid component")
}

/// The names of the plugins in plugins/ that ship with Windlass.
///
/// # Errors
/// If cargo cannot read their workspace.
pub fn shipped() -> Result<Vec<String>> {
    shipped_in(&root()?)
}

/// [`shipped`] in a checkout.
fn shipped_in(root: &Path) -> Result<Vec<String>> {
    let mut names = packages(&root.join("plugins/Cargo.toml"))?;
    names.retain(|name| name != EXAMPLES);
    Ok(names)
}

/// The package in plugins/ whose examples are plugins for readers: they do not ship.
const EXAMPLES: &str = "examples";

/// A core module that cargo built.
struct Module {
    name: String,
    path: PathBuf,
    /// The folder of its component, below `target/guests`.
    folder: &'static str,
}

/// Folders of `tests/guests` whose components are in a folder of the same name; all others are in `target/guests`
/// itself.
const FOLDERS: [&str; 7] = ["contract", "faulty", "hostile", "languages", "puppets", "spies", "unloadable"];

/// The folder of guests in WebAssembly text, which Rust cannot express.
const TEXTS: &str = "tests/guests/unloadable";

/// The files of WebAssembly text in a folder.
fn texts(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "wat")).collect())
}

fn compiler() -> Result<WasmCompiler> {
    WasmCompiler::find(&|line| println!("guests: {line}"))
}

fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository's root folder")?;
    Ok(root.to_owned())
}

/// The members of a workspace.
fn packages(manifest: &Path) -> Result<Vec<String>> {
    Ok(metadata(manifest)?.iter().filter_map(name).collect())
}

/// The examples of the packages of a workspace.
fn examples(manifest: &Path) -> Result<Vec<String>> {
    let packages = metadata(manifest)?;
    let targets = packages.iter().filter_map(|package| package.get("targets")?.as_array()).flatten();
    let is_example = |target: &&Value| {
        let kinds = target.get("kind").and_then(Value::as_array);
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "example"))
    };
    Ok(targets.filter(is_example).filter_map(name).collect())
}

/// The name of a package or a target.
fn name(of: &Value) -> Option<String> {
    Some(of.get("name")?.as_str()?.to_owned())
}

/// The packages of a workspace, as cargo describes them.
fn metadata(manifest: &Path) -> Result<Vec<Value>> {
    let metadata = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()?;
    if !metadata.status.success() {
        bail!("cargo cannot read {}", manifest.display());
    }
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    Ok(metadata.get("packages").and_then(Value::as_array).cloned().unwrap_or_default())
}

fn compile_plugin(compiler: &WasmCompiler, root: &Path, package: &str) -> Result<Vec<Module>> {
    // Only a `cdylib` alone gets link-time optimization, and the manifest of a plugin also names `rlib`, for its tests.
    let arguments = ["--package", package, "--lib", "--crate-type", "cdylib"];
    compile(compiler.cargo("rustc"), root, "plugins", &arguments)
}

/// Compiles examples of plugins/examples.
fn compile_examples(compiler: &WasmCompiler, root: &Path, which: &[&str]) -> Result<Vec<Module>> {
    compile(compiler.cargo("build"), root, "plugins", &[&["--package", EXAMPLES][..], which].concat())
}

/// Makes components of modules, below a folder.
fn components(modules: &[Module], folder: &Path) -> Result<Vec<Guest>> {
    let component = |module: &Module| {
        let path = folder.join(module.folder).join(&module.name).with_extension("wasm");
        component::make(&module.path, &path)
            .with_context(|| format!("guest {} builds, but is not a valid component", module.name))
    };
    modules.iter().map(component).collect()
}

/// Runs cargo, which prints its own progress, and returns the modules that it built or found up to date.
fn compile(mut cargo: Command, root: &Path, workspace: &str, arguments: &[&str]) -> Result<Vec<Module>> {
    let output = cargo
        .args(arguments)
        .args(["--release", "--message-format", "json-render-diagnostics", "--manifest-path"])
        .arg(root.join(workspace).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target/guests-build"))
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("the guests in {workspace} do not build; cargo's message above gives the reason");
    }
    let messages = String::from_utf8(output.stdout)?;
    Ok(messages.lines().filter_map(|line| module(&serde_json::from_str(line).ok()?)).collect())
}

/// The module in one of cargo's `compiler-artifact` messages, if there is one.
fn module(message: &Value) -> Option<Module> {
    let target = message.get("target")?;
    let files = message.get("filenames")?.as_array()?;
    let mut files = files.iter().filter_map(Value::as_str).map(Path::new);
    let path = files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"))?;
    let source = Path::new(target.get("src_path")?.as_str()?).parent()?;
    // Each of them has a folder.
    let is_example = source.parent().is_some_and(|folder| folder.ends_with(Path::new("plugins").join(EXAMPLES)));
    let of_tests = || FOLDERS.into_iter().find(|folder| source.ends_with(Path::new("tests/guests").join(folder)));
    Some(Module {
        name: target.get("name")?.as_str()?.replace('_', "-"),
        path: path.into(),
        folder: if is_example { EXAMPLES } else { of_tests().unwrap_or_default() },
    })
}

/// Removes guests that are no longer built, because tests use all files in these folders.
fn remove_others(folder: &Path, guests: &[Guest], options: &Options) -> Result<()> {
    let mut folders = vec![folder.to_owned()];
    if !options.plugins_only {
        folders.extend(FOLDERS.into_iter().chain([EXAMPLES]).map(|name| folder.join(name)));
    }
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "wasm")
                && guests.iter().all(|guest| guest.path != path)
            {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}
