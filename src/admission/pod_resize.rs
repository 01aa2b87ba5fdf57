//! PodResizeValidator (API-269): the resources of a pod may change within the capacity of its node.

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::client::ResourceClient;
use super::pod_resources::{Side, quantities, with_overhead};
use super::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::quantity::Quantity;
use crate::api::status::{Status, StatusCause};
use crate::api::text::quoting::go_quote;

/// The plugin.
pub(super) struct PodResizeValidator {
    nodes: Arc<dyn ResourceClient>,
}

impl PodResizeValidator {
    /// Creates the plugin with this source of nodes.
    pub(super) fn new(nodes: Arc<dyn ResourceClient>) -> PodResizeValidator {
        PodResizeValidator { nodes }
    }

    async fn check(&self, attributes: &Attributes<'_>, pod: &Object) -> Result<(), Box<Status>> {
        let name = pod.text(&["spec", "nodeName"]);
        let before = attributes.old_object.and_then(|pod| pod.0.get("spec"));
        if name.is_empty() || before == pod.0.get("spec") {
            return Ok(());
        }
        let node = node_of(&*self.nodes, attributes, pod).await?;
        let refused = match (unsupported(&node), exceeded(pod, &node)) {
            (Some(why), _) => Some((why, "UnsupportedPlatform")),
            (None, Some(why)) => Some((why, "NodeCapacity")),
            (None, None) => None,
        };
        refused.map_or(Ok(()), |(why, reason)| {
            let refusal = attributes.forbidden(Some(pod), &why);
            Err(Box::new(refusal.because(StatusCause {
                reason: reason.to_owned(),
                message: String::new(),
                field: String::new(),
            })))
        })
    }
}

/// The node of a pod that is written.
///
/// # Errors
/// 403 if the node does not exist. The lookup failed.
pub(super) async fn node_of(
    nodes: &dyn ResourceClient,
    attributes: &Attributes<'_>,
    pod: &Object,
) -> Result<Object, Box<Status>> {
    let name = pod.text(&["spec", "nodeName"]);
    let node = nodes.get(None, name).await?;
    node.ok_or_else(|| {
        let why = format!("node {} not found", go_quote(name));
        attributes.forbidden(Some(pod), &why)
    })
}

/// Why pods on a node can't be resized, by the label of its operating system.
fn unsupported(node: &Object) -> Option<String> {
    let system = node.at(&["metadata", "labels", "kubernetes.io/os"]);
    let system = system.and_then(Value::as_str)?;
    (system != "linux").then(|| {
        let (node, system) = (go_quote(node.name()), go_quote(system));
        format!("pod resize is only supported on linux nodes, node {node} is {system}")
    })
}

/// The resources of which a pod requests more than its node has.
fn exceeded(pod: &Object, node: &Object) -> Option<String> {
    let requests = with_overhead(pod, Side::Requests);
    let allocatable = quantities(node.at(&["status", "allocatable"]));
    let shown = |resource: &str, unit: fn(&Quantity) -> i64| {
        let [requested, allocatable] = [&requests, &allocatable].map(|amounts| {
            let amount = amounts.get(resource);
            amount.map_or(0, unit)
        });
        (requested > allocatable)
            .then(|| format!("{resource}, requested: {requested}, allocatable: {allocatable}"))
    };
    let all = [
        shown("cpu", Quantity::milli_value),
        shown("memory", Quantity::value),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| {
        let all = all.join("; ");
        format!("node didn't have enough allocatable resources: {all}")
    })
}

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.updates_part("", "pods", "resize")
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for PodResizeValidator {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(pod) => self.check(attributes, pod).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}
