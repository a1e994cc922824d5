//! What the guests of the tests share: here what the hostile ones do, in [`puppet`] the scripted ones, in [`hold`] some
//! decorators, in [`spy`] those that tell what they are handed.
//!
//! Each hostile guest is a plugin on a kind of its own (`EndlessLoop` in group `hostile.example`), so that all can be loaded into one
//! host. It may own a `ConfigMap` or a `Pod`. While the parent's spec says `behave: true`, it answers with one ConfigMap
//! `<parent>-child`; then it turns hostile, and a test can see that nothing was written or deleted.
//!
//! The unloadable ones are hostile before that: in what they say of themselves.

pub mod hold;
pub mod puppet;
pub mod spy;

use serde_json::Value;
pub use windlass_plugin::raw::{
    ChildRule, Descriptor, Failure, Kind, Parent, Phase, Request, Requirement, Response, Selection, UpdateStrategy,
};
use windlass_plugin::raw::{ExistingParent, exports::windlass::plugin::reconciler::Guest};

/// What a guest says.
pub type Answer = Result<Response, Failure>;

/// A guest that means no good.
pub trait Hostile {
    /// Its parents' kind; the plural is the same in lower case with an `s`.
    const KIND: &str;

    /// What it says of itself.
    fn describe() -> Descriptor {
        descriptor(Self::KIND)
    }

    /// What it does instead of its work.
    ///
    /// # Errors
    ///
    /// As it pleases.
    fn attack(request: &Request) -> Answer {
        Ok(good(request))
    }

    /// What it does instead of cleaning up, if it says that it finalizes.
    ///
    /// # Errors
    ///
    /// As it pleases.
    fn finalize(_request: &Request) -> Answer {
        Ok(Response { finalized: true, ..response([]) })
    }
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
        H::describe()
    }

    fn reconcile(request: Request) -> Answer {
        #[cfg(target_family = "wasm")]
        std::panic::set_hook(Box::new(|panic| windlass_plugin::log::error(panic.to_string())));
        if request.phase == Phase::Finalize {
            return H::finalize(&request);
        }
        if parent(&request).pointer("/spec/behave") == Some(&true.into()) {
            return Ok(good(&request));
        }
        H::attack(&request)
    }
}

/// The descriptor of a plugin that means well.
pub fn descriptor(parent_kind: &str) -> Descriptor {
    Descriptor {
        name: parent_kind.to_lowercase(),
        version: "0.1.0".to_owned(),
        description: "A guest that a host must withstand".to_owned(),
        parent: Parent::Custom(definition(parent_kind).to_string().into_bytes()),
        children: vec![child_rule("v1", "ConfigMap"), child_rule("v1", "Pod")],
        related: Vec::new(),
        finalizes: false,
        resync: None,
        config_schema: None,
        metrics: Vec::new(),
        extensions: Vec::new(),
    }
}

/// The wish to own objects of a kind.
pub fn child_rule(api_version: &str, name: &str) -> ChildRule {
    ChildRule { kind: kind(api_version, name), update: UpdateStrategy::Apply }
}

/// A kind.
pub fn kind(api_version: &str, name: &str) -> Kind {
    Kind { api_version: api_version.to_owned(), name: name.to_owned() }
}

/// All objects of a kind that exists already.
pub fn existing(api_version: &str, name: &str) -> Parent {
    Parent::Existing(ExistingParent { kind: kind(api_version, name), selector: None })
}

/// The parent, read.
pub fn parent(request: &Request) -> Value {
    serde_json::from_slice(&request.parent).unwrap_or_default()
}

/// The parent's name.
pub fn name(request: &Request) -> String {
    parent(request).pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?").to_owned()
}

/// The answer of a guest that behaves.
pub fn good(request: &Request) -> Response {
    response([child(&format!("{}-child", name(request)), "")])
}

/// The definition of a parents' kind.
pub fn definition(kind: &str) -> Value {
    let singular = kind.to_lowercase();
    serde_json::json!({
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
    })
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
