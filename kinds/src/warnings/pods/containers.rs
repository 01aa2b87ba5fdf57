//! Warnings about containers: resources, environment variables and ports.

use std::collections::{BTreeSet, HashMap, HashSet};

use api::field::Field;
use api::warnings::Warnings;

use super::super::{quoted, warn, warn_of_fraction};
use super::for_containers;

/// Warns of the resources and environment variables of a container.
pub(super) fn warn_of_container(container: &Field<'_>, warnings: &Warnings) {
    let resources = container.member("resources");
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            warn_of_fraction(&resources.member(list).key(resource), warnings);
        }
    }
    let mut seen = HashSet::new();
    for variable in container.member("env").items() {
        let name = variable.member("name");
        let is_first = seen.insert(name.text().to_owned());
        if !is_first && hides(&variable, name.text()) {
            let shown = quoted(name.text());
            let text = format!(
                "hides previous definition of {shown}, which may be dropped when using apply"
            );
            warn(&variable, text, warnings);
        }
    }
}

/// Reports whether a variable replaces an earlier one of the same name. One whose value refers to
/// the earlier one extends it.
fn hides(variable: &Field<'_>, name: &str) -> bool {
    let earlier = format!("$({name})");
    let value = variable.member("value");
    let adds = value.text().contains(&earlier) && value.text() != earlier;
    variable.member("valueFrom").is_set() || !adds
}

/// A port of a container, with the members by which ports are compared.
struct Port {
    path: String,
    container_port: i64,
    protocol: String,
    host_port: i64,
    host_ip: String,
}

/// Warns of ports that are, or may be, duplicates.
pub(super) fn warn_of_ports(spec: &Field<'_>, warnings: &Warnings) {
    let mut ports = Ports::default();
    for_containers(spec, |container| {
        for field in container.member("ports").items() {
            if warnings.is_full() {
                return;
            }
            let port = Port {
                path: field.path(),
                container_port: field.member("containerPort").int().unwrap_or_default(),
                protocol: field.member("protocol").text().to_owned(),
                host_port: field.member("hostPort").int().unwrap_or_default(),
                host_ip: field.member("hostIP").text().to_owned(),
            };
            if !port.host_ip.is_empty() && port.host_port == 0 {
                let shown = format!(
                    "hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} \
                     Protocol:{} HostIP:{}}}",
                    field.member("name").text(),
                    port.container_port,
                    port.protocol,
                    port.host_ip,
                );
                warn(&field, shown, warnings);
            }
            ports.add(port, warnings);
        }
    });
}

/// Warns of duplicate port names: a reference by name finds only the first port.
pub(super) fn warn_of_port_names(spec: &Field<'_>, warnings: &Warnings) {
    let mut first: HashMap<String, String> = HashMap::new();
    for_containers(spec, |container| {
        for field in container.member("ports").items() {
            let name = field.member("name").text();
            if name.is_empty() || warnings.is_full() {
                continue;
            }
            if let Some(other) = first.get(name) {
                let shown = quoted(name);
                let text = format!(
                    "duplicate port name {shown} with {other}, services and probes that select \
                     ports by name will use {other}"
                );
                warn(&field, text, warnings);
            } else {
                first.insert(name.to_owned(), field.path());
            }
        }
    });
}

/// The ports so far, indexed so that conflicting ones are found without comparing all pairs. Each
/// conflict adds a warning, and the number of warnings is limited.
#[derive(Default)]
struct Ports {
    all: Vec<Port>,
    /// By container port and protocol.
    of_container: HashMap<(i64, String), Vec<usize>>,
    /// By container port, protocol and host port.
    of_host: HashMap<(i64, String, i64), Vec<usize>>,
    /// By container port, protocol, host port and host IP.
    of_address: HashMap<(i64, String, i64, String), Vec<usize>>,
}

impl Ports {
    fn add(&mut self, port: Port, warnings: &Warnings) {
        for index in self.conflicting(&port) {
            if warnings.is_full() {
                return;
            }
            if let Some(other) = self.all.get(index) {
                let what = conflict(&port, other);
                let (path, other) = (&port.path, &other.path);
                warnings.add(format!("{path}: {what} port definition with {other}"));
            }
        }
        let index = self.all.len();
        let of_container = (port.container_port, port.protocol.clone());
        let of_host = (of_container.0, of_container.1.clone(), port.host_port);
        let of_address = (
            of_host.0,
            of_host.1.clone(),
            of_host.2,
            port.host_ip.clone(),
        );
        self.of_container
            .entry(of_container)
            .or_default()
            .push(index);
        self.of_host.entry(of_host).or_default().push(index);
        self.of_address.entry(of_address).or_default().push(index);
        self.all.push(port);
    }

    /// Returns the earlier ports that are, or may be, duplicates, in order.
    fn conflicting(&self, port: &Port) -> BTreeSet<usize> {
        let (number, protocol) = (port.container_port, port.protocol.clone());
        let found = match (port.host_port, port.host_ip.as_str()) {
            (0, _) => vec![self.of_container.get(&(number, protocol))],
            (host, "") => vec![
                self.of_host.get(&(number, protocol.clone(), host)),
                self.of_host.get(&(number, protocol, 0)),
            ],
            (host, ip) => vec![
                self.of_address
                    .get(&(number, protocol.clone(), host, ip.to_owned())),
                self.of_address
                    .get(&(number, protocol.clone(), host, String::new())),
                self.of_host.get(&(number, protocol, 0)),
            ],
        };
        found.into_iter().flatten().flatten().copied().collect()
    }
}

fn conflict(port: &Port, other: &Port) -> &'static str {
    let is_same = port.host_ip == other.host_ip && port.host_port == other.host_port;
    match (port.host_port, other.host_port) {
        _ if is_same => "duplicate",
        (0, _) | (_, 0) => "overlapping",
        _ => "dangerously ambiguous",
    }
}
