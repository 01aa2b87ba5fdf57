//! The parameters of bindings (HK-60 to HK-63).

use std::sync::Arc;

use serde_json::Value as Json;

use super::definition::{ParamKind, ParamRef};
use crate::admission::client::ResourceClient;
use crate::api::field::Field;
use crate::api::object::Object;
use crate::kinds::validation::selectors;

/// Finds the objects of a kind.
pub trait Parameters: Send + Sync + 'static {
    /// Returns the objects of a kind in one of its versions, or `None` if it is not served.
    fn find(&self, group: &str, version: &str, kind: &str) -> Option<ParamObjects>;
}

/// The objects of a kind.
#[derive(Clone)]
pub struct ParamObjects {
    /// The plural of the resource.
    pub plural: String,
    /// Whether the objects belong to namespaces.
    pub is_namespaced: bool,
    /// Reads the objects, in the version that was asked for.
    pub objects: Arc<dyn ResourceClient>,
}

/// Returns the objects of a policy's kind of parameters. `None` for a policy without parameters.
///
/// # Errors
/// The kind is not served.
pub(super) fn find(
    parameters: &dyn Parameters,
    kind: Option<&ParamKind>,
) -> Result<Option<ParamObjects>, String> {
    let Some(param_kind) = kind else {
        return Ok(None);
    };
    let (group, version) = param_kind.parts();
    let kind = &param_kind.kind;
    match parameters.find(group, version, kind) {
        Some(objects) => Ok(Some(objects)),
        None => Err(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
        )),
    }
}

/// Returns the parameters of a binding, for each of which its policy is evaluated. Without
/// parameters this is one null. `namespace` is that of the request, which may be empty.
///
/// # Errors
/// The binding wants a parameter and finds no object, or objects can't be read.
pub(super) async fn collect(
    objects: Option<&ParamObjects>,
    param_ref: Option<&ParamRef>,
    namespace: &str,
) -> Result<Vec<Json>, String> {
    let (Some(objects), Some(param_ref)) = (objects, param_ref) else {
        return Ok(vec![Json::Null]);
    };
    let namespace = match (objects.is_namespaced, param_ref.namespace.as_str()) {
        (false, "") => None,
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                    .to_owned(),
            );
        }
        (true, "") if namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped \
                 resources"
                    .to_owned(),
            );
        }
        (true, "") => Some(namespace),
        (true, given) => Some(given),
    };
    let found = match &param_ref.selector {
        Some(selector) => {
            let all = objects.objects.list(namespace).await;
            let all = all.map_err(|status| status.message.clone())?;
            let selector = Field::named("selector", Some(selector));
            let is_empty = selectors::is_empty(&selector);
            all.into_iter()
                .filter(|object| {
                    let labels = object
                        .metadata()
                        .and_then(|metadata| metadata.get("labels"));
                    is_empty || selectors::selects(&selector, &Field::named("labels", labels))
                })
                .collect()
        }
        None => {
            let one = objects.objects.get(namespace, &param_ref.name).await;
            let one = one.map_err(|status| status.message.clone())?;
            Vec::from_iter(one)
        }
    };
    if found.is_empty() && param_ref.parameter_not_found_action == "Deny" {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
        );
    }
    Ok(found.into_iter().map(shown).collect())
}

fn shown(object: Object) -> Json {
    Json::Object(object.0)
}
