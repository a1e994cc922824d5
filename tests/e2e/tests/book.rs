//! The commands in the book that are marked `<!-- run -->`, run as a user would, and its example of a Plugin.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::panic)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_book::{Mark, Page};
use windlass_e2e::{Env, guest, windlass};

/// The pages whose blocks are run, in this order, on one cluster.
const PAGES: [&str; 3] = ["docs/quick-start.md", "docs/operating.md", "docs/gitops.md"];

/// A shell as the reader of the book has it: kubectl and windlass on the `PATH`, in a folder like the repository.
struct Reader {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Reader {
    fn new(env: &Env) -> Self {
        let folder = env.cluster().dir().join("reader");
        let bin = folder.join("bin");
        fs::create_dir_all(folder.join("target")).and_then(|()| fs::create_dir(&bin)).expect("folders");
        let guests = guest("echo").parent().expect("a folder").canonicalize().expect("the guests");
        let program = Path::new(windlass().get_program()).canonicalize().expect("the binary");
        let links = [
            (env.cluster().kubectl_path().to_owned(), bin.join("kubectl")),
            (program, bin.join("windlass")),
            (windlass_book::root().join("manifests"), folder.join("manifests")),
            (guests, folder.join("target/guests")),
        ];
        for (from, to) in links {
            symlink(&from, &to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
        }
        Self { folder, kubeconfig: env.cluster().kubeconfig().to_owned() }
    }

    /// Runs a block of commands, which ends at the first one that fails.
    fn run(&self, page: &Page, line: usize, commands: &str) {
        let path = env::var("PATH").expect("a PATH");
        let output = Command::new("sh")
            .args(["-euc", commands])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("HOME", &self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .expect("sh starts");
        assert!(
            output.status.success(),
            "{}:{line}: {}\n{commands}\nprinted:\n{}{}",
            page.path.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn commands_of_the_book_do_what_it_says() {
    let env = Env::start();
    let _host = env.start_host();
    let reader = Reader::new(&env);
    for path in PAGES {
        let page = windlass_book::page(Path::new(path)).expect("a page");
        let blocks: Vec<_> = page.blocks.iter().filter(|block| block.mark == Some(Mark::Run)).collect();
        assert!(!blocks.is_empty(), "{path} has no block to run");
        for block in blocks {
            reader.run(&page, block.line, &block.commands);
        }
    }
}

/// The API server validates it by the CRD, with its rules, and rejects unknown fields.
#[test]
fn full_example_of_a_plugin_is_accepted_by_the_api_server() {
    let env = Env::start();
    let page = windlass_book::page(Path::new("docs/plugin.md")).expect("a page");
    let (_, after) = page.text.split_once("## All fields").expect("the section with the example");
    let example = after.split("```yaml\n").nth(1).and_then(|block| block.split("```").next()).expect("an example");
    let arguments = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    env.cluster().kubectl_with_input(&arguments, example).unwrap_or_else(|error| panic!("{error:#}"));
    // The example shows every field that is not a renamed one.
    let crd = env.kubectl(&["get", "crd", "plugins.windlass.dev", "--output=json"]);
    let crd: serde_json::Value = serde_json::from_str(&crd).expect("JSON");
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut missing = Vec::new();
    collect_fields(spec, &mut |name, description| {
        if !description.starts_with("Renamed") && !example.contains(&format!("{name}:")) {
            missing.push(name.to_owned());
        }
    });
    assert_eq!(missing, Vec::<String>::new(), "the example in docs/plugin.md does not show these fields");
}

/// Calls `found` with the name and the description of each field of a schema.
fn collect_fields(schema: &serde_json::Value, found: &mut impl FnMut(&str, &str)) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        found(name, field["description"].as_str().unwrap_or_default());
        collect_fields(field, found);
        collect_fields(&field["items"], found);
    }
}
