//! The types of addresses at which kubelets are reached.

use std::fmt;
use std::str::FromStr;

use super::values::Names;

/// Types of the addresses of nodes, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddressTypes(pub Vec<String>);

/// The types that Kubernetes knows, in kube-apiserver's order.
const ADDRESS_TYPES: [&str; 5] = [
    "Hostname",
    "InternalDNS",
    "InternalIP",
    "ExternalDNS",
    "ExternalIP",
];

impl Default for NodeAddressTypes {
    fn default() -> NodeAddressTypes {
        NodeAddressTypes(ADDRESS_TYPES.map(str::to_owned).into())
    }
}

impl FromStr for NodeAddressTypes {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeAddressTypes, String> {
        let Names(types) = text.parse().unwrap_or_default();
        // linear: there are five types.
        match types
            .iter()
            .find(|of| !ADDRESS_TYPES.contains(&of.as_str()))
        {
            Some(unknown) => Err(format!(
                "{unknown:?} is not a type of addresses; the types are {}",
                ADDRESS_TYPES.join(", ")
            )),
            None if types.is_empty() => {
                Err(format!("name at least one of {}", ADDRESS_TYPES.join(", ")))
            }
            None => Ok(NodeAddressTypes(types)),
        }
    }
}

impl fmt::Display for NodeAddressTypes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}
