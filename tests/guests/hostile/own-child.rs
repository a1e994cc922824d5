//! Returns its own parent as a child, so the parent would own itself. The API server reports that the name is taken;
//! the host leaves the parent alone and reports the conflict.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, child_rule, descriptor, name, response};

struct OwnChild;

impl Hostile for OwnChild {
    const KIND: &str = "OwnChild";

    fn describe() -> Descriptor {
        let mut descriptor = descriptor(Self::KIND);
        descriptor.children.push(child_rule("hostile.example/v1", Self::KIND));
        descriptor
    }

    fn attack(request: &Request) -> Outcome {
        let itself = serde_json::json!({
            "apiVersion": "hostile.example/v1",
            "kind": Self::KIND,
            "metadata": { "name": name(request) },
            "spec": { "behave": true },
        });
        let good = hostile_guests::good(request).children;
        Ok(response(good.into_iter().chain([itself.to_string().into_bytes()])))
    }
}

hostile_guests::export!(OwnChild);
