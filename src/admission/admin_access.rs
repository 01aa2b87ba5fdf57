//! Claims that have devices to themselves beside all others (`adminAccess`): only namespaces with a
//! label may have them.

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::lifecycle::Namespaces;
use super::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::field_error::FieldError;
use crate::api::object::Object;
use crate::api::status::Status;

const GROUP: &str = "resource.k8s.io";
const LABEL: &str = "resource.kubernetes.io/admin-access";

/// No more faults than this are told of.
const MAX_FAULTS: usize = 100;

/// The plugin. kube-apiserver has no plugin for it, and asks in front of the other checks.
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
            let definition = attributes.definition;
            let devices = if definition.is(GROUP, "resourceclaims") {
                &["spec", "devices", "requests"][..]
            } else if definition.is(GROUP, "resourceclaimtemplates") {
                &["spec", "spec", "devices", "requests"]
            } else {
                return Ok(());
            };
            // Claims and templates do not change later.
            let is_new = matches!(attributes.operation, Operation::Create(_));
            let (Some(object), Some(namespace), true) = (object, attributes.namespace, is_new)
            else {
                return Ok(());
            };
            let faults = faults(object.at(devices));
            if faults.is_empty() || self.namespaces.has_label(namespace, LABEL, "true").await? {
                return Ok(());
            }
            let name = attributes.shown_name(Some(object));
            Err(Box::new(Status::invalid_object(definition, name, &faults)))
        }
        .boxed()
    }
}

/// The faults of requests that ask for such access. As in kube-apiserver, the paths are those of
/// an older form.
fn faults(requests: Option<&Value>) -> Vec<FieldError> {
    let asks = |request: &Value| request.get("adminAccess") == Some(&Value::Bool(true));
    let detail = format!(
        "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    );
    let requests = requests.and_then(Value::as_array).into_iter().flatten();
    let asking = requests
        .enumerate()
        .filter(|(_, request)| request.get("exactly").is_some_and(asks));
    asking
        .take(MAX_FAULTS)
        .map(|(index, _)| {
            let path = format!("spec.devices.requests[{index}].adminAccess");
            FieldError::forbidden(path, detail.clone())
        })
        .collect()
}
