//! The node authorizer (access.md 9): a kubelet may read what the pods of its node use. Pure.
//!
//! [`judge`] knows the rules. For some requests its verdict is a [`Question`]: whether an object is
//! related to the node. [`Graph`] answers these from the objects that its owner adds and removes.
//! It knows no cache. [`references`] reads the relations of objects from their JSON.

mod graph;
mod node_counts;
pub mod references;
mod rules;
#[cfg(test)]
mod tests;
mod vertices;

pub use graph::{Graph, Listing};
pub use rules::{Question, Verdict, judge, unrelated};

use crate::api::user_info::{NODES, UserInfo};

/// The prefix of the user names of kubelets (API-283).
const NODE_USER: &str = "system:node:";

/// The annotation of mirror pods, which a kubelet has from elsewhere.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns the name of the node whose kubelet the user is (AC-42). It is empty if the user name
/// does not name one. `None` for all other users.
pub fn node_of(user: &UserInfo) -> Option<&str> {
    let name = user.name.strip_prefix(NODE_USER)?;
    user.is_in(NODES).then_some(name)
}

/// The kinds of objects that a node may be related to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A node itself.
    Node,
    /// A pod.
    Pod,
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
    /// A ServiceAccount.
    ServiceAccount,
    /// A PersistentVolumeClaim.
    Claim,
    /// A ResourceClaim.
    ResourceClaim,
    /// A PersistentVolume.
    Volume,
    /// A VolumeAttachment.
    Attachment,
    /// A ResourceSlice.
    Slice,
}

/// An object, by its kind, namespace and name. The namespace is empty at the cluster scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Named<'n> {
    /// The kind.
    pub kind: Kind,
    /// The namespace.
    pub namespace: &'n str,
    /// The name.
    pub name: &'n str,
}
