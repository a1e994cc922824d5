//! Tests of the testbed itself: a cluster is real, its audit log names the author of each write, and it leaves nothing behind.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing)]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use windlass_testbed::{AuditLevel, Cluster, Options, attach, down, until, up};

const MINUTE: Duration = Duration::from_mins(1);

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: before, image: example.com/before}]
      containers: [{name: web, image: example.com/web}]
";

/// Command lines of the processes that were started for a folder, all of which name files in it.
fn processes_of(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let lines = entries.flatten().filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&*dir.to_string_lossy())).collect()
}

fn is_own_cluster() -> bool {
    env::var_os("WINDLASS_TEST_KUBECONFIG").is_none()
}

#[test]
fn deployment_becomes_available_and_the_audit_log_names_its_creator() -> Result<()> {
    let cluster = Cluster::start(Options::default())?;
    cluster.kubectl(&["create", "namespace", "shop"])?;
    let mark = is_own_cluster().then(|| cluster.audit()?.mark()).transpose()?;

    cluster.apply(DEPLOYMENT)?;
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    let ready = cluster.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"])?;
    assert_eq!(ready, "2");

    let Some(mark) = mark else { return Ok(()) };
    let events = cluster.audit()?.since(mark)?;
    let created = events.clone().writes().resource("deployments").by_user("admin");
    assert_eq!(created.len(), 1, "{created:#?}");
    assert_eq!(
        (created[0].verb.as_str(), created[0].group.as_str(), created[0].name.as_str(), created[0].code),
        ("patch", "apps", "web", 201)
    );
    assert_eq!(created[0].query("fieldManager"), Some("kubectl"));
    let pods =
        events.clone().writes().resource("pods").by_user("system:serviceaccount:kube-system:replicaset-controller");
    assert_eq!(pods.len(), 2, "{pods:#?}");
    assert!(events.resource("namespaces").writes().is_empty(), "the namespace was created before the mark");
    Ok(())
}

#[test]
fn job_completes_and_a_deleted_pod_disappears() -> Result<()> {
    let cluster = Cluster::start(Options { nodes: 1, ..Options::default() })?;
    cluster.kubectl(&["create", "job", "once", "--image=example.com/once"])?;
    cluster.kubectl(&["wait", "--for=condition=Complete", "job/once", "--timeout=60s"])?;
    cluster.kubectl(&["run", "lone", "--image=example.com/lone"])?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/lone", "--timeout=60s"])?;
    cluster.kubectl(&["delete", "pod", "lone", "--timeout=60s"])?;
    Ok(())
}

#[test]
fn service_account_has_only_its_own_permissions() -> Result<()> {
    let cluster = Cluster::start(Options { audit: AuditLevel::Request, ..Options::default() })?;
    cluster.kubectl(&["create", "namespace", "windlass-system"])?;
    cluster.kubectl(&["create", "serviceaccount", "windlass", "-n", "windlass-system"])?;
    let kubeconfig = cluster.service_account_kubeconfig("windlass-system", "windlass")?;

    let refused = cluster.kubectl_as(&kubeconfig, &["create", "configmap", "one", "--from-literal=a=b"], "");
    let refused = refused.expect_err("the ServiceAccount has no permissions").to_string();
    assert!(refused.contains("is forbidden"), "{refused}");
    let binding =
        ["create", "clusterrolebinding", "windlass", "--clusterrole=edit", "--serviceaccount=windlass-system:windlass"];
    cluster.kubectl(&binding)?;
    // The authorizer observes the binding by a watch of its own.
    until("the permission to create", MINUTE, || {
        cluster.kubectl_as(&kubeconfig, &["create", "configmap", "two", "--from-literal=a=b"], "").map(Some)
    })?;

    if is_own_cluster() {
        let events = cluster
            .audit()?
            .entries()?
            .by_user("system:serviceaccount:windlass-system:windlass")
            .resource("configmaps");
        let attempts = events.clone().attempted_writes();
        assert_eq!((attempts[0].verb.as_str(), attempts[0].code), ("create", 403));
        let written = events.writes();
        assert_eq!(written.len(), 1, "{written:#?}");
        assert_eq!(
            written[0].request_object.as_ref().and_then(|object| object.pointer("/data/a")?.as_str()),
            Some("b")
        );

        let impersonating = ["get", "pods", "--as=system:serviceaccount:windlass-system:windlass"];
        cluster.kubectl(&impersonating)?;
        let events = cluster
            .audit()?
            .entries()?
            .on_behalf_of("system:serviceaccount:windlass-system:windlass")
            .by_user("admin")
            .resource("pods");
        assert_eq!(events.len(), 1, "{events:#?}");
    }
    Ok(())
}

#[test]
fn two_clusters_run_side_by_side_and_leave_no_file_or_process() -> Result<()> {
    if !is_own_cluster() {
        return Ok(());
    }
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| Cluster::start(Options::default()));
        (Cluster::start(Options::default()), other.join().expect("no panic"))
    });
    let (one, two) = (one?, two?);
    one.kubectl(&["create", "configmap", "only-in-one"])?;
    assert!(two.kubectl(&["get", "configmap", "only-in-one"]).is_err());

    let folders = [one.dir().to_owned(), two.dir().to_owned()];
    assert_ne!(processes_of(&folders[0]), Vec::<String>::new());
    drop(one);
    two.kubectl(&["get", "nodes"])?;
    drop(two);
    for folder in &folders {
        assert!(!folder.exists(), "{} is still there", folder.display());
        assert_eq!(processes_of(folder), Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn stopped_api_server_has_its_data_after_it_starts_again() -> Result<()> {
    if !is_own_cluster() {
        return Ok(());
    }
    let cluster = Cluster::start(Options::default())?;
    cluster.kubectl(&["create", "configmap", "kept"])?;
    cluster.stop_component("kube-apiserver")?;
    assert!(cluster.kubectl(&["get", "configmap", "kept"]).is_err());
    cluster.start_component("kube-apiserver")?;
    until("the API server to be back", MINUTE, || cluster.kubectl(&["get", "configmap", "kept"]).map(Some))?;
    assert!(cluster.stop_component("kube-proxy").is_err());
    Ok(())
}

#[test]
fn detached_cluster_runs_until_it_is_stopped() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let dir = parent.path().join("cluster");
    assert!(!down(&dir)?, "no cluster ran");
    let first = up(&dir, &Options::default())?;
    let kubeconfig = first.kubeconfig().to_owned();
    drop(first);
    let again = up(&dir, &Options::default())?;
    assert_eq!(again.kubeconfig(), kubeconfig);
    attach(&dir)?.kubectl(&["get", "nodes"])?;
    assert!(down(&dir)?);
    assert!(!dir.exists());
    assert_eq!(processes_of(&dir), Vec::<String>::new());
    assert!(attach(&dir).is_err());
    Ok(())
}

/// Not a test: the next test starts and kills it.
#[test]
#[ignore = "started by killed_starter_leaves_no_file_or_process"]
fn starts_a_cluster_and_waits() -> Result<()> {
    let cluster = Cluster::start(Options::default())?;
    println!("\ncluster={}", cluster.dir().display());
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

#[test]
fn killed_starter_leaves_no_file_or_process() -> Result<()> {
    if !is_own_cluster() {
        return Ok(());
    }
    let mut starter = Command::new(env::current_exe()?)
        .args(["--exact", "starts_a_cluster_and_waits", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(starter.stdout.take().expect("it is piped"));
    let dir = output.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("cluster=").map(str::to_owned));
    let dir = dir.expect("the starter prints its cluster's folder");
    let dir = Path::new(&dir);
    assert!(processes_of(dir).len() >= 6, "{:#?}", processes_of(dir));

    // SIGKILL: the starter cannot clean up.
    starter.kill()?;
    starter.wait()?;
    until("all processes to be gone", MINUTE, || Ok((processes_of(dir).is_empty() && !dir.exists()).then_some(())))
}

#[test]
#[cfg(target_os = "linux")]
fn killed_supervisor_ends_its_processes() -> Result<()> {
    if !is_own_cluster() {
        return Ok(());
    }
    let cluster = Cluster::start(Options::default())?;
    let dir = cluster.dir().to_owned();
    let supervisor = fs::read_to_string(dir.join("supervise.lock"))?;
    let killed = Command::new("sh").args(["-c", &format!("kill -9 {supervisor}")]).status()?;
    assert!(killed.success());
    let gone = || Ok(processes_of(&dir).is_empty().then_some(()));
    until("all processes to be gone", MINUTE, gone)?;
    drop(cluster);
    assert!(!dir.exists());
    Ok(())
}
