//! Keys of objects and collections, relative to the store's prefix (RG-1, KV-1).

use crate::api::names::path_segment;
use crate::api::resource::ResourceDefinition;
use crate::api::text::quoting::go_quote;

/// The reason why a key cannot be formed, which is a bad request (RG-1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A namespaced resource without a namespace.
    #[error("Namespace parameter required.")]
    NoNamespace,
    /// An empty name.
    #[error("name must be provided")]
    NoName,
    /// A name or namespace that is not a valid path segment (API-200).
    #[error("{what} parameter invalid: {}: {}", go_quote(value), path_segment(value).join(";"))]
    Invalid {
        /// `Name` or `Namespace`.
        what: &'static str,
        /// The given value.
        value: String,
    },
}

/// Returns whether a text is a valid path segment. Other texts would make keys ambiguous (API-200).
pub fn is_path_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%'])
}

/// Returns the key of one object.
///
/// # Errors
/// [`KeyError`] if the namespace or the name is not a valid path segment.
pub fn object_key(
    definition: &ResourceDefinition,
    namespace: Option<&str>,
    name: &str,
) -> Result<String, KeyError> {
    if name.is_empty() {
        return Err(KeyError::NoName);
    }
    let name = segment("Name", name)?;
    let prefix = &definition.key_prefix;
    if !definition.is_namespaced() {
        return Ok(format!("/{prefix}/{name}"));
    }
    match namespace.filter(|namespace| !namespace.is_empty()) {
        None => Err(KeyError::NoNamespace),
        Some(namespace) => Ok(format!(
            "/{prefix}/{}/{name}",
            segment("Namespace", namespace)?
        )),
    }
}

/// Returns the key of a collection, in one namespace or in all.
///
/// # Errors
/// [`KeyError`] if the namespace is not a valid path segment.
pub fn collection_key(
    definition: &ResourceDefinition,
    namespace: Option<&str>,
) -> Result<String, KeyError> {
    let prefix = &definition.key_prefix;
    match namespace.filter(|n| definition.is_namespaced() && !n.is_empty()) {
        None => Ok(format!("/{prefix}")),
        Some(namespace) => Ok(format!("/{prefix}/{}", segment("Namespace", namespace)?)),
    }
}

/// The scope of a list or watch: one key, or all keys below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadScope {
    /// The key.
    pub key: String,
    /// Whether the scope is everything below the key. Otherwise it is the object at the key.
    pub recursive: bool,
}

/// Returns the narrowest scope for the namespace of the URL and the exact name and namespace that
/// field selectors require (RG-2). Callers still evaluate the selectors.
///
/// # Errors
/// [`KeyError`] if the namespace of the URL is not a valid path segment.
pub fn read_scope(
    definition: &ResourceDefinition,
    namespace: Option<&str>,
    selected_namespace: Option<&str>,
    selected_name: Option<&str>,
) -> Result<ReadScope, KeyError> {
    let namespace = namespace
        .filter(|namespace| !namespace.is_empty())
        .or(selected_namespace.filter(|n| definition.is_namespaced() && is_path_segment(n)));
    let single = selected_name.and_then(|name| object_key(definition, namespace, name).ok());
    Ok(match single {
        Some(key) => ReadScope {
            key,
            recursive: false,
        },
        None => ReadScope {
            key: collection_key(definition, namespace)?,
            recursive: true,
        },
    })
}

fn segment<'t>(what: &'static str, text: &'t str) -> Result<&'t str, KeyError> {
    if is_path_segment(text) {
        return Ok(text);
    }
    Err(KeyError::Invalid {
        what,
        value: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::definitions::core::{configmaps, nodes, services};

    /// KV-1, KV-2, RG-1.
    #[test]
    fn keys_are_prefix_namespace_and_name() {
        let key = |d: ResourceDefinition, namespace, name| object_key(&d, namespace, name);
        assert_eq!(
            key(configmaps(), Some("d"), "a").as_deref(),
            Ok("/configmaps/d/a")
        );
        assert_eq!(
            key(services(), Some("d"), "a").as_deref(),
            Ok("/services/specs/d/a")
        );
        assert_eq!(key(nodes(), None, "n:1").as_deref(), Ok("/minions/n:1"));
        assert_eq!(
            collection_key(&configmaps(), None).as_deref(),
            Ok("/configmaps")
        );
        assert_eq!(
            collection_key(&configmaps(), Some("d")).as_deref(),
            Ok("/configmaps/d")
        );
        assert_eq!(
            collection_key(&nodes(), Some("d")).as_deref(),
            Ok("/minions")
        );
    }

    /// RG-1: invalid path segments are refused.
    #[test]
    fn names_that_are_no_path_elements_make_no_key() {
        for name in ["", ".", "..", "a/b", "a%b"] {
            assert!(
                object_key(&configmaps(), Some("d"), name).is_err(),
                "{name}"
            );
            assert!(
                object_key(&configmaps(), Some(name), "a").is_err(),
                "{name}"
            );
        }
        assert!(object_key(&configmaps(), None, "a").is_err());
        assert!(collection_key(&configmaps(), Some("..")).is_err());
    }

    /// RG-2: exact selectors narrow the scope.
    #[test]
    fn selectors_narrow_the_scope() {
        let scope = |namespace, selected, name| {
            let scope = read_scope(&configmaps(), namespace, selected, name).expect("a scope");
            (scope.key, scope.recursive)
        };
        let owned = |key: &str, recursive| (key.to_owned(), recursive);
        assert_eq!(
            scope(Some("d"), None, Some("a")),
            owned("/configmaps/d/a", false)
        );
        assert_eq!(
            scope(None, Some("d"), Some("a")),
            owned("/configmaps/d/a", false)
        );
        assert_eq!(scope(None, Some("d"), None), owned("/configmaps/d", true));
        assert_eq!(scope(None, None, Some("a")), owned("/configmaps", true));
        assert_eq!(
            scope(Some("d"), Some("e"), None),
            owned("/configmaps/d", true)
        );
        assert_eq!(
            scope(Some("d"), None, Some("a/b")),
            owned("/configmaps/d", true)
        );
        assert_eq!(scope(None, Some("a/b"), None), owned("/configmaps", true));
        let node = read_scope(&nodes(), None, None, Some("n")).expect("a scope");
        assert_eq!((node.key.as_str(), node.recursive), ("/minions/n", false));
    }
}
