//! The servers that the proxies of pods, services and nodes lead to (CN-70 to CN-77).

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::kubelet::NodeAddresses;
use super::simulated;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::{Status, StatusReason};
use crate::api::text::quoting::go_quote;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

/// A server that a proxy leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxiedServer {
    /// The kubelet of a node. The daemon proves who it is.
    Kubelet {
        /// The name or address of the node.
        host: String,
        /// The port of the kubelet.
        port: u16,
    },
    /// Any other server. Nothing about it is verified.
    Other {
        /// Whether it speaks TLS.
        is_tls: bool,
        /// The name or address.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The name in the path of a proxy: `[scheme:]name[:port]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProxiedName<'n> {
    /// All of it, as it was written.
    whole: &'n str,
    /// Empty, `http` or `https`.
    scheme: &'n str,
    /// The name of the object. Only an empty path segment has an empty one.
    pub(super) name: &'n str,
    /// A name or a number.
    port: &'n str,
}

impl<'n> ProxiedName<'n> {
    /// Parses a name.
    ///
    /// # Errors
    /// 400 in the words of the resource (CN-70).
    pub(super) fn parse(
        of: &ResourceDefinition,
        whole: &'n str,
    ) -> Result<ProxiedName<'n>, Box<Status>> {
        let parts: Vec<&str> = whole.split(':').collect();
        let (scheme, name, port) = match *parts {
            // The look-up refuses an empty name.
            [name] => return Ok(ProxiedName::bare(name)),
            [name, port] => ("", name, port),
            [scheme @ ("" | "http" | "https"), name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() {
            let kind = of.kind.to_ascii_lowercase();
            let why = format!("invalid {kind} request {}", go_quote(whole));
            return Err(Box::new(Status::bad_request(why)));
        }
        Ok(ProxiedName {
            whole,
            scheme,
            name,
            port,
        })
    }

    fn bare(name: &'n str) -> ProxiedName<'n> {
        ProxiedName {
            whole: name,
            scheme: "",
            name,
            port: "",
        }
    }

    fn server(&self, host: &str, port: u16) -> ProxiedServer {
        ProxiedServer::Other {
            is_tls: self.scheme == "https",
            host: host.to_owned(),
            port,
        }
    }

    /// Returns the number of the port, for which the system knows a few names, as Go does when it
    /// connects.
    fn port(&self) -> Result<u16, Box<Status>> {
        match self.port {
            "" if self.scheme == "https" => Ok(443),
            "" | "http" => Ok(80),
            "https" => Ok(443),
            port => port.parse().map_err(|_| {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                Box::new(Status::unreachable(match is_number {
                    true => format!("dial tcp: address {port}: invalid port"),
                    false => format!("dial tcp: lookup tcp/{port}: unknown port"),
                }))
            }),
        }
    }
}

fn unavailable(why: String) -> Box<Status> {
    let reason = StatusReason::SERVICE_UNAVAILABLE;
    Box::new(Status::failure(503, reason, why))
}

/// Returns the server of a pod (CN-71).
///
/// # Errors
/// 400 for a pod without an address or a simulated one, 503 for an unknown port.
pub(super) fn of_pod(pod: &Object, asked: &ProxiedName<'_>) -> Result<ProxiedServer, Box<Status>> {
    let containers = pod.items(&["spec", "containers"]).iter();
    let mut ports = containers.filter_map(|container| {
        let port = container.get("ports")?.get(0)?.get("containerPort")?;
        u16::try_from(port.as_u64()?).ok()
    });
    let declared = ports.next().filter(|_| asked.port.is_empty());
    let address = addresses(pod).next();
    let address = address.filter(|address| address.parse::<IpAddr>().is_ok());
    let address = address.ok_or_else(|| Status::bad_request("address not allowed"))?;
    simulated::refuse_pod(pod, address)?;
    let port = declared.map_or_else(|| asked.port(), Ok)?;
    Ok(asked.server(address, port))
}

/// Returns the addresses of a pod, the main one first.
fn addresses(pod: &Object) -> impl Iterator<Item = &str> {
    let all = pod.items(&["status", "podIPs"]).iter();
    all.filter_map(|address| address.get("ip")?.as_str())
}

/// Returns the server of a node: its kubelet, or another one on the same machine (CN-76).
///
/// # Errors
/// 404, 400 for a simulated node, 500 for one without an address, or 503 for an unknown port.
pub(super) async fn of_node(
    nodes: &NodeAddresses,
    of: &ResourceDefinition,
    asked: &ProxiedName<'_>,
) -> Result<ProxiedServer, Box<Status>> {
    let lack = "it has no kubelet";
    let (host, port) = nodes.find(of, asked.name, lack).await?.place();
    Ok(match asked.port {
        "" => ProxiedServer::Kubelet { host, port },
        asked if asked == port.to_string() => ProxiedServer::Kubelet { host, port },
        _ => asked.server(&host, asked.port()?),
    })
}

/// Finds the pods of services. Clones share everything.
#[derive(Clone, Default)]
pub(super) struct ServicePods {
    pub(super) endpoints: Option<Arc<RegistryStore>>,
    pub(super) pods: Option<Arc<RegistryStore>>,
}

impl ServicePods {
    /// Returns the server of one of a service's pods (CN-72). The choice is a number from 0 to 1.
    ///
    /// # Errors
    /// 404, 503, or 400 for a simulated pod.
    pub(super) async fn find(
        &self,
        services: &RegistryStore,
        at: NamespacedName<'_>,
        asked: &ProxiedName<'_>,
        choice: f64,
    ) -> Result<ProxiedServer, Box<Status>> {
        let absent = || Box::new(Status::not_found(services.definition(), asked.name));
        let port = match asked.port.parse::<i64>() {
            Ok(number) => {
                let service = services.read(at, "").await?;
                port_name(&service, number).ok_or_else(|| {
                    let name = go_quote(asked.name);
                    unavailable(format!("no service port {number} found for service {name}"))
                })?
            }
            Err(_) => asked.port.to_owned(),
        };
        let (Some(endpoints), Some(pods)) = (&self.endpoints, &self.pods) else {
            return Err(absent());
        };
        let endpoints = found(endpoints, at).await?.ok_or_else(absent)?;
        for backend in backends(&endpoints, &port, choice) {
            let is_of_pod = backend.namespace == at.namespace.unwrap_or_default();
            let at = NamespacedName {
                name: backend.pod,
                ..at
            };
            // An address counts only while the pod has it.
            if is_of_pod
                && let Some(pod) = found(pods, at).await?
                // linear: a pod has an address of each family.
                && addresses(&pod).any(|address| address == backend.address)
            {
                simulated::refuse_pod(&pod, backend.address)?;
                return Ok(asked.server(backend.address, backend.port));
            }
        }
        let name = match endpoints.items(&["subsets"]).is_empty() {
            true => go_quote(asked.name),
            false => go_quote(asked.whole),
        };
        let why = format!("no endpoints available for service {name}");
        Err(unavailable(why))
    }
}

/// Reads an object, if it exists.
async fn found(
    store: &RegistryStore,
    at: NamespacedName<'_>,
) -> Result<Option<Object>, Box<Status>> {
    match store.read(at, "").await {
        Ok(object) => Ok(Some(object)),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

/// Returns the name of a service's port.
fn port_name(service: &Object, number: i64) -> Option<String> {
    let ports = service.items(&["spec", "ports"]).iter();
    // linear: looked for once.
    let mut ports = ports.filter(|port| port.get("port").and_then(Value::as_i64) == Some(number));
    let port = ports.next()?;
    Some(text(port, "name").to_owned())
}

/// An address of a service's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backend<'e> {
    address: &'e str,
    port: u16,
    /// The pod that it belongs to.
    pod: &'e str,
    namespace: &'e str,
}

/// Returns the ready addresses with this port. The subset and the address to begin with are chosen
/// by a number from 0 to 1.
fn backends<'e>(
    endpoints: &'e Object,
    port: &'e str,
    choice: f64,
) -> impl Iterator<Item = Backend<'e>> {
    let subsets = endpoints.items(&["subsets"]);
    // The digits that have not chosen the subset choose the address.
    let within = share(subsets, choice).fract();
    rotated(subsets, choice).flat_map(move |subset| {
        let addresses = items(subset, "addresses");
        let ports = items(subset, "ports").iter();
        let ports = ports.filter(move |one| text(one, "name") == port);
        ports.flat_map(move |one| {
            let number = one.get("port").and_then(Value::as_u64);
            let number = number.and_then(|number| u16::try_from(number).ok());
            rotated(addresses, within).filter_map(move |address| {
                let of = address.get("targetRef")?;
                Some(Backend {
                    address: text(address, "ip"),
                    port: number?,
                    pod: text(of, "name"),
                    namespace: text(of, "namespace"),
                })
            })
        })
    })
}

/// Returns a number from 0 to 1 as one from 0 to the number of items.
#[expect(
    clippy::cast_precision_loss,
    reason = "it is the length of a list in one object"
)]
fn share<T>(all: &[T], choice: f64) -> f64 {
    all.len() as f64 * choice
}

/// Returns all items, beginning with a chosen one.
fn rotated<T>(all: &[T], choice: f64) -> impl Iterator<Item = &T> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a place in this list"
    )]
    let first = share(all, choice) as usize;
    let (before, after) = all.split_at_checked(first).unwrap_or((all, &[]));
    after.iter().chain(before)
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    let items = value.get(name).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::definitions::core;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(members) => Object::of(members),
            _ => unreachable!("it is an object"),
        }
    }

    fn parsed(whole: &str) -> Result<ProxiedName<'_>, String> {
        ProxiedName::parse(&core::pods(), whole).map_err(|status| status.message)
    }

    #[test]
    fn names_have_a_scheme_and_a_port_cn_70() {
        for (whole, scheme, name, port) in [
            ("p", "", "p", ""),
            ("p:80", "", "p", "80"),
            ("p:", "", "p", ""),
            (":p:web", "", "p", "web"),
            ("https:p:", "https", "p", ""),
            ("", "", "", ""),
        ] {
            let expected = ProxiedName {
                whole,
                scheme,
                name,
                port,
            };
            assert_eq!(parsed(whole), Ok(expected), "{whole}");
        }
        for whole in [":", ":80", "http::80", "ftp:p:80", "a:b:c:d"] {
            let why = format!("invalid pod request \"{whole}\"");
            assert_eq!(parsed(whole), Err(why));
        }
    }

    #[test]
    fn a_pod_is_reached_at_its_first_port_cn_71() {
        let pod = |ip: &str| {
            object(json!({
                "spec": {"containers": [
                    {"name": "a"},
                    {"name": "b", "ports": [{"containerPort": 8080}, {"containerPort": 1}]},
                ]},
                "status": {"podIPs": [{"ip": ip}]},
            }))
        };
        let reached = |ip: &str, whole: &str| {
            let server = of_pod(&pod(ip), &parsed(whole).unwrap());
            server.map_err(|status| (status.code, status.message))
        };
        for (whole, is_tls, port) in [
            ("p", false, 8080),
            ("https:p:", true, 8080),
            ("p:81", false, 81),
            ("p:http", false, 80),
        ] {
            let host = "10.0.0.1".to_owned();
            let expected = ProxiedServer::Other { is_tls, host, port };
            assert_eq!(reached("10.0.0.1", whole), Ok(expected), "{whole}");
        }
        for (ip, whole, code, why) in [
            ("", "p", 400, "address not allowed"),
            ("x", "p", 400, "address not allowed"),
            (
                "10.0.0.1",
                "p:web",
                503,
                "error trying to reach service: dial tcp: lookup tcp/web: unknown port",
            ),
            (
                "10.0.0.1",
                "p:65536",
                503,
                "error trying to reach service: dial tcp: address 65536: invalid port",
            ),
        ] {
            assert_eq!(reached(ip, whole), Err((code, why.to_owned())), "{whole}");
        }
    }

    #[test]
    fn all_ready_addresses_are_tried_from_a_chosen_one_on_cn_72() {
        let address = |ip: &str| json!({"ip": ip, "targetRef": {"kind": "Pod", "name": ip, "namespace": "n"}});
        let endpoints = object(json!({"subsets": [
            {"addresses": [address("a"), address("b"), {"ip": "without a pod"}],
             "notReadyAddresses": [address("c")],
             "ports": [{"name": "web", "port": 1}, {"name": "tls", "port": 2}]},
            {"addresses": [address("d")], "ports": [{"name": "web", "port": 3}]},
            {"notReadyAddresses": [address("e")], "ports": [{"name": "web", "port": 4}]},
        ]}));
        let tried = |port: &str, choice: f64| {
            let all = backends(&endpoints, port, choice);
            let all = all.map(|one| format!("{} {}", one.address, one.port));
            all.collect::<Vec<String>>()
        };
        assert_eq!(tried("web", 0.0), ["a 1", "b 1", "d 3"]);
        assert_eq!(tried("web", 0.2), ["b 1", "a 1", "d 3"]);
        assert_eq!(tried("web", 0.4), ["d 3", "a 1", "b 1"]);
        assert_eq!(tried("web", 0.9), ["a 1", "b 1", "d 3"]);
        assert_eq!(tried("tls", 0.2), ["b 2", "a 2"]);
        assert_eq!(tried("", 0.5), Vec::<String>::new());
    }
}
