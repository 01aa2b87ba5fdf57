//! The rules of roles, and what they allow (API-288). Pure.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::auth::Attributes;

/// Stands for all verbs, groups, resources or paths.
pub(super) const ALL: &str = "*";

/// One rule of a Role or ClusterRole. It allows verbs on resources, or on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The verbs, or `*`.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// The groups of the resources, or `*`. The core group is empty.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources: `pods`, `pods/log`, `*/scale` or `*`.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names of the objects. An empty list stands for all objects.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The paths. A star at the end matches any suffix.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Reads a list that may be null.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(value).map(Option::unwrap_or_default)
}

impl PolicyRule {
    /// Returns the rule as objects have it.
    pub fn to_json(&self) -> Value {
        // A rule consists of lists of texts, which can always be written.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns whether the rule allows a request.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        match request.is_resource_request {
            true => {
                has(&self.verbs, request.verb)
                    && has(&self.api_groups, request.api_group)
                    && self.has_resource(request.resource, request.subresource)
                    && self.has_name(request.name)
            }
            false => has(&self.verbs, request.verb) && self.has_path(request.path),
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        let is = |known: &String| match known.split_once('/') {
            _ if known == ALL => true,
            Some((of, part)) => part == subresource && (of == ALL || of == resource),
            None => subresource.is_empty() && known == resource,
        };
        // linear: a rule names few resources.
        self.resources.iter().any(is)
    }

    fn has_name(&self, name: &str) -> bool {
        // linear: a rule names few objects.
        self.resource_names.is_empty() || self.resource_names.iter().any(|known| known == name)
    }

    fn has_path(&self, path: &str) -> bool {
        // Kubernetes drops all stars at the end, not only the last one.
        let is = |known: &String| match known.ends_with(ALL) {
            true => path.starts_with(known.trim_end_matches(ALL)),
            false => known == path,
        };
        // linear: a rule names few paths.
        self.non_resource_urls.iter().any(is)
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    // linear: a rule has few verbs and groups.
    list.iter().any(|known| known == ALL || known == wanted)
}
