//! NodeDeclaredFeatureValidator (API-269): a pod changes only in ways that its node supports.

use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::pod_resize::node_of;
use super::pod_resources::containers;
use super::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;

/// The feature that is needed to change the pod-level resources of a pod.
const WHOLE_POD: &str = "InPlacePodLevelResourcesVerticalScaling";
/// The feature that is needed to change the resources of an init container, unless it is a sidecar.
const INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";

/// The plugin.
pub(super) struct NodeDeclaredFeatureValidator {
    nodes: Arc<dyn ResourceClient>,
}

impl NodeDeclaredFeatureValidator {
    /// Creates the plugin with this source of nodes.
    pub(super) fn new(nodes: Arc<dyn ResourceClient>) -> NodeDeclaredFeatureValidator {
        NodeDeclaredFeatureValidator { nodes }
    }

    async fn check(&self, attributes: &Attributes<'_>, pod: &Object) -> Result<(), Box<Status>> {
        let name = pod.text(&["spec", "nodeName"]);
        let Some(stored) = attributes.old_object.filter(|_| !name.is_empty()) else {
            return Ok(());
        };
        let required = required(stored, pod);
        if required.is_empty() {
            return Ok(());
        }
        let node = node_of(&*self.nodes, attributes, pod).await?;
        let declared = node.items(&["status", "declaredFeatures"]);
        // linear: two features may be required.
        let is_missing = |feature: &&str| !declared.iter().any(|declared| declared == *feature);
        let missing: Vec<&str> = required.into_iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let why = format!(
            "pod update requires features {} which are not available on node {}",
            missing.join(", "),
            go_quote(name)
        );
        Err(attributes.forbidden(Some(pod), &why))
    }
}

/// The features that a node must have for a change of a pod, sorted by name.
fn required(stored: &Object, pod: &Object) -> Vec<&'static str> {
    let pairs = containers(stored, "initContainers").iter();
    let mut pairs = pairs.zip(containers(pod, "initContainers"));
    let whole = |pod: &Object| {
        let resources = pod.at(&["spec", "resources"]).cloned();
        resources.filter(|resources| !resources.is_null())
    };
    let changes_init = pairs.any(|(before, after)| {
        before["restartPolicy"] != "Always" && before.get("resources") != after.get("resources")
    });
    let features = [
        (WHOLE_POD, whole(stored) != whole(pod)),
        (INIT_CONTAINERS, changes_init),
    ];
    let required = features.into_iter().filter(|(_, is_required)| *is_required);
    required.map(|(feature, _)| feature).collect()
}

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        matches!(attributes.operation, Operation::Update(_))
            && attributes.definition.is("", "pods")
            && matches!(attributes.subresource, None | Some("resize"))
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for NodeDeclaredFeatureValidator {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(cpu: &str, init: &str, whole: Value) -> Object {
        let of = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = of(cpu);
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [of(cpu)], "initContainers": [of(init), sidecar],
            "resources": whole});
        let pod = json!({"spec": spec, "status": {"qosClass": "Guaranteed"}});
        Object::of(pod.as_object().unwrap().clone())
    }

    /// API-269.
    #[test]
    fn each_change_needs_its_feature() {
        let stored = pod("1", "1", json!(null));
        assert!(required(&stored, &stored).is_empty());
        // Containers that go on are resized by every node.
        assert!(required(&stored, &pod("2", "1", json!(null))).is_empty());
        let start = pod("1", "2", json!(null));
        assert_eq!(required(&stored, &start), [INIT_CONTAINERS]);
        let all = pod("2", "2", json!({"requests": {"cpu": "2"}}));
        assert_eq!(required(&stored, &all), [WHOLE_POD, INIT_CONTAINERS]);
    }
}
