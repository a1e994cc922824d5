//! Tests that the code has the layers of ARCHITECTURE.md: Cargo checks imports between crates, this test those between
//! modules.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test ends by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::object::reason::{ParentReason, PluginReason};
use windlass_tidy::{Graph, Module};

/// Modules of the engine that may name the Kubernetes client.
const MAY_NAME_CLIENT: [&str; 5] = ["command", "run", "cluster", "plugins", "reconcile/world.rs"];

/// The modules of the engine from top to bottom: one may import only from layers below its own.
const LAYERS: [&[&str]; 8] = [
    &[""],
    &["command"],
    &["run"],
    &["plugins", "reconcile", "serve"],
    &["live", "recent"],
    &["cluster", "queue"],
    &["heap", "output", "telemetry"],
    &["clock"],
];

/// The rooms of the core from top to bottom, likewise.
const ROOMS: [&[&str]; 7] =
    [&[""], &["plugin", "hosts"], &["reconcile"], &["guard"], &["contract"], &["object"], &["value"]];

/// The folders of the host's crates.
const CRATES: [&str; 10] = [
    "api/src",
    "build/src",
    "cli/src",
    "compiler/src",
    "conformance/src",
    "core/src",
    "delivery/src",
    "engine/src",
    "sandbox/src",
    "server/src",
];

/// The sources of the engine.
const ENGINE: &str = "engine/src";

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The folder of the host's crates.
fn host() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host")
}

/// The code of a file without its comments and its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("UTF-8");
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    before_tests.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The module of the engine that a file belongs to.
fn module(path: &Path) -> String {
    let inside = path.strip_prefix(host().join(ENGINE)).expect("a file of the engine");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn only_the_listed_modules_name_the_kubernetes_client() {
    for path in sources(&host().join(ENGINE)) {
        let named = code(&path).split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "Client");
        let module = module(&path);
        let file = path.strip_prefix(host().join(ENGINE)).expect("a file of the engine").to_string_lossy();
        assert!(
            !named || [&*module, &*file].iter().any(|name| MAY_NAME_CLIENT.contains(name)),
            "{} names Client; only {MAY_NAME_CLIENT:?} may: pass the module what it needs instead",
            path.display()
        );
    }
}

/// The files of the host that write to standard output or standard error themselves, and why each may.
const WRITERS: [(&str, &str); 8] = [
    ("cli/src/dev/terminal.rs", "escapes everything but its own colours"),
    ("cli/src/diff/report.rs", "escapes every line, and colours it"),
    ("cli/src/output.rs", "escapes everything"),
    ("cli/src/recording_file.rs", "writes JSON whose strings are escaped"),
    ("compiler/src/main.rs", "writes a fixed text"),
    ("engine/src/output.rs", "escapes everything"),
    ("engine/src/telemetry/mod.rs", "gives the trees, which escape their lines, their output"),
    ("engine/src/telemetry/trace_ids.rs", "escapes every line of the log"),
];

/// Text of components, registries, recordings and the cluster must not control a terminal.
#[test]
fn only_modules_that_escape_what_they_print_write_to_the_terminal() {
    let writes = |path: &PathBuf| {
        let code = code(path);
        ["println!", "print!", "eprintln!", "eprint!", "dbg!", "stdout()", "stderr()", "io::stdout", "io::stderr"]
            .iter()
            .any(|word| code.contains(word))
    };
    let found: Vec<_> = ["cli/src", "compiler/src", ENGINE, "server/src"]
        .iter()
        .flat_map(|folder| sources(&host().join(folder)))
        .filter(writes)
        .map(|path| path.strip_prefix(host()).expect("below host").to_string_lossy().into_owned())
        .collect();
    let listed = WRITERS.map(|(file, _)| file);
    assert_eq!(found, listed, "print with out!, err! or cli/src/output.rs");
}

/// The graph of the modules of one crate, without its tests.
fn graph_of(folder: &str) -> Graph {
    let src = host().join(folder);
    let is_code = |path: &PathBuf| {
        !path.iter().any(|part| ["tests", "tests.rs", "fuzz.rs", "fixtures.rs"].iter().any(|tests| part == *tests))
    };
    let files: Vec<_> = sources(&src).into_iter().filter(is_code).collect();
    Graph::new(
        files
            .iter()
            .map(|path| (path.strip_prefix(&src).expect("below src"), fs::read_to_string(path).expect("UTF-8"))),
    )
}

/// Holds the modules of a crate against its layers.
fn assert_imports_only_from_below(folder: &str, layers: &[&[&str]]) {
    let layer = |module: &Module| {
        let top = module.first().map_or("", String::as_str);
        layers.iter().position(|layer| layer.contains(&top)).unwrap_or_else(|| panic!("{top} is in no layer"))
    };
    for (from, to) in graph_of(folder).imports() {
        let is_inside = from.first() == to.first();
        assert!(
            is_inside || layer(from) < layer(to),
            "{} imports from {}, which is in its own layer or above it: {layers:?}",
            from.join("/"),
            to.join("/")
        );
    }
}

#[test]
fn engine_imports_only_from_layers_below() {
    assert_imports_only_from_below(ENGINE, &LAYERS);
}

#[test]
fn rooms_of_the_core_import_only_from_rooms_below() {
    assert_imports_only_from_below("core/src", &ROOMS);
}

#[test]
fn modules_of_a_crate_have_no_import_cycle() {
    for folder in CRATES {
        let graph = graph_of(folder);
        let cycles = graph.cycles();
        assert!(cycles.is_empty(), "host/{folder}: {cycles:#?}");
    }
}

#[test]
fn every_module_begins_with_a_line_that_describes_it() {
    let folders = CRATES.map(|folder| host().join(folder));
    for path in folders.iter().flat_map(|folder| sources(folder)) {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let is_tests = is_of_tests(&path);
        assert!(
            is_tests || text.starts_with("//! "),
            "{} does not start with `//! ` and a description",
            path.display()
        );
    }
}

#[test]
fn the_core_reads_neither_clock_nor_environment_nor_files() {
    for path in sources(&host().join("core/src")) {
        // Tests may measure, wherever they are.
        if is_of_tests(&path) {
            continue;
        }
        let code = code(&path);
        for forbidden in
            ["Timestamp::now", "SystemTime", "Instant::now", "std::env", "std::fs", "std::net", "std::process"]
        {
            assert!(!code.contains(forbidden), "{} uses {forbidden}: pass it in", path.display());
        }
    }
}

/// Whether a file has tests or their data: `tests.rs`, `fixtures.rs`, or a file in a folder `tests`.
fn is_of_tests(path: &Path) -> bool {
    path.ends_with("tests.rs")
        || path.ends_with("fixtures.rs")
        || path.parent().is_some_and(|folder| folder.ends_with("tests"))
}

/// The simulator runs hosts by its own clock, and needs the same order of their tasks for the same seed.
#[test]
fn engine_reads_time_through_its_clock_and_polls_in_a_fixed_order() {
    let is_measured = |path: &Path| path.ends_with("clock.rs") || path.starts_with(host().join(ENGINE).join("serve"));
    for path in sources(&host().join(ENGINE)) {
        if is_of_tests(&path) || is_measured(&path) {
            continue;
        }
        let code = code(&path);
        for forbidden in ["Instant::now", "Timestamp::now", "SystemTime::now", ".elapsed()"] {
            assert!(!code.contains(forbidden), "{} uses {forbidden}: use the module `clock`", path.display());
        }
        for choice in code.split("select! {").skip(1) {
            let is_of_signals = path.ends_with("command/mod.rs");
            assert!(
                is_of_signals || choice.trim_start().starts_with("biased;"),
                "{}: a select! polls in a random order: begin it with `biased;`",
                path.display()
            );
        }
    }
}

#[test]
fn imports_are_in_three_groups() {
    for path in CRATES.iter().flat_map(|of| sources(&host().join(of))) {
        let code = code(&path);
        let is_own_module =
            |name: &str| code.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {name};"));
        let group = |import: &str| match import.split([':', ';', ' ']).next() {
            Some("std") => 0,
            Some("self" | "super" | "crate") => 2,
            Some(name) if is_own_module(name) => 2,
            Some(_) | None => 1,
        };
        let (mut before, mut is_apart) = (None, false);
        for line in code.lines().skip_while(|line| !line.starts_with("use ")) {
            match line.strip_prefix("use ") {
                Some(import) => {
                    let now = Some(group(import));
                    assert!(
                        before <= now,
                        "{}: {line}: std comes first, then other crates, then this one",
                        path.display()
                    );
                    let needs_line = before.is_some() && before != now;
                    assert_eq!(needs_line, is_apart, "{}: {line}: one blank line between groups", path.display());
                    (before, is_apart) = (now, false);
                }
                None if line.is_empty() => is_apart = true,
                // A line of a longer import, or what may stand between imports.
                None if line.starts_with([' ', '}', '#']) || line.starts_with("pub use ") => {}
                None => break,
            }
        }
    }
}

#[test]
fn unsafe_code_is_allowed_only_for_the_heap_and_in_the_sandboxs_cache_and_bindings() {
    let folders = CRATES.map(|folder| host().join(folder));
    for path in folders.iter().flat_map(|folder| sources(folder)) {
        let allowed = ["engine/src/heap.rs", "sandbox/src/cache.rs"].iter().any(|file| path == host().join(file))
            || path.to_string_lossy().contains("/bindings/");
        assert!(allowed || !code(&path).contains("unsafe_code"), "{} allows unsafe code", path.display());
    }
}

#[test]
fn every_name_that_the_host_writes_is_documented() {
    let names = fs::read_to_string(host().join("core/src/object/names.rs")).expect("UTF-8");
    let page = fs::read_to_string(host().join("../docs/conditions.md")).expect("UTF-8");
    let constants = names.lines().filter(|line| line.trim_start().starts_with("pub const "));
    let constants: Vec<_> = constants.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(constants.len() > 30, "too few constants found");
    let of_plugins = PluginReason::ALL.iter().map(|reason| reason.as_str());
    let of_parents = ParentReason::ALL.iter().map(|reason| reason.as_str());
    for value in constants
        .into_iter()
        .chain(of_plugins)
        .chain(of_parents)
        .filter(|value| !matches!(*value, "windlass" | "windlass.dev/"))
    {
        assert!(page.contains(&format!("`{value}`")), "docs/conditions.md does not mention {value}");
    }
}

#[test]
fn every_metric_of_the_host_is_documented() {
    let page = fs::read_to_string(host().join("../docs/telemetry.md")).expect("UTF-8");
    let prefixes = ["controller_runtime_", "workqueue_", "rest_client_", "leader_election_", "windlass_", "operator."];
    let mut metrics = 0;
    for path in ["instruments.rs", "controller.rs"].map(|file| host().join(ENGINE).join("telemetry").join(file)) {
        let code = code(&path);
        let literals = code.split('"').skip(1).step_by(2);
        for name in literals.filter(|text| prefixes.iter().any(|prefix| text.starts_with(prefix))) {
            assert!(page.contains(&format!("`{name}`")), "docs/telemetry.md does not mention {name}");
            metrics += 1;
        }
    }
    assert!(metrics > 25, "too few metrics found: {metrics}");
}

/// Each guest is named by a test that runs it, or by the simulator.
#[test]
fn every_guest_is_run_by_a_test() {
    let tests: String = ["../tests/e2e", "../tests/simulator/src", "sandbox/tests"]
        .iter()
        .flat_map(|folder| sources(&host().join(folder)))
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let mut guests = 0;
    for folder in ["faulty", "puppets", "spies", "variants", "languages"] {
        for entry in fs::read_dir(host().join("../tests/guests").join(folder)).expect("the guests") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_named = [format!("\"{name}\""), format!("/{name}\"")].iter().any(|named| tests.contains(named));
            assert!(is_named, "tests/guests/{folder}: no test runs {name}");
            guests += 1;
        }
    }
    assert!(guests > 15, "too few guests found");
}

/// A guest without a Cargo target would silently never be built.
#[test]
fn every_guest_in_rust_is_built() {
    let guests = host().join("../tests/guests");
    let manifest = fs::read_to_string(guests.join("Cargo.toml")).expect("UTF-8");
    let folders = ["faulty", "hostile", "unloadable", "puppets", "spies", "variants", "languages"];
    let sources: Vec<_> = folders.iter().flat_map(|folder| sources(&guests.join(folder))).collect();
    assert!(sources.len() > 60, "too few guests found");
    for path in sources {
        let path = path.strip_prefix(&guests).expect("a guest").display().to_string();
        assert!(manifest.contains(&format!("path = \"{path}\"")), "tests/guests/Cargo.toml names no target {path}");
    }
}
