//! All APIServices at a time, in the order of discovery (CN-20).
//!
//! A view never changes, and shares with the one before everything that a change does not concern.
//! [`ApiServices`] follows the watch cache: each look reads the news first, so an APIService counts
//! for the next request after its acknowledgement. The store waits with that until its cache has
//! the object ([`Effect::FullAtOnce`](crate::api::resource::Effect)).

use std::cmp::Reverse;
use std::sync::Arc;

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::engine::Prefix;
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use imbl::{OrdMap, OrdSet};
use parking_lot::RwLock;

use super::service::{ApiService, name_of};
use crate::registry::compare_versions;

/// The resource of APIServices, whose cache the daemon follows.
pub const APISERVICES: &str = "apiservices.apiregistration.k8s.io";

/// All APIServices at a time.
#[derive(Clone, Default)]
pub struct View {
    is_filled: bool,
    by_name: OrdMap<Arc<str>, Arc<ApiService>>,
    remote: OrdMap<Arc<str>, Arc<ApiService>>,
    groups: OrdMap<Arc<str>, Arc<ListedGroup>>,
    order: OrdSet<(Rank, Arc<str>)>,
    edition: u64,
    remote_edition: u64,
}

/// The place of a group among others: the highest priority of its versions, then the name of the
/// APIService that has it.
type Rank = (Reverse<i32>, Arc<str>);

/// The APIServices of a group.
#[derive(Clone, Debug)]
pub struct ListedGroup {
    /// The group, empty for the core group.
    pub name: Arc<str>,
    /// Its versions, the preferred one first.
    pub versions: Vec<Arc<ApiService>>,
}

impl ListedGroup {
    fn rank(&self) -> Option<Rank> {
        let ranks = self.versions.iter().map(|one| {
            let name: &str = &one.name;
            (Reverse(one.group_priority), name)
        });
        let (priority, name) = ranks.min()?;
        Some((priority, name.into()))
    }
}

impl View {
    /// Whether the APIServices were read once. Before that nothing is known about any group.
    pub fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// Returns the APIService of a group version.
    pub fn find(&self, group: &str, version: &str) -> Option<&Arc<ApiService>> {
        self.named(&name_of(group, version))
    }

    /// Returns an APIService by its name.
    pub fn named(&self, name: &str) -> Option<&Arc<ApiService>> {
        self.by_name.get(name)
    }

    /// Returns the APIService of a group version that another server serves. Without any such
    /// server it costs nothing.
    pub fn remote(&self, group: &str, version: &str) -> Option<&Arc<ApiService>> {
        if self.remote.is_empty() {
            return None;
        }
        self.remote.get(&*name_of(group, version))
    }

    /// Returns the APIServices of other servers, by name.
    pub fn remotes(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.remote.values()
    }

    /// Returns all APIServices, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.by_name.values()
    }

    /// Returns the groups in the order of discovery, the core group among them.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<ListedGroup>> {
        let names = self.order.iter().map(|(_, name)| name);
        names.filter_map(|name| self.groups.get(name))
    }

    /// Returns a group that has APIServices.
    pub fn group(&self, name: &str) -> Option<&Arc<ListedGroup>> {
        self.groups.get(name)
    }

    /// Returns a number that changes with everything that lists of groups show.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Returns a number that changes with the set of group versions that other servers serve.
    pub fn remote_edition(&self) -> u64 {
        self.remote_edition
    }

    /// Sets an APIService, or with `None` removes the one of this name.
    fn set(&mut self, name: &str, service: Option<Arc<ApiService>>) {
        let before = match &service {
            Some(service) => self.by_name.insert(name.into(), Arc::clone(service)),
            None => self.by_name.remove(name),
        };
        match service.as_ref().filter(|service| service.is_remote()) {
            Some(service) => self.remote.insert(name.into(), Arc::clone(service)),
            None => self.remote.remove(name),
        };
        let is_remote = |of: &Option<Arc<ApiService>>| of.as_ref().is_some_and(|of| of.is_remote());
        self.remote_edition += u64::from(is_remote(&before) != is_remote(&service));
        let is_listed_as_before = match (&before, &service) {
            (Some(before), Some(service)) => before.is_listed_like(service),
            (None, None) => true,
            _ => false,
        };
        self.edition += u64::from(!is_listed_as_before);
        let Some(any) = service.as_ref().or(before.as_ref()) else {
            return;
        };
        // The name has the group, so both are of the same one.
        let group: Arc<str> = any.group.as_str().into();
        let mut versions = Vec::new();
        if let Some(listed) = self.groups.get(&group) {
            if let Some(rank) = listed.rank() {
                self.order.remove(&(rank, Arc::clone(&group)));
            }
            let others = listed.versions.iter().filter(|other| other.name != name);
            versions.extend(others.cloned());
        }
        versions.extend(service);
        versions.sort_by(|one, other| {
            let by_priority = other.version_priority.cmp(&one.version_priority);
            by_priority.then_with(|| compare_versions(&one.version, &other.version))
        });
        let listed = ListedGroup {
            name: Arc::clone(&group),
            versions,
        };
        match listed.rank() {
            Some(rank) => {
                self.order.insert((rank, Arc::clone(&group)));
                self.groups.insert(group, Arc::new(listed));
            }
            None => {
                self.groups.remove(&group);
            }
        }
    }

    fn take(&mut self, object: &CachedObject) {
        let name = object.attributes().name();
        let service = ApiService::read(object).map_err(|error| error.to_string());
        let service = service.and_then(|service| {
            let wanted = name_of(&service.group, &service.version);
            match wanted == name {
                true => Ok(service),
                false => Err(format!("its name would have to be {wanted:?}")),
            }
        });
        match service {
            Ok(service) => self.set(name, Some(Arc::new(service))),
            Err(why) => {
                tracing::warn!(name, why, "an APIService can't be used and has no effect");
                self.set(name, None);
            }
        }
    }

    /// Reads a whole state, after that of an earlier view.
    fn of_snapshot(snapshot: &Snapshot, prefix: &Prefix, before: &View) -> View {
        let mut view = View {
            is_filled: true,
            edition: before.edition + 1,
            remote_edition: before.remote_edition + 1,
            ..View::default()
        };
        // The actor system reports values that can't be read.
        let objects = snapshot.range(prefix, None).filter_map(Result::ok);
        objects.for_each(|object| view.take(object));
        view
    }
}

/// Follows the APIServices in their watch cache.
pub struct ApiServices {
    cache: CacherHandle,
    state: RwLock<Followed>,
}

struct Followed {
    follower: CacheFollower,
    view: Arc<View>,
}

impl ApiServices {
    /// Follows this cache.
    pub fn new(cache: CacherHandle) -> ApiServices {
        let followed = Followed {
            follower: cache.follow(),
            view: Arc::default(),
        };
        ApiServices {
            cache,
            state: RwLock::new(followed),
        }
    }

    /// Returns the APIServices as the cache shows them now. It never waits.
    pub fn current(&self) -> Arc<View> {
        let state = self.state.read();
        if !state.follower.has_news() {
            return Arc::clone(&state.view);
        }
        drop(state);
        let mut state = self.state.write();
        state.read(self.cache.prefix());
        Arc::clone(&state.view)
    }

    /// Returns the cache, for parts that wait for its news.
    pub fn cache(&self) -> &CacherHandle {
        &self.cache
    }
}

impl Followed {
    /// Reads all news of the cache.
    fn read(&mut self, prefix: &Prefix) {
        loop {
            match self.follower.read() {
                CacheNews::Nothing | CacheNews::Filling | CacheNews::Stopped => return,
                CacheNews::State(snapshot) => {
                    let view = View::of_snapshot(&snapshot, prefix, &self.view);
                    self.view = Arc::new(view);
                }
                CacheNews::Events(events) => {
                    // Views share their trees, so a copy takes little.
                    let view = Arc::make_mut(&mut self.view);
                    for event in events {
                        match (&event.current, &event.previous) {
                            (Some(current), _) => view.take(current),
                            (None, Some(previous)) => {
                                view.set(previous.attributes().name(), None);
                            }
                            (None, None) => {}
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::service::ServiceReference;

    fn service(
        version: &str,
        group: &str,
        group_priority: i32,
        version_priority: i32,
    ) -> ApiService {
        ApiService {
            name: name_of(group, version),
            group: group.to_owned(),
            version: version.to_owned(),
            group_priority,
            version_priority,
            ..ApiService::default()
        }
    }

    fn set(view: &mut View, service: ApiService) {
        view.set(&service.name.clone(), Some(Arc::new(service)));
    }

    fn listed(view: &View) -> Vec<String> {
        let versions = view.groups().flat_map(|group| &group.versions);
        versions.map(|service| service.name.clone()).collect()
    }

    #[test]
    fn groups_and_versions_are_ordered_by_priority_cn_20() {
        let mut view = View::default();
        for (version, group, of_group, of_version) in [
            ("v1", "b.example", 1000, 15),
            ("v2", "a.example", 1000, 15),
            ("v1", "c.example", 900, 15),
            ("v1beta1", "c.example", 1001, 15),
            ("v3", "c.example", 1, 16),
            ("v1", "", 18000, 1),
        ] {
            set(&mut view, service(version, group, of_group, of_version));
        }
        let expected = [
            "v1.",
            "v3.c.example",
            "v1.c.example",
            "v1beta1.c.example",
            // Of equal priorities the name of the APIService decides.
            "v1.b.example",
            "v2.a.example",
        ];
        assert_eq!(listed(&view), expected);
        let edition = view.edition();
        view.set("v1beta1.c.example", None);
        assert_eq!(
            listed(&view)[1..],
            [
                "v1.b.example",
                "v2.a.example",
                "v3.c.example",
                "v1.c.example"
            ]
        );
        assert!(view.edition() > edition);
        for name in ["v3.c.example", "v1.c.example"] {
            view.set(name, None);
        }
        assert!(view.group("c.example").is_none());
        assert_eq!(listed(&view).len(), 3);
    }

    #[test]
    fn remote_ones_are_found_apart_and_conditions_change_no_list_cn_13() {
        let mut view = View::default();
        let mut one = service("v1", "a.example", 1000, 15);
        set(&mut view, one.clone());
        assert!(view.remote("a.example", "v1").is_none());
        assert!(view.find("a.example", "v1").is_some());
        one.service = Some(ServiceReference {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
            port: 443,
        });
        let edition = view.edition();
        set(&mut view, one.clone());
        assert!(view.remote("a.example", "v1").is_some() && view.edition() > edition);
        let edition = view.edition();
        one.available = Some(crate::aggregation::service::Condition::default());
        set(&mut view, one);
        assert_eq!(view.edition(), edition);
        assert_eq!(view.remotes().count(), 1);
        view.set("v1.a.example", None);
        assert!(view.remote("a.example", "v1").is_none() && view.edition() > edition);
    }
}
