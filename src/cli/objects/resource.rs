//! Finds the resource that a word on the command line means, as kubectl does. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;

/// The media types of aggregated discovery.
pub(super) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The characters that are not escaped in a part of a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b':');

/// A resource that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    group: String,
    version: String,
    pub(super) plural: String,
    pub(super) is_namespaced: bool,
    /// Kind, singular and short names in lower case.
    names: Vec<String>,
}

impl Resource {
    /// The path of the collection.
    pub(super) fn collection(&self, namespace: &str) -> String {
        match self.is_namespaced {
            true => {
                let (root, plural) = (self.root(), &self.plural);
                format!("{root}/namespaces/{}/{plural}", part(namespace))
            }
            false => self.everywhere(),
        }
    }

    /// The path of the collection in all namespaces.
    pub(super) fn everywhere(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    fn root(&self) -> String {
        let Resource { group, version, .. } = self;
        match group.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{group}/{version}"),
        }
    }

    /// The path of an object.
    pub(super) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), part(name))
    }

    fn is_called(&self, word: &str) -> bool {
        let with_group =
            |name: &str| !self.group.is_empty() && word == format!("{name}.{}", self.group);
        let mut names = self.names.iter().chain([&self.plural]);
        names.any(|name| name == word || with_group(name))
    }
}

/// A part of a path, whatever characters it has.
fn part(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, UNRESERVED)
}

/// The resources of an aggregated discovery document, in its order.
pub(super) fn all(document: &Value) -> Vec<Resource> {
    let mut found = Vec::new();
    for group in array(&document["items"]) {
        for version in array(&group["versions"]) {
            for resource in array(&version["resources"]) {
                let kind = text(&resource["responseKind"]["kind"]).to_lowercase();
                let short = array(&resource["shortNames"]).iter().map(text);
                let names = [kind, text(&resource["singularResource"])];
                found.push(Resource {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    plural: text(&resource["resource"]),
                    is_namespaced: resource["scope"] == "Namespaced",
                    names: names.into_iter().chain(short).collect(),
                });
            }
        }
    }
    found
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The first resource with this name.
///
/// # Errors
/// A text that names the word.
pub(super) fn find(known: Vec<Resource>, word: &str) -> Result<Resource, String> {
    let lower = word.to_lowercase();
    let found = known
        .into_iter()
        .find(|resource| resource.is_called(&lower));
    found.ok_or_else(|| format!("{word:?} is not a served kind"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_found_by_each_of_its_names() {
        let document = json!({ "items": [
            { "metadata": { "name": "" }, "versions": [{ "version": "v1", "resources": [{
                "resource": "configmaps", "singularResource": "configmap", "scope": "Namespaced",
                "shortNames": ["cm"], "responseKind": { "kind": "ConfigMap" } }] }] },
            { "metadata": { "name": "apps" }, "versions": [{ "version": "v1", "resources": [{
                "resource": "deployments", "singularResource": "deployment", "scope": "Namespaced",
                "responseKind": { "kind": "Deployment" } }] }] },
        ] });
        let known = all(&document);
        for word in ["configmaps", "configmap", "ConfigMap", "cm"] {
            let found = find(known.clone(), word).unwrap();
            assert_eq!(found.object("d", "a"), "/api/v1/namespaces/d/configmaps/a");
        }
        for word in ["deployments.apps", "deployment"] {
            let found = find(known.clone(), word).unwrap();
            assert_eq!(
                found.collection("d"),
                "/apis/apps/v1/namespaces/d/deployments"
            );
        }
        let refused = find(known, "pots").unwrap_err();
        assert_eq!(refused, "\"pots\" is not a served kind");
    }
}
