//! Reads discovery documents of extensions, and turns plain ones into the aggregated form (CN-21,
//! CN-22). Pure.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

/// The longest document about a version that is shown to clients.
const VERSION_BYTES_MAX: usize = 1 << 20;

/// A version in aggregated discovery.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Version {
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Resource>,
    freshness: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    resource: String,
    response_kind: Kind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Subresource {
    subresource: String,
    response_kind: Kind,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted_types: Vec<Kind>,
    verbs: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupList {
    kind: String,
    items: Vec<Group>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    metadata: Metadata,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceList {
    resources: Vec<Listed>,
}

/// A resource or a subresource in the plain form.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listed {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

/// A namespaced resource whose objects can be deleted.
pub(in crate::aggregation) struct Deletable {
    pub plural: String,
    pub has_list: bool,
    pub has_delete_collection: bool,
}

/// Returns the resources of a document whose objects can be deleted with a namespace.
pub(in crate::aggregation) fn deletable(document: &str) -> Vec<Deletable> {
    // This server has written the document, so it can be read.
    let version: Version = serde_json::from_str(document).unwrap_or_default();
    let resources = version.resources.into_iter();
    let namespaced = resources.filter(|resource| resource.scope == "Namespaced");
    let deletable = namespaced.filter_map(|resource| {
        // linear: there are a few verbs.
        let has = |verb: &str| resource.verbs.iter().any(|one| one == verb);
        has("delete").then(|| Deletable {
            has_list: has("list"),
            has_delete_collection: has("deletecollection"),
            plural: resource.resource.clone(),
        })
    });
    deletable.collect()
}

/// The documents about versions, by group and version.
pub(super) type Versions = HashMap<(String, String), String>;

/// Reads the aggregated answer of an extension. `None` if it has another form. Only the versions
/// that `is_wanted` names are kept.
///
/// # Errors
/// It can't be read, or is too long.
pub(super) fn aggregated(
    body: &[u8],
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Result<Option<Versions>, String> {
    let list: GroupList = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if list.kind != "APIGroupDiscoveryList" {
        return Ok(None);
    }
    let mut versions = Versions::new();
    for group in list.items {
        let name = group.metadata.name;
        for mut version in group.versions {
            if !is_wanted(&name, &version.version) {
                continue;
            }
            "Current".clone_into(&mut version.freshness);
            let key = (name.clone(), version.version.clone());
            versions.insert(key, text(&version)?);
        }
    }
    Ok(Some(versions))
}

/// Turns the plain answer about a version into the aggregated form.
///
/// # Errors
/// It can't be read, or is too long.
pub(super) fn of_plain(body: &[u8], version: &str) -> Result<String, String> {
    let list: ResourceList = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let mut resources: Vec<Resource> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for listed in list.resources {
        let (name, part) = match listed.name.split_once('/') {
            Some((name, part)) => (name.to_owned(), Some(part.to_owned())),
            None => (listed.name, None),
        };
        let place = *places.entry(name.clone()).or_insert(resources.len());
        if place == resources.len() {
            resources.push(Resource {
                resource: name,
                ..Resource::default()
            });
        }
        let Some(resource) = resources.get_mut(place) else {
            continue;
        };
        let scope = match listed.namespaced {
            true => "Namespaced",
            false => "Cluster",
        };
        scope.clone_into(&mut resource.scope);
        let response_kind = Kind {
            group: listed.group,
            version: listed.version,
            kind: listed.kind,
        };
        match part {
            Some(subresource) => resource.subresources.push(Subresource {
                subresource,
                response_kind,
                accepted_types: Vec::new(),
                verbs: listed.verbs,
            }),
            None => {
                resource.response_kind = response_kind;
                resource.singular_resource = listed.singular_name;
                resource.verbs = listed.verbs;
                resource.short_names = listed.short_names;
                resource.categories = listed.categories;
            }
        }
    }
    text(&Version {
        version: version.to_owned(),
        resources,
        freshness: "Current".to_owned(),
    })
}

/// The document about a version that its extension does not have.
pub(super) fn without_resources(version: &str) -> String {
    // A version has only letters, digits and dashes.
    format!("{{\"version\":\"{version}\",\"freshness\":\"Current\"}}")
}

/// The document about a version whose extension does not answer (CN-23).
pub fn stale(version: &str) -> String {
    format!("{{\"version\":\"{version}\",\"freshness\":\"Stale\"}}")
}

fn text(version: &Version) -> Result<String, String> {
    let text = serde_json::to_string(version).map_err(|error| error.to_string())?;
    match text.len() {
        ..=VERSION_BYTES_MAX => Ok(text),
        bytes => Err(format!(
            "the document about version {} has {bytes} bytes; {VERSION_BYTES_MAX} are taken",
            version.version
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_the_wanted_versions_of_an_aggregated_answer_count_cn_21() {
        let version = |name: &str| {
            json!({"version": name, "freshness": "Stale", "unknown": 1, "resources": [
                {"resource": "flunders", "scope": "Namespaced", "verbs": ["get"],
                 "singularResource": "flunder",
                 "responseKind": {"group": "", "version": "", "kind": "Flunder"}}]})
        };
        let body = json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "a.example"}, "versions": [version("v1"), version("v2")]},
            {"metadata": {"name": "apps"}, "versions": [version("v1")]}]});
        let is_wanted = |group: &str, version: &str| (group, version) == ("a.example", "v1");
        let found = aggregated(body.to_string().as_bytes(), is_wanted);
        let found = found.unwrap().unwrap();
        assert_eq!(found.len(), 1);
        let text = &found[&("a.example".to_owned(), "v1".to_owned())];
        assert!(text.ends_with("],\"freshness\":\"Current\"}"), "{text}");
        assert!(
            !text.contains("unknown") && !text.contains("shortNames"),
            "{text}"
        );
        let plain = br#"{"kind":"APIGroupList","groups":[]}"#;
        assert!(aggregated(plain, |_, _| true).unwrap().is_none());
        assert!(aggregated(b"<html>", |_, _| true).is_err());
    }

    #[test]
    fn a_plain_list_becomes_an_aggregated_one_cn_22() {
        let body = json!({"kind": "APIResourceList", "resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
             "verbs": ["get", "list"], "shortNames": ["fl"], "categories": ["all"]},
            {"name": "flunders/scale", "singularName": "", "namespaced": true, "kind": "Scale",
             "group": "autoscaling", "version": "v1", "verbs": ["get"]},
            {"name": "alone/part", "namespaced": false, "kind": "Part", "verbs": []}]});
        let text = of_plain(body.to_string().as_bytes(), "v1").unwrap();
        let expected = json!({"version": "v1", "freshness": "Current", "resources": [
            {"resource": "flunders", "scope": "Namespaced", "singularResource": "flunder",
             "responseKind": {"group": "", "version": "", "kind": "Flunder"},
             "verbs": ["get", "list"], "shortNames": ["fl"], "categories": ["all"],
             "subresources": [{"subresource": "scale", "verbs": ["get"], "responseKind":
                {"group": "autoscaling", "version": "v1", "kind": "Scale"}}]},
            {"resource": "alone", "scope": "Cluster", "singularResource": "", "verbs": [],
             "responseKind": {"group": "", "version": "", "kind": ""},
             "subresources": [{"subresource": "part", "verbs": [], "responseKind":
                {"group": "", "version": "", "kind": "Part"}}]}]});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        assert!(of_plain(b"[1", "v1").is_err());
    }

    #[test]
    fn a_document_about_a_version_is_bounded_cn_21() {
        let resources = vec![json!({"name": "x".repeat(1000)}); 1100];
        let body = json!({"resources": resources}).to_string();
        // Equal names are one resource.
        assert!(of_plain(body.as_bytes(), "v1").is_ok());
        let resources = (0..1100).map(|number| json!({"name": format!("{number:01000}")}));
        let body = json!({"resources": resources.collect::<Vec<_>>()}).to_string();
        assert!(
            of_plain(body.as_bytes(), "v1")
                .unwrap_err()
                .contains("are taken")
        );
    }
}
