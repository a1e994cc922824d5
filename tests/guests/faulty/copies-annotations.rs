//! Copies the parent's annotations into the labels of a child: their values may be any text.

use hostile_guests::faulty::{Spec, Status, config_map, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, Value, json};

struct CopiesAnnotations;

impl Reconciler for CopiesAnnotations {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("CopiesAnnotations")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let parent: Value = request.parent()?;
        let mut child = config_map(&format!("{}-copy", request.name()), &json!({}));
        if let Some(annotations) = parent.pointer("/metadata/annotations") {
            child["metadata"]["labels"] = annotations.clone();
        }
        Ok(good(&request).child(child))
    }
}

windlass_plugin::export!(CopiesAnnotations);
