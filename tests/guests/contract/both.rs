//! Echo by contract 0.1, and a plugin of contract 0.2 that says so in its version: a component of an SDK that serves old hosts as well.

use windlass_plugin::Adapter;
use windlass_plugin::raw;

wit_bindgen::generate!({ path: "../../wit/0.2", world: "plugin", generate_all });

use exports::windlass::plugin::reconciler::Guest;
use windlass::plugin::types as new;

struct Both;

impl raw::exports::windlass::plugin::reconciler::Guest for Both {
    fn describe() -> raw::Descriptor {
        Adapter::<echo::Echo>::describe()
    }

    fn reconcile(request: raw::Request) -> Result<raw::Response, raw::Failure> {
        Adapter::<echo::Echo>::reconcile(request)
    }
}

impl Guest for Both {
    fn describe() -> new::Descriptor {
        let old = Adapter::<echo::Echo>::describe();
        let selector = new::ParentSelector { labels: None, annotations: None };
        let raw::Parent::Custom(definition) = old.parent else { std::process::abort() };
        new::Descriptor {
            name: old.name,
            version: "0.2.0".to_owned(),
            description: old.description,
            parent: new::Parent::Custom(new::CustomParent { definition, selector }),
            children: Vec::new(),
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

    fn reconcile(_request: new::Request) -> Result<new::Response, new::Failure> {
        Err(new::Failure::Failed("called by contract 0.2".to_owned()))
    }
}

#[cfg(target_family = "wasm")]
const _: () = {
    raw::export_component!(Both with_types_in raw);
    export!(Both);
};
