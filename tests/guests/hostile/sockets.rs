//! Opens a TCP socket, which is an unsupported import. The component loads; the call traps, and the message names the
//! import.

use hostile_guests::{Failure, Hostile, Outcome, Request, good};
use wasip2::sockets::{network::IpAddressFamily, tcp_create_socket};

struct Sockets;

impl Hostile for Sockets {
    const KIND: &str = "Sockets";

    fn attack(request: &Request) -> Outcome {
        match tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4) {
            Ok(_) => Err(Failure::Failed("there is a network".to_owned())),
            Err(_) => Ok(good(request)),
        }
    }
}

hostile_guests::export!(Sockets);
