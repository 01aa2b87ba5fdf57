//! Admin access to devices (`adminAccess`), which ignores the allocations of other claims: only
//! namespaces with a label may have claims with it.

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::lifecycle::Namespaces;
use super::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::field_error::FieldError;
use crate::api::object::Object;
use crate::api::status::Status;

const GROUP: &str = "resource.k8s.io";
const LABEL: &str = "resource.kubernetes.io/admin-access";

/// The most faults that are reported.
const MAX_FAULTS: usize = 100;

/// The plugin. kube-apiserver has no plugin for it, and checks it before its other checks.
pub struct AdminAccess {
    namespaces: Arc<dyn Namespaces>,
}

impl AdminAccess {
    /// Creates the plugin with this source of namespaces.
    pub fn new(namespaces: Arc<dyn Namespaces>) -> AdminAccess {
        AdminAccess { namespaces }
    }
}

impl Plugin for AdminAccess {
    fn name(&self) -> &'static str {
        "AdminAccess"
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for AdminAccess {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            let (Some(object), Some(namespace)) = (object, attributes.namespace) else {
                return Ok(());
            };
            let faults = faults(attributes, object);
            if faults.is_empty() || self.namespaces.has_label(namespace, LABEL, "true").await? {
                return Ok(());
            }
            let name = attributes.shown_name(Some(object));
            let status = Status::invalid_object(attributes.definition, name, &faults);
            Err(Box::new(status))
        }
        .boxed()
    }
}

/// The faults of an object that is created or changed so that it has admin access. The specs of
/// claims and templates do not change later, but the status of claims does.
fn faults(attributes: &Attributes<'_>, object: &Object) -> Vec<FieldError> {
    if attributes.creates(GROUP, "resourceclaims") {
        asked(object.at(&["spec", "devices", "requests"]))
    } else if attributes.creates(GROUP, "resourceclaimtemplates") {
        asked(object.at(&["spec", "spec", "devices", "requests"]))
    } else if attributes.updates_part(GROUP, "resourceclaims", "status") {
        let was_granted = attributes.old_object.and_then(granted).is_some();
        let granted = granted(object).filter(|_| !was_granted);
        granted.into_iter().collect()
    } else {
        Vec::new()
    }
}

/// Whether a request, or a device, is for admin access.
fn has_access(part: &Value) -> bool {
    part.get("adminAccess") == Some(&Value::Bool(true))
}

fn fault(path: String) -> FieldError {
    let detail = format!(
        "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    );
    FieldError::forbidden(path, detail)
}

/// The faults of requests for admin access. As in kube-apiserver, the paths are those of an older
/// version.
fn asked(requests: Option<&Value>) -> Vec<FieldError> {
    let requests = requests.and_then(Value::as_array).into_iter().flatten();
    let asking = requests
        .enumerate()
        .filter(|(_, request)| request.get("exactly").is_some_and(has_access));
    asking
        .take(MAX_FAULTS)
        .map(|(index, _)| fault(format!("spec.devices.requests[{index}].adminAccess")))
        .collect()
}

/// The fault of the first device that was allocated with admin access.
fn granted(claim: &Object) -> Option<FieldError> {
    let results = claim.at(&["status", "allocation", "devices", "results"])?;
    let place = results.as_array()?.iter().position(has_access)?;
    let path = format!("status.allocation.devices.results[{place}].adminAccess");
    Some(fault(path))
}
