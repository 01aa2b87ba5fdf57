//! Finds the kubelet of a node (CN-37).

use std::sync::Arc;

use serde_json::Value;

use super::simulated;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

/// The port of a kubelet whose node names none.
const PORT: u16 = 10250;

/// The label with the name of a node's host.
const HOST_NAME_LABEL: &str = "kubernetes.io/hostname";

/// The feature of a kubelet that takes the newer protocols over WebSocket itself.
const TAKES_WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

/// Characters that end the host of a URL, or that no host has.
const NOT_IN_HOSTS: [char; 8] = ['/', '?', '#', '@', '\\', '[', ']', ' '];

/// Finds the addresses of nodes. Clones share everything.
#[derive(Clone, Default)]
pub struct NodeAddresses {
    nodes: Option<Arc<RegistryStore>>,
    /// The types of addresses, the preferred ones first.
    preferred: Arc<[String]>,
}

impl NodeAddresses {
    /// Reads nodes from a store. `preferred` are the types of addresses to use, in this order.
    pub fn new(nodes: Option<Arc<RegistryStore>>, preferred: Arc<[String]>) -> NodeAddresses {
        NodeAddresses { nodes, preferred }
    }

    /// Returns the kubelet of a node, on behalf of a request for this resource. `lack` says why a
    /// simulated node can't answer it.
    ///
    /// # Errors
    /// 404 in the words of that resource, 400 for a simulated node, or 500 for one without an
    /// address.
    pub(super) async fn find(
        &self,
        of: &ResourceDefinition,
        name: &str,
        lack: &str,
    ) -> Result<Kubelet, Box<Status>> {
        let absent = || Box::new(Status::not_found(of, name));
        let nodes = self.nodes.as_ref().ok_or_else(absent)?;
        let at = NamespacedName {
            namespace: None,
            name,
        };
        let node = nodes
            .read(at, "")
            .await
            .map_err(|status| match status.code {
                404 => absent(),
                _ => status,
            })?;
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
        let port = port
            .and_then(Value::as_u64)
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0);
        simulated::refuse_node(&node, port, lack)?;
        let host = preferred_address(&node, &self.preferred).ok_or_else(|| {
            let known = addresses(&node).map(|(of, address)| format!("{{{of} {address}}}"));
            let known = known.collect::<Vec<_>>().join(" ");
            Box::new(Status::unknown(format!(
                "no preferred addresses found; known addresses: [{known}]"
            )))
        })?;
        // In a URL it would change the port, or the path.
        if host.contains(NOT_IN_HOSTS) {
            let why = format!("the address {host:?} of node {name} is not that of a host");
            return Err(Box::new(Status::unknown(why)));
        }
        let features = node.items(&["status", "declaredFeatures"]);
        Ok(Kubelet {
            host,
            port: port.unwrap_or(PORT),
            // linear: looked for once.
            takes_websockets: features.iter().any(|feature| feature == TAKES_WEBSOCKETS),
        })
    }
}

/// Returns the types and addresses of a node.
fn addresses(node: &Object) -> impl Iterator<Item = (&str, &str)> {
    fn text<'n>(item: &'n Value, name: &str) -> &'n str {
        item.get(name).and_then(Value::as_str).unwrap_or_default()
    }
    let items = node.items(&["status", "addresses"]).iter();
    items.map(|item| (text(item, "type"), text(item, "address")))
}

/// Returns the first address of the most preferred type that the node has.
fn preferred_address(node: &Object, preferred: &[String]) -> Option<String> {
    preferred.iter().find_map(|wanted| {
        // linear: a node has a few addresses.
        let found = addresses(node).find(|(of, _)| of == wanted);
        let found = found.map(|(_, address)| address.to_owned());
        let label = || {
            let label = node
                .at(&["metadata", "labels", HOST_NAME_LABEL])?
                .as_str()?;
            Some(label.to_owned()).filter(|name| wanted == "Hostname" && !name.is_empty())
        };
        found.or_else(label)
    })
}

/// The kubelet of a node.
pub(super) struct Kubelet {
    host: String,
    port: u16,
    takes_websockets: bool,
}

impl Kubelet {
    /// Returns the host and port.
    pub(super) fn place(self) -> (String, u16) {
        (self.host, self.port)
    }

    /// Returns the request for a path and query of this kubelet.
    pub(super) fn request(self, path: String, query: &str) -> KubeletRequest {
        KubeletRequest {
            host: self.host,
            port: self.port,
            takes_websockets: self.takes_websockets,
            path: match query {
                "" => path,
                query => format!("{path}?{query}"),
            },
        }
    }
}

/// A request to a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletRequest {
    /// The name or address of the node.
    pub host: String,
    /// The port of the kubelet.
    pub port: u16,
    /// Whether the kubelet takes the newer protocols over WebSocket itself (CN-50).
    pub takes_websockets: bool,
    /// The path and query.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(value: Value) -> Object {
        match value {
            Value::Object(members) => Object::of(members),
            _ => unreachable!("it is an object"),
        }
    }

    #[test]
    fn the_first_address_of_the_preferred_type_counts_cn_37() {
        let addresses = json!([
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "10.0.0.2"},
            {"type": "ExternalIP", "address": "192.0.2.1"},
        ]);
        let labels = json!({HOST_NAME_LABEL: "one.example"});
        let node =
            node(json!({"metadata": {"labels": labels}, "status": {"addresses": addresses}}));
        let found = |types: &[&str]| {
            let types: Vec<String> = types.iter().map(|of| (*of).to_owned()).collect();
            preferred_address(&node, &types)
        };
        assert_eq!(found(&["InternalDNS", "InternalIP"]).unwrap(), "10.0.0.1");
        assert_eq!(found(&["ExternalIP", "InternalIP"]).unwrap(), "192.0.2.1");
        // kube-apiserver knows nodes without an address of their host by this label.
        assert_eq!(found(&["Hostname", "InternalIP"]).unwrap(), "one.example");
        assert_eq!(found(&["InternalDNS"]), None);
    }
}
