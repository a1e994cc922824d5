//! Validates a plugin's descriptor. Afterwards its names are safe in paths, conditions and log lines.

use std::collections::BTreeSet;

use crate::contract::{Descriptor, Metric, MetricType, Parent, Until, UpdateStrategy};
use crate::object::selector::{SELECTOR_MAX, Selector};
use crate::value::ids::{Gvk, is_dns_label, is_dns_subdomain};

/// Maximum number of child kinds, and of related kinds: each costs requests to the API server and a watch.
const KINDS_MAX: usize = 100;
/// Maximum length of the plugin's name and of the version, in bytes.
const VERSION_MAX: usize = 128;
/// Maximum length of the description of a plugin or a metric, in bytes.
const DESCRIPTION_MAX: usize = 1024;
/// Maximum size of the schema of `spec.config`, in bytes; CRDs, whose schemas are similar, rarely reach this size.
const CONFIG_SCHEMA_MAX: usize = 256 * 1024;
/// Maximum number of metrics.
const METRICS_MAX: usize = 100;
/// Maximum length of the name of a metric, in bytes.
const METRIC_NAME_MAX: usize = 128;
/// Maximum number of labels of a metric, and maximum length of a label's name, in bytes.
const LABELS_MAX: (usize, usize) = (16, 64);
/// Maximum length of a unit, in bytes (OpenTelemetry's specification).
const UNIT_MAX: usize = 63;
/// Label that the host adds to each metric of a plugin.
pub const PLUGIN_METRIC_LABEL: &str = "windlass_plugin";
/// Labels of Prometheus' histograms and summaries.
const FORMAT_LABELS: [&str; 2] = ["le", "quantile"];
/// Maximum number of conditions that a rolling update waits for.
const CONDITIONS_MAX: usize = 16;
/// Maximum length of a condition's type, in bytes (`metav1.Condition`).
const CONDITION_MAX: usize = 316;
/// Maximum length of an invalid name in a message, in characters.
const SHOWN: usize = 100;

/// Checks everything in a descriptor that can be checked without a cluster.
///
/// # Errors
/// The first problem, as a message for the plugin author.
pub fn check(descriptor: &Descriptor) -> Result<(), String> {
    let Descriptor { name, version, description, parent, children, related, config_schema, metrics, .. } = descriptor;
    if version.len() > VERSION_MAX || version.contains(char::is_control) {
        return Err(format!("the version {} is longer than {VERSION_MAX} bytes or not plain text", shown(version)));
    }
    let schema = config_schema.as_ref().map_or(0, Vec::len);
    for (what, count, limit) in [
        ("child kinds", children.len(), KINDS_MAX),
        ("related kinds", related.len(), KINDS_MAX),
        ("metrics", metrics.len(), METRICS_MAX),
        ("bytes in its name", name.len(), VERSION_MAX),
        ("bytes in its description", description.len(), DESCRIPTION_MAX),
        ("bytes in the schema of its config", schema, CONFIG_SCHEMA_MAX),
    ] {
        if count > limit {
            return Err(format!("{count} {what}, more than the limit of {limit}"));
        }
    }
    check_metrics(metrics)?;
    children.iter().try_for_each(|rule| check_update(&rule.update))?;
    let selector = &descriptor.selector;
    let mut selectors = selector.labels().into_iter().chain(selector.annotations());
    if let Some(selector) = selectors.find(|selector| selector.len() > SELECTOR_MAX) {
        return Err(format!("the selector {} is longer than {SELECTOR_MAX} bytes", shown(selector)));
    }
    // The API server evaluates the one over labels.
    if let Some(Err(error)) = selector.annotations().map(str::parse::<Selector>) {
        return Err(format!("the selector over annotations {error}"));
    }
    let parent = match parent {
        // `DeclaredParent::of` checks a carried CRD.
        Parent::Custom(_) => None,
        Parent::Existing(kind) => Some(kind),
    };
    let mut kinds = parent.into_iter().chain(children.iter().map(|rule| &rule.kind)).chain(related);
    match kinds.find(|kind| !is_kind(kind)) {
        Some(kind) => Err(format!("{} is not a valid kind", shown(&kind.to_string()))),
        None => Ok(()),
    }
}

/// Checks the size of an update strategy: it stays in memory while the component is live, and every child of the kind
/// refers to it.
pub(super) fn check_update(update: &UpdateStrategy) -> Result<(), String> {
    let UpdateStrategy::Rolling { until: Until::Conditions(conditions), .. } = update else { return Ok(()) };
    if conditions.len() > CONDITIONS_MAX {
        let count = conditions.len();
        return Err(format!("a rolling update waits for {count} conditions, more than the limit of {CONDITIONS_MAX}"));
    }
    match conditions.iter().find(|condition| condition.len() > CONDITION_MAX) {
        Some(condition) => Err(format!("the condition {} is longer than {CONDITION_MAX} bytes", shown(condition))),
        None => Ok(()),
    }
}

/// Checks the metrics: the host writes their names into Prometheus' text format as they are, and Prometheus rejects all metrics of the host
/// if one of them is invalid.
fn check_metrics(metrics: &[Metric]) -> Result<(), String> {
    metrics.iter().try_for_each(check_metric)?;
    let mut names = BTreeSet::new();
    for Metric { name, metric_type, .. } in metrics {
        let of_series: &[&str] = match metric_type {
            MetricType::Counter | MetricType::Gauge => &[""],
            MetricType::Histogram => &["", "_bucket", "_sum", "_count"],
        };
        if let Some(suffix) = of_series.iter().find(|suffix| !names.insert(format!("{name}{suffix}"))) {
            return Err(format!("two metrics have series of the name {name}{suffix}"));
        }
    }
    Ok(())
}

fn check_metric(metric: &Metric) -> Result<(), String> {
    let Metric { name, unit, description, labels, .. } = metric;
    let (count, length) = LABELS_MAX;
    if !is_metric_name(name) || name.len() > METRIC_NAME_MAX {
        let name = shown(name);
        return Err(format!(
            "the metric {name} needs a name of letters, digits and _, of at most {METRIC_NAME_MAX} bytes"
        ));
    }
    let is_unit = unit.len() <= UNIT_MAX && unit.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_unit || description.len() > DESCRIPTION_MAX || labels.len() > count {
        return Err(format!(
            "the metric {name} has a unit that is not at most {UNIT_MAX} ASCII characters, a description of more than {DESCRIPTION_MAX} \
             bytes, or more than {count} labels"
        ));
    }
    for (at, label) in labels.iter().enumerate() {
        let problem = if !is_metric_name(label) || label.len() > length {
            format!("needs a name of letters, digits and _, of at most {length} bytes")
        } else if FORMAT_LABELS.contains(&label.as_str()) || label.starts_with("__") || label == PLUGIN_METRIC_LABEL {
            "has a name that is reserved for Prometheus or the host".to_owned()
        } else if labels.iter().take(at).any(|other| other == label) {
            "is declared twice".to_owned()
        } else {
            continue;
        };
        return Err(format!("the label {} of the metric {name} {problem}", shown(label)));
    }
    Ok(())
}

/// Returns true if Prometheus accepts the name for a metric and for a label. A colon, which metrics may have, is reserved for the names of
/// recording rules.
fn is_metric_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns true if the kind is valid: group, version and name as the API server accepts them in a CRD.
fn is_kind(kind: &Gvk) -> bool {
    (kind.group.is_empty() || is_dns_subdomain(&kind.group))
        && is_dns_label(&kind.version)
        && is_dns_label(&kind.kind.to_ascii_lowercase())
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(SHOWN).collect::<String>())
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ChildRule, MetricType};

    fn descriptor() -> Descriptor {
        let parent = Parent::Existing(Gvk::from_api_version("v1", "Namespace"));
        let related = vec![Gvk::from_api_version("apps/v1", "Deployment")];
        Descriptor { related, ..Descriptor::about("", "1.0.0+build", parent) }
    }

    fn child(api_version: &str, kind: &str) -> ChildRule {
        ChildRule { kind: Gvk::from_api_version(api_version, kind), update: UpdateStrategy::Apply }
    }

    fn refused(change: impl FnOnce(&mut Descriptor)) -> String {
        let mut descriptor = descriptor();
        change(&mut descriptor);
        check(&descriptor).expect_err("refused")
    }

    fn metric(name: &str, labels: &[&str]) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: String::new(),
            description: String::new(),
            metric_type: MetricType::Counter,
            labels: labels.iter().map(ToString::to_string).collect(),
        }
    }

    /// The message about a descriptor with this metric; empty if it is accepted.
    fn with_metric(metric: Metric) -> String {
        let message = check(&Descriptor { metrics: vec![metric], ..descriptor() }).err().unwrap_or_default();
        assert!(message.len() < 300 && !message.contains(char::is_control), "{message}");
        message
    }

    #[test]
    fn metrics_that_prometheus_would_reject_are_rejected() {
        let (long, longer) = ("l".repeat(64), "l".repeat(65));
        for label in ["zone", "_zone", "Zone9", "windlass", "le_", &long] {
            assert_eq!(with_metric(metric("made", &[label])), "", "{label}");
        }
        for label in
            ["0bad", "", "a:b", "a.b", "a-b", "a b", "é", "a\nb", "a\"b", "__name__", "__a", "le", "quantile", &longer]
        {
            assert!(with_metric(metric("made", &[label])).contains("the label"), "{label}");
        }
        for label in ["windlass_plugin", "windlass.plugin"] {
            assert!(with_metric(metric("made", &[label])).contains("the label"), "the label of the host");
        }
        assert!(with_metric(metric("made", &["zone", "size", "zone"])).ends_with("is declared twice"));
        let many: Vec<_> = (0..17).map(|at| format!("l{at}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(with_metric(metric("made", &many[..16])), "");
        assert!(with_metric(metric("made", &many)).contains("more than 16 labels"));
        for name in ["", "0bad", "a:b", "a.b", "a b", "a{b", "a\n# TYPE up gauge", &"n".repeat(129)] {
            assert!(with_metric(metric(name, &[])).contains("the metric"), "{name}");
        }
        for (unit, is_accepted) in [("s", true), ("{request}/min", true), ("a b", false), ("s\n", false), ("µs", false)]
        {
            let message = with_metric(Metric { unit: unit.to_owned(), ..metric("made", &[]) });
            assert_eq!(message.is_empty(), is_accepted, "{unit}");
        }
    }

    #[test]
    fn metrics_with_series_of_the_same_name_are_rejected() {
        let histogram = Metric { metric_type: MetricType::Histogram, ..metric("took", &[]) };
        let with = |other: Metric| {
            let metrics = [vec![histogram.clone(), other.clone()], vec![other, histogram.clone()]];
            metrics.map(|metrics| check(&Descriptor { metrics, ..descriptor() }).err().unwrap_or_default())
        };
        for name in ["took", "took_bucket", "took_sum", "took_count"] {
            let message = format!("two metrics have series of the name {name}");
            assert_eq!(with(metric(name, &[])), [message.clone(), message], "{name}");
        }
        assert_eq!(with(metric("took_total", &[])), ["", ""]);
    }

    #[test]
    fn kinds_that_the_api_server_could_serve_are_accepted() {
        let children = vec![child("v1", "Pod"), child("my-operator.dev/v1alpha1", "Odd-Kind2")];
        assert_eq!(check(&Descriptor { children, ..descriptor() }), Ok(()));
    }

    #[test]
    fn kinds_that_could_escape_a_url_path_or_a_log_line_are_rejected() {
        for (api_version, kind) in [
            ("../../api/v1", "Pod"),
            ("apps/v1/namespaces/a/secrets", "Pod"),
            ("apps/v1?watch=1", "Pod"),
            ("apps/", "Pod"),
            ("", "Pod"),
            ("/v1", "Pod/status"),
            ("v1", ""),
            ("v1", "Pod\n2026-01-01T00:00:00Z INFO"),
            ("v1", &"K".repeat(64)),
        ] {
            let message = refused(|descriptor| descriptor.children.push(child(api_version, kind)));
            assert!(message.contains("is not a valid kind") && !message.contains('\n'), "{message}");
        }
        let related = refused(|descriptor| descriptor.related.push(Gvk::from_api_version("v1", "..")));
        assert_eq!(related, r#""...v1" is not a valid kind"#);
        let parent = Parent::Existing(Gvk::from_api_version("v1", "a b"));
        assert_eq!(refused(|descriptor| descriptor.parent = parent), r#""a b.v1" is not a valid kind"#);
    }

    #[test]
    fn oversized_descriptor_fields_are_rejected_with_a_short_message() {
        let many = refused(|descriptor| descriptor.children = vec![child("v1", "Pod"); 100_000]);
        assert_eq!(many, "100000 child kinds, more than the limit of 100");
        for text in ["1.0\n".to_owned(), "9".repeat(1_000_000)] {
            let message = refused(|descriptor| descriptor.version = text);
            assert!(message.contains("the version") && message.len() < 200, "{message}");
        }
        let rolling = |count: usize, length: usize| {
            let update = UpdateStrategy::Rolling {
                recreate: false,
                until: Until::Conditions(vec!["C".repeat(length); count].into()),
            };
            let kind = Gvk::from_api_version("v1", "Pod");
            check(&Descriptor { children: vec![ChildRule { kind, update }], ..descriptor() })
        };
        assert_eq!(rolling(16, 316), Ok(()));
        for (count, length) in [(17, 1), (1, 5_000_000)] {
            let message = rolling(count, length).expect_err("refused");
            assert!(message.contains("condition") && message.len() < 200, "{message}");
        }
        let long = || "a".repeat(1_000_000);
        let message = refused(|descriptor| descriptor.description = long());
        assert_eq!(message, "1000000 bytes in its description, more than the limit of 1024");
        refused(|descriptor| descriptor.name = long());
        refused(|descriptor| descriptor.config_schema = Some(long().into_bytes()));
        let metrics = |count: usize| (0..count).map(|at| metric(&format!("made_{at}"), &["zone"])).collect();
        assert_eq!(check(&Descriptor { metrics: metrics(100), ..descriptor() }), Ok(()));
        refused(|descriptor| descriptor.metrics = metrics(101));

        let message = refused(|descriptor| descriptor.selector.labels = Some(long()));
        assert!(message.contains("the selector") && message.len() < 200, "{message}");
        refused(|descriptor| descriptor.selector.annotations = Some(long()));
        let message = refused(|descriptor| descriptor.selector.annotations = Some("a in".to_owned()));
        assert!(message.starts_with("the selector over annotations"), "{message}");
    }
}
