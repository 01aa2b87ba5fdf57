//! Pure. Nodes and pods that exist as objects only, as servers for tests have them: no connection
//! is made for these, because their addresses may be those of other machines.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use crate::api::object::Object;
use crate::api::status::Status;

/// The label of nodes that the simulation keeps Ready.
pub const NODE_LABEL: &str = "taffrail.dev/simulated";
/// The beginning of the ids of containers that the simulation has started.
pub const RUNTIME: &str = "taffrail://";
/// The network of the addresses that simulated pods get, and the bits of a pod in it.
pub const POD_NETWORK: u32 = u32::from_be_bytes([10, 244, 0, 0]);
/// See [`POD_NETWORK`].
pub const POD_BITS: u32 = 0xffff;

/// Refuses a connection to the kubelet of a simulated node. A test that runs a kubelet of its own
/// gives its node the port of that.
///
/// # Errors
/// 400, which says what the node lacks.
pub(super) fn refuse_node(node: &Object, port: Option<u16>, lack: &str) -> Result<(), Box<Status>> {
    let is_simulated = node.at(&["metadata", "labels", NODE_LABEL]).is_some();
    match is_simulated && port.is_none() {
        true => {
            let why = format!("node {} is simulated: {lack}", node.name());
            Err(Box::new(Status::bad_request(why)))
        }
        false => Ok(()),
    }
}

/// Refuses a connection to a pod that has its address from the simulation.
///
/// # Errors
/// 400, which says that nothing listens there.
pub(super) fn refuse_pod(pod: &Object, address: &str) -> Result<(), Box<Status>> {
    let containers = pod.items(&["status", "containerStatuses"]);
    let id = containers.first().and_then(|one| one.get("containerID"));
    let id = id.and_then(Value::as_str).unwrap_or_default();
    let is_in_network = |address: Ipv4Addr| u32::from(address) & !POD_BITS == POD_NETWORK;
    let is_simulated = match address.parse() {
        Ok(IpAddr::V4(address)) => id.starts_with(RUNTIME) && is_in_network(address),
        _ => false,
    };
    match is_simulated {
        true => {
            let why = format!(
                "pod {} is simulated: nothing listens on its ports",
                pod.name()
            );
            Err(Box::new(Status::bad_request(why)))
        }
        false => Ok(()),
    }
}
