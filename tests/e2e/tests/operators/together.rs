//! All operators in one host: side by side, in steady state, and during a hot swap of one of them.

use std::thread::sleep;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use windlass_e2e::{Env, HostOptions, TIMEOUT, guest, is_settled, text, wait};
use windlass_testbed::{Collector, Span};

use crate::{APPLICATION, ECHO, MYAPP, MYSQLCLUSTER, sample, start, volume, wait_for};

/// How long the host must write nothing.
const OBSERVATION: Duration = Duration::from_secs(30);

#[test]
fn all_samples_run_in_one_host_that_writes_nothing_in_steady_state_and_hot_swaps_a_component() {
    let env = Env::start();
    let host = start(&env);
    let ns = &env.namespace("together");
    volume(ns, "orders-data-0", &["ReadWriteOnce"]);
    (0..3).for_each(|at| volume(ns, &format!("reports-data-{at}"), &["ReadWriteOnce"]));
    volume(ns, "portal-full-uploads", &["ReadWriteMany"]);
    let samples = [
        "application",
        "application-full",
        "echo",
        "echo-full",
        "myapp",
        "myapp-full",
        "mysqlcluster",
        "mysqlcluster-full",
    ];
    for name in samples {
        let args = ["apply", "-n", ns.name(), "-f", "-"];
        env.cluster().kubectl_with_input(&args, &sample(name)).expect("applied");
    }
    env.apply(&sample("namespaceguard"));
    let parents = [
        (APPLICATION, "portal"),
        (APPLICATION, "portal-full"),
        (MYAPP, "shop"),
        (MYAPP, "shop-full"),
        (MYSQLCLUSTER, "orders"),
        (MYSQLCLUSTER, "reports"),
    ];
    for (kind, name) in parents {
        kind.wait_ready(ns, name);
    }
    for echo in ["hello", "chorus"] {
        ns.wait_settled(echo);
    }
    env.wait_object("resourcequotas", "team-a", "guard", |_| true);
    // The host updates these counts some seconds later.
    for (plugin, count) in [("application", 2), ("echo", 2), ("myapp", 2), ("mysqlcluster", 2), ("namespaceguard", 1)] {
        env.wait_plugin(plugin, |plugin| plugin["status"]["parents"] == count && plugin["status"]["failing"] == 0);
    }

    let mark = env.mark();
    // Not a synchronization: the test shows that nothing happens for this time.
    sleep(OBSERVATION);
    assert_eq!(env.host_requests(mark).attempted_writes().to_vec(), [], "the host writes nothing in steady state");
    eprintln!("all samples in steady state: RSS of the host {} MiB", host.memory("VmRSS"));

    // Echo gets a new component while parents of the others change.
    env.push(&guest("echo-v2"), "echo", &[]);
    MYAPP.replace(ns, "shop", &json!({ "image": "nginx:1.28", "replicas": 2 }));
    APPLICATION.replace(ns, "portal", &json!({ "image": "nginx:1.28", "replicas": 2 }));
    let password = json!({ "name": "reports-password", "key": "root" });
    let reports = json!({ "version": "8.4", "replicas": 2, "storageSize": "20Gi", "rootPasswordSecretRef": password });
    MYSQLCLUSTER.replace(ns, "reports", &reports);
    for (kind, name) in [(MYAPP, "shop"), (APPLICATION, "portal"), (MYSQLCLUSTER, "reports")] {
        kind.wait_ready(ns, name);
    }
    env.wait_live("echo", &guest("echo-v2"));
    wait("all Echoes' Pods with the new component's label", TIMEOUT, || {
        let pods = ns.pods();
        let is_echoes = |pod: &&serde_json::Value| pod["metadata"]["labels"]["windlass.dev/plugin"] == "echo";
        pods.iter().filter(is_echoes).all(|pod| pod["metadata"]["labels"]["logic"] == "v2").then_some(())
    });
    wait_for(ns, ECHO.resource, "hello", is_settled);
    assert!(host.is_running());
}

#[test]
fn generated_password_survives_restart_and_new_component_and_is_never_logged_or_exported() {
    let files = tempfile::tempdir().expect("a temporary folder");
    let collector = Collector::start(files.path()).expect("a collector");
    let env = Env::start();
    env.apply(crate::STORAGE);
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), collector.endpoint());
    // The log has the most verbose level.
    let args = ["--log-traces", "--log", "trace"].map(str::to_owned).to_vec();
    let options = HostOptions { args, env: vec![endpoint], ..HostOptions::default() };
    let host = env.start_host_with(options.clone());
    let component = guest("mysqlcluster");
    env.push(&component, "mysqlcluster", &[]);
    env.wait_live("mysqlcluster", &component);
    let ns = &env.namespace("password");
    volume(ns, "orders-data-0", &["ReadWriteOnce"]);
    MYSQLCLUSTER.settle(ns, "orders", &json!({ "version": "8.4", "replicas": 1, "storageSize": "10Gi" }));
    let state = || {
        let all = [("secrets", "orders-root"), ("pods", "orders-0"), ("persistentvolumeclaims", "orders-data-0")];
        all.map(|(resource, name)| ns.get(resource, name).expect(name))
    };
    let before = state();

    assert!(host.terminate().success(), "SIGTERM ends the host with exit code 0");
    let host = env.start_host_with(options);
    let newer = env.variant(&component, "newer");
    env.push(&newer, "mysqlcluster", &[]);
    let digest = env.wait_live("mysqlcluster", &newer);
    let service = ns.get("services", "orders").expect("the Service");
    ns.kubectl(&["delete", "service", "orders"]);
    wait_for(ns, "services", "orders", |now| now["metadata"]["uid"] != service["metadata"]["uid"]);
    assert_eq!(state(), before, "the new component restores the Service and generates no password");

    let is_by_new_component = |span: &Span| {
        span.attributes.get("mysql.name") == Some(&json!("orders"))
            && span.attributes.get("windlass.digest") == Some(&json!(digest))
    };
    let spans =
        collector.wait_for_spans(TIMEOUT, |spans| spans.iter().any(is_by_new_component)).expect("its calls' spans");
    let events = env.list("events", ns.name());
    let status = ns.get(MYSQLCLUSTER.resource, "orders").expect("the cluster");
    let outputs = format!("{spans:?}{events:?}{status}{}", env.host_log_lines("").join("\n"));
    assert!(outputs.contains("orders-root"), "the outputs contain the Secret's name");
    let encoded = text(&before[0], "/data/password");
    let password = String::from_utf8(STANDARD.decode(&encoded).expect("base64")).expect("text");
    for word in [&password, &encoded] {
        assert!(word.len() > 16 && !outputs.contains(word.as_str()), "no output contains the password");
    }
    assert!(host.is_running());
}
