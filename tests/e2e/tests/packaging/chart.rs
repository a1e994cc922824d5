//! The Helm chart: its values, its objects, and its installation, upgrade and uninstallation by Helm.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::Digest as _;
use windlass_e2e::{SYSTEM_NAMESPACE, text, windlass_host};
use windlass_testbed::tools;

use super::{CLUSTER_SCOPED, Empty, chart, comparable, documents, empty, is_kind, repository};

/// Values that switch on everything, and set every value.
const ALL_VALUES: &str = r#"
global: {imageRegistry: mirror.example:5000}
replicaCount: 3
shards: 2
image: {repository: registry.example/windlass, digest: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", pullPolicy: Always}
imagePullSecrets: [{name: regcred}]
fullnameOverride: fleet
serviceAccount: {annotations: {example.com/role: host}}
leaderElection: {leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 4s}
host:
  workers: 8
  maxMemory: 128Mi
  maxTableElements: 2000000
  maxRequestBytes: 8Mi
  maxResponseBytes: 8388608
  compileMemory: 1Gi
  requireSignatures: true
  plainHttp: ["registry.default.svc:5000", "other.default.svc:5000"]
  log: info,windlass=debug
  logFormat: json
  logTraces: true
extraArgs: [--max-deadline=5s]
otlp: {endpoint: "http://collector.observability:4317", protocol: grpc}
extraEnv: [{name: HTTPS_PROXY, value: "http://proxy.example:3128"}]
envFrom: [{secretRef: {name: proxy}}]
extraContainers: [{name: proxy, image: "registry.example/proxy:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
extraObjects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-extra", namespace: windlass-system}}
  - |
    apiVersion: v1
    kind: Secret
    metadata: {name: extra, namespace: "{{ .Release.Namespace }}"}
podSecurityContext: {runAsUser: 1000700000, runAsGroup: null, fsGroup: null}
securityContext: {privileged: false}
startupProbe: {httpGet: {path: /healthz, port: health}, failureThreshold: 30}
dnsPolicy: None
dnsConfig: {nameservers: [10.0.0.10]}
commonAnnotations: {note: all}
extraVolumes: [{name: ca, configMap: {name: registry-ca}}]
extraVolumeMounts: [{name: ca, mountPath: /etc/registry-ca, readOnly: true}]
cache: {sizeLimit: 3Gi, medium: Memory}
resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {cpu: "2", memory: 4Gi}}
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2, maxUnavailable: 1}}
podDisruptionBudget: {maxUnavailable: 50%}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: dedicated, operator: Exists, effect: NoSchedule}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]}}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app.kubernetes.io/name: windlass}}}]
priorityClassName: system-cluster-critical
commonLabels: {team: platform}
podLabels: {sidecar: none}
podAnnotations: {example.com/note: "yes"}
networkPolicy:
  tcpPorts: [443, 16443]
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  extraEgress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 5000, protocol: TCP}]}]
metrics:
  serviceMonitor:
    enabled: true
    interval: 15s
    labels: {release: prometheus}
    relabelings: [{action: labeldrop, regex: pod}]
    metricRelabelings: [{action: keep, regex: "windlass_.*", sourceLabels: [__name__]}]
  prometheusRule: {enabled: true, namespace: monitoring, labels: {release: prometheus}, runbookUrl: "https://wiki.example/alerts"}
  dashboard: {enabled: true, namespace: grafana, labels: {folder: operators}}
"#;

const POD_MONITOR: &str =
    "metrics: {podMonitor: {enabled: true, namespace: monitoring, labels: {release: prometheus}, interval: 15s}}";

#[test]
fn chart_passes_helm_lint_and_has_the_version_of_the_host() {
    let cluster = empty();
    cluster.helm(&["lint", "--strict", &chart()]);
    let chart: Value = documents(&cluster.helm(&["show", "chart", &chart()])).remove(0);
    let version = cluster.env.windlass(&["--version"]);
    assert_eq!(version.trim(), format!("windlass {}", text(&chart, "/appVersion")));
    assert_eq!(chart["version"], chart["appVersion"]);
}

#[test]
fn chart_with_default_values_has_the_objects_of_the_kustomize_base() {
    let cluster = empty();
    let chart = comparable(&cluster.rendered(""));
    let base = repository().join("manifests/kustomize/base");
    let mut base = comparable(&cluster.env.kubectl(&["kustomize", &base.to_string_lossy()]));
    base.remove(&("Namespace".to_owned(), SYSTEM_NAMESPACE.to_owned())).expect("Helm creates the Namespace by itself");
    assert_eq!(chart.keys().collect::<Vec<_>>(), base.keys().collect::<Vec<_>>());
    for (key, mut object) in base {
        if key.0 == "NetworkPolicy" {
            // The chart has the ports to the API server and to Collectors in one rule.
            let ports = |policy: &Value| {
                let rules = policy["spec"]["egress"].as_array().expect("rules").iter();
                let ports = rules.flat_map(|rule| rule["ports"].as_array().expect("ports"));
                ports.map(ToString::to_string).collect::<BTreeSet<_>>()
            };
            assert_eq!(ports(&chart[&key]), ports(&object));
            object["spec"]["egress"] = chart[&key]["spec"]["egress"].clone();
            let ports = |policy: &Value| policy["spec"]["ingress"].to_string().matches("\"port\"").count();
            assert_eq!(ports(&chart[&key]), ports(&object));
            object["spec"]["ingress"] = chart[&key]["spec"]["ingress"].clone();
        }
        assert_eq!(chart[&key], object, "left: the chart, right: manifests/kustomize/base");
    }
}

#[test]
fn every_value_of_the_chart_has_a_schema_and_a_comment() {
    fn check(values: &Value, (all, schema): (&Value, &Value), path: &str) {
        let definition = |of: &Value| all.pointer(&text(of, "")[1..]).expect("a definition");
        let schema = schema.get("$ref").map_or(schema, definition);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        // Labels have any name but those by which the Pods are selected.
        if path.ends_with("Labels") {
            return;
        }
        let is_closed = schema["additionalProperties"] == false;
        assert!(is_closed || path == ".global", "{path}: an unknown value would be ignored");
        let named: BTreeSet<_> = properties.keys().collect();
        let fields = values.as_object().expect("an object");
        let optional = ["resources", "strategy"].iter().any(|name| path.ends_with(name));
        assert!(optional || fields.keys().collect::<BTreeSet<_>>() == named, "{path}: {fields:?} and {named:?}");
        for (name, value) in fields {
            check(value, (all, &properties[name]), &format!("{path}.{name}"));
        }
    }
    let folder = PathBuf::from(chart());
    let text = fs::read_to_string(folder.join("values.yaml")).expect("the values");
    let schema = fs::read_to_string(folder.join("values.schema.json")).expect("the schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    check(&documents(&text)[0], (&schema, &schema), "");
    // A comment is before each paragraph, or before the first fields in it.
    for paragraph in text.split("\n\n") {
        assert!(
            paragraph.lines().take(2).any(|line| line.trim_start().starts_with('#')),
            "not documented: {paragraph}"
        );
    }
}

#[test]
fn chart_names_the_value_that_it_rejects() {
    let cluster = empty();
    for (set, expected) in [
        ("replicaCout=2", "additional properties 'replicaCout' not allowed"),
        ("replicaCount=many", "'/replicaCount': got string, want integer"),
        ("host.maxMemory=lots", "'/host/maxMemory'"),
        ("leaderElection.leaseDuration=soon", "'/leaderElection/leaseDuration'"),
        ("image.digest=latest", "'/image/digest'"),
        ("metrics.serviceMonitor.enabled=maybe", "'/metrics/serviceMonitor/enabled': got string, want boolean"),
        ("leaderElection.enabled=false,replicaCount=2", "Set replicaCount to 1, or leaderElection.enabled to true"),
        ("shards=17", "'/shards': maximum: got 17, want 16"),
        ("shards=3", "Set replicaCount to at least the number of shards"),
        ("shards=2,leaderElection.enabled=false", "Set shards to 1"),
        ("metrics.enabled=false,metrics.serviceMonitor.enabled=true", "Set metrics.enabled to true"),
        ("metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true", "would scrape each host twice"),
        ("metrics.prometheusRule.runbookUrl=docs/alerts.md", "'/metrics/prometheusRule/runbookUrl'"),
        ("dnsPolicy=Cluster", "'/dnsPolicy'"),
        ("metrics.enabled=false,metrics.prometheusRule.enabled=true", "Set metrics.enabled to true"),
        ("strategy.type=Recreate,replicaCount=2", "Remove strategy.type"),
        ("strategy.type=RollingUpdate,leaderElection.enabled=false", "Remove strategy.type"),
        ("podDisruptionBudget.maxUnavailable=0", "'/podDisruptionBudget/maxUnavailable'"),
        ("podDisruptionBudget.maxUnavailable=0%", "'/podDisruptionBudget/maxUnavailable'"),
        ("host.maxMemory=0Mi", "'/host/maxMemory'"),
        ("host.compileMemory=0", "'/host/compileMemory'"),
        ("cache.sizeLimit=0Gi", "'/cache/sizeLimit'"),
        ("leaderElection.retryPeriod=0s", "'/leaderElection/retryPeriod'"),
        ("metrics.serviceMonitor.interval=0m0s", "'/metrics/serviceMonitor/interval'"),
        ("extraArgs={--max-memory=1Gi}", "extraArgs has a flag that the value host.maxMemory sets"),
        ("extraArgs={--leader-elect=false}", "the value leaderElection.enabled sets"),
        ("extraArgs={--log-traces}", "the value host.logTraces sets"),
        ("fullnameOverride=My_Fleet", "'/fullnameOverride'"),
        ("fullnameOverride=fleet-", "'/fullnameOverride'"),
        ("commonLabels.app\\.kubernetes\\.io/name=mine", "'/commonLabels/app.kubernetes.io~1name'"),
        ("commonLabels.windlass\\.dev/aggregate-to-host=true", "'/commonLabels/windlass.dev~1aggregate-to-host'"),
        ("commonAnnotations.helm\\.sh/resource-policy=delete", "'/commonAnnotations/helm.sh~1resource-policy'"),
        ("podLabels.app\\.kubernetes\\.io/instance=mine", "'/podLabels/app.kubernetes.io~1instance'"),
        ("otlp.endpoint=https://collector.example", "'/otlp/endpoint'"),
    ] {
        let message = cluster.rejected(set);
        assert!(message.contains(expected), "{set}: {message}");
    }
}

#[test]
fn chart_opens_the_ports_of_registries_without_tls_and_of_the_collector() {
    let cluster = empty();
    let ports = |values: &str| {
        let objects = documents(&cluster.rendered(values));
        let policy = objects.into_iter().find(|object| is_kind(object, "NetworkPolicy")).expect("a NetworkPolicy");
        let rules = policy["spec"]["egress"].as_array().expect("rules").clone();
        let ports = rules.iter().flat_map(|rule| rule["ports"].as_array().expect("ports").clone());
        ports.map(|port| port["port"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    let dns = [53, 53, 5353, 5353];
    let all = |more: &[u64]| [&dns[..], &[443, 6443, 8443, 4317, 4318], more].concat();
    assert_eq!(ports(""), all(&[]));
    let registries =
        r#"host: {plainHttp: ["registry.default.svc:5000", "other.default.svc", "[fd00::1]:5001", "third:5000"]}"#;
    assert_eq!(ports(registries), all(&[5000, 80, 5001]));
    assert_eq!(ports(r#"otlp: {endpoint: "http://collector.observability:14317"}"#), all(&[14317]));
    assert_eq!(ports(r#"otlp: {endpoint: "http://collector.observability/otlp"}"#), all(&[80]));
}

#[test]
fn common_labels_and_annotations_are_on_every_object_of_the_chart() {
    let cluster = empty();
    let mut objects = documents(&cluster.rendered(ALL_VALUES));
    // extraObjects are the user's own.
    objects.retain(|object| !text(object, "/metadata/name").ends_with("extra"));
    for object in objects.iter().chain([&test_pod(&cluster, ALL_VALUES)]) {
        assert_eq!(text(object, "/metadata/labels/team"), "platform", "{object:#}");
        assert_eq!(text(object, "/metadata/annotations/note"), "all", "{object:#}");
    }
}

/// The Pod of `helm test`.
fn test_pod(cluster: &Empty, values: &str) -> Value {
    documents(&cluster.templated(values, &["--show-only", "templates/test.yaml"])).remove(0)
}

#[test]
fn values_are_set_where_kubernetes_expects_them() {
    const POD: &str = "/spec/template/spec";
    const HOST: &str = "/spec/template/spec/containers/0";
    let cluster = empty();
    let objects = documents(&cluster.rendered(ALL_VALUES));
    let other = documents(&cluster.rendered(POD_MONITOR));
    let runbook = "https://wiki.example/alerts#windlasshostdown";
    let image = format!("mirror.example:5000/windlass@sha256:{}", hex::encode(sha2::Sha256::digest([])));
    for (kind, pointer, expected) in [
        ("ServiceAccount", "/metadata/annotations/example.com~1role".to_owned(), json!("host")),
        ("Deployment", format!("{HOST}/image"), json!(image)),
        ("Deployment", format!("{HOST}/envFrom"), json!([{ "secretRef": { "name": "proxy" } }])),
        ("Deployment", format!("{HOST}/startupProbe/failureThreshold"), json!(30)),
        ("Deployment", format!("{HOST}/securityContext/privileged"), json!(false)),
        ("Deployment", format!("{HOST}/securityContext/readOnlyRootFilesystem"), json!(true)),
        ("Deployment", format!("{HOST}/volumeMounts/1/name"), json!("ca")),
        ("Deployment", format!("{POD}/containers/1/name"), json!("proxy")),
        ("Deployment", format!("{POD}/volumes/1/name"), json!("ca")),
        ("Deployment", format!("{POD}/dnsPolicy"), json!("None")),
        ("Deployment", format!("{POD}/dnsConfig/nameservers"), json!(["10.0.0.10"])),
        (
            "Deployment",
            format!("{POD}/securityContext"),
            json!({ "runAsNonRoot": true, "runAsUser": 1_000_700_000, "seccompProfile": { "type": "RuntimeDefault" } }),
        ),
        ("ConfigMap", "/metadata/name".to_owned(), json!("windlass-extra")),
        ("Secret", "/metadata/namespace".to_owned(), json!(SYSTEM_NAMESPACE)),
        ("ServiceMonitor", "/spec/namespaceSelector/matchNames".to_owned(), json!([SYSTEM_NAMESPACE])),
        ("PrometheusRule", "/metadata/namespace".to_owned(), json!("monitoring")),
        ("PrometheusRule", "/metadata/labels/release".to_owned(), json!("prometheus")),
        ("PrometheusRule", "/spec/groups/0/rules/0/annotations/runbook_url".to_owned(), json!(runbook)),
        ("PodMonitor", "/metadata/namespace".to_owned(), json!("monitoring")),
        ("PodMonitor", "/spec/podMetricsEndpoints".to_owned(), json!([{ "port": "metrics", "interval": "15s" }])),
        ("PodMonitor", "/spec/namespaceSelector/matchNames".to_owned(), json!([SYSTEM_NAMESPACE])),
    ] {
        let mut of_kind = objects.iter().chain(&other).filter(|object| is_kind(object, kind));
        let is_set = of_kind.any(|object| object.pointer(&pointer) == Some(&expected));
        assert!(is_set, "no {kind} has {pointer} {expected}");
    }
    let dashboard = objects.iter().find(|object| text(object, "/metadata/name") == "fleet-dashboard").expect("one");
    assert_eq!(text(dashboard, "/metadata/namespace"), "grafana");
    assert_eq!(text(dashboard, "/metadata/labels/folder"), "operators");
}

#[test]
fn chart_with_another_name_has_the_job_that_rules_and_dashboard_select() {
    let cluster = empty();
    let objects = documents(&cluster.rendered(ALL_VALUES));
    let find = |kind: &str| objects.iter().find(|object| is_kind(object, kind)).expect("one");
    assert_eq!(text(find("Service"), "/metadata/name"), "fleet-metrics");
    // The operator takes the job from this label of the Service.
    let label = text(find("ServiceMonitor"), "/spec/jobLabel");
    assert_eq!(find("Service")["metadata"]["labels"][label], "windlass");
    let rendered = cluster.helm(&["template", &"a".repeat(53), &chart(), "--namespace", SYSTEM_NAMESPACE]);
    for object in documents(&rendered) {
        assert!(text(&object, "/metadata/name").len() <= 63, "{object:#}");
    }
}

#[test]
fn api_server_accepts_the_chart_with_default_and_with_all_values() {
    let cluster = empty();
    let env = &cluster.env;
    env.kubectl(&["create", "namespace", SYSTEM_NAMESPACE]);
    env.kubectl(&["label", "namespace", SYSTEM_NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]);
    let crds = fs::read_to_string(tools::prometheus_operator_crds(&tools::stderr).expect("CRDs")).expect("CRDs");
    env.apply(&crds);
    let names =
        ["servicemonitors", "podmonitors", "prometheusrules"].map(|name| format!("crd/{name}.monitoring.coreos.com"));
    env.kubectl(&["wait", "--for=condition=Established", &names[0], &names[1], &names[2], "--timeout=60s"]);
    // Objects in these namespaces.
    for namespace in ["monitoring", "grafana"] {
        env.kubectl(&["create", "namespace", namespace]);
    }
    for values in ["", ALL_VALUES, POD_MONITOR] {
        let rendered = cluster.rendered(values);
        let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        env.cluster().kubectl_with_input(&args, &rendered).unwrap_or_else(|error| panic!("{error:#}"));
        let deployment = documents(&rendered).into_iter().find(|object| is_kind(object, "Deployment")).expect("one");
        for mut pod in [deployment["spec"]["template"].clone(), test_pod(&cluster, values)] {
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = "admitted".into();
            // The ServiceAccount does not exist in a dry run.
            pod["spec"].as_object_mut().expect("a spec").remove("serviceAccountName");
            let args = ["create", "--dry-run=server", "-n", SYSTEM_NAMESPACE, "-f", "-"];
            let admitted = env.cluster().kubectl_with_input(&args, &pod.to_string());
            admitted.unwrap_or_else(|error| panic!("the restricted Pod Security Standard: {error:#}"));
        }
    }
    for namespace in [SYSTEM_NAMESPACE, "monitoring", "grafana"] {
        cluster.delete_namespace(namespace);
    }
    env.kubectl(&["delete", &names[0], &names[1], &names[2]]);
}

#[test]
fn flags_in_every_deployment_are_accepted_by_the_host() {
    let cluster = empty();
    let mut all: Vec<_> = ["base", "overlays/dev", "overlays/ha", "overlays/sharded"]
        .iter()
        .map(|folder| {
            let folder = repository().join("manifests/kustomize").join(folder);
            cluster.env.kubectl(&["kustomize", &folder.to_string_lossy()])
        })
        .collect();
    all.extend(
        ["", ALL_VALUES, "metrics: {enabled: false}", "leaderElection: {enabled: false}"]
            .map(|values| cluster.rendered(values)),
    );
    for manifests in all {
        let deployment = documents(&manifests).into_iter().find(|object| is_kind(object, "Deployment")).expect("one");
        let args =
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().expect("arguments").clone();
        let args = args.iter().map(|arg| arg.as_str().expect("text"));
        // Without a kubeconfig, a host whose flags are valid fails with 3; with a wrong flag it fails with 2.
        let output = windlass_host().args(args).args(["--kubeconfig", "missing"]).output().expect("windlass starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("the kubeconfig missing cannot be used"), "{stderr}");
    }
}

/// A copy of the chart as an earlier version might have been: with another version, and a CRD without `spec.suspend`.
fn earlier_chart(into: &Path) -> String {
    let copy = into.join("earlier");
    let copied = std::process::Command::new("cp").arg("-r").arg(chart()).arg(&copy).status().expect("cp starts");
    assert!(copied.success());
    let edit = |file: &str, edit: &dyn Fn(&str) -> String| {
        let file = copy.join(file);
        let text = fs::read_to_string(&file).expect("a file of the chart");
        let edited = edit(&text);
        assert_ne!(text, edited, "{}", file.display());
        fs::write(&file, edited).expect("a copy can be written");
    };
    edit("Chart.yaml", &|text| text.replace("ersion: 0.1.0", "ersion: 0.0.1"));
    edit("templates/crds.yaml", &|text| {
        let lines: Vec<_> = text.lines().collect();
        let at = lines.iter().position(|line| line.trim() == "suspend:").expect("spec.suspend");
        let indent = |line: &str| line.len() - line.trim_start().len();
        let end = lines[at + 1..].iter().position(|line| indent(line) <= indent(lines[at])).expect("an end") + at + 1;
        [&lines[..at], &lines[end..]].concat().join("\n") + "\n"
    });
    copy.to_string_lossy().into_owned()
}

#[test]
fn helm_installs_upgrades_and_uninstalls_and_keeps_the_crd_and_its_plugins() {
    let cluster = empty();
    let env = &cluster.env;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let earlier = earlier_chart(folder.path());
    env.kubectl(&["create", "namespace", SYSTEM_NAMESPACE]);
    env.kubectl(&["label", "namespace", SYSTEM_NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]);
    let has_suspend = || {
        let crd = env.get("customresourcedefinitions", "", "plugins.windlass.dev").expect("the CRD");
        crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/suspend").is_some()
    };
    let in_namespace = ["--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "3m"];

    let notes = cluster.helm(&[&["install", "windlass", &earlier], &in_namespace[..]].concat());
    assert!(notes.contains("WARNING: no registry has the image windlass:0.0.1"), "{notes}");
    let deployment = cluster.wait_available("windlass");
    assert_eq!(text(&deployment, "/spec/template/spec/containers/0/image"), "windlass:0.0.1");
    assert!(!has_suspend());
    env.kubectl(&["wait", "--for=condition=Established", "crd/plugins.windlass.dev", "--timeout=60s"]);
    let plugin = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": { "name": "kept" },
        "spec": { "source": { "configMap": { "namespace": SYSTEM_NAMESPACE, "name": "kept" } } },
    });
    env.apply(&plugin.to_string());

    let upgrade =
        ["upgrade", "windlass", &chart(), "--set", "replicaCount=2,image.repository=registry.example/windlass"];
    let notes = cluster.helm(&[&upgrade, &in_namespace[..]].concat());
    assert!(!notes.contains("WARNING"), "{notes}");
    let deployment = cluster.wait_available("windlass");
    assert_eq!(text(&deployment, "/spec/template/spec/containers/0/image"), "registry.example/windlass:0.1.0");
    assert_eq!(text(&deployment, "/spec/strategy/type"), "RollingUpdate");
    assert!(has_suspend(), "the upgrade updates the CRD");
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE).len(), 1);
    assert_eq!(cluster.cluster_scoped().len(), CLUSTER_SCOPED.len());
    // The Pods of this cluster run nothing: what the Pod of `helm test` runs is run here, as the host.
    let args = test_pod(&cluster, "")["spec"]["containers"][0]["args"].as_array().expect("arguments").clone();
    let config = env.cluster().service_account_kubeconfig(SYSTEM_NAMESPACE, "windlass").expect("a kubeconfig");
    let here =
        ["--health-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--debug-addr", "127.0.0.1:0", "--cache-dir"];
    let cache = env.cluster().dir().join("test-cache");
    let mut command = windlass_host();
    command.args(args.iter().map(|arg| text(arg, ""))).args(here).arg(cache).arg("--kubeconfig").arg(config);
    let checked = command.output().expect("windlass starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));

    cluster.helm(&["uninstall", "windlass", "--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "3m"]);
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
    for resource in ["deployments", "services", "networkpolicies", "roles", "rolebindings", "poddisruptionbudgets"] {
        assert!(env.list(resource, SYSTEM_NAMESPACE).is_empty(), "{resource}");
    }
    assert!(env.get("plugins.windlass.dev", "", "kept").is_some(), "the CRD and the Plugins stay");

    // The CRD that an uninstalled release left belongs to the next release of the same name.
    cluster.helm(&[&["install", "windlass", &chart()], &in_namespace[..]].concat());
    cluster.wait_available("windlass");
    assert!(env.get("plugins.windlass.dev", "", "kept").is_some());
    cluster.helm(&["uninstall", "windlass", "--namespace", SYSTEM_NAMESPACE, "--wait"]);
    env.kubectl(&["delete", "crd", "plugins.windlass.dev"]);
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}
