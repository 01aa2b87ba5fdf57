//! The definitions of custom resources, before and after a rewrite, and the versions that they need
//! no longer list as stored. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// A definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Definition {
    uid: String,
    /// It counts the changes of the rest.
    generation: i64,
    group: String,
    storage: String,
    /// The versions that may be stored, as its status says.
    stored: Vec<String>,
}

/// All definitions, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions(BTreeMap<String, Definition>);

/// A definition that lists versions in which nothing is stored any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outdated {
    pub name: String,
    /// The versions that its status lists.
    pub listed: Vec<String>,
    /// The only one that is stored.
    pub storage: String,
}

impl Definitions {
    /// Reads the list of all definitions.
    pub(super) fn of(list: &Value) -> Definitions {
        let items = list["items"].as_array().into_iter().flatten();
        Definitions(items.map(definition).collect())
    }

    /// Returns the definitions that list versions without need. `stored_as` has the `apiVersion` in
    /// which each resource has only been stored since before the rewrite began. A definition that
    /// has changed since then is left out.
    pub(super) fn outdated(
        &self,
        after: &Definitions,
        stored_as: &BTreeMap<String, String>,
    ) -> Vec<Outdated> {
        let same = after.0.iter().filter(|(name, definition)| {
            let before = self.0.get(*name);
            before.is_some_and(|before| {
                (&before.uid, before.generation) == (&definition.uid, definition.generation)
            })
        });
        let outdated = same.filter(|(name, definition)| {
            let Definition {
                group,
                storage,
                stored,
                ..
            } = definition;
            let is_rewritten = stored_as.get(*name) == Some(&format!("{group}/{storage}"));
            is_rewritten && stored.iter().any(|version| version != storage)
        });
        let outdated = outdated.map(|(name, definition)| Outdated {
            name: name.clone(),
            listed: definition.stored.clone(),
            storage: definition.storage.clone(),
        });
        outdated.collect()
    }
}

fn definition(object: &Value) -> (String, Definition) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &object["spec"];
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    let storage = versions.find(|version| version["storage"] == true);
    let stored = object["status"]["storedVersions"].as_array();
    let definition = Definition {
        uid: text(&object["metadata"]["uid"]),
        generation: object["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default(),
        group: text(&spec["group"]),
        storage: storage
            .map(|version| text(&version["name"]))
            .unwrap_or_default(),
        stored: stored.into_iter().flatten().map(text).collect(),
    };
    (text(&object["metadata"]["name"]), definition)
}

impl Outdated {
    /// The lines about it in the report.
    pub(super) fn line(&self) -> String {
        let Outdated {
            name,
            listed,
            storage,
        } = self;
        let listed = listed.join(", ");
        format!(
            "{name}: all objects are stored as {storage}, so status.storedVersions may be \
             shortened from [{listed}] to [{storage}]:\n  kubectl patch \
             customresourcedefinitions {name} --subresource=status --type=merge \
             -p '{{\"status\":{{\"storedVersions\":[\"{storage}\"]}}}}'\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(generation: i64, stored: &[&str]) -> Definitions {
        Definitions::of(&json!({"items": [{
            "metadata": {"name": "lamps.example.com", "uid": "u", "generation": generation},
            "spec": {"group": "example.com", "versions": [
                {"name": "v1", "storage": false}, {"name": "v2", "storage": true}]},
            "status": {"storedVersions": stored},
        }]}))
    }

    #[test]
    fn versions_may_go_if_nothing_has_changed_meanwhile() {
        let as_v2 = BTreeMap::from([("lamps.example.com".to_owned(), "example.com/v2".to_owned())]);
        let as_v1 = BTreeMap::from([("lamps.example.com".to_owned(), "example.com/v1".to_owned())]);
        let both = list(2, &["v1", "v2"]);
        let outdated = both.outdated(&both, &as_v2);
        assert_eq!(outdated.len(), 1);
        let line = outdated[0].line();
        assert!(line.contains("from [v1, v2] to [v2]:\n"), "{line}");
        assert!(line.ends_with(
            "lamps.example.com --subresource=status --type=merge -p \
             '{\"status\":{\"storedVersions\":[\"v2\"]}}'\n"
        ));
        assert_eq!(both.outdated(&both, &as_v1), []);
        assert_eq!(both.outdated(&both, &BTreeMap::new()), []);
        assert_eq!(list(1, &["v1", "v2"]).outdated(&both, &as_v2), []);
        assert_eq!(both.outdated(&list(2, &["v2"]), &as_v2), []);
        assert_eq!(Definitions::default().outdated(&both, &as_v2), []);
    }
}
