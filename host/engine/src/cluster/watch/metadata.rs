//! Requests metadata in place of objects, for watches to which nothing else matters.

use http::header::{ACCEPT, HeaderValue};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

const LIST: HeaderValue = HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
const WATCH: HeaderValue = HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// A client whose lists and watches are of metadata.
pub(super) fn of_client(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |mut request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|one| one.starts_with("watch=")));
        request.headers_mut().insert(ACCEPT, if is_watch { WATCH } else { LIST });
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}
