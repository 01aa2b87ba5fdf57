//! Asks the servers of APIServices the same question again and again. Which one is to be asked when
//! is a pure function of the given time ([`Questions`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use super::service::{ApiService, ServiceReference};
use super::view::ApiServices;
use crate::controllers::Milestone;

/// Asks servers and keeps their answers.
pub(super) trait Inquirer: Send + Sync {
    /// The tags of an answer, by which a server can say that nothing has changed.
    type Tag: Clone + Default;
    /// The outcome of a question.
    type Outcome: Send + 'static;

    /// How long to wait before questions.
    const PAUSES: Pauses;
    /// The most servers that are asked at a time.
    const ASKED_MAX: usize;

    /// The APIServices whose servers are asked.
    fn services(&self) -> &ApiServices;

    /// Reached once the APIServices are known, so that their servers are asked.
    fn begun(&self) -> &Milestone;

    /// Asks the server of these APIServices.
    fn ask(
        &self,
        services: Vec<Arc<ApiService>>,
        tag: Self::Tag,
    ) -> BoxFuture<'static, Self::Outcome>;

    /// Takes an APIService that came or changed, or with `None` the name of one that is gone.
    fn take(
        &self,
        questions: &mut Questions<Self::Tag>,
        name: &str,
        service: Option<&Arc<ApiService>>,
    );

    /// Takes an outcome.
    fn answered(&self, questions: &mut Questions<Self::Tag>, key: &Key, outcome: Self::Outcome);
}

/// Asks until the cache of APIServices stops.
pub(super) async fn keep_asking<I: Inquirer>(inquirer: &I) {
    let mut follower = inquirer.services().cache().follow();
    let mut questions = Questions::new(I::PAUSES);
    let mut asking = FuturesUnordered::new();
    loop {
        let Some(changes) = questions.read(&mut follower, inquirer.services()) else {
            return;
        };
        for (name, service) in changes {
            inquirer.take(&mut questions, &name, service.as_ref());
        }
        let now = Instant::now();
        while asking.len() < I::ASKED_MAX
            && let Some((key, services, tag)) = questions.next(now)
        {
            let question = inquirer.ask(services, tag);
            asking.push(question.map(|outcome| (key, outcome)));
        }
        if follower.reached().is_some() {
            inquirer.begun().reach();
        }
        let due = questions.due().filter(|_| asking.len() < I::ASKED_MAX);
        tokio::select! {
            Some((key, outcome)) = asking.next() => {
                inquirer.answered(&mut questions, &key, outcome);
            }
            () = follower.changed() => {}
            () = super::wait_until(due) => {}
        }
    }
}

/// How long to wait before questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// After a change of an APIService.
    pub first: Duration,
    /// After an answer.
    pub each: Duration,
    /// After the first failure. Each further one doubles it, up to that after an answer.
    pub failed: Duration,
}

/// A server: its place, and the way in which it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub service: ServiceReference,
    ca_bundle: Vec<u8>,
    is_insecure: bool,
}

impl Key {
    fn of(service: &ApiService) -> Option<Key> {
        Some(Key {
            service: service.service.clone()?,
            ca_bundle: service.ca_bundle.clone(),
            is_insecure: service.insecure_skip_tls_verify,
        })
    }
}

/// A server, and how often it was asked.
#[derive(Default)]
struct Question<T> {
    services: BTreeMap<String, Arc<ApiService>>,
    /// The tags of the last answer.
    tag: T,
    failures: u32,
    is_asking: bool,
    /// Something changed while it was asked.
    is_outdated: bool,
    due: Option<Instant>,
}

/// All servers. `T` has the tags of an answer.
pub(super) struct Questions<T> {
    pauses: Pauses,
    by_key: HashMap<Key, Question<T>>,
    keys: HashMap<String, Key>,
    due: BTreeSet<(Instant, Key)>,
}

impl<T: Clone + Default> Questions<T> {
    /// Creates an empty set.
    pub(super) fn new(pauses: Pauses) -> Questions<T> {
        Questions {
            pauses,
            by_key: HashMap::new(),
            keys: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Whether an APIService is known.
    pub(super) fn has(&self, name: &str) -> bool {
        self.keys.contains_key(name)
    }

    /// Reads the news of the cache: the APIServices of other servers that came or changed, and the
    /// names of those that are gone or local now. `None` if the cache has stopped.
    pub(super) fn read(
        &self,
        follower: &mut CacheFollower,
        services: &ApiServices,
    ) -> Option<Vec<(String, Option<Arc<ApiService>>)>> {
        let mut changes = Vec::new();
        loop {
            let news = follower.read();
            let view = services.current();
            let mut add = |name: &str| {
                let service = view.named(name).filter(|service| service.is_remote());
                changes.push((name.to_owned(), service.cloned()));
            };
            match news {
                CacheNews::Nothing | CacheNews::Filling => return Some(changes),
                CacheNews::Stopped => return None,
                CacheNews::State(_) => {
                    self.keys.keys().for_each(|name| add(name));
                    view.remotes().for_each(|service| add(&service.name));
                }
                CacheNews::Events(events) => {
                    for event in events {
                        let object = event.current.as_ref().or(event.previous.as_ref());
                        if let Some(object) = object {
                            add(object.attributes().name());
                        }
                    }
                }
            }
        }
    }

    /// Takes an APIService, or that it is gone. Its server is asked at once if anything about it
    /// has changed.
    pub(super) fn set(&mut self, name: &str, service: Option<&Arc<ApiService>>, now: Instant) {
        let key = service.and_then(|service| Key::of(service));
        if let Some(before) = self.keys.get(name).cloned()
            && Some(&before) != key.as_ref()
        {
            self.keys.remove(name);
            if let Some(question) = self.by_key.get_mut(&before) {
                question.services.remove(name);
                if question.services.is_empty() {
                    if let Some(due) = question.due {
                        self.due.remove(&(due, before.clone()));
                    }
                    self.by_key.remove(&before);
                }
            }
        }
        let (Some(key), Some(service)) = (key, service) else {
            return;
        };
        self.keys.insert(name.to_owned(), key.clone());
        let question = self.by_key.entry(key.clone()).or_default();
        let before = question
            .services
            .insert(name.to_owned(), Arc::clone(service));
        let is_new = before.is_none_or(|before| {
            before.uid != service.uid || before.is_available() != service.is_available()
        });
        if is_new {
            // A version that was not known when it was asked is not in the last answer.
            question.tag = T::default();
            question.failures = 0;
            match question.is_asking {
                true => question.is_outdated = true,
                false => self.plan(&key, now + self.pauses.first),
            }
        }
    }

    fn plan(&mut self, key: &Key, due: Instant) {
        if let Some(question) = self.by_key.get_mut(key) {
            if let Some(before) = question.due.replace(due) {
                self.due.remove(&(before, key.clone()));
            }
            self.due.insert((due, key.clone()));
        }
    }

    /// Takes a server that is to be asked now, with its APIServices and the tag of its last answer.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Key, Vec<Arc<ApiService>>, T)> {
        let (due, _) = self.due.first()?;
        if *due > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        let question = self.by_key.get_mut(&key)?;
        question.due = None;
        question.is_asking = true;
        question.is_outdated = false;
        let services = question.services.values().cloned().collect();
        Some((key, services, question.tag.clone()))
    }

    /// Returns when the next server is to be asked.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes note that a question has ended, and of the tag of the answer, if that has changed.
    /// Returns the APIServices of the server.
    pub(super) fn ended(
        &mut self,
        key: &Key,
        has_failed: bool,
        tag: Option<T>,
        now: Instant,
    ) -> Vec<Arc<ApiService>> {
        let Some(question) = self.by_key.get_mut(key) else {
            return Vec::new();
        };
        question.is_asking = false;
        let is_outdated = std::mem::take(&mut question.is_outdated);
        if let Some(tag) = tag.filter(|_| !is_outdated) {
            question.tag = tag;
        }
        question.failures = match has_failed {
            true => question.failures.saturating_add(1),
            false => 0,
        };
        let pause = match question.failures {
            _ if is_outdated => self.pauses.first,
            0 => self.pauses.each,
            failures => {
                let factor = 2u32.saturating_pow(failures.min(10) - 1);
                self.pauses.each.min(self.pauses.failed * factor)
            }
        };
        let services = question.services.values().cloned().collect();
        self.plan(key, now + pause);
        services
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, of: &str) -> Arc<ApiService> {
        Arc::new(ApiService {
            name: name.to_owned(),
            service: Some(ServiceReference {
                namespace: "n".to_owned(),
                name: of.to_owned(),
                port: 443,
            }),
            ..ApiService::default()
        })
    }

    #[test]
    fn one_question_per_server_and_longer_pauses_after_failures_cn_21_cn_24() {
        let now = Instant::now();
        let each = Duration::from_secs(60);
        let mut questions: Questions<Option<u32>> = Questions::new(Pauses {
            first: Duration::ZERO,
            each,
            failed: Duration::from_millis(500),
        });
        let [one, two] = ["v1.a", "v1.b"].map(|name| service(name, "s"));
        questions.set("v1.a", Some(&one), now);
        questions.set("v1.b", Some(&two), now);
        let (key, services, _) = questions.next(now).expect("it is due");
        assert_eq!(services.len(), 2);
        assert!(questions.next(now).is_none());
        let mut due = Vec::new();
        for _ in 0..10 {
            questions.ended(&key, true, Some(None), now);
            due.push((questions.due().unwrap() - now).as_millis());
            assert!(questions.next(now).is_none());
            questions.next(questions.due().unwrap()).expect("it is due");
        }
        assert_eq!(due[..4], [500, 1000, 2000, 4000]);
        assert_eq!(due[9], 60_000);
        // A change while it is asked is not lost.
        questions.set("v1.b", None, now);
        let mut available = (*one).clone();
        available.available = Some(crate::aggregation::Condition {
            status: "True".to_owned(),
            ..Default::default()
        });
        questions.set("v1.a", Some(&Arc::new(available)), now);
        assert!(questions.next(now).is_none());
        assert_eq!(questions.ended(&key, false, None, now).len(), 1);
        assert!(questions.next(now).is_some());
        questions.ended(&key, false, None, now);
        assert_eq!(questions.due(), Some(now + each));
        questions.set("v1.a", None, now);
        assert!(questions.due().is_none() && questions.by_key.is_empty());
        assert!(questions.ended(&key, false, None, now).is_empty());
    }
}
