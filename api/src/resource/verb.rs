//! The verbs of the API.

use std::fmt;

/// The action of a request on objects, ordered by name as in discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Any method on a path that carries no objects: logs, streams, proxies.
    Connect,
    /// POST on a collection.
    Create,
    /// DELETE of an object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// GET of an object.
    Get,
    /// GET of a collection.
    List,
    /// PATCH.
    Patch,
    /// PUT.
    Update,
    /// GET of a collection with `watch=true`, and the old watch paths.
    Watch,
}

impl Verb {
    /// The verbs of every stored resource.
    pub const ALL: [Verb; 8] = [
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];

    /// Returns its name in discovery and in authorization rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Connect => "connect",
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
