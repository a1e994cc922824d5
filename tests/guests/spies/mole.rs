//! Searches for data that it was not given: by the requirements in its parent's script, and through everything that
//! WASI offers. Sockets and HTTP trap, so it tries these only if the parent has the annotation `puppets.example/reach`.

use hostile_guests::{puppet, spy};
use serde_json::{Value, json};
use wasip2::{
    cli::{environment, stdin},
    filesystem::{
        preopens,
        types::{DescriptorFlags, OpenFlags, PathFlags},
    },
    http::types::{Fields, OutgoingRequest},
    sockets::{network::IpAddressFamily, tcp_create_socket},
};
use windlass_plugin::kinds::Pod;

hostile_guests::puppet!(
    Mole,
    puppet::descriptor("mole", puppet::namespaced::<Mole>("Mole")).config::<spy::Anything>().child::<Pod>(),
    |request| {
        reach(request.metadata.annotations.get("puppets.example/reach").map_or("", String::as_str));
        spy::spy(request, &around())
    }
);

/// Paths at which a Pod has confidential data.
const FILES: [&str; 3] = ["var/run/secrets/kubernetes.io/serviceaccount/token", "proc/self/environ", "etc/passwd"];

const AT_MOST: u64 = 64 * 1024;

/// Everything that the guest can read besides its request.
fn around() -> Value {
    let mut files = Vec::new();
    for (folder, path) in preopens::get_directories() {
        for name in FILES {
            let file = folder.open_at(PathFlags::empty(), name, OpenFlags::empty(), DescriptorFlags::READ);
            let bytes = file.and_then(|file| file.read(AT_MOST, 0)).map(|(bytes, _)| lossy(&bytes));
            files.push(format!("{path}/{name}: {bytes:?}"));
        }
    }
    json!({
        "environment": environment::get_environment(),
        "arguments": environment::get_arguments(),
        "folder": environment::initial_cwd(),
        "files": files,
        "input": stdin::get_stdin().blocking_read(AT_MOST).map_or_else(|_| String::new(), |bytes| lossy(&bytes)),
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Imports that the host does not support.
fn reach(what: &str) {
    match what {
        "sockets" => drop(tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4)),
        "http" => drop(OutgoingRequest::new(Fields::new())),
        _ => {}
    }
}
