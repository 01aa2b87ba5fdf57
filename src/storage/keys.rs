//! Maps keys of the storage interface, which are relative, to physical keys (ST-2 to ST-5).

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use actors::engine::{Key, Prefix};

use super::{StorageError, StorageErrorKind};

/// The prefixes of a resource: the store's root, and the resource's own prefix below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// `/registry/` (ST-4).
    root: Root,
    /// `/configmaps`: the prefix of every key of the resource.
    resource: String,
    /// `/registry/configmaps/`
    resource_prefix: Prefix,
}

/// The root of all keys. It begins and ends with one slash and is cleaned as Go's `path.Clean` does
/// (ST-4), however it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(String);

impl Default for Root {
    /// The root that adds only the slash.
    fn default() -> Root {
        Root::from("/")
    }
}

impl From<&str> for Root {
    fn from(configured: &str) -> Root {
        let mut parts: Vec<&str> = Vec::new();
        for part in configured.split('/') {
            match part {
                "" | "." => {}
                // Nothing is above the first slash.
                ".." => _ = parts.pop(),
                part => parts.push(part),
            }
        }
        match parts.is_empty() {
            true => Root("/".to_owned()),
            false => Root(format!("/{}/", parts.join("/"))),
        }
    }
}

impl FromStr for Root {
    type Err = Infallible;

    fn from_str(configured: &str) -> Result<Root, Infallible> {
        Ok(Root::from(configured))
    }
}

impl From<&Root> for Root {
    fn from(root: &Root) -> Root {
        root.clone()
    }
}

impl Root {
    /// Returns the physical key or prefix of a relative one.
    pub fn physical(&self, key: &str) -> String {
        [&self.0, key.strip_prefix('/').unwrap_or(key)].concat()
    }
}

impl fmt::Display for Root {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Keys {
    /// Returns the keys of a resource at `key_prefix` (such as `services/specs`, with or without a
    /// leading slash) below `root`.
    ///
    /// # Errors
    /// An empty prefix of the resource (ST-5).
    pub fn new(root: impl Into<Root>, key_prefix: &str) -> Result<Keys, StorageError> {
        let place = key_prefix.trim_matches('/');
        if place.is_empty() {
            return Err(invalid("", "the resource's key prefix is empty"));
        }
        let root = root.into();
        Ok(Keys {
            resource_prefix: Prefix::new(root.physical(&format!("{place}/"))),
            root,
            resource: format!("/{place}"),
        })
    }

    /// Returns the physical prefix of everything in the store.
    pub fn root_prefix(&self) -> Prefix {
        Prefix::new(self.root.to_string())
    }

    /// Returns the physical prefix of all objects of the resource.
    pub fn resource_prefix(&self) -> &Prefix {
        &self.resource_prefix
    }

    /// Returns the relative prefix of the resource, `/configmaps`.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the physical key of an object.
    ///
    /// # Errors
    /// A key that breaks ST-2.
    pub fn object(&self, key: &str) -> Result<Key, StorageError> {
        self.check(key)?;
        Ok(Key::new(self.root.physical(key)))
    }

    /// Returns the physical prefix of everything below a key. Adds a closing slash.
    ///
    /// # Errors
    /// A key that breaks ST-2.
    pub fn below(&self, key: &str) -> Result<Prefix, StorageError> {
        let key = if key.ends_with('/') {
            key.to_owned()
        } else {
            format!("{key}/")
        };
        self.check(&key)?;
        Ok(Prefix::new(self.root.physical(&key)))
    }

    fn check(&self, key: &str) -> Result<(), StorageError> {
        // A quick check first: hardly any key has a dot after a slash.
        if key.starts_with('.') || key.contains("/.") {
            for wrong in ["..", "."] {
                if key.split('/').any(|part| part == wrong) {
                    let why = format!("invalid key: it has a \"{wrong}\" element");
                    return Err(invalid(key, &why));
                }
            }
        }
        if key.is_empty() || key == "/" {
            return Err(invalid(key, "empty key"));
        }
        if !key.starts_with(&self.resource) {
            return Err(invalid(
                key,
                &format!("it lacks the resource prefix {}", self.resource),
            ));
        }
        Ok(())
    }
}

fn invalid(key: &str, why: &str) -> StorageError {
    StorageError {
        key: key.to_owned(),
        kind: StorageErrorKind::InvalidKey(format!("invalid key {key:?}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_cleaned_to_one_slash_at_each_end_st_4() {
        for root in ["custom/prefix", "/custom//prefix//", "/custom/prefix"] {
            let keys = Keys::new(root, "pods").unwrap();
            assert_eq!(
                keys.object("/pods/a").unwrap(),
                Key::new("/custom/prefix/pods/a")
            );
        }
    }

    #[test]
    fn the_root_is_cleaned_as_a_path_of_go_is_st_4() {
        for (configured, clean) in [
            ("/registry", "/registry/"),
            ("./registry", "/registry/"),
            ("/a/../b", "/b/"),
            ("a/./b//c/..", "/a/b/"),
            ("../../a", "/a/"),
            ("/a/..", "/"),
            ("", "/"),
            ("/", "/"),
            ("/a../.b/...", "/a../.b/.../"),
        ] {
            let root: Root = configured.parse().unwrap();
            assert_eq!(root.to_string(), clean, "{configured}");
            assert_eq!(root.physical("/pods/a"), format!("{clean}pods/a"));
        }
    }

    #[test]
    fn keys_are_checked_in_order_st_2_st_3_ts_34() {
        let keys = Keys::new("/registry", "pods").unwrap();
        for bad in [
            "",
            "/",
            "/pods/../a",
            "/pods/./a",
            "/podtemplates-no",
            "/other/a",
            "pods/a",
        ] {
            let refused = keys.object(bad).is_err();
            assert_eq!(
                refused,
                !bad.starts_with("/pods") || bad.contains("/."),
                "{bad}"
            );
        }
        for fine in [
            "/pods",
            "/pods/",
            "/pods/ns/bar..",
            "/pods/ns/a.b.c",
            "/pods/ns/...a",
        ] {
            assert!(keys.object(fine).is_ok(), "{fine}");
        }
        assert_eq!(keys.below("/pods").unwrap(), Prefix::new("/registry/pods/"));
        assert_eq!(
            keys.below("/pods/ns1/").unwrap(),
            Prefix::new("/registry/pods/ns1/")
        );
    }

    #[test]
    fn a_resource_without_a_place_is_refused_st_5() {
        assert!(Keys::new("/registry", "").is_err());
        assert!(Keys::new("/registry", "/").is_err());
    }

    #[test]
    fn names_are_kept_as_they_are_and_namespaces_end_at_a_slash_kv_6_kv_7() {
        let keys = Keys::new("/registry", "clusterroles").unwrap();
        for name in ["system:node", "example.com:signer:abc"] {
            let key = keys.object(&format!("/clusterroles/{name}")).unwrap();
            assert_eq!(key, Key::new(format!("/registry/clusterroles/{name}")));
        }
        let pods = Keys::new("/registry", "pods").unwrap();
        let below = pods.below("/pods/ns1").unwrap();
        assert!(below.covers(pods.object("/pods/ns1/a").unwrap()));
        assert!(!below.covers(pods.object("/pods/ns10/a").unwrap()));
    }

    #[test]
    fn nested_places_keep_their_path_kv_2_pf_18() {
        let keys = Keys::new("/registry", "services/specs").unwrap();
        assert_eq!(
            *keys.resource_prefix(),
            Prefix::new("/registry/services/specs/")
        );
        assert!(keys.object("/services/endpoints/a").is_err());
    }
}
