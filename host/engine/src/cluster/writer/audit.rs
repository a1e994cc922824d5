//! The audit line, and the count of the host's requests by status code, method and host. An audit line is one log line for
//! each write that the host sends, with the status of the response. An observer of the client writes the lines and counts, so
//! no write is sent without a line, except those of the existing Lease. Audit lines are the host's own log of its writes,
//! not the API server's audit log.

use std::sync::Arc;

use http::{Method, Request, header};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;

use super::super::account::signer;
use super::super::lease::is_of_lease;
use super::observed::{Done, Observer};
use super::request::is_read;
use crate::telemetry::{self, AUDIT};

/// The plugin and the object of a write. It is stored in the request's extensions.
#[derive(Debug, Clone)]
pub struct About {
    plugin: PluginName,
    component: Option<Digest>,
    object: Arc<str>,
}

/// Attaches the plugin, its component and the object to a write, for the audit line. Without them the line has the path
/// of the request.
pub fn about(
    mut request: Request<Vec<u8>>,
    plugin: &PluginName,
    component: Option<Digest>,
    object: &impl ToString,
) -> Request<Vec<u8>> {
    request.extensions_mut().insert(About { plugin: plugin.clone(), component, object: object.to_string().into() });
    request
}

/// Logs the host's writes, and counts its requests to the API server of this host name.
#[derive(Debug, Clone)]
pub struct LogAndCount {
    server: Arc<str>,
}

impl LogAndCount {
    /// For the API server of this host name.
    pub fn new(server: &str) -> Self {
        Self { server: server.into() }
    }
}

impl Observer for LogAndCount {
    fn observe<B: 'static>(&self, request: &Request<B>) -> Option<Done> {
        let (write_line, server, method) = (line_writer(request), self.server.clone(), request.method().clone());
        Some(Box::new(move |response| {
            let code = response.map(|(status, _)| status.as_u16());
            telemetry::requested(&server, &method, code);
            if let Some(write_line) = write_line {
                write_line(code.unwrap_or_default());
            }
        }))
    }
}

/// A function that writes the audit line of this write, and gets the HTTP status of the response: 0 if there is none. None for
/// a read, and for a write of the existing Lease: the line of a renewal every few seconds would hide the others.
fn line_writer<B>(request: &Request<B>) -> Option<impl FnOnce(u16) + Send + 'static + use<B>> {
    if is_read(request) || is_of_lease(request) {
        return None;
    }
    let about: Option<About> = request.extensions().get().cloned();
    let (path, verb) = (request.uri().path().to_owned(), verb(request));
    let impersonated_user = signer(request).map(str::to_owned);
    Some(move |code: u16| {
        // The current span is that of this write, or of the reconcile that it belongs to.
        tracing::Span::current().record("http.response.status_code", i64::from(code));
        let plugin = about.as_ref().map(|about| about.plugin.as_str());
        let digest = about.as_ref().and_then(|about| about.component).map(|digest| digest.short());
        let object = about.as_ref().map_or(&*path, |about| &*about.object);
        tracing::info!(target: AUDIT, plugin, digest, impersonated_user, verb, object, code, "write");
    })
}

/// The verb of a write as Kubernetes names it; a server-side apply is `apply`.
fn verb<B>(request: &Request<B>) -> &'static str {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ if content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch")) => "apply",
        _ => "patch",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use futures::FutureExt as _;
    use http::Response;
    use tower::{BoxError, ServiceExt, service_fn};
    use tracing_subscriber::fmt::MakeWriter;

    use super::super::observed::Observed;
    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Log {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// The log lines after requests to an API server that responds with this status, or not at all.
    fn logged(requests: Vec<Request<Vec<u8>>>, code: Option<u16>) -> Vec<String> {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).without_time().with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            let api_server = service_fn(move |_: Request<Vec<u8>>| async move {
                match code {
                    Some(code) => Ok(Response::builder().status(code).body(()).expect("a response")),
                    None => Err(BoxError::from("the connection was cut")),
                }
            });
            let service = Observed { observer: LogAndCount::new("server"), inner: api_server };
            for request in requests {
                let _ = service.clone().oneshot(request).now_or_never().expect("the response is immediate");
            }
        });
        let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    fn request(method: Method, path: &str) -> Request<Vec<u8>> {
        Request::builder().method(method).uri(path).body(Vec::new()).expect("a request")
    }

    #[test]
    fn each_write_has_one_log_line_with_the_response_status() {
        let plugin: PluginName = "echo".parse().expect("a name");
        let pod = request(Method::POST, "/api/v1/namespaces/shop/pods?fieldManager=windlass");
        let lines = logged(vec![about(pod, &plugin, None, &"Pod.v1 shop/web-0")], Some(201));
        assert_eq!(lines.len(), 1, "{lines:?}");
        for field in ["plugin=\"echo\"", "verb=\"create\"", "object=\"Pod.v1 shop/web-0\"", "code=201"] {
            assert!(lines[0].contains(field), "{field}: {lines:?}");
        }
    }

    #[test]
    fn write_without_a_description_is_named_by_its_path() {
        let mut apply =
            request(Method::PATCH, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b.c?force=true");
        apply.headers_mut().insert(header::CONTENT_TYPE, "application/apply-patch+yaml".parse().expect("a value"));
        let lines = logged(vec![apply], Some(409));
        let path = "object=\"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b.c\"";
        assert!(
            lines[0].contains(path) && lines[0].contains("verb=\"apply\"") && lines[0].contains("code=409"),
            "{lines:?}"
        );
    }

    #[test]
    fn lost_response_has_code_0() {
        let lines = logged(vec![request(Method::DELETE, "/api/v1/namespaces/shop/pods/web-0")], None);
        assert!(lines[0].contains("verb=\"delete\"") && lines[0].contains("code=0"), "{lines:?}");
    }

    #[test]
    fn reads_reviews_and_renewals_of_the_lease_have_no_log_line() {
        let none = [
            request(Method::GET, "/api/v1/pods?watch=1"),
            request(Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
            request(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/windlass-system/leases/windlass"),
        ];
        assert_eq!(logged(none.into(), Some(200)), [""; 0]);
    }
}
