//! Which requests the rules and selectors of a hook are for (HK-7 to HK-12). Pure, except that the
//! labels of a namespace are read.

use serde::Deserialize;
use serde_json::Value as Json;

use super::super::client::ResourceClient;
use super::namespace_of;
use super::shown::{AskedIn, Form};
use crate::admission::{Attributes, Operation};
use crate::api::field::Field;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::validation::selectors;

/// One rule of a webhook or a policy: operations on resources. It is stored valid and with its
/// defaults.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT` or `*`.
    pub operations: Vec<String>,
    /// The groups; the core group is empty.
    pub api_groups: Vec<String>,
    /// The versions.
    pub api_versions: Vec<String>,
    /// Resources and subresources: `pods`, `pods/status`, `pods/*`, `*/scale`, `*/*`.
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced` or `*`.
    pub scope: String,
    /// The names of objects, only in policies. Empty for any name.
    pub resource_names: Vec<String>,
}

/// Whether a rule also matches other versions of the resource that it names.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum MatchPolicy {
    /// Only the version of the request.
    Exact,
    /// Any version of the resource.
    #[default]
    Equivalent,
}

/// The version of a resource, as rules name it.
#[derive(Clone, Copy, Debug)]
struct Named<'r> {
    group: &'r str,
    version: &'r str,
    plural: &'r str,
}

impl<'r> Named<'r> {
    fn of(definition: &'r ResourceDefinition) -> Named<'r> {
        Named {
            group: &definition.group,
            version: &definition.version,
            plural: &definition.plural,
        }
    }
}

impl Rule {
    /// Returns whether the rule is for a request in the version that it was sent in.
    fn is_for(&self, attributes: &Attributes<'_>, named: Named<'_>) -> bool {
        let has = |list: &[String], wanted: &str| {
            // linear: a rule names a few operations, groups, versions and names.
            list.iter().any(|one| one == "*" || one == wanted)
        };
        has(&self.operations, attributes.operation.name())
            && has(&self.api_groups, named.group)
            && has(&self.api_versions, named.version)
            && self.is_for_scope(attributes)
            && self.is_for_resource(named.plural, attributes.subresource)
            && self.is_for_name(attributes)
    }

    /// Returns whether the rule is for the scope of a request. A Namespace counts as an object of
    /// the cluster (HK-9).
    fn is_for_scope(&self, attributes: &Attributes<'_>) -> bool {
        match &*self.scope {
            "Namespaced" => attributes.namespace.is_some(),
            "Cluster" => attributes.namespace.is_none(),
            _ => true,
        }
    }

    /// Returns whether one of the patterns is for a resource or its subresource (HK-8).
    fn is_for_resource(&self, plural: &str, subresource: Option<&str>) -> bool {
        // linear: a rule has a few patterns.
        self.resources.iter().any(|pattern| {
            let (of, part) = match pattern.split_once('/') {
                Some((of, part)) => (of, Some(part)),
                None => (pattern.as_str(), None),
            };
            (of == "*" || of == plural) && (part == Some("*") || part == subresource)
        })
    }

    /// Returns whether the rule is for the name of a request, which is empty until it is generated.
    fn is_for_name(&self, attributes: &Attributes<'_>) -> bool {
        let names = &self.resource_names;
        // linear: the names of one rule.
        names.is_empty() || names.iter().any(|name| name == attributes.name)
    }
}

/// Returns in which version a hook with these rules is asked about a request, or `None` if none of
/// them is for it (HK-10).
pub fn asked_in(
    rules: &[Rule],
    policy: MatchPolicy,
    attributes: &Attributes<'_>,
) -> Option<AskedIn> {
    let own = Named::of(attributes.definition);
    // linear: the rules of one hook.
    if rules.iter().any(|rule| rule.is_for(attributes, own)) {
        return Some(AskedIn::Request);
    }
    if policy == MatchPolicy::Exact {
        return None;
    }
    let others = || attributes.versions.iter();
    rules.iter().find_map(|rule| {
        // linear: a resource has a few versions.
        let found = others().find(|other| rule.is_for(attributes, Named::of(other)));
        found.cloned().map(AskedIn::Other)
    })
}

/// The selectors of a hook, as JSON. An absent or empty one selects everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookSelectors {
    /// Selects namespaces.
    pub namespace_selector: Json,
    /// Selects objects.
    pub object_selector: Json,
}

impl HookSelectors {
    /// Returns whether the object of a request is selected, as it is or as it was (HK-12). The
    /// objects are those of the request; `form` shows them as Scales, say, which have no labels.
    pub fn select_object(&self, form: &Form<'_>, object: Option<&Object>) -> bool {
        let selector = Field::named("objectSelector", Some(&self.object_selector));
        if selectors::is_empty(&selector) {
            return true;
        }
        let selects = |object: &Object| {
            // The options of a connection have no metadata.
            let metadata = object.0.get("metadata").filter(|found| found.is_object());
            metadata.is_some_and(|metadata| {
                let labels = metadata.get("labels").filter(|_| !form.is_scale());
                selects(&selector, labels)
            })
        };
        object.is_some_and(selects) || form.old_object().is_some_and(selects)
    }

    /// Returns whether the namespace of a request is selected. Objects of the cluster that are not
    /// namespaces always are (HK-11).
    ///
    /// # Errors
    /// 404 for an absent namespace, 500 if it can't be read.
    pub async fn select_namespace(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        namespaces: &dyn ResourceClient,
    ) -> Result<bool, Box<Status>> {
        let selector = Field::named("namespaceSelector", Some(&self.namespace_selector));
        let is_namespace = attributes.definition.is("", "namespaces");
        if selectors::is_empty(&selector) || !is_namespace && attributes.namespace.is_none() {
            return Ok(true);
        }
        let is_written = matches!(
            attributes.operation,
            Operation::Create(_) | Operation::Update(_)
        );
        if is_namespace && is_written && attributes.subresource.is_none() {
            let labels = object.and_then(|object| object.metadata()?.get("labels"));
            return Ok(selects(&selector, labels));
        }
        let name = namespace_of(attributes);
        match namespaces.get(None, name).await {
            Ok(Some(namespace)) => {
                let labels = namespace.metadata().and_then(|found| found.get("labels"));
                Ok(selects(&selector, labels))
            }
            Ok(None) => Err(Box::new(Status::namespace_not_found(name))),
            Err(status) => Err(Box::new(Status::internal(&status.message))),
        }
    }
}

fn selects(selector: &Field<'_>, labels: Option<&Json>) -> bool {
    selectors::selects(selector, &Field::named("labels", labels))
}
