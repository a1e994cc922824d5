//! Echo by both contracts: a component that older hosts run as well. By 0.2 its version is 0.2.0, and its responses are those of 0.1.
#![allow(unsafe_code, reason = "in the generated exports")]

use windlass_plugin::Adapter;
use windlass_plugin::raw::{self, exports::windlass::plugin::reconciler::Guest as Old};

wit_bindgen::generate!({ path: "../../wit/0.2", world: "plugin", generate_all });

use exports::windlass::plugin::reconciler::Guest;
use windlass::plugin::types as new;

struct Both;

impl Old for Both {
    fn describe() -> raw::Descriptor {
        <Adapter<echo::Echo> as Old>::describe()
    }

    fn reconcile(request: raw::Request) -> Result<raw::Response, raw::Failure> {
        <Adapter<echo::Echo> as Old>::reconcile(request)
    }
}

impl Guest for Both {
    fn describe() -> new::Descriptor {
        let old = <Adapter<echo::Echo> as Old>::describe();
        let selector = new::ParentSelector { labels: None, annotations: None };
        let raw::Parent::Custom(definition) = old.parent else { std::process::abort() };
        new::Descriptor {
            name: old.name,
            version: "0.2.0".to_owned(),
            description: old.description,
            parent: new::Parent::Custom(new::CustomParent { definition, selector }),
            children: old.children.into_iter().map(rule).collect(),
            related: Vec::new(),
            endpoints: Vec::new(),
            finalizes: false,
            ordered_deletion: false,
            ready_means: new::ReadyMeans::Applied,
            clock: false,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(request: new::Request) -> Result<new::Response, new::Failure> {
        let request = raw::Request {
            phase: raw::Phase::Sync,
            parent: request.parent,
            children: request.children.into_iter().map(observed).collect(),
            related: Vec::new(),
            config: request.config,
            extensions: Vec::new(),
        };
        match <Adapter<echo::Echo> as Old>::reconcile(request) {
            Ok(response) => Ok(new::Response {
                children: response.children.into_iter().map(child).collect(),
                keep: new::Keep::None,
                status: response.status,
                waiting: None,
                requeue: response.requeue,
                requeue_at: None,
                events: response.events.into_iter().map(event).collect(),
                requirements: Vec::new(),
                http: Vec::new(),
                finalized: response.finalized,
                extensions: Vec::new(),
            }),
            Err(failure) => Err(new::Failure::Failed(failure.to_string())),
        }
    }
}

fn kind(kind: raw::Kind) -> new::Kind {
    new::Kind { api_version: kind.api_version, name: kind.name }
}

fn rule(rule: raw::ChildRule) -> new::ChildRule {
    let update = match rule.update {
        raw::UpdateStrategy::Apply => new::UpdateStrategy::Apply,
        raw::UpdateStrategy::Recreate => new::UpdateStrategy::Recreate,
        raw::UpdateStrategy::OnDelete => new::UpdateStrategy::OnDelete,
        raw::UpdateStrategy::Rolling(rolling) => {
            new::UpdateStrategy::Rolling(new::Rolling { recreate: rolling.recreate, conditions: rolling.conditions })
        }
    };
    new::ChildRule { kind: kind(rule.kind), update, optional: false }
}

fn observed(of: new::Observed) -> raw::Observed {
    let kind = raw::Kind { api_version: of.kind.api_version, name: of.kind.name };
    raw::Observed { kind, namespace: of.namespace, name: of.name, object: of.object }
}

fn child(object: Vec<u8>) -> new::DesiredChild {
    let create = new::Create::Always;
    new::DesiredChild {
        object,
        stage: 0,
        retain: false,
        take_over: false,
        create,
        ready: None,
        update: None,
        replaces: None,
    }
}

fn event(event: raw::Event) -> new::Event {
    let event_type = match event.event_type {
        raw::EventType::Normal => new::EventType::Normal,
        raw::EventType::Warning => new::EventType::Warning,
    };
    new::Event { event_type, reason: event.reason, message: event.message }
}

#[cfg(target_family = "wasm")]
const _: () = {
    raw::export_component!(Both with_types_in raw);
    export!(Both);
};
