//! Shared by the guests of the tests: here by the hostile ones, in [`puppet`] by the scripted ones, in [`hold`] by some
//! decorators, in [`spy`] by those that publish the data that they receive, and in [`faulty`] by plugins with a bug.
//!
//! The hostile ones are of contract 0.1 ([`raw`]), as are the scripted ones and the spies, which are on the SDK ([`older`]).
//!
//! Each hostile guest reconciles a kind of its own (`EndlessLoop` in group `hostile.example`), so that one host can
//! load all of them. It may own `ConfigMaps` and `Pods`. While the parent's spec has `behave: true`, it returns one
//! ConfigMap `<parent>-child`; then it misbehaves, and a test can check that nothing is written or deleted.
//!
//! The unloadable ones are hostile before that: their descriptors or files are.

pub mod faulty;
pub mod hold;
pub mod older;
pub mod open_kind;
pub mod puppet;
pub mod raw;
pub mod spy;

pub use raw::{
    ChildRule, Descriptor, Failure, Kind, Parent, Phase, Request, Requirement, Response, Selection, UpdateStrategy,
};
use raw::{ExistingParent, exports::windlass::plugin::reconciler::Guest};
use serde_json::Value;

/// The result of a guest's call.
pub type Outcome = Result<Response, Failure>;

/// A guest with hostile calls.
pub trait Hostile {
    /// The kind of its parents; the plural is the same in lower case with an `s`.
    const KIND: &str;

    /// Its descriptor.
    fn describe() -> Descriptor {
        descriptor(Self::KIND)
    }

    /// The hostile reconcile call.
    ///
    /// # Errors
    ///
    /// Any.
    fn attack(request: &Request) -> Outcome {
        Ok(good(request))
    }

    /// The hostile finalize call, if the descriptor says that the guest finalizes.
    ///
    /// # Errors
    ///
    /// Any.
    fn finalize(_request: &Request) -> Outcome {
        Ok(Response { finalized: true, ..response([]) })
    }
}

/// Exports a [`Hostile`] type as the component.
#[macro_export]
macro_rules! export {
    ($guest:ident) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Guest = $crate::Adapter<$guest>;
    $crate::raw::export_component!(Guest with_types_in $crate::raw);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn(&$crate::Request) -> $crate::Outcome = <$guest as $crate::Hostile>::attack;
    };
}

/// Connects the contract with a [`Hostile`] type.
pub struct Adapter<H>(std::marker::PhantomData<H>);

impl<H: Hostile> Guest for Adapter<H> {
    fn describe() -> Descriptor {
        H::describe()
    }

    fn reconcile(request: Request) -> Outcome {
        #[cfg(target_family = "wasm")]
        std::panic::set_hook(Box::new(|panic| raw::host::log(raw::host::Level::Error, &panic.to_string(), &[])));
        if request.phase == Phase::Finalize {
            return H::finalize(&request);
        }
        if parent(&request).pointer("/spec/behave") == Some(&true.into()) {
            return Ok(good(&request));
        }
        H::attack(&request)
    }
}

/// The descriptor of a guest that behaves.
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

/// A declaration that the guest may own objects of a kind.
pub fn child_rule(api_version: &str, name: &str) -> ChildRule {
    ChildRule { kind: kind(api_version, name), update: UpdateStrategy::Apply }
}

/// A kind.
pub fn kind(api_version: &str, name: &str) -> Kind {
    Kind { api_version: api_version.to_owned(), name: name.to_owned() }
}

/// All objects of an existing kind, as parents.
pub fn existing(api_version: &str, name: &str) -> Parent {
    Parent::Existing(ExistingParent { kind: kind(api_version, name), selector: None })
}

/// The parent, parsed.
pub fn parent(request: &Request) -> Value {
    serde_json::from_slice(&request.parent).unwrap_or_default()
}

/// The parent's name.
pub fn name(request: &Request) -> String {
    parent(request).pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?").to_owned()
}

/// The response of a guest that behaves.
pub fn good(request: &Request) -> Response {
    response([child(&format!("{}-child", name(request)), "")])
}

/// The CRD of a kind of parents.
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

/// A valid ConfigMap, of which the hostile ones are variants.
pub fn child(name: &str, value: &str) -> Vec<u8> {
    let child = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name },
        "data": { "key": value },
    });
    child.to_string().into_bytes()
}

/// A response with these children and nothing else.
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
