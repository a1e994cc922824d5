//! Listens on the addresses of the host's flags.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Number of connections that wait to be accepted: in a flood of connections, the system makes those that find no place wait for a second,
/// which is the timeout of a probe.
const BACKLOG: u32 = 1024;

/// Listens on the address of this flag.
///
/// # Errors
/// If the address cannot be bound.
pub fn listen(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    bind(address).map_err(|error| {
        anyhow::anyhow!(
            "{flag} {address} cannot be listened on: {error}. Set {flag} to another port, or end the process that uses this one"
        )
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A host that starts again need not wait for the connections of the last one.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Number of ports after the default that are tried for the recent calls.
const OTHER_PORTS: u16 = 15;

/// Listens on the address of `--debug-addr`; if the flag is not set, on its default or the next free port, because several hosts may run
/// on a machine.
///
/// # Errors
/// If the address, or each of these ports, cannot be bound.
pub fn listen_debug(address: DebugAddr) -> anyhow::Result<TcpListener> {
    let (mut address, others) = match address {
        DebugAddr::Exactly(address) => (address, 0),
        DebugAddr::From(address) => (address, OTHER_PORTS),
    };
    for _ in 0..others {
        match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                address.set_port(address.port().saturating_add(1));
            }
            Err(_) => break,
        }
    }
    listen("--debug-addr", address)
}

/// Where the recent calls are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebugAddr {
    /// On this address.
    Exactly(SocketAddr),
    /// On this address, or the next port that is free.
    From(SocketAddr),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn recent_calls_are_served_on_the_next_free_port_unless_the_flag_names_one() {
        let first = bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = first.local_addr().expect("an address");
        let other = listen_debug(DebugAddr::From(address)).expect("another port").local_addr().expect("an address");
        assert_eq!(other.ip(), address.ip());
        assert!((address.port() + 1..=address.port() + OTHER_PORTS).contains(&other.port()), "{other}");
        let error = listen_debug(DebugAddr::Exactly(address)).expect_err("in use").to_string();
        assert!(error.starts_with(&format!("--debug-addr {address} cannot be listened on: ")), "{error}");
        assert!(error.contains("Set --debug-addr to another port"), "{error}");
    }
}
