//! `windlass run --plugins DIR`: components in a folder replace their Plugins' `spec.source`.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;
use std::path::Path;

use windlass_e2e::{Env, HostOptions, condition, guest};

#[test]
fn component_in_the_plugins_folder_replaces_spec_source_while_the_file_exists() {
    let env = Env::start();
    let folder = env.cluster().dir().join("plugins");
    fs::create_dir(&folder).expect("a folder");
    let file = folder.join("echo.wasm");
    // Replaces the file atomically, as a build does.
    let build = |component: &Path| {
        let fresh = folder.join("fresh");
        fs::copy(component, &fresh).and_then(|_| fs::rename(&fresh, &file)).expect("built");
    };
    let first = env.variant(&guest("echo"), "first");
    build(&first);
    let args = vec!["--plugins".to_owned(), folder.to_string_lossy().into_owned()];
    let _host = env.start_host_with(HostOptions { args, ..HostOptions::default() });
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &first);
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_true());
    let message = condition(&plugin, "Fetched").message;
    assert!(message.contains("echo.wasm and not from spec.source"), "{message}");
    let ns = env.namespace("folder");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    let second = env.variant(&guest("echo"), "second");
    build(&second);
    env.wait_live("echo", &second);
    fs::write(&file, "half of a comp").expect("written");
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Compiled").is_false("NotAComponent"));
    assert!(condition(&plugin, "Available").is_true(), "the live component keeps running: {plugin:#}");

    fs::remove_file(&file).expect("removed");
    env.wait_live("echo", &guest("echo"));
    ns.wait_settled("web");
}

#[test]
fn host_with_a_missing_plugins_folder_exits_with_an_error() {
    let env = Env::start();
    let args = vec!["--plugins".to_owned(), "no/such/folder".to_owned()];
    let host = env.spawn_host(HostOptions { args, ..HostOptions::default() });
    let log = env.wait("the host to end", windlass_e2e::TIMEOUT, || (!host.is_running()).then(|| host.log()));
    assert!(log.contains("error: the folder of --plugins cannot be read"), "{log}");
}
