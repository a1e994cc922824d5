//! The connections of a host: requests that need the Lease go through the engine's own fence, on a stream in memory, and all others reach
//! the network as they are.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1 as near;
use hyper::server::conn::http1 as far;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::DuplexStream;
use tower::{BoxError, Service};
use windlass_engine::cluster::lease::{Pools, WriteGate, fenced};

use crate::network::{Network, Responded};

/// Bytes that a stream has room for.
const ROOM: usize = 1 << 16;

/// The connections of a host whose writes a gate fences, as the engine's own client has them.
pub fn connect(network: &Network, host: usize, gate: &WriteGate) -> Pools<Connection> {
    let to = |gate| Connection { network: network.clone(), host, gate };
    Pools { free: to(None), fenced: to(Some(gate.clone())) }
}

/// One kind of a host's connections.
#[derive(Clone)]
pub struct Connection {
    network: Network,
    host: usize,
    gate: Option<WriteGate>,
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Responded>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Responded>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { network, host, gate } = self.clone();
        async move {
            let Some(gate) = gate else {
                network.until_awake(host).await;
                return network.respond(host, request).await;
            };
            // The host has decided to write, and opens a connection; it may be paused before it sends anything.
            network.sleep_on_the_way(request.uri().path()).await;
            network.until_awake(host).await;
            through(FarEnd { network, host }, gate, request).await
        }
        .boxed()
    }
}

/// Sends a request on a stream of its own.
async fn through(far_end: FarEnd, gate: WriteGate, request: Request<Body>) -> Result<Response<Responded>, BoxError> {
    let stream = fenced(far_end, Some(gate)).call(request.uri().clone()).await?;
    let (mut sender, connection) = near::handshake(stream).await?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

/// Opens streams whose far end is the network.
#[derive(Clone)]
struct FarEnd {
    network: Network,
    host: usize,
}

impl Service<Uri> for FarEnd {
    type Response = TokioIo<DuplexStream>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (near, far_side) = tokio::io::duplex(ROOM);
        let Self { network, host } = self.clone();
        let respond = service_fn(move |request| network.clone().respond(host, request));
        // The date would be that of the machine.
        tokio::spawn(far::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(far_side), respond));
        ready(Ok(TokioIo::new(near)))
    }
}
