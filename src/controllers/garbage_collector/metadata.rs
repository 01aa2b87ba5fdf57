//! The members of an object's metadata that the collector reads. Pure.

use std::sync::LazyLock;

use actors::object::CachedObject;
use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::storage::codec::metadata_of;

/// The finalizer of an owner that is deleted after its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are kept.
pub(super) const ORPHAN: &str = "orphan";

/// The members of `metadata` that matter here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) owner_references: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) block_owner_deletion: Option<bool>,
}

/// How an object is being deleted, according to its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    /// It is not being deleted.
    None,
    /// It is being deleted, and the collector has nothing to do.
    Begun,
    /// It is being deleted and waits for its dependents.
    Foreground,
    /// It is being deleted, and its dependents must be released first.
    Orphan,
}

impl Metadata {
    /// Reads an object. `None` if its metadata has another form.
    pub(super) fn of(object: &CachedObject) -> Option<Metadata> {
        metadata_of(object)
    }

    pub(super) fn deletion(&self) -> Deletion {
        let has = |name: &str| self.finalizers.iter().any(|finalizer| finalizer == name);
        match self.deletion_timestamp.is_some() {
            false => Deletion::None,
            true if has(ORPHAN) => Deletion::Orphan,
            true if has(FOREGROUND) => Deletion::Foreground,
            true => Deletion::Begun,
        }
    }
}

/// Whether an object may have owners or wait for dependents. It only searches for the words, so
/// most objects are skipped without being parsed.
pub(super) fn may_concern(object: &CachedObject) -> bool {
    static WORDS: LazyLock<[memmem::Finder<'static>; 2]> = LazyLock::new(|| {
        ["\"ownerReferences\":[", "\"deletionTimestamp\":\""].map(memmem::Finder::new)
    });
    let text = object.item_body();
    WORDS.iter().any(|word| word.find(text).is_some())
}

#[cfg(test)]
mod tests {
    use actors::engine::{Key, Revision};
    use serde_json::json;

    use super::*;
    use crate::api::object::Object;
    use crate::kinds::definitions::core;
    use crate::storage::codec::Codec;

    fn cached(metadata: serde_json::Value) -> CachedObject {
        let text = json!({"metadata": metadata, "data": {"a": "b"}}).to_string();
        let object = Object::read(text.as_bytes()).expect("an object");
        let codec = Codec::new(core::configmaps());
        let key = Key::new("/registry/configmaps/d/a");
        codec.wire(&key, &object, Revision(7)).expect("it is one")
    }

    #[test]
    fn owners_finalizers_and_deletion_are_read() {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u",
            "controller": true, "blockOwnerDeletion": true});
        let object = cached(json!({
            "name": "a", "namespace": "d", "uid": "v", "ownerReferences": [owner],
            "managedFields": [{"manager": "m", "operation": "Update"}], "finalizers": ["x"],
        }));
        assert!(may_concern(&object));
        let read = Metadata::of(&object).expect("metadata");
        assert_eq!((&*read.uid, &*read.resource_version), ("v", "7"));
        assert_eq!(read.owner_references[0].uid, "u");
        assert_eq!(read.owner_references[0].block_owner_deletion, Some(true));
        assert_eq!(read.finalizers, ["x"]);
        assert_eq!(read.deletion(), Deletion::None);
        assert!(!may_concern(&cached(json!({"name": "a", "uid": "v"}))));
    }

    #[test]
    fn finalizers_tell_how_an_object_goes() {
        let deletion = |finalizers: &[&str]| {
            let object = cached(json!({
                "name": "a", "uid": "v", "finalizers": finalizers,
                "deletionTimestamp": "2024-01-02T03:04:05Z",
            }));
            assert!(may_concern(&object));
            Metadata::of(&object).expect("metadata").deletion()
        };
        assert_eq!(deletion(&["a/b"]), Deletion::Begun);
        assert_eq!(deletion(&["a/b", FOREGROUND]), Deletion::Foreground);
        assert_eq!(deletion(&[ORPHAN]), Deletion::Orphan);
    }
}
