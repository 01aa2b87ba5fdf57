//! PodTopologyLabels (API-269): pods get the zone and the region of their node, when they are bound
//! or created on it.

use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::{Admitted, Attributes, MutatingPlugin, Operation, Plugin};
use crate::api::object::{Object, put};
use crate::api::status::Status;

/// The labels that a pod gets.
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// The plugin.
pub(super) struct PodTopologyLabels {
    nodes: Arc<dyn ResourceClient>,
}

impl PodTopologyLabels {
    /// Creates the plugin with this source of nodes.
    pub(super) fn new(nodes: Arc<dyn ResourceClient>) -> PodTopologyLabels {
        PodTopologyLabels { nodes }
    }

    /// Labels a pod or a binding. Does nothing if the node does not exist.
    async fn label(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Box<Status>> {
        let name = node_of(attributes, object).to_owned();
        if name.is_empty() {
            return Ok(());
        }
        if let Some(node) = self.nodes.get(None, &name).await? {
            copy(&node, object);
        }
        Ok(())
    }
}

fn is_binding(attributes: &Attributes<'_>) -> bool {
    let is_create = matches!(attributes.operation, Operation::Create(_));
    is_create && attributes.definition.is("", "pods") && attributes.subresource == Some("binding")
}

/// The node of a pod, or of a binding. Empty if it names no node.
fn node_of<'o>(attributes: &Attributes<'_>, object: &'o Object) -> &'o str {
    match is_binding(attributes) {
        false => object.text(&["spec", "nodeName"]),
        true if object.text(&["target", "kind"]) == "Node" => object.text(&["target", "name"]),
        true => "",
    }
}

fn copy(node: &Object, to: &mut Object) {
    for label in LABELS {
        if let Some(value) = node.at(&["metadata", "labels", label]) {
            put(to, &["metadata", "labels", label], value.clone());
        }
    }
}

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods") || is_binding(attributes)
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for PodTopologyLabels {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(object) => self.label(attributes, object).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}
