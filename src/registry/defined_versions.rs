//! The group versions that definitions of custom resources serve, whether or not their names are
//! accepted.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use tokio::sync::watch;

/// The group versions that some definition serves. The loops over definitions report them, and
/// the registrar of APIServices reads them.
#[derive(Default)]
pub struct DefinedVersions {
    state: Mutex<State>,
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// `version.group`, with the number of definitions that serve it.
    counts: HashMap<String, usize>,
    /// The same by definition.
    by_definition: HashMap<String, Vec<String>>,
    /// Those that came or went since the last look.
    changed: HashSet<String>,
}

impl DefinedVersions {
    /// Notes the versions of a group that a definition serves. None means that it is gone.
    pub fn set<'v>(&self, definition: &str, group: &str, versions: impl Iterator<Item = &'v str>) {
        let names: Vec<String> = versions
            .map(|version| format!("{version}.{group}"))
            .collect();
        let mut state = self.state.lock();
        let before = state.by_definition.get(definition);
        if before.map_or(names.is_empty(), |before| *before == names) {
            return;
        }
        for name in &names {
            state.add(name);
        }
        let before = match names.is_empty() {
            true => state.by_definition.remove(definition),
            false => state.by_definition.insert(definition.to_owned(), names),
        };
        for name in before.into_iter().flatten() {
            state.remove(name);
        }
        let has_changed = !state.changed.is_empty();
        drop(state);
        if has_changed {
            self.news.send_modify(|number| *number += 1);
        }
    }

    /// Forgets the definitions that are not among these.
    pub fn retain(&self, is_known: impl Fn(&str) -> bool) {
        let state = self.state.lock();
        let gone = state.by_definition.keys().filter(|name| !is_known(name));
        let gone: Vec<String> = gone.cloned().collect();
        drop(state);
        for definition in gone {
            self.set(&definition, "", std::iter::empty());
        }
    }

    /// Whether some definition serves a version of a group.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        let state = self.state.lock();
        state.counts.contains_key(&format!("{version}.{group}"))
    }

    /// Returns all group versions, as `version.group`.
    pub fn all(&self) -> Vec<String> {
        self.state.lock().counts.keys().cloned().collect()
    }

    /// Returns those that came or went since the last call.
    pub fn take_changed(&self) -> HashSet<String> {
        std::mem::take(&mut self.state.lock().changed)
    }

    /// Waits until something has changed since this call.
    pub fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut news = self.news.subscribe();
        async move {
            // The sender lives as long as the daemon.
            let _ = news.changed().await;
        }
    }
}

impl State {
    fn add(&mut self, name: &str) {
        let count = self.counts.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            self.changed.insert(name.to_owned());
        }
    }

    fn remove(&mut self, name: String) {
        if let Some(count) = self.counts.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&name);
                self.changed.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_definitions_share_a_group_version_cn_10_cn_11() {
        let defined = DefinedVersions::default();
        let set = |name: &str, versions: &[&str]| {
            defined.set(name, "a.example", versions.iter().copied());
        };
        set("x.a.example", &["v1", "v2"]);
        let changed = defined.take_changed();
        assert_eq!(changed.len(), 2);
        set("y.a.example", &["v1"]);
        set("x.a.example", &["v1", "v2"]);
        assert!(defined.take_changed().is_empty());
        set("x.a.example", &["v1"]);
        assert_eq!(
            defined.take_changed(),
            HashSet::from(["v2.a.example".to_owned()])
        );
        set("x.a.example", &[]);
        assert!(defined.take_changed().is_empty() && defined.serves("a.example", "v1"));
        defined.retain(|name| name != "y.a.example");
        assert_eq!(
            defined.take_changed(),
            HashSet::from(["v1.a.example".to_owned()])
        );
        assert!(!defined.serves("a.example", "v1") && defined.all().is_empty());
    }
}
