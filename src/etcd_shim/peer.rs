//! Programs of the same user on this machine may ask for the data directory, and no page in a
//! browser.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use rustix::process::geteuid;

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

/// Whether a request over this connection may ask.
pub(super) fn may_ask(ends: Ends, headers: &HeaderMap) -> bool {
    let Ends { peer, local } = ends;
    is_loopback(peer.ip())
        && !headers.contains_key(ORIGIN)
        && names_no_host(headers)
        && user_of(peer, local).is_none_or(|user| user == 0 || user == geteuid().as_raw())
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A page in a browser can have a name of its own resolve to this machine. Such a request names it.
fn names_no_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else {
        return true;
    };
    let host = host.to_str().unwrap_or("?");
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok()
}

/// The user of the process at the other end, where the kernel shows that.
fn user_of(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let table = match peer {
        SocketAddr::V4(_) => "/proc/self/net/tcp",
        SocketAddr::V6(_) => "/proc/self/net/tcp6",
    };
    let (from, to) = (in_table(peer), in_table(local));
    let lines = BufReader::new(File::open(table).ok()?).lines();
    // linear: the kernel has no other list of sockets for everyone.
    lines
        .map_while(Result::ok)
        .find_map(|line| user_in(&line, &from, &to))
}

/// The user in a line of the table, if it is about the socket between these two ends.
fn user_in(line: &str, from: &str, to: &str) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    let is_it = fields.next()? == from && fields.next()? == to;
    // After both addresses: state, queues, timer, retransmissions.
    is_it.then(|| fields.nth(4)?.parse().ok())?
}

/// An address as the kernel prints it: words in the byte order of the machine.
fn in_table(address: SocketAddr) -> String {
    let words: Vec<u32> = match address.ip() {
        IpAddr::V4(ip) => words(&Ipv4Addr::octets(&ip)),
        IpAddr::V6(ip) => words(&Ipv6Addr::octets(&ip)),
    };
    let words: String = words.iter().map(|word| format!("{word:08X}")).collect();
    format!("{words}:{:04X}", address.port())
}

fn words(octets: &[u8]) -> Vec<u32> {
    let (words, _) = octets.as_chunks::<4>();
    words.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn headers(pairs: &[(http::HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_user_of_a_connection_is_seen() {
        for host in ["127.0.0.1", "[::1]"] {
            let listener = TcpListener::bind(format!("{host}:0")).unwrap();
            let local = listener.local_addr().unwrap();
            let stream = TcpStream::connect(local).unwrap();
            let peer = stream.local_addr().unwrap();
            assert_eq!(user_of(peer, local), Some(geteuid().as_raw()), "{host}");
            assert!(may_ask(Ends { peer, local }, &headers(&[])), "{host}");
        }
    }

    #[test]
    fn neither_another_machine_nor_a_page_may_ask() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let local = address("127.0.0.1:2379");
        let may = |peer: SocketAddr, headers: &HeaderMap| may_ask(Ends { peer, local }, headers);
        let none = headers(&[]);
        assert!(!may(address("192.0.2.1:1"), &none));
        assert!(!may(address("[2001:db8::1]:1"), &none));
        let here = address("[::ffff:127.0.0.1]:1");
        assert!(may(here, &none));
        for (host, wanted) in [
            ("127.0.0.1:2379", true),
            ("[::1]:2379", true),
            ("localhost", true),
            ("evil.example:2379", false),
            ("localhost.evil.example", false),
        ] {
            assert_eq!(may(here, &headers(&[(HOST, host)])), wanted, "{host}");
        }
        assert!(!may(here, &headers(&[(ORIGIN, "http://a")])));
    }
}
