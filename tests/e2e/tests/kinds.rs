//! Who reconciles a kind, and what becomes of it when the kind goes.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use windlass_e2e::{Env, condition, guest, text};

#[test]
fn a_kind_has_one_plugin_the_older_one_and_the_next_takes_over_when_that_goes() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("one-plugin");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    // Its Pods would carry another label: any doubt about who is in charge would show.
    env.push(&guest("echo-v2"), "younger", &[]);
    let taken = |plugin: &serde_json::Value| condition(plugin, "Granted").is_false("ParentKindTaken");
    let said = env.wait_plugin("younger", taken);
    assert!(condition(&said, "Ready").message.contains("Plugin echo"), "{said:#}");

    // The same after a start that loads both at once.
    host.kill();
    let mark = env.mark();
    let _host = env.start_host();
    env.wait_live("echo", &guest("echo"));
    env.wait_plugin("younger", taken);
    ns.echo("new", 1, "nginx:1");
    ns.wait_settled("new");
    let pods = ns.pods();
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(text(pod, "/metadata/labels/windlass.dev~1plugin"), "echo", "{pod:#}");
    }
    let deleted = env.host_writes(mark).filter(|event| event.verb == "delete");
    assert!(deleted.is_empty(), "{deleted:?}");

    env.kubectl(&["delete", "plugins.windlass.dev", "echo"]);
    env.wait_live("younger", &guest("echo-v2"));
    let echo = ns.echo_manifest("web", 3, "nginx:1");
    env.apply(&echo.to_string());
    ns.wait_pods(&["new-0", "web-0", "web-1", "web-2"]);
    ns.wait_settled("web");
    for pod in ns.pods() {
        let owner = text(&pod, "/metadata/labels/windlass.dev~1plugin");
        assert_eq!(owner, "younger", "children pass to the kind's new Plugin: {pod:#}");
    }
}

#[test]
fn a_definition_that_is_deleted_under_a_live_plugin_is_installed_again_and_reconciled() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("kind-gone");
    ns.echo("before", 1, "nginx:1");
    ns.wait_settled("before");

    env.kubectl(&["delete", "crd", "echoes.my-operator.dev"]);
    env.wait("the definition to come back", windlass_e2e::SOON, || env.get("crd", "", "echoes.my-operator.dev"));
    let echo = ns.echo_manifest("after", 2, "nginx:1").to_string();
    env.wait("an Echo to be taken", windlass_e2e::SOON, || env.cluster().apply(&echo).ok());
    ns.wait_settled("after");
    env.wait_plugin("echo", |plugin| {
        condition(plugin, "Ready").is_true() && condition(plugin, "Degraded").is_false("Succeeded")
    });
    assert!(host.is_running());
}
