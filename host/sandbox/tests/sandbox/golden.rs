//! Runs the plugins' golden cases (plugins/*/cases) through their compiled components: each response equals, byte for
//! byte, the one of the same code run natively, which `cargo test` in plugins/ compares with the reviewed responses.
//! Ports to other languages must give equivalent responses.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use windlass_core::contract::{
    CallReport, ChildOptions, ChildRef, ChildRule, Descriptor, Event, EventType, Failure, FinalizeCause, Keep, Metric,
    MetricType, Namespaces, Note, Observed, Parent, ParentSelector, Phase, PluginResult, ReadyMeans, Related, Request,
    Requirement, Response, Selection, Until, UpdateStrategy,
};
use windlass_core::value::ids::Gvk;
use windlass_plugin::testing::{self, HostCalls, Measurement, golden};
use windlass_plugin::{Reconciler, raw};
use windlass_sandbox::{Ambient, Component, run_here};

use crate::{limits, load, parent_of};

const SEED: [u8; 32] = [7; 32];
/// 2026-03-04 05:06:07 UTC.
const NOW: Duration = Duration::from_secs(1_772_600_767);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn component(plugin: &str) -> Vec<u8> {
    let path = root().join("target/guests").join(plugin).with_extension("wasm");
    fs::read(&path).unwrap_or_else(|_| panic!("{} is missing: run `cargo xtask guests`", path.display()))
}

pub(crate) fn cases(plugin: &str) -> PathBuf {
    root().join("plugins").join(plugin).join("cases")
}

/// Compares the component's descriptor and its response to every case with the native ones.
fn assert_agrees<R: Reconciler>(plugin: &str) {
    let component = load(&component(plugin));
    assert_eq!(component.surface().unsupported_imports, [""; 0], "{plugin}");
    assert_eq!(readable(component.descriptor().clone()), readable(descriptor(testing::descriptor::<R>())), "{plugin}");
    for case in golden::cases::<R>(cases(plugin)) {
        let (actual, report) = call_component(&component, &request(case.call.request()));
        // The random bytes that a guest gets from the sandbox; no golden case uses more.
        let mut random = vec![0; 64];
        ChaCha20Rng::from_seed(SEED).fill_bytes(&mut random);
        let (native, calls) = case.call.random(random).at(NOW).call_raw();
        assert_eq!(text(&actual), text(&native.map(response).map_err(failure)), "{plugin}: {}", case.name);
        assert_eq!(host_calls(report), calls, "{plugin}: {}", case.name);
    }
}

/// The same for a port to another language: compares responses as JSON, and of an `Invalid` failure only the field,
/// since each language phrases an invalid number differently.
pub(crate) fn assert_equivalent<R: Reconciler>(plugin: &str, component: &Component, language: &str) {
    assert_eq!(
        readable(component.descriptor().clone()),
        readable(descriptor(testing::descriptor::<R>())),
        "{language}"
    );
    for case in golden::cases::<R>(cases(plugin)) {
        let actual = call_component(component, &request(case.call.request())).0;
        let native = case.call.at(NOW).call_raw().0.map(response).map_err(failure);
        let (actual, native) = (actual.map(parsed).map_err(at), native.map(parsed).map_err(at));
        assert_eq!(actual, native, "{language}: {}", case.name);
    }
}

/// Children and status parsed as JSON, and the rest of the response.
fn parsed(response: Response) -> (Vec<Value>, Option<Value>, Response) {
    let json = |bytes: Vec<u8>| serde_json::from_slice(&bytes).unwrap();
    let rest = Response { children: Vec::new(), status: None, ..response.clone() };
    (response.children.into_iter().map(json).collect(), response.status.map(json), rest)
}

/// Reduces an `Invalid` failure to the field.
fn at(failure: Failure) -> Failure {
    match failure {
        Failure::Invalid(message) => Failure::Invalid(message.split(": ").next().unwrap().to_owned()),
        failure => failure,
    }
}

fn call_component(component: &Component, request: &Request) -> (PluginResult, CallReport) {
    let ambient = Ambient { seed: SEED, now: SystemTime::UNIX_EPOCH + NOW };
    let (response, report) = run_here(component.reconcile(request, &limits(), ambient));
    (response.unwrap(), report)
}

/// The calls of the host's functions.
fn host_calls(report: CallReport) -> HostCalls {
    let mut calls = HostCalls::default();
    for note in report.notes {
        match note {
            Note::Log { message, .. } => calls.logs.push(message),
            Note::Measure { metric, value, labels } => calls.measurements.push(Measurement { metric, value, labels }),
            Note::SpanAttribute { key, value } => calls.span_attributes.push((key, value)),
            Note::SpanEvent { name, .. } => calls.span_events.push(name),
        }
    }
    calls
}

/// Converts bytes to text, so that differences are readable.
fn text(response: &PluginResult) -> String {
    let of = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    match response {
        Ok(response) => {
            let rest = Response { children: Vec::new(), status: None, ..response.clone() };
            let children: Vec<_> = response.children.iter().map(of).collect();
            format!("{children:#?}\n{:#?}\n{rest:#?}", response.status.as_ref().map(of))
        }
        Err(failure) => format!("{failure:#?}"),
    }
}

/// Normalizes the CRD: a component may contain it with line breaks.
fn readable(mut descriptor: Descriptor) -> Descriptor {
    if let Parent::Custom(definition) = &mut descriptor.parent {
        let value: Value = serde_json::from_slice(definition).unwrap();
        *definition = value.to_string().into_bytes();
    }
    descriptor
}

fn gvk(kind: &raw::Kind) -> Gvk {
    Gvk::from_api_version(&kind.api_version, &kind.name)
}

fn request(request: &raw::Request) -> Request {
    let observed = |object: &raw::Observed| Observed {
        deleting: false,
        kind: gvk(&object.kind),
        namespace: object.namespace.as_deref().map(Into::into),
        name: (*object.name).into(),
        object: (*object.object).into(),
    };
    let related = |related: &raw::Related| Related {
        id: related.id.clone(),
        metadata_only: false,
        objects: related.objects.iter().map(observed).collect(),
    };
    let (phase, cause, namespace_terminating) = match request.phase {
        raw::Phase::Sync => (Phase::Sync, FinalizeCause::Deleted, false),
        raw::Phase::Finalize(raw::Finalizing { cause, namespace_terminating }) => {
            let cause = match cause {
                raw::FinalizeCause::Deleted => FinalizeCause::Deleted,
                raw::FinalizeCause::LeftSelector => FinalizeCause::LeftSelector,
                raw::FinalizeCause::LeftNamespaces => FinalizeCause::LeftNamespaces,
            };
            (Phase::Finalize, cause, namespace_terminating)
        }
    };
    Request {
        children: request.children.iter().map(observed).collect(),
        related: request.related.iter().map(related).collect(),
        config: request.config.as_deref().map(Into::into),
        now: request.now,
        cause,
        namespace_terminating,
        ..Request::about(phase, parent_of(&request.parent))
    }
}

fn response(response: raw::Response) -> Response {
    let event = |event: raw::Event| Event {
        event_type: match event.event_type {
            raw::EventType::Normal => EventType::Normal,
            raw::EventType::Warning => EventType::Warning,
        },
        reason: event.reason,
        message: event.message,
    };
    let requirement = |requirement: raw::Requirement| Requirement {
        id: requirement.id,
        kind: gvk(&requirement.kind),
        namespaces: match requirement.namespaces {
            raw::Namespaces::OfParent => Namespaces::OfParent,
            raw::Namespaces::Named(names) => Namespaces::Named(names),
            raw::Namespaces::All => Namespaces::All,
        },
        select: match requirement.select {
            raw::Selection::Name(name) => Selection::Name(name),
            raw::Selection::Labels(labels) => Selection::Labels(labels),
            raw::Selection::LabelSelector(_) => panic!("no golden case has one"),
        },
        metadata_only: false,
    };
    let (children, options): (Vec<_>, Vec<_>) = response.children.into_iter().map(child).unzip();
    Response {
        children,
        options: Some(options.into()),
        keep: match response.keep {
            raw::Keep::None => Keep::None,
            raw::Keep::These(children) => Keep::These(children.iter().map(child_ref).collect()),
            raw::Keep::All => Keep::All,
        },
        waiting: response.waiting.map(Into::into),
        http: Box::default(),
        status: response.status,
        requeue: response.requeue,
        requeue_at: response.requeue_at.and_then(NonZero::new),
        events: response.events.into_iter().map(event).collect(),
        requirements: response.requirements.into_iter().map(requirement).collect(),
        finalized: response.finalized,
    }
}

fn child(child: raw::DesiredChild) -> (Vec<u8>, ChildOptions) {
    let options = ChildOptions {
        stage: child.stage,
        retain: child.retain,
        take_over: child.take_over,
        ready: child.ready,
        update: child.update.map(update),
        once: match child.create {
            raw::Create::Always => None,
            raw::Create::Once(text) => Some(text),
        },
        replaces: child.replaces.as_ref().map(child_ref),
    };
    (child.object, options)
}

fn child_ref(child: &raw::ChildRef) -> ChildRef {
    ChildRef { kind: gvk(&child.kind), namespace: child.namespace.clone(), name: child.name.clone() }
}

fn update(strategy: raw::UpdateStrategy) -> UpdateStrategy {
    match strategy {
        raw::UpdateStrategy::Apply => UpdateStrategy::Apply,
        raw::UpdateStrategy::Recreate => UpdateStrategy::Recreate,
        raw::UpdateStrategy::OnDelete => UpdateStrategy::OnDelete,
        raw::UpdateStrategy::Rolling(raw::Rolling { recreate, conditions }) => UpdateStrategy::Rolling {
            recreate,
            until: if conditions.is_empty() { Until::Ready } else { Until::Conditions(conditions.into()) },
        },
    }
}

fn failure(failure: raw::Failure) -> Failure {
    match failure {
        raw::Failure::Invalid(invalid) => Failure::Invalid(invalid.to_string()),
        raw::Failure::Failed(message) => Failure::Failed(message),
    }
}

fn descriptor(descriptor: raw::Descriptor) -> Descriptor {
    let metric = |metric: raw::Metric| Metric {
        name: metric.name,
        unit: metric.unit,
        description: metric.description,
        metric_type: match metric.metric_type {
            raw::MetricType::Counter => MetricType::Counter,
            raw::MetricType::Gauge => MetricType::Gauge,
            raw::MetricType::Histogram => MetricType::Histogram,
        },
        labels: metric.labels,
    };
    let child = |rule: raw::ChildRule| ChildRule { kind: gvk(&rule.kind), update: update(rule.update) };
    let (parent, selector) = match descriptor.parent {
        raw::Parent::Custom(custom) => (Parent::Custom(custom.definition), custom.selector),
        raw::Parent::Existing(existing) => (Parent::Existing(gvk(&existing.kind)), existing.selector),
    };
    Descriptor {
        name: descriptor.name,
        version: descriptor.version,
        description: descriptor.description,
        parent,
        selector: ParentSelector { labels: selector.labels, annotations: selector.annotations },
        children: descriptor.children.into_iter().map(child).collect(),
        related: descriptor.related.iter().map(|rule| gvk(&rule.kind)).collect(),
        optional: Vec::new(),
        finalizes: descriptor.finalizes,
        ordered_deletion: descriptor.ordered_deletion,
        ready_means: match descriptor.ready_means {
            raw::ReadyMeans::Children => ReadyMeans::Children,
            raw::ReadyMeans::Applied => ReadyMeans::Applied,
            raw::ReadyMeans::Plugin => ReadyMeans::Plugin,
        },
        clock: descriptor.clock,
        resync: descriptor.resync,
        config_schema: descriptor.config_schema,
        metrics: descriptor.metrics.into_iter().map(metric).collect(),
    }
}

#[test]
fn application_component_responds_as_the_native_code_does() {
    assert_agrees::<application::Application>("application");
}

#[test]
fn echo_component_responds_as_the_native_code_does() {
    assert_agrees::<echo::Echo>("echo");
}

#[test]
fn myapp_component_responds_as_the_native_code_does() {
    assert_agrees::<myapp::MyApp>("myapp");
}

#[test]
fn mysqlcluster_component_responds_as_the_native_code_does() {
    assert_agrees::<mysqlcluster::MySQLCluster>("mysqlcluster");
}

#[test]
fn namespaceguard_component_responds_as_the_native_code_does() {
    assert_agrees::<namespaceguard::NamespaceGuard>("namespaceguard");
}

/// Every plugin fits one ConfigMap, whichever tool writes it.
#[test]
fn every_plugin_of_this_repository_is_smaller_than_400_kb() {
    let plugins = fs::read_dir(root().join("plugins")).unwrap().map(|entry| entry.unwrap().path());
    let plugins: Vec<_> = plugins.filter(|path| path.join("src/lib.rs").exists()).collect();
    assert_eq!(plugins.len(), 5, "{plugins:?}: each plugin needs a test above");
    for plugin in plugins {
        let name = plugin.file_name().unwrap().to_string_lossy().into_owned();
        let size = component(&name).len();
        assert!(size < 400_000, "{name} has {size} bytes");
    }
}
