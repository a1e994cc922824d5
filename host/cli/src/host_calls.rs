//! Asks hosts for their recent calls: at an address, or through the API server (`pods/portforward`).

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use windlass_core::object::names::LABEL_SHARD;
use windlass_engine::cluster::lease::NAME as LEASE;
use windlass_engine::command::cluster::ClusterArgs;

use super::connect::{HostNamespaceArgs, plain};

/// The port of a host's recent calls in its Pod.
const PORT: u16 = 8081;
/// Maximum size of a response or a line, in bytes: a call has at most some megabytes.
const SIZE_MAX: usize = 256 * 1024 * 1024;

/// Time limit of a connection, and of each part of a response that a host sends at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// The message about a connection that ended before its response, and that about one for a recording.
const LOST: &str = "the connection to the host was lost";
const LOST_RECORDING: &str =
    "the connection to the host was lost; a host serves a few recordings at a time, and a new one ends the oldest";
/// The name of a response in the message about [`PATIENCE`].
const RESPONSE: &str = "the host's response";

/// Where the hosts are.
#[derive(Debug, clap::Args)]
pub struct HostArgs {
    /// Address of the host's recent calls (its --debug-addr), as in `http://127.0.0.1:8081`; default: a port-forward to the Pod
    /// that holds the Lease, and with --shards to each Pod that holds a shard
    #[arg(long, value_name = "URL")]
    debug_addr: Option<String>,
    #[command(flatten)]
    namespace: HostNamespaceArgs,
}

/// A connection to a host.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl HostArgs {
    /// The response of each host to a request for this path.
    ///
    /// # Errors
    /// If a host cannot be reached, or rejects the request.
    pub async fn get(&self, cluster: &ClusterArgs, path: &str) -> anyhow::Result<Vec<Bytes>> {
        let mut responses = Vec::new();
        for connection in self.connections(cluster).await? {
            let mut body = in_time(RESPONSE, request(connection, path)).await?;
            let mut whole = Vec::new();
            while let Some(part) = in_time(RESPONSE, next_part(&mut body, LOST)).await? {
                whole.extend_from_slice(&part);
                if whole.len() > SIZE_MAX {
                    bail!("the host's response has more than {SIZE_MAX} bytes; ask for fewer parents");
                }
            }
            responses.push(whole.into());
        }
        Ok(responses)
    }

    /// The lines of a recording that all hosts send in response to a request for this path. With `follows`, a host sends a line whenever
    /// it has a new one; otherwise it sends all lines at once.
    ///
    /// # Errors
    /// If a host cannot be reached, or rejects the request.
    pub async fn lines(
        &self,
        cluster: &ClusterArgs,
        path: &str,
        follows: bool,
    ) -> anyhow::Result<BoxStream<'static, anyhow::Result<Vec<u8>>>> {
        let mut all = Vec::new();
        for connection in self.connections(cluster).await? {
            all.push(lines_of(in_time(RESPONSE, request(connection, path)).await?, follows));
        }
        Ok(stream::select_all(all).boxed())
    }

    async fn connections(&self, cluster: &ClusterArgs) -> anyhow::Result<Vec<Box<dyn Connection>>> {
        in_time("the connection to the host", self.connect(cluster)).await
    }

    async fn connect(&self, cluster: &ClusterArgs) -> anyhow::Result<Vec<Box<dyn Connection>>> {
        if let Some(address) = &self.debug_addr {
            let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
            let stream = TcpStream::connect(address).await.with_context(|| {
                format!("no host serves recent calls at {address}; compare it with the host's --debug-addr")
            })?;
            return Ok(vec![Box::new(stream)]);
        }
        let client = cluster.client().await?;
        let namespace = &self.namespace.host_namespace;
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let mut connections = Vec::<Box<dyn Connection>>::new();
        for name in holders(&Api::namespaced(client, namespace), namespace).await? {
            let unreachable = || {
                format!(
                    "no port-forward to Pod {namespace}/{name}, which holds the Lease: it needs the permissions to get and \
                     create pods/portforward there. For a host outside the cluster, or with another --debug-addr, name its address with \
                     --debug-addr"
                )
            };
            let mut forwarder = pods.portforward(&name, &[PORT]).await.map_err(plain).with_context(unreachable)?;
            let stream = forwarder.take_stream(PORT).with_context(unreachable)?;
            // It ends when the stream is dropped.
            tokio::spawn(async move { forwarder.join().await });
            connections.push(Box::new(stream));
        }
        Ok(connections)
    }
}

/// Waits for a part of the work with a host, with a time limit.
async fn in_time<T>(what: &str, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let Ok(result) = tokio::time::timeout(PATIENCE, work).await else {
        bail!("{what} took more than {} s; is the host healthy, and its address right?", PATIENCE.as_secs());
    };
    result
}

/// The Pods that hold the leader's Lease or a shard's.
async fn holders(leases: &Api<Lease>, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let shards = leases.list(&ListParams::default().labels(LABEL_SHARD)).await;
    let shards = shards.map_err(plain).with_context(|| {
        format!(
            "the Leases in namespace {namespace}, which name the host's Pods, cannot be listed (users without this permission find the \
             conditions and events of a parent by `kubectl describe`)"
        )
    })?;
    let leader = leases.get_opt(LEASE).await.map_err(plain).with_context(|| format!("Lease {namespace}/{LEASE}"))?;
    let holders: BTreeSet<_> = shards.items.iter().chain(&leader).filter_map(holder).collect();
    if holders.is_empty() {
        bail!("no host runs: no Pod holds the Lease {namespace}/{LEASE}. Is --host-namespace right?");
    }
    Ok(holders)
}

/// The Pod that holds a Lease.
fn holder(lease: &Lease) -> Option<String> {
    let identity = lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    // The identity of a host is its Pod's name and the name of its process.
    Some(identity.rsplit_once('_').map_or(identity, |(pod, _)| pod).to_owned())
}

/// Sends a request, and returns the body of the response.
async fn request(connection: Box<dyn Connection>, path: &str) -> anyhow::Result<Incoming> {
    let (mut sender, serving) =
        http1::handshake(TokioIo::new(connection)).await.context("the host does not respond")?;
    tokio::spawn(serving);
    let request = Request::get(path).header(header::HOST, "localhost").body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.context("the host does not respond")?;
    let (status, mut body) = (response.status(), response.into_body());
    if status != StatusCode::OK {
        let message = next_part(&mut body, LOST).await?.unwrap_or_default();
        bail!("the host rejects the request ({status}): {}", String::from_utf8_lossy(&message).trim());
    }
    Ok(body)
}

/// The next part of a body; an error with this message if the connection has ended.
async fn next_part(body: &mut Incoming, lost: &'static str) -> anyhow::Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.context(lost)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// The lines of a recording, without their ends. With `follows`, there may be any time between its parts.
fn lines_of(body: Incoming, follows: bool) -> BoxStream<'static, anyhow::Result<Vec<u8>>> {
    // The last number is that of the bytes in which no end of a line was found.
    let begin = (body, Vec::<u8>::new(), 0);
    let lines = stream::try_unfold(begin, move |(mut body, mut rest, mut scanned)| async move {
        loop {
            if let Some(at) = rest.iter().skip(scanned).position(|byte| *byte == b'\n') {
                let end = scanned + at;
                let after = rest.split_off(end + 1);
                rest.truncate(end);
                return Ok(Some((rest, (body, after, 0))));
            }
            scanned = rest.len();
            let part = next_part(&mut body, LOST_RECORDING);
            let part = if follows { part.await } else { in_time(RESPONSE, part).await };
            let Some(part) = part? else { return Ok(None) };
            ensure!(rest.len() < SIZE_MAX, "a call has more than {SIZE_MAX} bytes");
            rest.extend_from_slice(&part);
        }
    });
    lines.boxed()
}

/// The characters of a value in a query that are escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path, which has no query yet, with one; absent values are left out.
pub fn path_of(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let fields =
        query.iter().filter_map(|(name, value)| Some(format!("{name}={}", utf8_percent_encode((*value)?, ESCAPED))));
    let query = fields.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn host_that_accepts_a_connection_and_never_responds_is_an_error() {
        let (near, _far) = tokio::io::duplex(1024);
        let error = in_time(RESPONSE, request(Box::new(near), "/calls")).await.expect_err("no response");
        assert!(error.to_string().contains("the host's response took more than 30 s"), "{error}");
    }

    #[tokio::test]
    async fn lines_are_found_across_the_parts_of_a_body() {
        // The buffer makes parts of at most four bytes.
        let (near, mut far) = tokio::io::duplex(4);
        let body = "one\n\na longer line\nand a second\n";
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        tokio::spawn(async move {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(far.read_u8().await?);
            }
            far.write_all(response.as_bytes()).await
        });
        let lines = lines_of(request(Box::new(near), "/calls").await.expect("a response"), false);
        let lines: Vec<_> = lines.map(|line| String::from_utf8(line.expect("a line")).expect("text")).collect().await;
        assert_eq!(lines, ["one", "", "a longer line", "and a second"]);
    }

    /// Sends a part of a response to each request, and closes the connection.
    async fn serve_in_part(listener: TcpListener) -> std::io::Result<()> {
        loop {
            let (mut stream, _) = listener.accept().await?;
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await?);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}\n").await?;
        }
    }

    #[tokio::test]
    async fn lost_connection_may_have_been_ended_by_another_recording_only_if_it_was_for_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let debug_addr = Some(listener.local_addr().expect("an address").to_string());
        tokio::spawn(serve_in_part(listener));
        let host = HostArgs { debug_addr, namespace: HostNamespaceArgs { host_namespace: String::new() } };
        let cluster = ClusterArgs::default();
        let error = host.get(&cluster, "/calls").await.expect_err("lost");
        assert_eq!(error.to_string(), "the connection to the host was lost");
        let lines: Vec<_> = host.lines(&cluster, "/calls/stream", true).await.expect("a response").collect().await;
        let shown: Vec<_> = lines.iter().map(|line| line.as_ref().map_err(ToString::to_string)).collect();
        assert_eq!(shown, [Ok(&b"{}".to_vec()), Err(LOST_RECORDING.to_owned())]);
    }

    #[test]
    fn query_is_escaped() {
        let query = [("kind", Some("Echo.v1")), ("name", Some("a&b c")), ("plugin", None)];
        assert_eq!(path_of("/calls", &query), "/calls?kind=Echo.v1&name=a%26b%20c");
        assert_eq!(path_of("/calls", &[("plugin", None)]), "/calls");
    }

    #[test]
    fn holder_of_a_lease_is_a_pod() {
        let lease = |holder: &str| Lease {
            spec: Some(LeaseSpec { holder_identity: Some(holder.to_owned()), ..LeaseSpec::default() }),
            ..Lease::default()
        };
        assert_eq!(holder(&lease("windlass-7d4_2f-1-2")).as_deref(), Some("windlass-7d4"));
        assert_eq!(holder(&lease("")), None);
    }
}
