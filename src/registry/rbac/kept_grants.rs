//! The grants of users who have asked before. Pure.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use smol_str::SmolStr;

use crate::api::user_info::UserInfo;
use crate::auth::ByHash;
use crate::auth::rbac::Grant;

/// The number of users and namespaces whose grants are kept. If there are more, all are forgotten.
const ENTRIES_MAX: usize = 8192;
/// The number of grants that are kept for all users, and for one user in one namespace.
const GRANTS_MAX: usize = 1 << 20;
const GRANTS_OF_ONE_MAX: usize = 1 << 18;
/// The bytes of the names of a user and of the user's groups. Grants of users with longer names are
/// not kept.
const KEY_BYTES_MAX: usize = 4096;

/// The grants of users by namespace, as of one generation of roles and bindings.
#[derive(Default)]
pub(super) struct KeptGrants {
    generation: u64,
    /// The number of grants of all entries.
    grants: usize,
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
        let groups = user.groups.iter().map(String::len);
        let bytes = user.name.len() + namespace.len() + groups.sum::<usize>();
        let is_large = bytes > KEY_BYTES_MAX || grants.len() > GRANTS_OF_ONE_MAX;
        let is_full = self.entries.len() >= ENTRIES_MAX || self.grants + grants.len() > GRANTS_MAX;
        if self.generation < generation || is_full && !is_large {
            self.entries.clear();
            self.grants = 0;
            self.generation = generation;
        }
        if is_large {
            return;
        }
        let entry = Entry {
            user: SmolStr::new(&user.name),
            groups: user.groups.iter().map(SmolStr::new).collect(),
            namespace: namespace.into(),
            grants: Arc::clone(grants),
        };
        self.grants += grants.len();
        let replaced = self.entries.insert(self.hash(user, namespace), entry);
        self.grants -= replaced.map_or(0, |entry| entry.grants.len());
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

    /// Users of whom somebody has written very many bindings.
    #[test]
    fn many_grants_of_many_users_do_not_take_much() {
        let binding = r#"{"roleRef":{"kind":"Role","name":"r"},
            "subjects":[{"kind":"User","name":"u"}]}"#;
        let mut index = crate::auth::rbac::RbacIndex::default();
        let read = crate::auth::rbac::Binding::read;
        index.set_binding(read("n", "b", binding.as_bytes()).unwrap());
        let one = &index.grants(&user("u", &[]), "n")[0];
        let many = |count| -> Arc<[Grant]> { std::iter::repeat_n(one.clone(), count).collect() };
        let mut kept = KeptGrants::default();
        kept.keep(1, &user("huge", &[]), "n", &many(GRANTS_OF_ONE_MAX + 1));
        assert!(kept.entries.is_empty());
        let grants = many(100_000);
        for number in 0..100 {
            let user = user(&number.to_string(), &[]);
            kept.keep(1, &user, "n", &grants);
            assert!(kept.get(1, &user, "n").is_some());
            let held: usize = kept.entries.values().map(|one| one.grants.len()).sum();
            assert_eq!(held, kept.grants);
            assert!(held <= GRANTS_MAX, "{held}");
        }
        // One that is replaced counts once.
        let mut kept = KeptGrants::default();
        for _ in 0..2 {
            kept.keep(1, &user("u", &[]), "n", &grants);
            assert_eq!(kept.grants, 100_000);
        }
    }
}
