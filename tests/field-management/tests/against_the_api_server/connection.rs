//! A connection to the API server, and the search for the shortest history that still differs. The comparison of `tests/api-server`
//! includes this file, too.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_testbed::Cluster;

/// A request.
pub struct Send {
    pub method: Method,
    pub url: String,
    pub content_type: &'static str,
    pub body: Value,
    /// Another user than the administrator.
    pub user: Option<&'static str>,
}

impl Send {
    /// A request with or without a body of JSON.
    pub fn json(method: Method, url: &str, body: Value) -> Self {
        Self { method, url: url.to_owned(), content_type: "application/json", body, user: None }
    }
}

/// A number that the environment may change.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Stops the controllers, which would write, too.
pub fn stop_controllers(cluster: &Cluster) {
    for component in ["kube-controller-manager", "kube-scheduler", "kwok"] {
        cluster.stop_component(component).expect("a component that stops");
    }
}

pub fn connect(kubeconfig: &Path) -> (Runtime, Client) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let config = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig file");
    let config = runtime.block_on(Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()));
    let client = {
        let _context = runtime.enter();
        Client::try_from(config.expect("a readable kubeconfig file")).expect("a client")
    };
    (runtime, client)
}

/// Creates definitions of custom kinds, and waits until these collections are served.
pub fn define(runtime: &Runtime, client: &Client, definitions: &[Value], collections: &[String]) {
    for definition in definitions {
        let url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let send = Send::json(Method::POST, url, definition.clone());
        let (code, body) = runtime.block_on(response(client.clone(), send));
        assert!(code == 201 || code == 409, "{body}");
    }
    for collection in collections {
        windlass_testbed::until(format!("{collection} to be served"), Duration::from_mins(1), || {
            let send = Send::json(Method::GET, collection, Value::Null);
            let (code, _) = runtime.block_on(response(client.clone(), send));
            Ok((code == 200).then_some(()))
        })
        .expect("a served kind");
    }
    // A kind is served before an apply knows its schema, which the API server publishes.
    for collection in collections {
        let group = collection.split('/').take(4).collect::<Vec<_>>().join("/");
        let plural = collection.rsplit('/').next().map(|plural| format!("/{plural}")).unwrap_or_default();
        windlass_testbed::until(format!("the schema of {collection}"), Duration::from_mins(1), || {
            let send = Send::json(Method::GET, &format!("/openapi/v3{group}"), Value::Null);
            let (code, schema) = runtime.block_on(response(client.clone(), send));
            let mut paths = schema["paths"].as_object().into_iter().flatten().map(|(path, _)| path);
            Ok((code == 200 && paths.any(|path| path.ends_with(&plural))).then_some(()))
        })
        .expect("a published schema");
    }
}

/// The response to a request: its code and body.
pub async fn response(client: Client, send: Send) -> (u16, Value) {
    let Send { method, url, content_type, body, user } = send;
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let mut request = Request::builder().method(method).uri(url).header("content-type", content_type);
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    let request = request.body(Body::from(body)).expect("a request");
    let response = client.send(request).await.expect("a response");
    let code = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.expect("a body");
    (code, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
}

/// Removes steps for as long as a difference stays: of all shorter histories at once, the shortest that still differs. `run` gives the
/// difference of each history, and the step of it.
pub fn shrink<S: Clone, D>(
    mut steps: Vec<S>,
    mut difference: (usize, D),
    mut run: impl FnMut(&[Vec<S>]) -> Vec<Option<(usize, D)>>,
) -> (Vec<S>, D) {
    steps.truncate(difference.0 + 1);
    loop {
        let shorter: Vec<_> = cuts(steps.len()).map(|cut| without(&steps, cut)).collect();
        let found = shorter.iter().zip(run(&shorter)).filter_map(|(steps, found)| Some((steps, found?)));
        let Some((next, found)) = found.min_by_key(|(_, found)| found.0) else { return (steps, difference.1) };
        steps.clone_from(next);
        steps.truncate(found.0 + 1);
        difference = found;
    }
}

/// The runs of steps to leave out: single steps, pairs, and so on to a half.
fn cuts(count: usize) -> impl Iterator<Item = Range<usize>> {
    let sizes = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(move |size| *size <= count / 2 + 1);
    sizes.flat_map(move |size| (0..count).step_by(size).map(move |start| start..(start + size).min(count)))
}

fn without<S: Clone>(steps: &[S], cut: Range<usize>) -> Vec<S> {
    let mut shorter = steps.to_vec();
    shorter.drain(cut);
    shorter
}
