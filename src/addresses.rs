//! The addresses of this machine, and of clients.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The most addresses that are returned. A machine that forwards traffic may have thousands.
const COUNT_MAX: usize = 64;

/// The IPv4 routing tries, whose local leaves are the addresses of the interfaces.
const IPV4: &str = "/proc/net/fib_trie";
/// The IPv6 addresses of the interfaces, one a line.
const IPV6: &str = "/proc/net/if_inet6";

/// Returns the addresses at which a listener on `listening` can be reached: for an unspecified
/// address all of the machine, up to 64. Omits link-local addresses, which are valid within one
/// network only.
pub fn of_listener(listening: IpAddr) -> BTreeSet<IpAddr> {
    if !listening.is_unspecified() {
        return BTreeSet::from([listening]);
    }
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    // A listener on `::` also accepts IPv4.
    let mut found: BTreeSet<IpAddr> = local_leaves(&read(IPV4)).into_iter().collect();
    if listening.is_ipv6() {
        found.extend(interfaces(&read(IPV6)));
    }
    let usable = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified() && !is_link_local(*ip);
    let first = reachable(listening).into_iter();
    let found = found.into_iter().filter(usable).take(COUNT_MAX);
    first.chain(found).collect()
}

/// Returns the address that stands for a client. One IPv6 client usually has 2^64 addresses.
pub fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Returns the local leaves of the tries.
fn local_leaves(trees: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut leaf = None;
    for line in trees.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf.map(IpAddr::from));
        }
    }
    found
}

/// Returns the addresses in the table of interfaces.
fn interfaces(table: &str) -> impl Iterator<Item = IpAddr> {
    let lines = table.lines().filter_map(|line| line.get(..32));
    let numbers = lines.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    numbers.map(|number| Ipv6Addr::from(number).into())
}

/// Returns the address at which other machines reach a daemon that listens here, or `None` if they
/// cannot.
pub fn reachable(listening: IpAddr) -> Option<IpAddr> {
    let found = match listening {
        ip if !ip.is_unspecified() => Some(ip),
        IpAddr::V4(_) => towards("0.0.0.0:0", "198.51.100.1:9"),
        IpAddr::V6(_) => towards("[::]:0", "[2001:db8::1]:9"),
    };
    found.filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Returns the machine's address on the route to `other`, which is reserved for documentation. No
/// packet is sent.
fn towards(any: &str, other: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_the_tables_of_the_kernel() {
        let trees = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                     Local:\n     +-- 192.0.2.0/24 2 0 2\n        |-- 192.0.2.0\n           \
                     /24 link UNICAST\n        |-- 192.0.2.2\n           /32 host LOCAL\n        \
                     |-- 192.0.2.255\n           /32 link BROADCAST\n";
        let own: IpAddr = "192.0.2.2".parse().unwrap();
        assert_eq!(local_leaves(trees), [own]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     20010db8000000000000000000000007 02 40 00 80     eth0\n";
        let wanted = ["::1", "2001:db8::7"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(interfaces(table).collect::<Vec<_>>(), wanted);
        assert_eq!(of_listener(own), BTreeSet::from([own]));
        let all = of_listener(Ipv4Addr::UNSPECIFIED.into());
        assert!(
            all.iter().all(|ip| ip.is_ipv4() && !ip.is_loopback()),
            "{all:?}"
        );
    }

    #[test]
    fn a_daemon_for_this_machine_alone_has_no_address_for_others() {
        let reached = |text: &str| reachable(text.parse().unwrap());
        assert_eq!(reached("127.0.0.1"), None);
        assert_eq!(reached("::1"), None);
        let own = "192.0.2.7".parse().unwrap();
        assert_eq!(reached("192.0.2.7"), Some(own));
        assert!(reached("0.0.0.0").is_none_or(|ip| !ip.is_loopback()));
    }
}
