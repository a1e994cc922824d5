//! The whole trace of one reconcile of each operator that ships: the one that creates the children.

use expect_test::expect;
use serde_json::{Value, json};
use windlass_testbed::Span;

use crate::{Traced, golden, trace_of, traced};

/// The trace of the first reconcile of this parent that created a child.
#[track_caller]
fn creating(traced: &Traced, parent: &Value) -> Vec<Span> {
    traced.env.apply(&parent.to_string());
    let mut spans = trace_of(&traced.collector, |root, spans| {
        root.attributes.get("windlass.parent.kind") == Some(&parent["kind"])
            && root.attributes.get("windlass.parent.name") == Some(&parent["metadata"]["name"])
            && spans.iter().any(|span| span.name == "create")
    });
    // After the host wrote a finalizer, either the parent's event or the host's own requeue comes first.
    let triggers = spans.iter_mut().filter_map(|span| span.attributes.get_mut("windlass.trigger"));
    for trigger in triggers.filter(|trigger| **trigger == "event" || **trigger == "pause") {
        *trigger = "event or pause".into();
    }
    let one = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(one("plugin.call").parent_span_id, one("reconcile").span_id);
    spans
}

#[test]
fn first_reconcile_of_each_shipped_operator_is_exported_as_one_whole_trace() {
    let traced = traced(None);
    for plugin in ["application", "echo", "myapp", "mysqlcluster", "namespaceguard"] {
        traced.push_live(plugin, plugin);
    }
    let of = |api_version: &str, kind: &str, name: &str, spec: &Value| {
        let parent = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": { "name": name, "namespace": "default" },
            "spec": spec,
        });
        creating(&traced, &parent)
    };

    let image = json!({ "image": "nginx:1.27", "replicas": 2 });
    golden(
        &of("my-operator.dev/v1", "Echo", "web", &image),
        &expect![[r#"
        - reconcile
            k8s.namespace.name="default"
            windlass.outcome="Succeeded"
            windlass.parent.generation=1
            windlass.parent.kind="Echo"
            windlass.parent.name="web"
            windlass.parent.uid=<uid>
            windlass.plugin="echo"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call
              windlass.contract="0.2.0-rc.1"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=false
              windlass.memory_peak=<bytes>
              windlass.outcome="response"
              windlass.plugin="echo"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
          - plan
              windlass.creates=2
              windlass.deletes=0
              windlass.terminating=0
              windlass.updates=0
          - apply
            - create
                http.response.status_code=201
                k8s.object.kind="Pod"
                k8s.object.name="web-0"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Pod"
                k8s.object.name="web-1"
                windlass.verb="create"
          - report
              windlass.status_written=true
    "#]],
    );
    golden(
        &of("apps.example.com/v1alpha1", "Application", "portal", &image),
        &expect![[r#"
        - reconcile
            k8s.namespace.name="default"
            windlass.outcome="Succeeded"
            windlass.parent.generation=1
            windlass.parent.kind="Application"
            windlass.parent.name="portal"
            windlass.parent.uid=<uid>
            windlass.plugin="application"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call
              windlass.contract="0.2.0-rc.1"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=false
              windlass.memory_peak=<bytes>
              windlass.outcome="response"
              windlass.plugin="application"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
          - plan
              windlass.creates=2
              windlass.deletes=0
              windlass.terminating=0
              windlass.updates=0
          - apply
            - create
                http.response.status_code=201
                k8s.object.kind="Deployment"
                k8s.object.name="portal"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Service"
                k8s.object.name="portal"
                windlass.verb="create"
          - report
              windlass.status_written=true
    "#]],
    );
    golden(
        &of("example.com/v1", "MyApp", "shop", &image),
        &expect![[r#"
        - reconcile
            k8s.namespace.name="default"
            windlass.outcome="Succeeded"
            windlass.parent.generation=1
            windlass.parent.kind="MyApp"
            windlass.parent.name="shop"
            windlass.parent.uid=<uid>
            windlass.plugin="myapp"
            windlass.trigger="event or pause"
          - observe
              windlass.children=0
          - plugin.call
              windlass.contract="0.2.0-rc.1"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=true
              windlass.memory_peak=<bytes>
              windlass.outcome="response"
              windlass.plugin="myapp"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
          - plan
              windlass.creates=2
              windlass.deletes=0
              windlass.terminating=0
              windlass.updates=0
          - apply
            - create
                http.response.status_code=201
                k8s.object.kind="Deployment"
                k8s.object.name="shop"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Service"
                k8s.object.name="shop"
                windlass.verb="create"
          - report
              windlass.status_written=true
    "#]],
    );
    let servers = json!({ "version": "8.4", "replicas": 2, "storageSize": "10Gi" });
    golden(
        &of("database.example.com/v1", "MySQLCluster", "orders", &servers),
        &expect![[r#"
        - reconcile
            k8s.namespace.name="default"
            windlass.outcome="Succeeded"
            windlass.parent.generation=1
            windlass.parent.kind="MySQLCluster"
            windlass.parent.name="orders"
            windlass.parent.uid=<uid>
            windlass.plugin="mysqlcluster"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call
              mysql.name="orders"
              mysql.namespace="default"
              mysql.replicas="2"
              windlass.contract="0.2.0-rc.1"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=true
              windlass.memory_peak=<bytes>
              windlass.outcome="response"
              windlass.plugin="mysqlcluster"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
              * pvc_ensured count="2"
              * service_ensured name="orders"
              * pods_ensured count="2"
              * status_updated phase="Pending"
          - plan
              windlass.creates=6
              windlass.deletes=0
              windlass.terminating=0
              windlass.updates=0
          - apply
            - create
                http.response.status_code=201
                k8s.object.kind="PersistentVolumeClaim"
                k8s.object.name="orders-data-0"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="PersistentVolumeClaim"
                k8s.object.name="orders-data-1"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Pod"
                k8s.object.name="orders-0"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Pod"
                k8s.object.name="orders-1"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Secret"
                k8s.object.name="orders-root"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Service"
                k8s.object.name="orders"
                windlass.verb="create"
          - report
              windlass.status_written=true
    "#]],
    );
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": "guarded", "labels": { "windlass.dev/guard": "true" } },
    });
    golden(
        &creating(&traced, &namespace),
        &expect![[r#"
        - reconcile
            k8s.namespace.name=""
            windlass.outcome="Succeeded"
            windlass.parent.kind="Namespace"
            windlass.parent.name="guarded"
            windlass.parent.uid=<uid>
            windlass.plugin="namespaceguard"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call
              windlass.contract="0.2.0-rc.1"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=false
              windlass.memory_peak=<bytes>
              windlass.outcome="response"
              windlass.plugin="namespaceguard"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
          - plan
              windlass.creates=3
              windlass.deletes=0
              windlass.terminating=0
              windlass.updates=0
          - apply
            - create
                http.response.status_code=201
                k8s.object.kind="LimitRange"
                k8s.object.name="guard"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="NetworkPolicy"
                k8s.object.name="default-deny"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="ResourceQuota"
                k8s.object.name="guard"
                windlass.verb="create"
          - report
              windlass.status_written=false
    "#]],
    );
}
