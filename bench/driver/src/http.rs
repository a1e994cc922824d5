//! Plain HTTP to an API server: kept-alive connections, bodies as bytes, and no other work, because the raw client is a
//! limit.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// The response has only the metadata of the written object. Windlass asks for the same.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

/// The number of times that a write is sent if the API server asks to retry later.
const TRIES: u32 = 10;

/// `Content-Type` of a body.
pub const JSON: &str = "application/json";
/// A JSON merge patch.
pub const MERGE: &str = "application/merge-patch+json";
/// A server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";

/// A client of one API server as one user. Clones share its connections.
#[derive(Clone)]
pub struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
    token: HeaderValue,
}

impl Http {
    /// A client from a kubeconfig file with a token.
    pub async fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let user = serde_json::to_value(&file.auth_infos)?;
        let token = user.pointer("/0/user/token").and_then(Value::as_str).context("the kubeconfig holds no token")?;
        let token = HeaderValue::from_str(&format!("Bearer {token}"))?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(config.rustls_https_connector_with_connector(tcp)?),
            server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            token,
        })
    }

    /// Sends a write, and returns the metadata of the written object. Retries if the API server asks for it, as it does
    /// while the storage of a new CRD is set up.
    pub async fn write(&self, method: Method, path: &str, kind: &'static str, body: Bytes) -> anyhow::Result<Bytes> {
        let mut tries = 0;
        loop {
            let request = self
                .request(method.clone(), path)
                .header(header::CONTENT_TYPE, HeaderValue::from_static(kind))
                .header(header::ACCEPT, METADATA_ONLY)
                .body(Full::new(body.clone()))?;
            let (status, answer) = self.answer(request).await?;
            if status.is_success() {
                return Ok(answer);
            }
            tries += 1;
            if status != StatusCode::TOO_MANY_REQUESTS || tries == TRIES {
                bail!("{path}: {status}: {}", String::from_utf8_lossy(&answer));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let bytes = self.get_bytes(path).await?;
        serde_json::from_slice(&bytes).with_context(|| format!("{path}: the response is not JSON"))
    }

    /// The body of [`Http::get`], not parsed.
    pub async fn get_bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        let request = self.request(Method::GET, path).body(Full::default())?;
        let (status, answer) = self.answer(request).await?;
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }

    /// Opens a watch: one line for each event.
    pub async fn watch(&self, path: &str) -> anyhow::Result<Lines> {
        let request = self.request(Method::GET, path).body(Full::default())?;
        let answer = self.client.request(request).await?;
        if !answer.status().is_success() {
            bail!("{path}: {}", answer.status());
        }
        Ok(Lines { body: answer.into_body(), rest: Vec::new(), at: 0 })
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header(header::AUTHORIZATION, self.token.clone())
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)> {
        let answer = self.client.request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}

/// The lines of a body that does not end.
pub struct Lines {
    body: Incoming,
    rest: Vec<u8>,
    at: usize,
}

impl Lines {
    /// The next line; `None` when the server ends the watch.
    pub async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.rest.iter().skip(self.at).position(|byte| *byte == b'\n') {
                let end = self.at + end;
                let line = self.rest.get(self.at..end).unwrap_or_default().to_vec();
                self.at = end + 1;
                return Ok(Some(line));
            }
            self.rest.drain(..self.at);
            self.at = 0;
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}
