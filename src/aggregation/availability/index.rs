//! Which APIServices a Service has, and which of their versions the controller wrote. Pure.

use std::collections::{BTreeSet, HashMap};

/// A namespace and a name.
pub(super) type ServiceName = (String, String);

/// The APIServices that are known.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The Service of each APIService; `None` for a local one.
    services: HashMap<String, Option<ServiceName>>,
    /// The APIServices by namespaces and names of Services.
    by_service: HashMap<String, HashMap<String, BTreeSet<String>>>,
    /// The revisions of the last statuses that were written.
    written: HashMap<String, u64>,
}

impl Index {
    /// Notes an APIService. Returns whether it is to be checked: a change that only has the status
    /// that was just written needs no check.
    pub(super) fn set(&mut self, name: &str, service: Option<ServiceName>, revision: u64) -> bool {
        if self.services.get(name) != Some(&service) {
            self.unlink(name);
            if let Some((namespace, service)) = &service {
                let namespace = self.by_service.entry(namespace.clone()).or_default();
                let names = namespace.entry(service.clone()).or_default();
                names.insert(name.to_owned());
            }
            self.services.insert(name.to_owned(), service);
        }
        self.written.get(name) != Some(&revision)
    }

    /// Forgets an APIService.
    pub(super) fn remove(&mut self, name: &str) {
        self.unlink(name);
        self.services.remove(name);
        self.written.remove(name);
    }

    /// Notes the revision of a status that was written.
    pub(super) fn wrote(&mut self, name: &str, revision: u64) {
        if self.services.contains_key(name) {
            self.written.insert(name.to_owned(), revision);
        }
    }

    /// Whether an APIService is known.
    pub(super) fn has(&self, name: &str) -> bool {
        self.services.contains_key(name)
    }

    /// Whether an APIService is known and remote.
    pub(super) fn is_remote(&self, name: &str) -> bool {
        self.services.get(name).is_some_and(Option::is_some)
    }

    /// The APIServices that are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.services.keys()
    }

    /// The APIServices of a Service.
    pub(super) fn of(&self, namespace: &str, service: &str) -> impl Iterator<Item = &String> {
        let found = self.by_service.get(namespace);
        found
            .and_then(|found| found.get(service))
            .into_iter()
            .flatten()
    }

    fn unlink(&mut self, name: &str) {
        let Some(Some((namespace, service))) = self.services.get(name) else {
            return;
        };
        let Some(services) = self.by_service.get_mut(namespace) else {
            return;
        };
        if let Some(names) = services.get_mut(service) {
            names.remove(name);
            if names.is_empty() {
                services.remove(service);
            }
        }
        if services.is_empty() {
            self.by_service.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> Option<ServiceName> {
        Some(("n".to_owned(), name.to_owned()))
    }

    #[test]
    fn apiservices_are_found_by_their_services() {
        let mut index = Index::default();
        for name in ["a", "b"] {
            assert!(index.set(name, service("s"), 1));
        }
        assert!(index.set("c", None, 1));
        assert_eq!(index.of("n", "s").collect::<Vec<_>>(), ["a", "b"]);
        assert!(index.set("a", service("t"), 2));
        assert_eq!(index.of("n", "s").collect::<Vec<_>>(), ["b"]);
        assert_eq!(index.of("n", "t").collect::<Vec<_>>(), ["a"]);
        assert_eq!(index.of("other", "t").count(), 0);
        assert!(index.is_remote("a") && !index.is_remote("c") && !index.is_remote("d"));
        for name in ["a", "b", "c"] {
            index.remove(name);
        }
        assert!(index.by_service.is_empty() && index.services.is_empty());
    }

    #[test]
    fn a_status_that_was_just_written_needs_no_check() {
        let mut index = Index::default();
        index.wrote("a", 1);
        assert!(index.set("a", service("s"), 1), "it was not known");
        index.wrote("a", 2);
        assert!(!index.set("a", service("s"), 2));
        assert!(index.set("a", service("s"), 3));
        index.remove("a");
        assert!(index.set("a", service("s"), 2));
        assert_eq!(index.names().count(), 1);
    }
}
