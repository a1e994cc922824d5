use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use windlass_core::contract::MetricType;
use windlass_core::contract::descriptor::PLUGIN_METRIC_LABEL;

use super::super::exported::Last;
use super::table::{LABELS, OWNERS, SERIES};
use super::*;

fn metric(name: &str, metric_type: MetricType, labels: &[&str]) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: String::new(),
        description: String::new(),
        metric_type,
        labels: labels.iter().map(ToString::to_string).collect(),
    }
}

fn gauge(name: &str, labels: &[&str]) -> Metric {
    metric(name, MetricType::Gauge, labels)
}

fn plugins() -> PluginMetrics {
    PluginMetrics::new(None)
}

/// The metrics of a component of a plugin.
fn component(plugins: &PluginMetrics, plugin: &str, metrics: &[Metric]) -> Measures {
    Measures(Some(plugins.component(&plugin.parse().expect("a name"), metrics)))
}

/// The text that Prometheus gets.
fn text(plugins: &PluginMetrics) -> String {
    let mut text = String::new();
    plugins.write(&mut text);
    assert!(
        text.len() <= plugins.bytes(),
        "{} bytes are more than the {} that were taken",
        text.len(),
        plugins.bytes()
    );
    text
}

/// The lines of series that Prometheus gets, sorted.
fn series(plugins: &PluginMetrics) -> Vec<String> {
    let mut lines: Vec<_> = text(plugins).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    lines.sort();
    lines
}

fn parent(name: &str) -> ObjectKey {
    ObjectKey::new(Some("n"), name)
}

fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn declared_metrics_are_exported_under_the_plugins_name() {
    let plugins = plugins();
    let took = Metric { description: "Time \\ until\nready".to_owned(), ..metric("took", MetricType::Histogram, &[]) };
    let declared =
        [metric("seen_total", MetricType::Counter, &["phase"]), gauge("cores", &["namespace", "name"]), took];
    let measures = component(&plugins, "web-app", &declared);
    for (metric, value, pairs) in [
        ("seen_total", 1.0, &[("phase", "Running")][..]),
        ("seen_total", 2.5, &[("phase", "Running"), ("other", "x")]),
        ("cores", 3.0, &[("name", "b"), ("namespace", "a")]),
        ("cores", 1e300, &[("namespace", "a"), ("name", "b")]),
        ("took", 5.0, &[]),
        ("took", 0.5, &[]),
        ("took", 1e6, &[]),
    ] {
        assert!(measures.record(&parent("a"), metric, value, &labels(pairs)));
    }
    let bounds =
        ["0", "5", "10", "25", "50", "75", "100", "250", "500", "750", "1000", "2500", "5000", "7500", "10000", "+Inf"];
    let bucket = |bound: &str| {
        let count = match bound {
            "0" => 0,
            "+Inf" => 3,
            _ => 2,
        };
        format!("web_app_took_bucket{{windlass_plugin=\"web-app\",le=\"{bound}\"}} {count}\n")
    };
    let expected = format!(
        r#"# HELP web_app_cores 
# TYPE web_app_cores gauge
web_app_cores{{namespace="a",name="b",windlass_plugin="web-app"}} 1e300
# HELP web_app_seen_total 
# TYPE web_app_seen_total counter
web_app_seen_total{{phase="Running",windlass_plugin="web-app"}} 3.5
# HELP web_app_took Time \\ until\nready
# TYPE web_app_took histogram
{}web_app_took_sum{{windlass_plugin="web-app"}} 1000005.5
web_app_took_count{{windlass_plugin="web-app"}} 3
"#,
        bounds.map(bucket).concat()
    );
    assert_eq!(text(&plugins), expected);
}

#[test]
fn label_values_of_a_plugin_end_no_line_and_add_no_label() {
    let plugins = plugins();
    let measures = component(&plugins, "web", &[gauge("a", &["name"])]);
    measures.record(&parent("a"), "a", 1.0, &labels(&[("name", "x\",y=\"\n# TYPE up gauge\nup 0 \\")]));
    assert_eq!(series(&plugins), [r#"web_a{name="x\",y=\"\n# TYPE up gauge\nup 0 \\",windlass_plugin="web"} 1"#]);
}

#[test]
fn series_of_a_gauge_ends_with_the_last_parent_that_it_was_measured_for() {
    let plugins = plugins();
    let measures = component(&plugins, "web", &[gauge("cores", &["name"]), gauge("all", &[])]);
    for name in ["a", "b"] {
        measures.record(&parent(name), "cores", 2.0, &labels(&[("name", name)]));
        measures.record(&parent(name), "all", 4.0, &[]);
    }
    let all = r#"web_all{windlass_plugin="web"} 4"#;
    let of = |name: &str| format!(r#"web_cores{{name="{name}",windlass_plugin="web"}} 2"#);
    assert_eq!(series(&plugins), [all, &of("a"), &of("b")]);
    measures.forget(&parent("b"));
    assert_eq!(series(&plugins), [all, &of("a")]);
    measures.forget(&parent("a"));
    assert_eq!(text(&plugins), "");
    // There is room for other series again.
    for at in 0..2 * ALL_SERIES {
        let name = at.to_string();
        assert!(measures.record(&parent(&name), "cores", 1.0, &labels(&[("name", &name)])));
        measures.forget(&parent(&name));
    }
}

#[test]
fn series_of_many_parents_stays_until_the_component_goes() {
    let plugins = plugins();
    let measures = component(&plugins, "web", &[gauge("all", &[])]);
    let parents: Vec<_> = (0..=OWNERS).map(|at| parent(&at.to_string())).collect();
    for parent in &parents {
        measures.record(parent, "all", 1.0, &[]);
    }
    for parent in &parents {
        measures.forget(parent);
    }
    assert_eq!(series(&plugins), [r#"web_all{windlass_plugin="web"} 1"#]);
}

#[test]
fn all_series_end_with_their_component_and_return_their_room() {
    let plugins = plugins();
    let declared = [gauge("g", &[]), metric("c", MetricType::Counter, &[]), metric("h", MetricType::Histogram, &[])];
    let measures = component(&plugins, "web", &declared);
    for metric in &declared {
        assert!(measures.record(&parent("a"), &metric.name, 1.0, &[]));
    }
    assert_eq!(series(&plugins).len(), 20);
    drop(measures);
    assert_eq!((text(&plugins), plugins.bytes()), (String::new(), 0));
}

#[test]
fn series_of_the_newest_component_that_measured_something_are_exported() {
    let plugins = plugins();
    let declared = [gauge("cores", &[])];
    let old = component(&plugins, "web", &declared);
    old.record(&parent("a"), "cores", 1.0, &[]);
    let new = component(&plugins, "web", &declared);
    assert_eq!(series(&plugins), [r#"web_cores{windlass_plugin="web"} 1"#], "the component may never go live");
    new.record(&parent("a"), "cores", 2.0, &[]);
    assert_eq!(series(&plugins), [r#"web_cores{windlass_plugin="web"} 2"#]);
}

#[test]
fn plugin_cannot_have_metrics_with_names_of_the_host() {
    for (plugin, expected) in [
        ("web-app", "web_app_"),
        ("windlass", "plugin_windlass_"),
        ("workqueue", "plugin_workqueue_"),
        ("leader", "plugin_leader_"),
        ("controller-runtime-x", "plugin_controller_runtime_x_"),
        ("operator", "plugin_operator_"),
        ("operators", "operators_"),
        ("3scale", "plugin_3scale_"),
    ] {
        assert_eq!(prefix(plugin), expected);
    }
}

#[test]
fn plugins_with_equal_metric_names_are_distinguished_by_a_label_and_have_one_head() {
    let plugins = plugins();
    let all = [("a", "b_c"), ("a-b", "c")].map(|(plugin, name)| {
        let measures = component(&plugins, plugin, &[metric(name, MetricType::Counter, &[])]);
        measures.record(&parent("a"), name, 1.0, &labels(&[(PLUGIN_METRIC_LABEL, "another")]));
        measures
    });
    let text = text(&plugins);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "# HELP a_b_c ",
            "# TYPE a_b_c counter",
            r#"a_b_c{windlass_plugin="a"} 1"#,
            r#"a_b_c{windlass_plugin="a-b"} 1"#
        ]
    );
    drop(all);
}

#[test]
fn undeclared_metrics_and_invalid_values_are_dropped() {
    let plugins = plugins();
    let measures = component(&plugins, "web", &[metric("seen_total", MetricType::Counter, &[]), gauge("cores", &[])]);
    for (metric, value) in [("other", 1.0), ("seen_total", -1.0), ("seen_total", f64::NAN), ("cores", f64::INFINITY)] {
        assert!(!measures.record(&parent("a"), metric, value, &[]), "{metric}");
    }
    assert_eq!((text(&plugins), plugins.bytes()), (String::new(), 0));
}

#[test]
fn number_of_series_of_a_metric_is_bounded_and_known_series_are_updated() {
    let plugins = plugins();
    let measures = component(&plugins, "web", &[gauge("cores", &["name"])]);
    let name = |at: usize| labels(&[("name", &format!("{at}{}", "x".repeat(1000)))]);
    for at in 0..SERIES + 10 {
        assert_eq!(measures.record(&parent("a"), "cores", 1.0, &name(at)), at < SERIES);
    }
    assert!(measures.record(&parent("a"), "cores", 2.0, &name(0)));
    let series = series(&plugins);
    assert_eq!(series.len(), SERIES);
    assert!(series.iter().all(|line| line.len() < 200), "label values are shortened");
    assert!(series.iter().any(|line| line.ends_with(" 2")));
}

/// Measures in series with labels of this length, and values that are doubled by escaping, until one is dropped.
fn flood(measures: &Measures, metrics: &[Metric]) {
    let value = "\n".repeat(124);
    let all = metrics.iter().flat_map(|metric| (0..SERIES).map(move |at| (metric, at)));
    for (metric, at) in all {
        let labels: Vec<_> = metric.labels.iter().map(|label| (label.clone(), format!("{at:04}{value}"))).collect();
        if !measures.record(&parent("a"), &metric.name, -f64::MIN_POSITIVE, &labels) {
            return;
        }
    }
}

fn longest_labels(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{at:x}{}", "l".repeat(63)).replace(|c: char| c.is_ascii_digit(), "d")).collect()
}

#[test]
fn bytes_of_all_metrics_of_a_component_and_of_all_components_are_bounded() {
    let plugins = plugins();
    let metrics: Vec<_> = (0..100)
        .map(|at| Metric {
            description: "\n".repeat(1024),
            labels: longest_labels(3),
            ..metric(&format!("m{at}"), MetricType::Histogram, &[])
        })
        .collect();
    let mut components = Vec::new();
    for at in 0..10 {
        let measures = component(&plugins, &format!("hostile-{at}"), &metrics);
        let before = plugins.bytes();
        flood(&measures, &metrics);
        let taken = plugins.bytes() - before;
        assert!(taken <= OF_COMPONENT, "{taken}");
        components.push(measures);
    }
    assert!(plugins.bytes() > OF_ALL / 2, "the flood was dropped for another reason");
    assert!(text(&plugins).len() <= OF_ALL);
    let late = component(&plugins, "late", &metrics);
    components.clear();
    flood(&late, &metrics);
    assert!(plugins.bytes() > OF_COMPONENT / 2, "the room of components that are gone is free");
}

#[test]
fn series_with_too_long_labels_is_dropped() {
    let plugins = plugins();
    let metrics = [Metric { labels: longest_labels(16), ..metric("m", MetricType::Histogram, &[]) }];
    let measures = component(&plugins, "web", &metrics);
    flood(&measures, &metrics);
    assert_eq!(plugins.bytes(), 0, "16 labels of this length are longer than {LABELS} bytes");
}

#[test]
fn parents_of_the_series_of_gauges_are_bounded_with_the_same_bytes_and_no_series_outlives_them() {
    let plugins = plugins();
    let metrics: Vec<_> = (0..2).map(|at| gauge(&format!("m{at}"), &["name"])).collect();
    let measures = component(&plugins, "web", &metrics);
    let mut dropped = 0;
    // At first there is room for all series, and then not for all of their parents.
    for owner in 0..OWNERS {
        for metric in &metrics {
            for at in 0..SERIES {
                let labels = labels(&[("name", &at.to_string())]);
                let is_kept = measures.record(&parent(&format!("{owner}")), &metric.name, 1.0, &labels);
                dropped += usize::from(!is_kept);
            }
        }
    }
    assert!(plugins.bytes() <= OF_COMPONENT);
    assert_eq!((series(&plugins).len(), dropped > 0), (2 * SERIES, true));
    for owner in 0..OWNERS {
        measures.forget(&parent(&format!("{owner}")));
    }
    assert_eq!(text(&plugins), "");
}

#[test]
fn metrics_of_a_plugin_are_pushed_with_those_of_the_host_and_end_with_the_component() {
    let plugins = Arc::new(PluginMetrics::new(Some(Temporality::Cumulative)));
    let last = Last::default();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let exporter = WithPlugins { exporter: last.clone(), plugins: plugins.clone(), runtime: runtime.handle().clone() };
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).build();
    provider.meter("test").f64_counter("host_total").build().add(1.0, &[]);
    let declared = [
        gauge("cores", &["name"]),
        metric("seen_total", MetricType::Counter, &[]),
        metric("took", MetricType::Histogram, &[]),
    ];
    let measures = component(&plugins, "web-app", &declared);
    for name in ["a", "b"] {
        measures.record(&parent(name), "cores", 2.0, &labels(&[("name", name)]));
        measures.record(&parent(name), "seen_total", 1.0, &[]);
        measures.record(&parent(name), "took", 0.5, &[]);
    }
    let of = |name: &str| format!("web_app_cores{{name={name},windlass.plugin=web-app}}=2");
    let (seen, took) = ("web_app_seen_total{windlass.plugin=web-app}=2", "web_app_took{windlass.plugin=web-app}=2");
    assert_eq!(last.of(&provider), ["host_total{}=1", &of("a"), &of("b"), seen, took]);
    measures.forget(&parent("b"));
    assert_eq!(last.of(&provider), ["host_total{}=1", &of("a"), seen, took]);
    drop(measures);
    assert_eq!(last.of(&provider), ["host_total{}=1"]);
}
