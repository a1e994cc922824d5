//! Collects what one reconcile decided from its spans and log lines, for `windlass dev`.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{AUDIT, CAUSE, FAILURE, GUEST, TRACE};

/// Name of the root span of a reconcile.
const RECONCILE: &str = "reconcile";
/// Largest number of causes that are kept for one parent, and of parents whose causes are kept.
const CAUSES_MAX: (usize, usize) = (4, 1000);

/// What one reconcile of a parent did, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The Plugin.
    pub plugin: String,
    /// Kind of the parent.
    pub kind: String,
    /// Namespace of the parent; empty for a cluster-scoped one.
    pub namespace: String,
    /// Name of the parent.
    pub name: String,
    /// The trigger of the reconcile, as its span names it.
    pub trigger: String,
    /// The changes that queued the parent.
    pub causes: Vec<Cause>,
    /// The times of the guest in the calls of the plugin, in microseconds.
    pub calls: Vec<u64>,
    /// The writes that the host sent.
    pub writes: Vec<Write>,
    /// Why the reconcile failed.
    pub failure: Option<Failure>,
    /// The outcome, as the span names it.
    pub outcome: String,
    /// Time until the next reconcile, in milliseconds, if the plugin asked for one.
    pub requeue_ms: Option<u64>,
    /// Log lines of the plugin.
    pub logs: Vec<LogLine>,
}

/// A change of an object that queued a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Kind of the object.
    pub kind: String,
    /// Namespace and name of the object.
    pub object: String,
    /// What changed, as in `spec.replicas changed`.
    pub change: String,
}

/// A write that the host sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// `create`, `update`, `apply`, `patch` or `delete`.
    pub verb: String,
    /// The object, as in `Pod.v1 shop/web-0`.
    pub object: String,
    /// HTTP status of the response; 0 without a response.
    pub code: u16,
}

/// A failed reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason, as in the parent's conditions.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The other fields, as text.
    pub fields: Vec<(&'static str, String)>,
}

impl LogLine {
    /// The value of a field; empty if the line does not have it.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }
}

/// What happened in the host.
#[derive(Debug, Clone)]
pub enum Happening {
    /// A parent was reconciled.
    Reconciled(Box<Decision>),
    /// The host logged a line outside of a reconcile.
    Logged(LogLine),
}

/// Receives what happens, in order. It must not block.
pub type Listener = Box<dyn Fn(Happening) + Send + Sync>;

/// Collects the decisions of reconciles and passes each on when its reconcile ends.
pub(super) struct DecisionLayer {
    listener: Listener,
    /// The causes of the next reconcile of each parent, by Plugin, namespace and name.
    causes: Mutex<HashMap<[String; 3], Vec<Cause>>>,
}

impl DecisionLayer {
    /// Passes everything on to the listener.
    pub(super) fn new(listener: Listener) -> Self {
        Self { listener, causes: Mutex::default() }
    }

    /// The spans and lines that the layer reads.
    pub(super) fn filter() -> Targets {
        Targets::new()
            .with_target("windlass", Level::INFO)
            .with_target(TRACE, Level::DEBUG)
            .with_target(CAUSE, Level::DEBUG)
            .with_target(GUEST, Level::TRACE)
    }

    fn note_cause(&self, fields: &mut Fields) {
        let key = ["plugin", "namespace", "name"].map(|name| fields.take(name));
        let [kind, object, change] = ["kind", "object", "change"].map(|name| fields.take(name));
        let cause = Cause { kind, object, change };
        let mut causes = self.causes.lock();
        if causes.len() >= CAUSES_MAX.1 && !causes.contains_key(&key) {
            // Many parents at once, or those of a component that never becomes live.
            return;
        }
        let of_parent = causes.entry(key).or_default();
        if of_parent.len() < CAUSES_MAX.0 && !of_parent.contains(&cause) {
            of_parent.push(cause);
        }
    }
}

impl<S> Layer<S> for DecisionLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|span| span.name() == RECONCILE) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let [plugin, kind, namespace, name, trigger] = [
            "windlass.plugin",
            "windlass.parent.kind",
            "k8s.namespace.name",
            "windlass.parent.name",
            "windlass.trigger",
        ]
        .map(|field| fields.take(field));
        let key = [plugin.clone(), namespace.clone(), name.clone()];
        let causes = self.causes.lock().remove(&key).unwrap_or_default();
        let decision = Decision { plugin, kind, namespace, name, trigger, causes, ..Decision::default() };
        span.extensions_mut().insert(decision);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        let is_root = span.name() == RECONCILE;
        let Some(root) = span.scope().last() else { return };
        let mut extensions = root.extensions_mut();
        let Some(decision) = extensions.get_mut::<Decision>() else { return };
        if is_root {
            if let Some(outcome) = fields.find("windlass.outcome") {
                decision.outcome = outcome;
            }
            if let Some(after) = fields.find("windlass.requeue_ms") {
                decision.requeue_ms = after.parse().ok();
            }
        } else if let Some(time) = fields.find("windlass.guest_time_us") {
            decision.calls.extend(time.parse::<u64>());
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let mut fields = Fields::default();
        event.record(&mut fields);
        if target == CAUSE {
            return self.note_cause(&mut fields);
        }
        let root = context.event_span(event).and_then(|span| span.scope().last());
        let mut extensions = root.as_ref().map(|root| root.extensions_mut());
        let decision = extensions.as_mut().and_then(|extensions| extensions.get_mut::<Decision>());
        if target == AUDIT {
            // Writes outside of a reconcile are statuses of Plugins, CRDs and Leases: other lines report these steps.
            let [verb, object, code] = ["verb", "object", "code"].map(|name| fields.take(name));
            if let Some(decision) = decision {
                decision.writes.push(Write { verb, object, code: code.parse().unwrap_or_default() });
            }
            return;
        }
        let message = fields.take("message");
        let Some(decision) = decision else {
            drop(extensions);
            let line = LogLine { level, message, fields: fields.0 };
            return (self.listener)(Happening::Logged(line));
        };
        match target {
            GUEST => decision.logs.push(LogLine { level, message, fields: fields.0 }),
            FAILURE => {
                // The line has two fields of this name: its own text, which was taken above, and the failure's message.
                let [reason, message] = ["reason", "message"].map(|name| fields.take(name));
                // A status that was not written is a consequence, or no failure came before it.
                decision.failure.get_or_insert(Failure { reason, message });
            }
            _ => {
                drop(extensions);
                (self.listener)(Happening::Logged(LogLine { level, message, fields: fields.0 }));
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let decision = span.extensions_mut().remove::<Decision>();
        if let Some(decision) = decision {
            (self.listener)(Happening::Reconciled(Box::new(decision)));
        }
    }
}

/// The fields of a span or a line, as text.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn find(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(field, _)| *field == name)?;
        Some(self.0.remove(at).1)
    }

    fn take(&mut self, name: &str) -> String {
        self.find(name).unwrap_or_default()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::field::Empty;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// What a layer passes on while `act` runs.
    fn happened(act: impl FnOnce()) -> Vec<Happening> {
        let all = Arc::new(Mutex::new(Vec::new()));
        let seen = all.clone();
        let layer = DecisionLayer::new(Box::new(move |happening| seen.lock().push(happening)));
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(DecisionLayer::filter()));
        tracing::subscriber::with_default(subscriber, act);
        let all = all.lock();
        all.clone()
    }

    fn reconcile(name: &str, act: impl FnOnce(&tracing::Span)) {
        let span = tracing::debug_span!(
            target: TRACE,
            "reconcile",
            windlass.plugin = "echo",
            k8s.namespace.name = "shop",
            windlass.parent.kind = "Echo",
            windlass.parent.name = name,
            windlass.trigger = "changed",
            windlass.outcome = Empty,
            windlass.requeue_ms = Empty,
        );
        span.in_scope(|| act(&span));
    }

    fn cause(name: &str, change: &str) {
        tracing::debug!(
            target: CAUSE, plugin = "echo", namespace = "shop", name, kind = "Echo", object = "shop/web", change, "parent queued"
        );
    }

    #[test]
    fn decision_has_the_causes_calls_writes_and_failure_of_its_reconcile() {
        let all = happened(|| {
            cause("web", "spec.replicas changed");
            cause("web", "spec.replicas changed");
            cause("other", "created");
            reconcile("web", |span| {
                let call = tracing::debug_span!(target: TRACE, "plugin.call", windlass.guest_time_us = Empty);
                call.in_scope(|| tracing::info!(target: GUEST, plugin = "echo", "hello"));
                call.record("windlass.guest_time_us", 400_i64);
                tracing::debug_span!(target: TRACE, "apply").in_scope(|| {
                    tracing::info!(target: AUDIT, verb = "create", object = "Pod.v1 shop/web-0", code = 201_u16, "write");
                });
                let message = "no quota";
                tracing::warn!(target: FAILURE, reason = "ChildRejected", %message, "reconcile failed");
                let message = "the status is invalid";
                tracing::warn!(target: FAILURE, %message, "status was not written");
                span.record("windlass.outcome", "ChildRejected").record("windlass.requeue_ms", 5000_i64);
            });
            reconcile("web", |_| ());
        });
        let [Happening::Reconciled(first), Happening::Reconciled(second)] = &all[..] else { panic!("{all:?}") };
        let cause = Cause {
            kind: "Echo".to_owned(),
            object: "shop/web".to_owned(),
            change: "spec.replicas changed".to_owned(),
        };
        let log =
            LogLine { level: Level::INFO, message: "hello".to_owned(), fields: vec![("plugin", "echo".to_owned())] };
        let write = Write { verb: "create".to_owned(), object: "Pod.v1 shop/web-0".to_owned(), code: 201 };
        let failure = Failure { reason: "ChildRejected".to_owned(), message: "no quota".to_owned() };
        assert_eq!(
            **first,
            Decision {
                plugin: "echo".to_owned(),
                kind: "Echo".to_owned(),
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                trigger: "changed".to_owned(),
                causes: vec![cause],
                calls: vec![400],
                writes: vec![write],
                failure: Some(failure),
                outcome: "ChildRejected".to_owned(),
                requeue_ms: Some(5000),
                logs: vec![log],
            }
        );
        assert!(second.causes.is_empty(), "a cause belongs to one reconcile");
    }

    #[test]
    fn line_outside_of_a_reconcile_is_passed_on_unless_it_is_an_audit_line() {
        let all = happened(|| {
            tracing::info!(target: AUDIT, verb = "patch", object = "Plugin echo/status", code = 200_u16, "write");
            tracing::info!(plugin = "echo", parents = 2, "component activated");
        });
        let [Happening::Logged(line)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*line.message, line.field("plugin"), line.field("parents")), ("component activated", "echo", "2"));
    }
}
