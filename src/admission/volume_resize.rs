//! PersistentVolumeClaimResize (API-268): only claims whose class allows it may grow.

use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::default_classes::storage_class_of;
use super::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::quantity::Quantity;
use crate::api::status::Status;

const SIZE: [&str; 4] = ["spec", "resources", "requests", "storage"];

/// The plugin.
pub(super) struct PersistentVolumeClaimResize {
    classes: Arc<dyn ResourceClient>,
}

impl PersistentVolumeClaimResize {
    /// Creates the plugin with this source of StorageClasses.
    pub(super) fn new(classes: Arc<dyn ResourceClient>) -> PersistentVolumeClaimResize {
        PersistentVolumeClaimResize { classes }
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        claim: &Object,
        stored: &Object,
    ) -> Result<(), Box<Status>> {
        if size(claim) <= size(stored) {
            return Ok(());
        }
        if stored.text(&["status", "phase"]) != "Bound" {
            let why = "Only bound persistent volume claims can be expanded";
            return Err(attributes.forbidden(Some(claim), why));
        }
        let (name, before) = (storage_class_of(claim), storage_class_of(stored));
        let class = match name == before && !name.is_empty() {
            true => self.classes.get(None, name).await?,
            false => None,
        };
        let allows = class.is_some_and(|class| {
            let allows = class.0.get("allowVolumeExpansion");
            allows.and_then(serde_json::Value::as_bool) == Some(true)
        });
        if allows {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that \
                   provisions the pvc must support resize";
        Err(attributes.forbidden(Some(claim), why))
    }
}

fn size(claim: &Object) -> Quantity {
    let size = claim.text(&SIZE).parse();
    size.unwrap_or(Quantity::whole(0))
}

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.updates("", "persistentvolumeclaims")
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for PersistentVolumeClaimResize {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        claim: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match (claim, attributes.old_object) {
                (Some(claim), Some(stored)) => self.check(attributes, claim, stored).await,
                _ => Ok(()),
            }
        }
        .boxed()
    }
}
