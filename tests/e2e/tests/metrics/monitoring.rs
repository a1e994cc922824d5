//! The dashboard and the alerts in `manifests/monitoring`, against the metrics that a host really serves.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_e2e::{Env, HostOptions, SYSTEM_NAMESPACE, TIMEOUT, guest, text, wait};
use windlass_testbed::{Prometheus, promtool};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The spec of the `PrometheusRule`, which is what Prometheus reads.
fn rules() -> Value {
    let manifest: Value = serde_saphyr::from_str(&read("manifests/monitoring/prometheusrule.yaml")).expect("YAML");
    assert_eq!(manifest["kind"], "PrometheusRule");
    manifest["spec"].clone()
}

fn alerts() -> Vec<Value> {
    let groups = rules()["groups"].as_array().cloned().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_array().cloned().expect("rules")).collect()
}

/// What an alert compares with its limit.
fn compared(alert: &Value) -> String {
    let expression = text(alert, "/expr");
    let compared = [" > ", " < "].iter().find_map(|operator| expression.rsplit_once(operator));
    compared.unwrap_or_else(|| panic!("{expression} compares nothing")).0.to_owned()
}

/// The names of the metrics in an expression: without labels, functions and operators.
fn metrics(expression: &str) -> BTreeSet<String> {
    let without = |text: &str, (open, close): (&str, char)| {
        let parts = text.split(open).enumerate();
        parts
            .map(|(at, part)| if at == 0 { part } else { part.split_once(close).expect("closed").1 })
            .collect::<String>()
    };
    let plain = without(&without(expression, ("{", '}')), ("by (", ')'));
    let is_part = |part: char| part.is_ascii_alphanumeric() || part == '_';
    let words = plain.split_inclusive(|part| !is_part(part)).filter(|word| !word.ends_with('('));
    let words = words.map(|word| word.trim_end_matches(|part| !is_part(part)));
    words.filter(|word| *word == "up" || word.contains('_')).map(str::to_owned).collect()
}

/// The queries of the dashboard, as Grafana sends them if everything is selected.
fn queries_of_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("manifests/monitoring/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().cloned().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let filled = |expression: String| {
        ["job", "plugin"].iter().fold(expression.replace("$__rate_interval", "1m"), |expression, name| {
            let variables = dashboard["templating"]["list"].as_array().expect("variables");
            let variable = variables.iter().find(|variable| variable["name"] == **name).expect("a variable");
            expression.replace(&format!("${name}"), &text(variable, "/allValue"))
        })
    };
    targets.map(|target| filled(text(target, "/expr"))).collect()
}

/// Work of all kinds that the dashboard shows: children, calls, and a component that traps.
fn put_load_on(env: &Env) {
    for (component, plugin) in [("echo", "echo"), ("puppets/puppet", "puppet")] {
        env.push(&guest(component), plugin, &[]);
        env.wait_live(plugin, &guest(component));
    }
    // A Plugin that is not Ready, and one that is rolled back.
    let absent = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": { "name": "absent" },
        "spec": { "source": { "configMap": { "namespace": SYSTEM_NAMESPACE, "name": "absent" } } },
    });
    env.apply(&absent.to_string());
    env.push(&guest("echo-v2"), "echo", &[]);
    env.wait_live("echo", &guest("echo-v2"));
    env.kubectl(&["annotate", "plugins.windlass.dev", "echo", "windlass.dev/rollback=true"]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("load");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    // Reconciled for as long as the test runs.
    ns.puppet("busy").apply(&json!({ "requeueMillis": 100 }));
    ns.puppet("broken").apply(&json!({ "fail": "trap" }));
}

#[test]
fn every_query_of_dashboard_and_alerts_returns_data_under_load() {
    let env = Env::start();
    // The second shard has no holder.
    let host = env.start_host_with(HostOptions { args: vec!["--shards=2".to_owned()], ..HostOptions::default() });
    put_load_on(&env);
    let address = wait("the address of /metrics", TIMEOUT, || host.metrics_address());
    let files = tempfile::tempdir().expect("a temporary folder");
    let prometheus = Prometheus::start(files.path(), address).expect("a Prometheus server");
    let mut queries = queries_of_dashboard();
    let of_panels = queries.len();
    // An alert that does not fire returns nothing; the value that it compares must exist.
    queries.extend(alerts().iter().map(compared));
    eprintln!("queries: {of_panels} of the dashboard, {} of alerts", queries.len() - of_panels);
    let shards = [("0", 1), ("1", 0)];
    queries
        .extend(shards.map(|(shard, held)| {
            format!("leader_election_master_status{{name=\"windlass-shard-{shard}\"}} == {held}")
        }));
    for query in queries {
        assert!(!query.contains('$'), "{query} has an unknown variable");
        wait(&format!("data for {query}"), TIMEOUT, || match prometheus.query(&query) {
            Ok(found) => (!found.is_empty()).then_some(()),
            Err(error) => panic!("{query}: {error:#}"),
        });
    }
}

#[test]
fn alerts_pass_the_checks_of_promtool_and_fire_when_they_should() {
    let files = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| files.path().join(name).display().to_string();
    fs::write(path("rules.json"), rules().to_string()).expect("written");
    let found = promtool(&["check", "rules", "--lint=all", "--lint-fatal", &path("rules.json")], "");
    let count = format!("{} rules found", alerts().len());
    assert!(found.as_ref().is_ok_and(|found| found.contains(&count)), "{found:?}");

    let tests = read("tests/e2e/tests/metrics/alerts.yaml");
    let cases: Value = serde_saphyr::from_str(&tests).expect("YAML");
    let cases = cases["tests"].as_array().expect("tests");
    let healthy = cases.iter().find(|test| test["name"] == "a healthy hour").expect("a healthy hour");
    let series = healthy["input_series"].as_array().expect("series").iter().map(|series| text(series, "/series"));
    let series: BTreeSet<_> = series.filter_map(|series| Some(series.split_once('{')?.0.to_owned())).collect();
    let silent = |alert: &Value| {
        let missing: Vec<_> = metrics(&text(alert, "/expr")).difference(&series).cloned().collect();
        assert!(missing.is_empty(), "the healthy hour in alerts.yaml has no {missing:?}: {alert:#}");
        let at = |minute| json!({ "alertname": alert["alert"], "eval_time": format!("{minute}m"), "exp_alerts": [] });
        (1..=60).map(at).collect::<Vec<_>>()
    };
    let silent: Value = alerts().iter().flat_map(silent).collect();
    // As text: a YAML parser reads the series 0x60 as a hexadecimal number.
    let tests = tests.replacen("alert_rule_test: []", &format!("alert_rule_test: {silent}"), 1);
    let expected: Vec<_> = cases.iter().filter_map(|test| test["alert_rule_test"].as_array()).flatten().collect();
    for alert in alerts() {
        let is_firing = |test: &Value| test["alertname"] == alert["alert"] && test["exp_alerts"] != json!([]);
        assert!(expected.iter().any(|test| is_firing(test)), "no series in alerts.yaml make this fire: {alert:#}");
    }
    // promtool compares annotations as well, so the texts would have to be repeated.
    let mut plain = rules();
    for group in plain["groups"].as_array_mut().expect("groups") {
        for rule in group["rules"].as_array_mut().expect("rules") {
            rule["annotations"] = json!({});
        }
    }
    fs::write(path("plain.json"), plain.to_string()).expect("written");
    fs::write(path("alerts.yaml"), tests).expect("written");
    promtool(&["test", "rules", &path("alerts.yaml")], "").unwrap_or_else(|found| panic!("{found:#}"));
}

#[test]
fn each_alert_has_a_severity_and_a_runbook_that_exists() {
    let page = read("docs/troubleshooting/alerts.md");
    let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, alerts().iter().map(|alert| text(alert, "/alert")).collect::<Vec<_>>());
    for alert in alerts() {
        let severity = text(&alert, "/labels/severity");
        assert!(["warning", "critical"].contains(&severity.as_str()), "{alert:#}");
        // The book's address of the page. Markdown renderers give a heading of one word this anchor.
        let anchor = text(&alert, "/alert").to_lowercase();
        let page = "https://windlass.dev/docs/troubleshooting/alerts.html";
        assert_eq!(text(&alert, "/annotations/runbook_url"), format!("{page}#{anchor}"));
    }
}
