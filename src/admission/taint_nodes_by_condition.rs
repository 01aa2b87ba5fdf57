//! TaintNodesByCondition (API-269): nodes get no pods before they are ready.

use futures_util::future::FutureExt;
use serde_json::{Value, json};

use super::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::{Object, push};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const TAINTS: [&str; 2] = ["spec", "taints"];

/// The plugin.
pub(super) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "nodes")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for TaintNodesByCondition {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, node: Option<&'p mut Object>) -> Admitted<'p> {
        if let Some(node) = node {
            taint(node);
        }
        std::future::ready(Ok(())).boxed()
    }
}

/// Adds the taint unless the node has it.
fn taint(node: &mut Object) {
    let is_it = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    if !node.items(&TAINTS).iter().any(is_it) {
        push(
            node,
            &TAINTS,
            json!({"key": NOT_READY, "effect": "NoSchedule"}),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_has_the_taint_once_api_269() {
        let mut node = Object::default();
        let other = json!({"key": NOT_READY, "effect": "NoExecute"});
        push(&mut node, &TAINTS, other);
        taint(&mut node);
        taint(&mut node);
        let taints = node.at(&TAINTS).unwrap();
        assert_eq!(taints[1], json!({"key": NOT_READY, "effect": "NoSchedule"}));
        assert_eq!(taints.as_array().unwrap().len(), 2);
    }
}
