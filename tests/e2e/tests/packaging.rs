//! The kustomizations, the Helm chart and `windlass install` on a real control plane, on which a test installs and uninstalls alone.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Number, Value, json};
use windlass_e2e::{Env, SYSTEM_NAMESPACE, TIMEOUT, guest, text, wait, windlass};
use windlass_testbed::{Helm, tools};

/// Values that switch on everything, and set every value.
const ALL_VALUES: &str = r#"
replicaCount: 3
shards: 2
image: {repository: registry.example/windlass, digest: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", pullPolicy: Always}
imagePullSecrets: [{name: regcred}]
fullnameOverride: fleet
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
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
"#;

/// Cluster-scoped objects of Windlass, besides the CRD.
const CLUSTER_SCOPED: [(&str, &str); 6] = [
    ("clusterroles", "windlass"),
    ("clusterroles", "windlass-host"),
    ("clusterrolebindings", "windlass"),
    ("validatingadmissionpolicies", "windlass-marks"),
    ("validatingadmissionpolicies", "windlass-host-namespace"),
    ("validatingadmissionpolicybindings", "windlass-marks"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn chart() -> String {
    repository().join("manifests/chart/windlass").display().to_string()
}

/// The control plane that all tests of this file share.
struct Empty {
    env: Env,
    helm: Helm,
}

/// The control plane without Windlass, for one test at a time: Windlass can be installed only once in a cluster. A test removes what it
/// installs.
fn empty() -> MutexGuard<'static, Empty> {
    static SHARED: OnceLock<Mutex<Empty>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let env = Env::empty();
        let helm = Helm::new(env.cluster()).expect("Helm");
        Mutex::new(Empty { env, helm })
    });
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Empty {
    #[track_caller]
    fn helm(&self, args: &[&str]) -> String {
        self.helm.run(args).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The chart's objects with these values.
    #[track_caller]
    fn rendered(&self, values: &str) -> String {
        let file = self.env.cluster().dir().join("values.yaml");
        fs::write(&file, values).expect("a file in the cluster's folder");
        let (chart, file) = (chart(), file.to_string_lossy());
        self.helm(&["template", "windlass", &chart, "--namespace", SYSTEM_NAMESPACE, "--values", &file])
    }

    /// Helm's message about wrong values.
    #[track_caller]
    fn rejected(&self, set: &str) -> String {
        let args = ["template", "windlass", &chart(), "--namespace", SYSTEM_NAMESPACE, "--set", set];
        let result = self.helm.run(&args);
        format!("{:#}", result.expect_err(set))
    }

    /// Deletes a namespace, and waits until it is gone.
    fn delete_namespace(&self, name: &str) {
        self.env.kubectl(&["delete", "namespace", name, "--timeout=180s"]);
    }

    /// Waits until all replicas of a Deployment in the host's namespace are available.
    fn wait_available(&self, name: &str) -> Value {
        self.env.wait_object("deployments", SYSTEM_NAMESPACE, name, |found| {
            let (spec, status) = (&found["spec"], &found["status"]);
            status["observedGeneration"] == found["metadata"]["generation"]
                && status["availableReplicas"] == spec["replicas"]
                && status["updatedReplicas"] == spec["replicas"]
                && status["replicas"] == spec["replicas"]
        })
    }

    /// The names of those [`CLUSTER_SCOPED`] objects that exist.
    fn cluster_scoped(&self) -> Vec<&'static str> {
        let exists = |(resource, name): &&(&str, &str)| self.env.get(resource, "", name).is_some();
        CLUSTER_SCOPED.iter().filter(exists).map(|(_, name)| *name).collect()
    }
}

fn documents(manifests: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("YAML");
    all.into_iter().filter(|object| !object.is_null()).collect()
}

fn is_kind(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

/// The objects by kind and name, without what a chart may have more: its labels and the keep policy, and the order of arguments.
fn comparable(manifests: &str) -> BTreeMap<(String, String), Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for labels in ["labels", "matchLabels", "selector"] {
                    let Some(labels) = fields.get_mut(labels).and_then(Value::as_object_mut) else { continue };
                    labels.retain(|name, _| {
                        let of_chart =
                            ["instance", "version", "managed-by"].map(|name| format!("app.kubernetes.io/{name}"));
                        name != "helm.sh/chart" && !of_chart.contains(name)
                    });
                }
                if let Some(args) = fields.get_mut("args").and_then(Value::as_array_mut) {
                    args.sort_by_key(ToString::to_string);
                }
                fields.remove("annotations");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            // kustomize writes 1.0 as 1.
            Value::Number(number) => *number = number.as_f64().and_then(Number::from_f64).expect("a number"),
            _ => {}
        }
    }
    let key = |object: &Value| (text(object, "/kind"), text(object, "/metadata/name"));
    let objects = documents(manifests).into_iter().map(|mut object| {
        strip(&mut object);
        (key(&object), object)
    });
    objects.collect()
}

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
    fn check(values: &Value, schema: &Value, path: &str) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        assert_eq!(schema["additionalProperties"], false, "{path}: an unknown value would be ignored");
        let named: BTreeSet<_> = properties.keys().filter(|name| *name != "global").collect();
        let fields = values.as_object().expect("an object");
        let optional = ["resources", "strategy"].iter().any(|name| path.ends_with(name));
        assert!(optional || fields.keys().collect::<BTreeSet<_>>() == named, "{path}: {fields:?} and {named:?}");
        for (name, value) in fields {
            check(value, &properties[name], &format!("{path}.{name}"));
        }
    }
    let folder = PathBuf::from(chart());
    let text = fs::read_to_string(folder.join("values.yaml")).expect("the values");
    let schema = fs::read_to_string(folder.join("values.schema.json")).expect("the schema");
    check(&documents(&text)[0], &serde_json::from_str(&schema).expect("JSON"), "");
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
        ("podLabels.app\\.kubernetes\\.io/instance=mine", "'/podLabels/app.kubernetes.io~1instance'"),
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
    assert_eq!(ports(r#"otlp: {endpoint: "https://collector.example"}"#), all(&[]));
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
fn flux_and_argo_cd_keep_the_crd_and_the_namespace_of_the_kustomization() {
    let cluster = empty();
    let base = repository().join("manifests/kustomize/base");
    for object in documents(&cluster.env.kubectl(&["kustomize", &base.to_string_lossy()])) {
        let is_kept = is_kind(&object, "CustomResourceDefinition") || is_kind(&object, "Namespace");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled", is_kept, "{annotations}");
        let argo = &annotations["argocd.argoproj.io/sync-options"];
        assert_eq!(argo == "Prune=false,Delete=false", is_kept, "{annotations}");
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
    let names = ["servicemonitors", "prometheusrules"].map(|name| format!("crd/{name}.monitoring.coreos.com"));
    env.kubectl(&["wait", "--for=condition=Established", &names[0], &names[1], "--timeout=60s"]);
    for values in ["", ALL_VALUES] {
        let rendered = cluster.rendered(values);
        let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        env.cluster().kubectl_with_input(&args, &rendered).unwrap_or_else(|error| panic!("{error:#}"));
        let deployment = documents(&rendered).into_iter().find(|object| is_kind(object, "Deployment")).expect("one");
        let mut pod = deployment["spec"]["template"].clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "admitted".into();
        // The ServiceAccount does not exist in a dry run.
        pod["spec"].as_object_mut().expect("a spec").remove("serviceAccountName");
        let args = ["create", "--dry-run=server", "-n", SYSTEM_NAMESPACE, "-f", "-"];
        let admitted = env.cluster().kubectl_with_input(&args, &pod.to_string());
        admitted.unwrap_or_else(|error| panic!("the restricted Pod Security Standard: {error:#}"));
    }
    cluster.delete_namespace(SYSTEM_NAMESPACE);
    env.kubectl(&["delete", &names[0], &names[1]]);
}

#[test]
fn flags_in_every_deployment_are_accepted_by_windlass_run() {
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
        let output = windlass().args(args).args(["--kubeconfig", "missing"]).output().expect("windlass starts");
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

    cluster.helm(&[&["install", "windlass", &earlier], &in_namespace[..]].concat());
    let deployment = cluster.wait_available("windlass");
    assert_eq!(text(&deployment, "/spec/template/spec/containers/0/image"), "windlass:0.0.1");
    assert!(!has_suspend());
    env.kubectl(&["wait", "--for=condition=Established", "crd/plugins.windlass.dev", "--timeout=60s"]);
    let plugin = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": { "name": "kept" },
        "spec": { "source": { "configMap": { "namespace": SYSTEM_NAMESPACE, "name": "kept" } } },
    });
    env.apply(&plugin.to_string());

    cluster.helm(&[&["upgrade", "windlass", &chart(), "--set", "replicaCount=2"], &in_namespace[..]].concat());
    let deployment = cluster.wait_available("windlass");
    assert_eq!(text(&deployment, "/spec/template/spec/containers/0/image"), "windlass:0.1.0");
    assert_eq!(text(&deployment, "/spec/strategy/type"), "RollingUpdate");
    assert!(has_suspend(), "the upgrade updates the CRD");
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE).len(), 1);
    assert_eq!(cluster.cluster_scoped().len(), CLUSTER_SCOPED.len());

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

#[test]
fn kustomizations_install_hosts_that_the_restricted_pod_security_standard_admits() {
    let cluster = empty();
    let env = &cluster.env;
    for (folder, replicas) in [("base", 1), ("overlays/dev", 1), ("overlays/ha", 2), ("overlays/sharded", 4)] {
        let folder = repository().join("manifests/kustomize").join(folder);
        let folder = folder.to_string_lossy();
        env.kubectl(&["apply", "--server-side", "--validate=strict", "-k", &folder]);
        let deployment = cluster.wait_available("windlass");
        assert_eq!(deployment["spec"]["replicas"], replicas, "{folder}");
        // The namespace enforces the standard: it rejects a Pod that does not meet it.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "root" },
            "spec": { "containers": [{ "name": "root", "image": "root" }] },
        });
        let args = ["create", "--dry-run=server", "-n", SYSTEM_NAMESPACE, "-f", "-"];
        let rejected =
            env.cluster().kubectl_with_input(&args, &pod.to_string()).expect_err("a Pod that may run as root");
        assert!(format!("{rejected:#}").contains("violates PodSecurity \"restricted:latest\""), "{rejected:#}");
        if replicas > 1 {
            let budget = env.wait_object("poddisruptionbudgets", SYSTEM_NAMESPACE, "windlass", |budget| {
                budget["status"]["currentHealthy"] == replicas
            });
            assert_eq!(budget["status"]["disruptionsAllowed"], 1);
            let pods = env.list("pods", SYSTEM_NAMESPACE);
            let nodes: BTreeSet<_> = pods.iter().map(|pod| text(pod, "/spec/nodeName")).collect();
            assert!(nodes.len() > 1, "the hosts are on different nodes");
        }
        env.kubectl(&["delete", "--timeout=180s", "-k", &folder]);
        assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
        wait("the Namespace to be gone", TIMEOUT, || {
            env.get("namespaces", "", SYSTEM_NAMESPACE).is_none().then_some(())
        });
    }
}

#[test]
fn windlass_install_prints_the_objects_of_the_kustomizations() {
    let cluster = empty();
    for (folder, replicas) in [("base", "1"), ("overlays/ha", "2")] {
        let folder = repository().join("manifests/kustomize").join(folder);
        let kustomization = comparable(&cluster.env.kubectl(&["kustomize", &folder.to_string_lossy()]));
        let printed = cluster.env.windlass(&["install", "--dry-run=client", "-o", "yaml", "--replicas", replicas]);
        assert_eq!(comparable(&printed), kustomization);
    }
}

#[test]
fn windlass_install_runs_a_host_and_uninstall_leaves_what_is_documented() {
    let cluster = empty();
    let env = &cluster.env;
    let mark = env.mark();
    let validated = env.windlass(&["install", "--dry-run=server", "-o", "json"]);
    assert!(validated.contains("\"kind\": \"List\""));
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty(), "nothing is written");

    let installed = env.windlass(&["install", "--image", "registry.example/windlass:1"]);
    assert!(installed.ends_with("Windlass 0.1.0 is installed in namespace windlass-system\n"), "{installed}");
    let pods = env.list("pods", SYSTEM_NAMESPACE);
    assert_eq!(pods.len(), 1, "the Pod is admitted and runs");
    assert_eq!(pods[0]["status"]["phase"], "Running");
    let refused = env.try_windlass(&["install", "-n", "elsewhere"]).expect_err("a second installation");
    assert!(
        refused.contains("exit status: 3") && refused.contains("is installed in namespace windlass-system"),
        "{refused}"
    );
    let refused = env.try_windlass(&["install"]).expect_err("the image of another registry");
    assert!(refused.contains("has the image registry.example/windlass:1") && refused.contains("--image"), "{refused}");

    // The Pods of this cluster run nothing: the host runs here, as the ServiceAccount that was installed.
    let host = env.start_host();
    env.push(&guest("puppets/puppet-finalizes"), "puppet-finalizes", &[]);
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("installed");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    env.wait_live("puppet-finalizes", &guest("puppets/puppet-finalizes"));
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    let finalizers = puppet.play(&json!({}))["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["windlass.dev/puppet-finalizes"]));

    // An upgrade keeps the number of hosts, and everything goes on.
    env.windlass(&["install", "--image", "registry.example/windlass:2", "--replicas", "2"]);
    env.windlass(&["install", "--image", "registry.example/windlass:3"]);
    assert_eq!(cluster.wait_available("windlass")["spec"]["replicas"], 2);

    let mark = env.mark();
    let refused = env.try_windlass(&["uninstall"]).expect_err("Plugins exist");
    assert!(
        refused.contains("exit status: 8") && refused.contains("there are Plugins (echo, puppet-finalizes)"),
        "{refused}"
    );
    let preview = env.windlass(&["uninstall", "--dry-run", "--delete-plugins"]);
    assert!(preview.contains("would delete Plugin echo\n"), "{preview}");
    assert!(preview.contains("would delete Deployment windlass-system/windlass\n"), "{preview}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());

    env.windlass(&["uninstall", "--delete-plugins"]);
    assert!(env.list("plugins.windlass.dev", "").is_empty(), "the CRD stays, without Plugins");
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
    for resource in
        ["deployments", "services", "networkpolicies", "roles", "rolebindings", "poddisruptionbudgets", "pods"]
    {
        assert_eq!(env.list(resource, SYSTEM_NAMESPACE), Vec::<Value>::new(), "{resource}");
    }
    assert!(env.get("serviceaccounts", SYSTEM_NAMESPACE, "windlass").is_none());
    assert!(ns.get("echoes", "web").is_some(), "parents stay");
    assert_eq!(puppet.get().expect("parents stay")["metadata"]["finalizers"], Value::Null);
    assert_eq!(ns.pods().len(), 2, "children stay");
    assert!(env.get("namespaces", "", SYSTEM_NAMESPACE).is_some());
    drop(host);

    let nothing = env.try_windlass(&["uninstall"]).expect_err("nothing is installed");
    assert!(nothing.contains("wrote nothing that exists in namespace windlass-system"), "{nothing}");
    env.windlass(&["install", "--no-wait"]);
    env.windlass(&["uninstall", "--delete-crd"]);
    assert!(env.get("customresourcedefinitions", "", "plugins.windlass.dev").is_none());
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}

#[test]
fn windlass_uninstall_in_another_namespace_or_of_other_tools_objects_deletes_nothing() {
    let cluster = empty();
    let env = &cluster.env;
    env.windlass(&["install", "--no-wait"]);
    let mark = env.mark();
    let refused = env.try_windlass(&["uninstall", "-n", "elsewhere"]).expect_err("another namespace");
    assert!(refused.contains("exit status: 3"), "{refused}");
    assert!(refused.contains("Windlass is installed in namespace windlass-system; nothing was deleted"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());

    // Objects that Flux applies as well, and one that Helm has taken over, are kept; the others are deleted.
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "windlass", "namespace": SYSTEM_NAMESPACE, "labels": { "app.kubernetes.io/name": "windlass" } },
        "spec": { "podSelector": { "matchLabels": { "app.kubernetes.io/name": "windlass" } } },
    });
    env.apply_as("kustomize-controller", &policy.to_string());
    env.kubectl(&["label", "-n", SYSTEM_NAMESPACE, "service/windlass-metrics", "app.kubernetes.io/managed-by=Helm"]);
    let preview = env.windlass(&["uninstall", "--dry-run"]);
    assert!(preview.contains("would delete Deployment windlass-system/windlass\n"), "{preview}");
    assert!(
        preview.contains("would delete ClusterRole windlass\n"),
        "the aggregating controller owns nothing: {preview}"
    );
    assert!(!preview.contains("NetworkPolicy") && !preview.contains("Service "), "{preview}");
    env.windlass(&["uninstall"]);
    assert!(env.get("networkpolicies", SYSTEM_NAMESPACE, "windlass").is_some());
    assert!(env.get("services", SYSTEM_NAMESPACE, "windlass-metrics").is_some());
    assert!(env.get("deployments", SYSTEM_NAMESPACE, "windlass").is_none());
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());

    // Without its host, nothing of an installation that kubectl applies as well is deleted.
    env.windlass(&["install", "--no-wait", "--force-conflicts"]);
    let base = repository().join("manifests/kustomize/base");
    env.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &base.to_string_lossy()]);
    let mark = env.mark();
    let refused = env.try_windlass(&["uninstall"]).expect_err("kubectl applied the Deployment");
    assert!(refused.contains("it was also applied by kubectl; nothing was deleted"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());
    env.kubectl(&["delete", "--timeout=180s", "-k", &base.to_string_lossy()]);
}

#[test]
fn windlass_install_with_a_conflict_writes_nothing_and_with_one_host_deletes_its_disruption_budget() {
    let cluster = empty();
    let env = &cluster.env;
    env.windlass(&["install", "--no-wait", "--replicas", "2"]);
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE).len(), 1);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "windlass-metrics", "namespace": SYSTEM_NAMESPACE },
        "spec": { "selector": { "app.kubernetes.io/name": "other" } },
    });
    env.apply_as("somebody", &service.to_string());
    let mark = env.mark();
    let refused = env.try_windlass(&["install", "--no-wait", "--replicas", "1"]).expect_err("a conflict");
    assert!(refused.contains("conflict with \"somebody\"") && refused.contains("--force-conflicts"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty(), "nothing is written");

    let written = env.windlass(&["install", "--no-wait", "--replicas", "1", "--force-conflicts"]);
    assert!(written.ends_with("deleted PodDisruptionBudget windlass-system/windlass\n"), "{written}");
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE), Vec::<Value>::new());
    // One of somebody else stays.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "windlass", "namespace": SYSTEM_NAMESPACE }, "spec": { "maxUnavailable": 1 },
    });
    env.apply(&budget.to_string());
    env.windlass(&["install", "--no-wait"]);
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE).len(), 1);
    cluster.delete_namespace(SYSTEM_NAMESPACE);
    env.windlass(&["uninstall", "--delete-crd"]);
}

#[test]
fn windlass_needs_a_namespace_of_its_own() {
    let cluster = empty();
    let env = &cluster.env;
    let shared = env.namespace("shared");
    shared.kubectl(&["create", "serviceaccount", "windlass-plugin-echo"]);
    shared.kubectl(&["create", "serviceaccount", "shop"]);
    let mark = env.mark();
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        for more in ["--no-wait", "--dry-run=client", "--allow-shared-namespace"] {
            let refused = env.try_windlass(&["install", more, "-n", namespace]).expect_err(namespace);
            assert!(refused.contains("needs a namespace of its own"), "{refused}");
        }
        let refused = cluster.helm.run(&["template", "windlass", &chart(), "--namespace", namespace]);
        let refused = format!("{:#}", refused.expect_err(namespace));
        assert!(
            refused.contains(&format!("Windlass needs a namespace of its own, and {namespace} is shared")),
            "{refused}"
        );
    }
    let refused = env.try_windlass(&["install", "--no-wait", "-n", shared.name()]).expect_err("a ServiceAccount");
    assert!(refused.contains("has other ServiceAccounts (shop)"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());
    env.windlass(&["install", "--no-wait", "-n", shared.name(), "--allow-shared-namespace"]);
    // The same command again upgrades, without the flag.
    env.windlass(&["install", "--no-wait", "-n", shared.name()]);
    env.windlass(&["uninstall", "--delete-crd", "-n", shared.name()]);
    cluster.delete_namespace(shared.name());
}

#[test]
fn helm_takes_over_an_installation_by_windlass_install_and_its_plugins_stay() {
    let cluster = empty();
    let env = &cluster.env;
    env.windlass(&["install", "--no-wait", "--replicas", "2"]);
    let plugin = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": { "name": "kept" },
        "spec": { "source": { "configMap": { "namespace": SYSTEM_NAMESPACE, "name": "kept" } } },
    });
    env.apply(&plugin.to_string());
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "delete", "deployment/windlass", "poddisruptionbudget/windlass"]);
    let release = ["install", "windlass", &chart(), "--namespace", SYSTEM_NAMESPACE, "--take-ownership"];
    cluster.helm(&[&release[..], &["--force-conflicts", "--wait"]].concat());
    cluster.wait_available("windlass");
    assert!(env.get("plugins.windlass.dev", "", "kept").is_some());
    let refused = env.try_windlass(&["uninstall", "--delete-plugins"]).expect_err("Helm owns it");
    assert!(refused.contains("Deployment windlass-system/windlass is kept"), "{refused}");
    cluster.helm(&["uninstall", "windlass", "--namespace", SYSTEM_NAMESPACE, "--wait"]);
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
    assert!(env.get("plugins.windlass.dev", "", "kept").is_some());
    env.kubectl(&["delete", "crd", "plugins.windlass.dev"]);
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}

#[test]
fn windlass_uninstall_leaves_an_installation_by_helm_alone() {
    let cluster = empty();
    let env = &cluster.env;
    let release = ["install", "windlass", &chart(), "--namespace", SYSTEM_NAMESPACE, "--create-namespace"];
    cluster.helm(&release);
    for (args, hint) in [(["uninstall", "--dry-run"], "helm uninstall"), (["install", "--no-wait"], "helm upgrade")] {
        let mark = env.mark();
        let refused = env.try_windlass(&args).expect_err("Helm installed it");
        assert!(refused.contains("exit status: 3") && refused.contains(hint), "{refused}");
        assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());
    }
    cluster.helm(&["uninstall", "windlass", "--namespace", SYSTEM_NAMESPACE, "--wait"]);
    // The CRD that Helm left does not block another installation.
    env.windlass(&["install", "--no-wait"]);
    env.windlass(&["uninstall", "--delete-crd"]);
    assert!(env.get("customresourcedefinitions", "", "plugins.windlass.dev").is_none());
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}

#[test]
fn workflows_and_the_filled_krew_manifest_are_valid_yaml() {
    for entry in fs::read_dir(repository().join(".github/workflows")).expect("the workflows") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a workflow");
        let workflow = documents(&text).remove(0);
        assert!(workflow["jobs"].is_object(), "{}", path.display());
        // An action is code with access to the release: it is pinned by its commit.
        for action in text.lines().filter_map(|line| line.trim().strip_prefix("- uses: ")) {
            let commit = action.split(['@', ' ']).nth(1).expect("a version");
            assert!(commit.len() == 40, "{}: {action}", path.display());
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arch in ["amd64", "arm64"] {
        fs::write(folder.path().join(format!("windlass-linux-{arch}.tar.gz")), arch).expect("an archive");
    }
    let fill = repository().join("packaging/krew/fill");
    let filled = std::process::Command::new(fill).args(["v0.1.0", "team/windlass"]).arg(folder.path()).output();
    let filled = filled.expect("bash");
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    let manifest = documents(&String::from_utf8_lossy(&filled.stdout)).remove(0);
    assert!(!manifest.to_string().contains('@'), "{manifest:#}");
    for (platform, arch) in manifest["spec"]["platforms"].as_array().expect("platforms").iter().zip(["amd64", "arm64"])
    {
        let sum = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(arch));
        assert_eq!(text(platform, "/sha256"), sum);
        assert!(
            text(platform, "/uri")
                .ends_with(&format!("team/windlass/releases/download/v0.1.0/windlass-linux-{arch}.tar.gz"))
        );
    }
}
