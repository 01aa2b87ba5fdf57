//! The grants of users who have asked before. Pure.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use smol_str::SmolStr;

use crate::api::user_info::UserInfo;
use crate::auth::ByHash;
use crate::auth::rbac::Grant;

/// The number of users and namespaces whose grants are kept. If there are more, all are forgotten.
const ENTRIES_MAX: usize = 8192;
/// The bytes of the names of a user and of the user's groups. Grants of users with longer names are
/// not kept.
const KEY_BYTES_MAX: usize = 4096;

/// The grants of users by namespace, as of one generation of roles and bindings.
#[derive(Default)]
pub(super) struct KeptGrants {
    generation: u64,
    /// By the hash of user and namespace. Of two with the same hash the newer one is kept.
    entries: ByHash<Entry>,
    hasher: RandomState,
}

struct Entry {
    user: SmolStr,
    groups: Box<[SmolStr]>,
    namespace: SmolStr,
    grants: Arc<[Grant]>,
}

impl KeptGrants {
    /// Returns the grants of a user in a namespace, if they are known in this generation.
    pub(super) fn get(
        &self,
        generation: u64,
        user: &UserInfo,
        namespace: &str,
    ) -> Option<Arc<[Grant]>> {
        if self.generation != generation {
            return None;
        }
        let entry = self.entries.get(&self.hash(user, namespace))?;
        let is_asked = entry.user == user.name
            && entry.namespace == namespace
            && entry.groups.iter().eq(&user.groups);
        is_asked.then(|| Arc::clone(&entry.grants))
    }

    /// Keeps the grants of a user in a namespace. A newer generation makes all earlier ones void.
    pub(super) fn keep(
        &mut self,
        generation: u64,
        user: &UserInfo,
        namespace: &str,
        grants: &Arc<[Grant]>,
    ) {
        if self.generation > generation {
            return;
        }
        if self.generation < generation || self.entries.len() >= ENTRIES_MAX {
            self.entries.clear();
            self.generation = generation;
        }
        let groups = user.groups.iter().map(String::len);
        if user.name.len() + namespace.len() + groups.sum::<usize>() > KEY_BYTES_MAX {
            return;
        }
        let entry = Entry {
            user: SmolStr::new(&user.name),
            groups: user.groups.iter().map(SmolStr::new).collect(),
            namespace: namespace.into(),
            grants: Arc::clone(grants),
        };
        self.entries.insert(self.hash(user, namespace), entry);
    }

    /// The groups are compared later: those of a user seldom differ between requests.
    fn hash(&self, user: &UserInfo, namespace: &str) -> u64 {
        let groups = user.groups.len();
        self.hasher.hash_one((&user.name, groups, namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..UserInfo::default()
        }
    }

    #[test]
    fn grants_belong_to_one_user_namespace_and_generation() {
        let mut kept = KeptGrants::default();
        let grants: Arc<[Grant]> = Arc::new([]);
        let bob = user("bob", &["a", "b"]);
        assert!(kept.get(0, &bob, "x").is_none());
        kept.keep(1, &bob, "x", &grants);
        assert!(kept.get(1, &bob, "x").is_some());
        for (name, groups, namespace) in [
            ("bob", &["a"][..], "x"),
            ("bob", &["b", "a"], "x"),
            ("bob", &["a", "b"], ""),
            ("eve", &["a", "b"], "x"),
        ] {
            assert!(kept.get(1, &user(name, groups), namespace).is_none());
        }
        assert!(kept.get(2, &bob, "x").is_none());
        kept.keep(2, &user("eve", &[]), "x", &grants);
        assert!(kept.get(1, &bob, "x").is_none() && kept.get(2, &bob, "x").is_none());
        // Rules that were read before the newest change are not kept.
        kept.keep(1, &bob, "x", &grants);
        assert!(kept.get(1, &bob, "x").is_none() && kept.get(2, &bob, "x").is_none());
    }

    #[test]
    fn neither_many_nor_large_users_take_much() {
        let mut kept = KeptGrants::default();
        let grants: Arc<[Grant]> = Arc::new([]);
        let long = "g".repeat(KEY_BYTES_MAX);
        kept.keep(1, &user("u", &[&long]), "", &grants);
        assert!(kept.entries.is_empty());
        for number in 0..3 * ENTRIES_MAX {
            kept.keep(1, &user(&number.to_string(), &[]), "", &grants);
            assert!(kept.entries.len() <= ENTRIES_MAX);
        }
        assert!(!kept.entries.is_empty());
    }
}
