//! {{kind}}: writes a message into a ConfigMap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::kinds::ConfigMap;
use windlass_plugin::{CustomResource, Descriptor, Failure, Reconciler, Request, Response, crd, json};

/// The desired message.
#[derive(Deserialize, JsonSchema)]
struct {{kind}}Spec {
    /// The text of the ConfigMap; one line.
    #[schemars(length(min = 1, max = 1000))]
    message: String,
}

/// The observed state.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct {{kind}}Status {
    /// Whether the ConfigMap exists.
    is_written: bool,
}

struct {{kind}};

/// The source of `crd.json`; `UPDATE_EXPECT=1 cargo test` writes that file.
fn kind() -> CustomResource {
    CustomResource::namespaced::<{{kind}}>("{{group}}", "v1", "{{kind}}").column("Message", "string", ".spec.message")
}

impl Reconciler for {{kind}} {
    type Spec = {{kind}}Spec;
    type Status = {{kind}}Status;

    fn descriptor() -> Descriptor {
        Descriptor::new("{{name}}", env!("CARGO_PKG_VERSION"), crd!("../crd.json", kind()))
            .description("Writes a message into a ConfigMap")
            .child::<ConfigMap>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let message = &request.spec.message;
        if message.contains('\n') {
            return Err(Failure::invalid_field("spec.message", "must be one line"));
        }
        let config_map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": request.name() },
            "data": { "message": message },
        });
        let is_written = request.child::<ConfigMap>(request.name()).is_some();
        Ok(Response::new().child(config_map).status({{kind}}Status { is_written }))
    }
}

windlass_plugin::export!({{kind}});

#[cfg(test)]
mod tests {
    use windlass_plugin::testing::{self, golden};
    use windlass_plugin::{Failure, json};

    use super::{{kind}};

    /// Calls the plugin with each file in `cases`, and compares the response with the file `….answer.yaml` beside it.
    #[test]
    fn responses_are_the_expected_ones() {
        golden::check::<{{kind}}>("cases");
    }

    #[test]
    fn crd_json_is_the_crd_of_the_types() {
        golden::crd::<{{kind}}>("crd.json");
    }

    #[test]
    fn message_of_two_lines_is_invalid() {
        let parent = json!({ "metadata": { "name": "hello" }, "spec": { "message": "Hello,\nworld" } });
        let failure = testing::request::<{{kind}}>(parent).call();
        assert_eq!(failure, Err(Failure::invalid_field("spec.message", "must be one line")));
    }
}
