//! The identity of an object within its resource.

/// The namespace and name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespacedName<'n> {
    /// Its namespace, or `None` for cluster-scoped objects.
    pub namespace: Option<&'n str>,
    /// Its name.
    pub name: &'n str,
}

impl<'n> NamespacedName<'n> {
    /// Returns the identity of an object in a namespace.
    pub const fn in_namespace(namespace: &'n str, name: &'n str) -> NamespacedName<'n> {
        NamespacedName {
            namespace: Some(namespace),
            name,
        }
    }

    /// Returns the identity of an object with this namespace in its metadata, which is empty in
    /// cluster-scoped objects.
    pub fn of(namespace: &'n str, name: &'n str) -> NamespacedName<'n> {
        NamespacedName {
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            name,
        }
    }

    /// Returns the identity of a cluster-scoped object.
    pub const fn in_cluster(name: &'n str) -> NamespacedName<'n> {
        NamespacedName {
            namespace: None,
            name,
        }
    }
}
