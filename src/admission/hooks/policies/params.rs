//! The parameters of bindings (HK-60 to HK-63).

use std::collections::HashMap;
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

/// The parameters of one request, each of which is read once, however many bindings name it.
#[derive(Default)]
pub(super) struct Collected {
    /// The objects of a kind, by the namespace.
    all: HashMap<(Kind, Option<String>), Objects>,
    /// Single objects, by namespace and name.
    single: HashMap<(Kind, Option<String>, String), Option<Arc<Json>>>,
}

/// All objects of a kind in a namespace.
type Objects = Arc<[Arc<Json>]>;

/// The kind of parameters, as the policy names it.
type Kind = (String, String);

impl Collected {
    /// Returns the parameters of a binding, for each of which its policy is evaluated. Without
    /// parameters this is one null. `namespace` is that of the request, which may be empty.
    ///
    /// # Errors
    /// The binding wants a parameter and finds no object, or objects can't be read.
    pub(super) async fn of(
        &mut self,
        objects: Option<&ParamObjects>,
        kind: Option<&ParamKind>,
        param_ref: Option<&ParamRef>,
        namespace: &str,
    ) -> Result<Vec<Arc<Json>>, String> {
        let (Some(objects), Some(kind), Some(param_ref)) = (objects, kind, param_ref) else {
            return Ok(vec![Arc::default()]);
        };
        let namespace = place(objects, param_ref, namespace)?;
        let found = match &param_ref.selector {
            Some(selector) => {
                let all = self.all(objects, kind, namespace).await?;
                let selector = Field::named("selector", Some(selector));
                let is_empty = selectors::is_empty(&selector);
                let selected = all.iter().filter(|object| {
                    let labels = object.pointer("/metadata/labels");
                    is_empty || selectors::selects(&selector, &Field::named("labels", labels))
                });
                selected.cloned().collect()
            }
            None => {
                let one = self.single(objects, kind, namespace, &param_ref.name);
                Vec::from_iter(one.await?)
            }
        };
        if found.is_empty() && param_ref.parameter_not_found_action == "Deny" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            );
        }
        Ok(found)
    }

    async fn all(
        &mut self,
        objects: &ParamObjects,
        kind: &ParamKind,
        namespace: Option<&str>,
    ) -> Result<Objects, String> {
        let key = (named(kind), namespace.map(str::to_owned));
        if let Some(known) = self.all.get(&key) {
            return Ok(Arc::clone(known));
        }
        let all = objects.objects.list(namespace).await;
        let all = all.map_err(|status| status.message.clone())?;
        let all: Objects = all.into_iter().map(shown).collect();
        self.all.insert(key, Arc::clone(&all));
        Ok(all)
    }

    async fn single(
        &mut self,
        objects: &ParamObjects,
        kind: &ParamKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<Json>>, String> {
        let key = (named(kind), namespace.map(str::to_owned), name.to_owned());
        if let Some(known) = self.single.get(&key) {
            return Ok(known.clone());
        }
        let one = objects.objects.get(namespace, name).await;
        let one = one.map_err(|status| status.message.clone())?.map(shown);
        self.single.insert(key, one.clone());
        Ok(one)
    }
}

fn named(kind: &ParamKind) -> Kind {
    (kind.api_version.clone(), kind.kind.clone())
}

/// Returns the namespace in which a binding looks for its parameters.
fn place<'p>(
    objects: &ParamObjects,
    param_ref: &'p ParamRef,
    namespace: &'p str,
) -> Result<Option<&'p str>, String> {
    match (objects.is_namespaced, param_ref.namespace.as_str()) {
        (false, "") => Ok(None),
        (false, _) => Err(
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned(),
        ),
        (true, "") if namespace.is_empty() => Err(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped \
             resources"
                .to_owned(),
        ),
        (true, "") => Ok(Some(namespace)),
        (true, given) => Ok(Some(given)),
    }
}

fn shown(object: Object) -> Arc<Json> {
    Arc::new(Json::Object(object.0))
}
