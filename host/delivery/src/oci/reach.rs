//! Where a server is: on this machine, in its network, or anywhere. A registry must not make the host send requests to servers that the
//! registry could not reach itself: their responses end in conditions, or are sent to the registry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(super) enum Reach {
    /// Any network.
    #[strum(to_string = "a public address")]
    Public,
    /// A private network (RFC 1918, RFC 4193, RFC 6598, RFC 8215).
    #[strum(to_string = "a private address")]
    Private,
    /// The link of this machine, which has servers such as those for the metadata of cloud instances; also multicast and reserved
    /// addresses.
    #[strum(to_string = "a link-local address")]
    Link,
    /// This machine.
    #[strum(to_string = "an address of this machine")]
    Loopback,
}

impl Reach {
    /// The network of an address. IPv6 addresses that contain an IPv4 address, such as `::ffff:10.0.0.1`, are in its network.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => embedded(address).map_or_else(|| Self::of_v6(address), Self::of_v4),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127 | 0, ..] => Self::Loopback,
            // The last one is the server for the metadata of instances in one of the clouds.
            [169, 254, ..] | [224..=255, ..] | [168, 63, 129, 16] => Self::Link,
            [10, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [100, 64..=127, ..]
            | [198, 18..=19, ..]
            | [192, 0, 0, _] => Self::Private,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Loopback,
            [0xfe80..=0xfebf | 0xff00..=0xffff, ..] => Self::Link,
            // The last ones are for NAT64 within a network (RFC 8215): where the IPv4 address is in them differs.
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Self::Private,
            _ => Self::Public,
        }
    }

    /// The network of a server whose name has these addresses, and whose response came from this one. If it is not one of them, it is that
    /// of a proxy, which says nothing about the server; and the addresses alone say too little: the owner of a name sets them.
    pub fn of_server(addresses: &[SocketAddr], sender: Option<IpAddr>) -> Self {
        let direct = sender.filter(|sender| addresses.iter().any(|address| address.ip() == *sender));
        direct.map_or(Self::Public, Self::of)
    }

    /// Whether a registry in this network may lead the host to a server in the other one: to public servers, to those of its own network,
    /// and from this machine also to those of a private network.
    pub fn may_lead_to(self, other: Self) -> bool {
        other == Self::Public || other == self || (self, other) == (Self::Loopback, Self::Private)
    }

    /// The addresses of a server that a registry in this network may lead to.
    ///
    /// # Errors
    /// The network of the server's first address, if all of them are in other networks.
    pub fn permitted(self, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, Self> {
        let may_be_used = |address: &&SocketAddr| self.may_lead_to(Self::of(address.ip()));
        let permitted: Vec<_> = addresses.iter().filter(may_be_used).copied().collect();
        match addresses.first() {
            Some(first) if permitted.is_empty() => Err(Self::of(first.ip())),
            _ => Ok(permitted),
        }
    }
}

/// The IPv4 address in an IPv6 address: mapped, compatible, translated (NAT64) or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Reach {
        Reach::of(address.parse().expect(address))
    }

    #[test]
    fn addresses_are_in_their_networks_also_if_they_are_written_as_ipv6() {
        for (reach, addresses) in [
            (
                Reach::Loopback,
                [
                    "127.0.0.1",
                    "127.9.9.9",
                    "0.0.0.0",
                    "::1",
                    "::",
                    "::ffff:127.0.0.1",
                    "2002:7f00:1::",
                    "64:ff9b::127.0.0.1",
                ],
            ),
            (
                Reach::Link,
                [
                    "169.254.169.254",
                    "168.63.129.16",
                    "fe80::1",
                    "ff02::1",
                    "224.0.0.1",
                    "::ffff:169.254.169.254",
                    "255.255.255.255",
                    "64:ff9b::169.254.169.254",
                ],
            ),
            (
                Reach::Private,
                [
                    "10.0.0.1",
                    "172.31.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "fd00:ec2::254",
                    "64:ff9b::10.0.0.1",
                    "::10.0.0.1",
                    "64:ff9b:1:7f00::1.1.1.1",
                ],
            ),
            (
                Reach::Public,
                [
                    "1.1.1.1",
                    "172.32.0.1",
                    "100.128.0.1",
                    "2606:4700::1111",
                    "::ffff:1.1.1.1",
                    "64:ff9b::1.1.1.1",
                    "192.0.2.1",
                    "64:ff9b:2::1.1.1.1",
                ],
            ),
        ] {
            for address in addresses {
                assert_eq!(of(address), reach, "{address}");
            }
        }
    }

    #[test]
    fn registry_leads_to_public_servers_and_to_those_of_its_own_network() {
        use Reach::{Link, Loopback, Private, Public};
        let all = [Public, Private, Link, Loopback];
        let leads = |from: Reach| all.into_iter().filter(|to| from.may_lead_to(*to)).collect::<Vec<_>>();
        assert_eq!(
            all.map(leads),
            [vec![Public], vec![Public, Private], vec![Public, Link], vec![Public, Private, Loopback]]
        );
        let addresses = ["10.0.0.1:443", "1.1.1.1:443"].map(|address| address.parse().expect(address));
        assert_eq!(
            Public.permitted(&addresses),
            Ok(vec![addresses[1]]),
            "the name of a server has addresses of two networks"
        );
        assert_eq!(Public.permitted(&addresses[..1]), Err(Private));
        assert_eq!(Private.permitted(&addresses), Ok(addresses.to_vec()));
        assert_eq!(Public.permitted(&[]), Ok(Vec::new()), "unknown here: a proxy may know the server");
    }

    #[test]
    fn network_of_a_server_is_public_unless_its_response_came_from_one_of_its_own_addresses() {
        let addresses = ["10.0.0.1:443", "10.0.0.2:443"].map(|address| address.parse::<SocketAddr>().expect(address));
        let network = |addresses: &[SocketAddr], sender: &str| Reach::of_server(addresses, sender.parse().ok());
        assert_eq!(network(&addresses, "10.0.0.2"), Reach::Private);
        assert_eq!(network(&addresses, "10.0.0.9"), Reach::Public, "the address of a proxy");
        assert_eq!(network(&[], "10.0.0.9"), Reach::Public, "unknown here: a proxy may know the server");
        assert_eq!(Reach::of_server(&addresses, None), Reach::Public);
    }
}
