//! The commands in the book that are marked `<!-- run -->`, run as a user would, and its example of a Plugin.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use windlass_book::Mark;
use windlass_e2e::{Env, Reader, guest};

/// The pages whose blocks are run, in this order, on one cluster.
const PAGES: [&str; 3] = ["docs/quick-start.md", "docs/operating.md", "docs/gitops.md"];

/// A reader with a home of its own, in a folder like the repository.
fn reader_in_the_repository(env: &Env) -> Reader {
    let folder = env.cluster().dir().join("repository");
    fs::create_dir_all(folder.join("target")).expect("folders");
    let guests = guest("echo").parent().expect("a folder").canonicalize().expect("the guests");
    for (from, to) in [(windlass_book::root().join("manifests"), "manifests"), (guests, "target/guests")] {
        symlink(&from, folder.join(to)).unwrap_or_else(|error| panic!("{to}: {error}"));
    }
    let home = folder.clone().into_os_string();
    Reader::new(env, folder).with_variables([("HOME".into(), home)])
}

#[test]
fn commands_of_the_book_do_what_it_says() {
    let env = Env::start();
    let _host = env.start_host();
    let mut reader = reader_in_the_repository(&env);
    for path in PAGES {
        let page = windlass_book::page(Path::new(path)).expect("a page");
        assert!(page.blocks.iter().any(|block| block.mark == Some(Mark::Run)), "{path} has no block to run");
        for block in &page.blocks {
            match &block.mark {
                Some(Mark::Run) => _ = reader.run(&page, block),
                None | Some(Mark::RunBy { .. } | Mark::NotRun { .. }) => {}
                Some(other) => panic!("{path}:{}: {other:?} works in tutorials alone", block.line),
            }
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
