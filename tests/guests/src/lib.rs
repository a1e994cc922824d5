//! What the guests of the tests share: here what the hostile ones do, in [`puppet`] the scripted ones.
//!
//! Each hostile guest is a plugin on a kind of its own (`EndlessLoop` in group `hostile.example`), so that all can be loaded into one
//! host. It may own a `ConfigMap` or a `Pod`. While the parent's spec says `behave: true`, it answers with one ConfigMap
//! `<parent>-child`; then it turns hostile, and a test can see that nothing was written or deleted.

pub mod puppet;

use windlass_plugin::raw::{
    ChildRule, Descriptor, Kind, Parent, Response, UpdateStrategy, exports::windlass::plugin::reconciler::Guest,
};
pub use windlass_plugin::raw::{Failure, Request};

/// What a guest says.
pub type Answer = Result<Response, Failure>;

/// A guest that means no good.
pub trait Hostile {
    /// Its parents' kind; the plural is the same in lower case with an `s`.
    const KIND: &str;

    /// What it does instead of its work.
    ///
    /// # Errors
    ///
    /// As it pleases.
    fn attack(request: &Request) -> Answer;
}

/// Makes a [`Hostile`] type the component.
#[macro_export]
macro_rules! export {
    ($guest:ident) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Guest = $crate::Adapter<$guest>;
    windlass_plugin::raw::export_component!(Guest with_types_in windlass_plugin::raw);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn(&$crate::Request) -> $crate::Answer = <$guest as $crate::Hostile>::attack;
    };
}

/// Between the contract and a [`Hostile`] type.
pub struct Adapter<H>(std::marker::PhantomData<H>);

impl<H: Hostile> Guest for Adapter<H> {
    fn describe() -> Descriptor {
        let child = |name: &str| ChildRule { kind: kind(name), update: UpdateStrategy::Apply };
        Descriptor {
            name: H::KIND.to_lowercase(),
            version: "0.1.0".to_owned(),
            description: "A guest that a host must withstand".to_owned(),
            parent: Parent::Custom(definition(H::KIND)),
            children: vec![child("ConfigMap"), child("Pod")],
            related: Vec::new(),
            finalizes: false,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(request: Request) -> Answer {
        #[cfg(target_family = "wasm")]
        std::panic::set_hook(Box::new(|panic| windlass_plugin::log::error(panic.to_string())));
        let parent: serde_json::Value = serde_json::from_slice(&request.parent).unwrap_or_default();
        if parent.pointer("/spec/behave") == Some(&true.into()) {
            let name =
                format!("{}-child", parent.pointer("/metadata/name").and_then(|name| name.as_str()).unwrap_or("?"));
            return Ok(response([child(&name, "")]));
        }
        H::attack(&request)
    }
}

fn kind(name: &str) -> Kind {
    Kind { api_version: "v1".to_owned(), name: name.to_owned() }
}

fn definition(kind: &str) -> Vec<u8> {
    let singular = kind.to_lowercase();
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{singular}s.hostile.example") },
        "spec": {
            "group": "hostile.example",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": format!("{singular}s"), "singular": singular },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "default": {},
                            "properties": { "behave": { "type": "boolean", "default": false } },
                        },
                        "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    },
                } },
            }],
        },
    });
    definition.to_string().into_bytes()
}

/// A good ConfigMap: what hostile ones are made from.
pub fn child(name: &str, value: &str) -> Vec<u8> {
    let child = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name },
        "data": { "key": value },
    });
    child.to_string().into_bytes()
}

/// An answer of these children and nothing else.
pub fn response(children: impl IntoIterator<Item = Vec<u8>>) -> Response {
    Response {
        children: children.into_iter().collect(),
        status: None,
        requeue: None,
        events: Vec::new(),
        requirements: Vec::new(),
        finalized: false,
        extensions: Vec::new(),
    }
}
