//! The names in the server's certificate.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addresses;
use crate::config::Config;

/// A host name or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Host(String),
    Address(IpAddr),
}

/// The names of the API server within a Kubernetes cluster.
const KUBERNETES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];

const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Returns all names for a configuration.
pub(super) fn of(config: &Config) -> BTreeSet<Name> {
    // Where this file does not reveal the machine's name, the operator can set it with tls-san.
    let host = std::fs::read_to_string(HOST_NAME_FILE).unwrap_or_default();
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let addresses = loopback
        .into_iter()
        .chain(config.service_cluster_ip_range.first_usable())
        .chain(config.advertise_address.0)
        .chain(addresses::of_listener(config.bind_address.0));
    let texts = KUBERNETES
        .into_iter()
        .chain(config.tls_san.0.iter().map(String::as_str))
        .chain([host.trim()]);
    texts
        .filter_map(name)
        .chain(addresses.map(Name::Address))
        .collect()
}

/// Parses a name. Returns `None` for text that is neither a host name nor an address.
fn name(text: &str) -> Option<Name> {
    if let Ok(address) = text.parse() {
        return Some(Name::Address(address));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '*');
    (!text.is_empty() && text.len() <= 253 && text.chars().all(allowed))
        .then(|| Name::Host(text.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BindAddress, Names};

    #[test]
    fn the_certificate_carries_the_names_clients_use() {
        let names = of(&Config {
            bind_address: BindAddress(IpAddr::V4(Ipv4Addr::new(192, 168, 3, 4))),
            tls_san: Names(vec!["api.example".to_owned(), "10.9.8.7".to_owned()]),
            ..Config::default()
        });
        for host in [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "api.example",
        ] {
            assert!(names.contains(&Name::Host(host.to_owned())), "{host}");
        }
        for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.3.4", "10.9.8.7"] {
            let address = address.parse().unwrap();
            assert!(names.contains(&Name::Address(address)), "{address}");
        }
    }

    #[test]
    fn what_the_service_of_the_api_publishes_is_a_name_and_an_unspecified_address_is_none() {
        let names = of(&Config {
            bind_address: BindAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            advertise_address: "192.0.2.7".parse().unwrap(),
            service_cluster_ip_range: "10.96.0.0/16,fd00::/108".parse().unwrap(),
            ..Config::default()
        });
        for address in ["192.0.2.7", "10.96.0.1", "fd00::1"] {
            let address = address.parse().unwrap();
            assert!(names.contains(&Name::Address(address)), "{address}");
        }
        assert!(!names.contains(&Name::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED))));
    }
}
