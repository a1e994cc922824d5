//! Free loopback ports.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, bail};

use crate::credentials::random_bytes;

/// Below the range that the kernel uses for outgoing connections (32768 and up on Linux); otherwise a client of another
/// test could get the port between this call and its use.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// `N` different ports on which nothing listens now. Another process may still take one of them first, so a caller must
/// be ready to try again with other ports.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    let mut found = BTreeSet::new();
    let mut ports = [0; N];
    for port in &mut ports {
        *port = one(&mut found)?;
    }
    Ok(ports)
}

fn one(found: &mut BTreeSet<u16>) -> Result<u16> {
    for _ in 0..1000 {
        let port = RANGE.start + u16::from_le_bytes(random_bytes()?) % (RANGE.end - RANGE.start);
        if !found.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            found.insert(port);
            return Ok(port);
        }
    }
    bail!("no free loopback port between {} and {} in 1000 tries", RANGE.start, RANGE.end)
}
