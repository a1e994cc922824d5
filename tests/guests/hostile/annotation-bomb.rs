//! Returns a child with 20 000 annotations, more than the API server accepts. The API server rejects the child, and the
//! parent's condition reports it; nothing else is affected.

use hostile_guests::{Hostile, Outcome, Request, good, response};

struct AnnotationBomb;

impl Hostile for AnnotationBomb {
    const KIND: &str = "AnnotationBomb";

    fn attack(request: &Request) -> Outcome {
        let annotations: Vec<_> = (0..20_000).map(|index| format!(r#""hostile.example/a{index}":"x""#)).collect();
        let child = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"bomb","annotations":{{{}}}}}}}"#,
            annotations.join(",")
        );
        Ok(response(good(request).children.into_iter().chain([child.into_bytes()])))
    }
}

hostile_guests::export!(AnnotationBomb);
