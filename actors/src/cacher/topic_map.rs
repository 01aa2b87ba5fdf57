//! Values by topic, and which of them an event concerns. Pure.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use smol_str::SmolStr;

use crate::engine::{Key, Prefix, namespace_of};
use crate::ring::RingEvent;
use crate::watch::Topic;

/// Values by topic. A topic takes memory only while it has a value.
#[derive(Debug)]
pub(crate) struct TopicMap<T> {
    all: Option<T>,
    namespaces: HashMap<Prefix, T>,
    /// By index of the field, then by value of the field.
    fields: HashMap<usize, HashMap<SmolStr, T>>,
    objects: HashMap<Key, T>,
}

impl<T> Default for TopicMap<T> {
    fn default() -> TopicMap<T> {
        TopicMap {
            all: None,
            namespaces: HashMap::new(),
            fields: HashMap::new(),
            objects: HashMap::new(),
        }
    }
}

impl<T: Default> TopicMap<T> {
    /// The value of a topic, created if there is none.
    pub(crate) fn entry(&mut self, topic: &Topic) -> &mut T {
        match topic {
            Topic::All => self.all.get_or_insert_with(T::default),
            Topic::Namespace(prefix) => self.namespaces.entry(prefix.clone()).or_default(),
            Topic::Field(place, value) => {
                let values = self.fields.entry(*place).or_default();
                values.entry(value.clone()).or_default()
            }
            Topic::Object(key) => self.objects.entry(key.clone()).or_default(),
        }
    }

    /// Changes the value of a topic. The value is removed if `reduce` returns that it is empty now.
    pub(crate) fn shrink(&mut self, topic: &Topic, reduce: impl FnOnce(&mut T) -> bool) {
        match topic {
            Topic::All => {
                if self.all.as_mut().is_some_and(reduce) {
                    self.all = None;
                }
            }
            Topic::Namespace(prefix) => shrink(&mut self.namespaces, prefix, reduce),
            Topic::Field(place, value) => {
                if let Some(values) = self.fields.get_mut(place) {
                    shrink(values, value, reduce);
                    if values.is_empty() {
                        self.fields.remove(place);
                    }
                }
            }
            Topic::Object(key) => shrink(&mut self.objects, key, reduce),
        }
    }

    /// Visits the values of the topics that an event concerns: those of the object before and after
    /// the event (WA-50). No value is visited twice.
    pub(crate) fn matching<'t>(&'t self, event: &RingEvent, mut visit: impl FnMut(&'t T)) {
        self.all.iter().for_each(&mut visit);
        if !self.namespaces.is_empty() {
            let namespace = self.namespaces.get(namespace_of(event.key()));
            namespace.into_iter().for_each(&mut visit);
        }
        if !self.objects.is_empty() {
            self.objects
                .get(event.key())
                .into_iter()
                .for_each(&mut visit);
        }
        for (place, values) in &self.fields {
            let now = event.current.as_ref();
            let now = now.map(|object| object.attributes().field(*place));
            let before = event.previous.as_ref();
            let before = before.map(|object| object.attributes().field(*place));
            let left = before.filter(|value| now != Some(*value));
            for value in now.into_iter().chain(left) {
                values.get(value).into_iter().for_each(&mut visit);
            }
        }
    }

    /// Whether no topic has a value.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_none()
            && self.namespaces.is_empty()
            && self.fields.is_empty()
            && self.objects.is_empty()
    }
}

fn shrink<K, Q, T>(topics: &mut HashMap<K, T>, topic: &Q, reduce: impl FnOnce(&mut T) -> bool)
where
    K: Borrow<Q> + Hash + Eq,
    Q: Hash + Eq,
{
    if topics.get_mut(topic).is_some_and(reduce) {
        topics.remove(topic);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::Revision;
    use crate::ring::{ObjectChange, Ring};
    use crate::testing::{key, thing};

    fn change(name: &str, before: Option<&str>, now: Option<&str>) -> Arc<RingEvent> {
        let mut ring = Ring::default();
        let state = |text: Option<&str>| text.map(|text| Arc::new(thing(name, text)));
        let change = ObjectChange {
            previous: state(before),
            current: state(now),
        };
        let sequence = ring.push(Revision(1), change);
        Arc::clone(ring.get(sequence).unwrap())
    }

    fn filed(topics: &[Topic]) -> TopicMap<u32> {
        let mut map = TopicMap::default();
        for (topic, number) in topics.iter().zip(0..) {
            *map.entry(topic) = number;
        }
        map
    }

    fn touched(map: &TopicMap<u32>, event: &RingEvent) -> Vec<u32> {
        let mut numbers = Vec::new();
        map.matching(event, |number| numbers.push(*number));
        numbers
    }

    #[test]
    fn an_event_touches_all_its_namespace_and_its_object_wa_50() {
        let topics = [
            Topic::All,
            Topic::Namespace(Prefix::new("/registry/things/ns/")),
            Topic::Object(key("ns/a")),
        ];
        let mut map = filed(&topics);
        assert_eq!(touched(&map, &change("ns/a", None, Some("red"))), [0, 1, 2]);
        assert_eq!(touched(&map, &change("ns/b", None, Some("red"))), [0, 1]);
        // A prefix ends at a slash (WA-24, PF-18).
        assert_eq!(touched(&map, &change("ns-bad/a", None, Some("red"))), [0]);
        for topic in &topics {
            map.shrink(topic, |_| true);
        }
        assert!(map.is_empty());
    }

    #[test]
    fn an_event_touches_the_field_values_of_what_is_and_of_what_was_wa_52_wa_53() {
        let color = |value: &str| Topic::Field(0, SmolStr::new(value));
        let mut map = filed(&[color("red"), color("blue"), color("")]);
        assert_eq!(touched(&map, &change("ns/a", None, Some("red 1"))), [0]);
        assert_eq!(
            touched(&map, &change("ns/a", Some("red 1"), Some("red 2"))),
            [0]
        );
        assert_eq!(
            touched(&map, &change("ns/a", Some("red 1"), Some("blue 2"))),
            [1, 0]
        );
        assert_eq!(touched(&map, &change("ns/a", Some("blue 1"), None)), [1]);
        assert_eq!(
            touched(&map, &change("ns/a", Some(" 1"), Some("red 2"))),
            [0, 2]
        );
        assert_eq!(touched(&map, &change("ns/a", None, Some("green"))), [0; 0]);
        map.shrink(&color("red"), |_| true);
        assert_eq!(touched(&map, &change("ns/a", None, Some("red 1"))), [0; 0]);
    }

    #[test]
    fn the_namespace_of_a_key_ends_at_its_last_slash() {
        assert_eq!(key("ns/a").namespace(), b"/registry/things/ns/");
        assert_eq!(Key::new("plain").namespace(), b"");
    }
}
