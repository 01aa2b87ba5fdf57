//! LimitRanger (API-264): pods and claims keep to the LimitRanges of their namespace.

mod limits;

use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::{Admitted, Attributes, MutatingPlugin, Plugin, ValidatingPlugin};
use crate::api::object::Object;

/// The plugin.
pub(super) struct LimitRanger {
    ranges: Arc<dyn ResourceClient>,
}

impl LimitRanger {
    /// Creates the plugin with this source of LimitRanges.
    pub(super) fn new(ranges: Arc<dyn ResourceClient>) -> LimitRanger {
        LimitRanger { ranges }
    }
}

fn is_pod(attributes: &Attributes<'_>) -> bool {
    attributes.definition.is("", "pods")
}

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // Other updates of pods can't change their resources.
        let is_resize = attributes.updates_part("", "pods", "resize");
        let is_claim = attributes.creates("", "persistentvolumeclaims")
            || attributes.updates("", "persistentvolumeclaims");
        let is_deleted = attributes.old_object.is_some_and(Object::is_being_deleted);
        (attributes.creates("", "pods") || is_resize || is_claim) && !is_deleted
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for LimitRanger {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(pod) = object.filter(|_| is_pod(attributes)) else {
                return Ok(());
            };
            for range in self.ranges.list(attributes.namespace).await? {
                limits::fill_in(pod, &range);
            }
            Ok(())
        }
        .boxed()
    }
}

impl ValidatingPlugin for LimitRanger {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(object) = object else {
                return Ok(());
            };
            for range in self.ranges.list(attributes.namespace).await? {
                let faults = match is_pod(attributes) {
                    true => limits::pod_faults(object, &range),
                    false => limits::claim_faults(object, &range),
                };
                if let Some(why) = limits::together(&faults) {
                    return Err(attributes.forbidden(Some(object), &why));
                }
            }
            Ok(())
        }
        .boxed()
    }
}
