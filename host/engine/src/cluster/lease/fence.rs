//! The last check before a write: the connections of writes send no byte while the gate is closed.
//!
//! Between the check of a request and its first byte, a connection may have to be opened, and the process may be
//! stopped. So the check is repeated at each system call that sends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::util::MapResponse;
use tower::{Service, ServiceExt as _};

use super::WriteGate;
use super::gate::NeedsLease;

/// Sends requests that need the Lease on connections of their own, which are fenced.
#[derive(Debug, Clone)]
pub struct Pools<S> {
    /// For requests that need no Lease.
    pub free: S,
    /// For requests that need the Lease.
    pub fenced: S,
}

impl<S, B> Service<Request<B>> for Pools<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        match self.free.poll_ready(context) {
            Poll::Ready(Ok(())) => self.fenced.poll_ready(context),
            other => other,
        }
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let needs_lease = request.extensions().get::<NeedsLease>().is_some();
        if needs_lease { self.fenced.call(request) } else { self.free.call(request) }
    }
}

/// Opens connections as `connector` does, which send nothing while the gate is closed. Without a gate they are not fenced.
pub fn fenced<C: Service<Uri>>(
    connector: C,
    gate: Option<WriteGate>,
) -> MapResponse<C, impl FnOnce(C::Response) -> Fenced<C::Response> + Clone> {
    connector.map_response(move |stream| Fenced { stream, gate })
}

/// A connection that sends nothing while its gate is closed.
#[derive(Debug)]
pub struct Fenced<S> {
    stream: S,
    gate: Option<WriteGate>,
}

impl<S> Fenced<S> {
    fn check(&self) -> io::Result<()> {
        if self.gate.as_ref().is_none_or(WriteGate::is_open) {
            return Ok(());
        }
        Err(io::Error::other("not sent: the Lease was not renewed in time, so another host may hold it"))
    }
}

impl<S: Read + Unpin> Read for Fenced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Fenced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A TCP stream buffers nothing: there is nothing to send here.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: Connection> Connection for Fenced<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::clock::since_boot;

    #[tokio::test]
    async fn h01_connection_of_writes_sends_nothing_more_once_the_gate_is_closed() {
        let gate = WriteGate::default();
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = Fenced { stream: TokioIo::new(near), gate: Some(gate.clone()) };
        gate.leader.open_until(since_boot() + Duration::from_mins(1));
        let sent = poll_fn(|context| Pin::new(&mut stream).poll_write(context, b"before")).await;
        assert_eq!(sent.ok(), Some(6));
        gate.leader.close();
        let refused = poll_fn(|context| Pin::new(&mut stream).poll_write(context, b"after")).await;
        assert!(refused.is_err());
        let parts = [IoSlice::new(b"after")];
        let refused = poll_fn(|context| Pin::new(&mut stream).poll_write_vectored(context, &parts)).await;
        assert!(refused.is_err());
        drop(stream);
        let mut received = String::new();
        far.read_to_string(&mut received).await.expect("the end of the stream");
        assert_eq!(received, "before");
    }
}
