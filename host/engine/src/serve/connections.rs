//! Serves connections within limits: any Pod can connect.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// Largest number of connections. A new one ends the oldest of the address that has most of them: a probe has one.
pub(super) const CONNECTIONS: usize = 64;
/// Time for a connection to send its request.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// Lifetime of a connection, which serves one request.
pub(super) const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Size of a connection's buffer, in bytes.
const BUFFER: usize = 16 * 1024;
/// Pause after the system could not accept a connection: it may have no file descriptors left.
const REST: Duration = Duration::from_millis(100);

/// Ends the connection of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionEnd(pub CancellationToken);

/// Serves connections, each for at most `lifetime`, until `stop` is cancelled.
pub(super) async fn serve(listener: TcpListener, app: Router, lifetime: Duration, stop: CancellationToken) {
    let mut connections = Connections::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let end = ConnectionEnd::default();
                let app = app.clone().layer(Extension(end.clone()));
                let serving = serve_connection(stream, app, HEADER_TIME, lifetime);
                let serving = tokio::spawn(end.0.run_until_cancelled_owned(serving));
                connections.add(peer.ip(), serving.abort_handle());
                // A request that has arrived is served before more connections are accepted, which could end this one.
                tokio::task::yield_now().await;
            }
            Err(error) => rest_after(&error).await,
        }
    }
}

/// Serves a connection: one request, then the connection is closed.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    app: Router,
    header_time: Duration,
    lifetime: Duration,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .keep_alive(false)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    // An error of the connection is ignored: it concerns the client.
    let _ = tokio::time::timeout(lifetime, connection).await;
}

/// Handles a failed accept: a broken connection is ignored; after any other error it pauses, so that the loop keeps no
/// thread busy.
async fn rest_after(error: &io::Error) {
    let is_broken = matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset);
    if !is_broken {
        tracing::warn!(%error, "connection not accepted");
        tokio::time::sleep(REST).await;
    }
}

/// The connections that are served, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<(IpAddr, AbortHandle)>);

impl Connections {
    /// Adds a connection from this address.
    fn add(&mut self, peer: IpAddr, connection: AbortHandle) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        while self.0.len() >= CONNECTIONS {
            let share = |peer: &IpAddr| self.0.iter().filter(|(other, _)| other == peer).count();
            // Of the positions with the largest share, `min_by_key` returns the first.
            let position = (0..self.0.len()).min_by_key(|at| self.0.get(*at).map(|(peer, _)| Reverse(share(peer))));
            if let Some((_, oldest)) = position.and_then(|position| self.0.remove(position)) {
                oldest.abort();
            }
        }
        self.0.push_back((peer, connection));
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        for (_, connection) in &self.0 {
            connection.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    #[tokio::test]
    async fn s10_oldest_connection_is_closed_when_the_limit_is_exceeded() {
        let mut connections = Connections::default();
        let tasks: Vec<_> = (0..=CONNECTIONS).map(|_| tokio::spawn(std::future::pending::<()>())).collect();
        for task in &tasks {
            connections.add(peer(1), task.abort_handle());
        }
        assert_eq!(ended(&tasks).await, [0]);
    }

    /// The positions of the tasks that have ended.
    async fn ended(tasks: &[JoinHandle<()>]) -> Vec<usize> {
        tokio::task::yield_now().await;
        (0..tasks.len()).filter(|at| tasks[*at].is_finished()).collect()
    }

    fn peer(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[tokio::test]
    async fn s10_connections_of_the_address_that_has_most_of_them_are_closed_first() {
        let mut connections = Connections::default();
        let tasks: Vec<_> = (0..CONNECTIONS + 3).map(|_| tokio::spawn(std::future::pending::<()>())).collect();
        for (at, task) in tasks.iter().enumerate() {
            // Two addresses have one connection each: the oldest, and the newest.
            let peer = if at == 0 { peer(1) } else { peer(if at < CONNECTIONS + 2 { 2 } else { 3 }) };
            connections.add(peer, task.abort_handle());
        }
        assert_eq!(ended(&tasks).await, [1, 2, 3]);
    }

    /// A server on this listener that responds `ok` to each request.
    fn start(listener: TcpListener) {
        let app = Router::new().route("/", get(async || "ok"));
        tokio::spawn(serve(listener, app, CONNECTION_TIME, CancellationToken::new()));
    }

    /// A connection from this address.
    async fn connect(from: u8, to: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(peer(from), 0)).expect("an address of this machine");
        socket.connect(to).await.expect("connected")
    }

    async fn response(mut stream: TcpStream) -> String {
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response");
        response
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[tokio::test]
    async fn s10_flood_of_connections_from_another_address_does_not_end_a_probe() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        start(listener);
        let mut probe = connect(1, address).await;
        let mut flood = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            flood.push(connect(2, address).await);
        }
        // The first connections of the flood have been ended, so the server has accepted all of them.
        assert_eq!(response(flood.remove(0)).await, "");
        probe.write_all(REQUEST).await.expect("sent");
        assert!(response(probe).await.ends_with("ok"));
    }

    #[tokio::test]
    async fn s10_request_that_has_arrived_is_served_in_a_flood_of_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut probe = connect(1, address).await;
        probe.write_all(REQUEST).await.expect("sent");
        let mut flood = Vec::new();
        // All of them wait to be accepted; the system lets at least 128 wait.
        for _ in 0..CONNECTIONS + CONNECTIONS / 2 {
            flood.push(connect(1, address).await);
        }
        start(listener);
        assert!(response(probe).await.ends_with("ok"));
    }

    #[tokio::test(start_paused = true)]
    async fn s10_connection_that_sends_no_request_times_out() {
        let began = tokio::time::Instant::now();
        let (mut client, server) = tokio::io::duplex(64);
        let serving = tokio::spawn(serve_connection(server, Router::new(), HEADER_TIME, CONNECTION_TIME));
        client.write_all(b"GET /heal").await.expect("sent");
        serving.await.expect("ended");
        // The test's clock advances when all tasks wait.
        assert!((HEADER_TIME..CONNECTION_TIME).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}
