//! A proxy for TLS connections, for tests of clients that use one.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};

/// A proxy on a free loopback port. It connects only to loopback and, for the hosts that a test names, to the targets
/// that it gives. Dropping it ends it.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// The target of the connection, by the host and port in the request.
    hosts: Vec<(String, String)>,
    asked: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Proxy {
    /// Starts a proxy for these hosts: `("registry.test:443", "127.0.0.1:5000")`.
    pub fn start(hosts: &[(&str, &str)]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port for a proxy")?;
        let address = listener.local_addr()?;
        let hosts = hosts.iter().map(|(host, to)| ((*host).to_owned(), (*to).to_owned())).collect();
        let shared = Arc::new(Shared { hosts, asked: Mutex::default(), is_over: AtomicBool::new(false) });
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.is_over.load(Ordering::Acquire) {
                    break;
                }
                let shared = accepting.clone();
                // A client may disconnect at any time.
                thread::spawn(move || shared.serve(client).ok());
            }
        });
        Ok(Self { address, shared })
    }

    /// The value of `HTTPS_PROXY` for this proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The hosts and ports that clients requested since the last call, in order.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // Wakes the task that accepts connections. If nothing accepts any more, it has ended.
        TcpStream::connect(self.address).ok();
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(client.try_clone()?);
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut header = String::new();
        while reader.read_line(&mut header)? > 2 {
            header.clear();
        }
        let host = match request.split(' ').collect::<Vec<_>>()[..] {
            ["CONNECT", host, _] => host.to_owned(),
            _ => return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n"),
        };
        self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(host.clone());
        let known = self.hosts.iter().find(|(name, _)| *name == host).map(|(_, to)| to.clone());
        let Some(to) = known.or_else(|| host.starts_with("127.0.0.1:").then_some(host)) else {
            return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
        };
        let mut server = TcpStream::connect(to)?;
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        let (mut upward, mut from_client) = (server.try_clone()?, reader);
        thread::spawn(move || {
            io::copy(&mut from_client, &mut upward).ok();
            upward.shutdown(Shutdown::Write).ok();
        });
        io::copy(&mut server, &mut client)?;
        client.shutdown(Shutdown::Write)
    }
}
