//! Opens a TCP socket, an import that the contract does not grant. The component loads; the call traps, and the
//! import is named.

use hostile_guests::{Answer, Failure, Hostile, Request, good};
use wasip2::sockets::{network::IpAddressFamily, tcp_create_socket};

struct Sockets;

impl Hostile for Sockets {
    const KIND: &str = "Sockets";

    fn attack(request: &Request) -> Answer {
        match tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4) {
            Ok(_) => Err(Failure::Failed("there is a network".to_owned())),
            Err(_) => Ok(good(request)),
        }
    }
}

hostile_guests::export!(Sockets);
