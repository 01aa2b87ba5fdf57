//! Which requests the rules and selectors of a hook are for (HK-7 to HK-12). Pure.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use super::namespace_of;
use super::shown::{AskedIn, Form};
use crate::admission::{Attributes, Operation};
use crate::api::field::Field;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
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

/// The version in which a hook is asked, as a place among the versions of the resource. Unlike
/// [`AskedIn`] it can be kept for later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AskedAt(Option<usize>);

impl AskedAt {
    /// Returns the place of a version that [`asked_in`] has found for a request.
    pub fn of(asked: &AskedIn, attributes: &Attributes<'_>) -> AskedAt {
        let AskedIn::Other(version) = asked else {
            return AskedAt(None);
        };
        let mut versions = attributes.versions.iter();
        // linear: a resource has a few versions.
        AskedAt(versions.position(|one| Arc::ptr_eq(one, version)))
    }

    /// Returns the version for a request of the same kind.
    pub fn in_request(self, attributes: &Attributes<'_>) -> AskedIn {
        let version = self.0.and_then(|place| attributes.versions.get(place));
        version.cloned().map_or(AskedIn::Request, AskedIn::Other)
    }
}

/// The selectors of a hook. An absent or empty one selects everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookSelectors {
    /// Selects namespaces.
    #[serde(deserialize_with = "compiled")]
    pub namespace_selector: Selection,
    /// Selects objects.
    #[serde(deserialize_with = "compiled")]
    pub object_selector: Selection,
}

/// Compiles the JSON of a selector, which was stored valid.
fn compiled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Selection, D::Error> {
    let json = Json::deserialize(deserializer)?;
    let text = selectors::requirements_text(&Field::named("selector", Some(&json)));
    Selection::of_labels(&text).map_err(D::Error::custom)
}

impl HookSelectors {
    /// Returns whether a request with these labels is selected.
    ///
    /// # Errors
    /// The object is selected, and the labels of its namespace are not known.
    pub fn select(&self, labels: &RequestLabels<'_>) -> Result<bool, Box<Status>> {
        if !self.object_selector.is_empty() && !labels.are_selected(&self.object_selector) {
            return Ok(false);
        }
        let selector = &self.namespace_selector;
        match labels.namespace {
            _ if selector.is_empty() => Ok(true),
            RequestNamespace::Settled => Ok(true),
            RequestNamespace::Written => Ok(selector.selects_labels(labels.object.flatten())),
            RequestNamespace::Unknown(status) => Err(status.clone()),
        }
    }
}

/// The labels by which selectors select a request: those of its object, as it is or as it was
/// (HK-12), and of its namespace.
#[derive(Clone, Copy, Debug)]
pub struct RequestLabels<'o> {
    object: Option<Option<&'o Json>>,
    old_object: Option<Option<&'o Json>>,
    namespace: &'o RequestNamespace,
}

impl<'o> RequestLabels<'o> {
    /// Returns the labels of a request with this object.
    pub fn of(
        attributes: &'o Attributes<'_>,
        object: Option<&'o Object>,
        namespace: &'o RequestNamespace,
    ) -> RequestLabels<'o> {
        let own = AskedIn::Request;
        // Hooks see Scales, which have no labels.
        let is_scale = Form::new(attributes, &own).is_scale();
        let labels = |object: &'o Object| {
            // The options of a connection have no metadata.
            let metadata = object.0.get("metadata").filter(|found| found.is_object())?;
            Some(metadata.get("labels").filter(|_| !is_scale))
        };
        RequestLabels {
            object: object.and_then(labels),
            old_object: attributes.old_object.and_then(labels),
            namespace,
        }
    }

    /// Returns whether the object has a label, as it is or as it was.
    pub fn have(&self, label: &str) -> bool {
        let has = |labels: Option<&Json>| labels.is_some_and(|labels| labels.get(label).is_some());
        self.object.is_some_and(has) || self.old_object.is_some_and(has)
    }

    fn are_selected(&self, selector: &Selection) -> bool {
        let selects = |labels: Option<&Json>| selector.selects_labels(labels);
        self.object.is_some_and(selects) || self.old_object.is_some_and(selects)
    }
}

/// The labels by which selectors select the namespace of a request (HK-11).
#[derive(Debug)]
pub enum RequestNamespace {
    /// All hooks that are left select it: they were asked, or the request has no namespace.
    Settled,
    /// The request writes the namespace itself, whose object has the labels.
    Written,
    /// The namespace is absent (404), or can't be read (500).
    Unknown(Box<Status>),
}

/// Returns the name of the stored namespace by whose labels a request is selected, or how it is
/// selected otherwise (HK-11).
pub fn selected_namespace<'a>(attributes: &'a Attributes<'_>) -> Result<&'a str, RequestNamespace> {
    let is_namespace = attributes.definition.is("", "namespaces");
    if !is_namespace && attributes.namespace.is_none() {
        return Err(RequestNamespace::Settled);
    }
    let is_written = matches!(
        attributes.operation,
        Operation::Create(_) | Operation::Update(_)
    );
    if is_namespace && is_written && attributes.subresource.is_none() {
        return Err(RequestNamespace::Written);
    }
    Ok(namespace_of(attributes))
}
