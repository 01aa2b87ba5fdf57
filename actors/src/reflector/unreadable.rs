//! Values that could not be decoded. They are kept and retried, because their encryption key may be
//! configured later without an event. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::cacher::{NewValue, Update};
use crate::engine::{Event, EventKind, Key, KeyValue};
use crate::object::{CachedObject, Decode, DecodeError};

/// How many values are retried at once. A change that makes one readable usually makes all
/// readable.
const RETRIED_AT_ONCE: usize = 16;

/// A decoded page.
#[derive(Default)]
pub(super) struct Page {
    pub(super) objects: Vec<Arc<CachedObject>>,
    pub(super) unreadable: Vec<(KeyValue, Arc<DecodeError>)>,
}

impl Page {
    /// Decodes the items of a range.
    pub(super) fn decode(decode: &dyn Decode, items: Vec<KeyValue>) -> Page {
        let mut page = Page::default();
        for mut item in items {
            match decode.decode(&item.key, item.revision, &item.value) {
                Ok(object) => page.objects.push(Arc::new(object)),
                Err(error) => {
                    // Its bytes may be a part of a buffer with the values of the whole page.
                    item.value = Bytes::copy_from_slice(&item.value);
                    page.unreadable.push((item, Arc::new(error)));
                }
            }
        }
        page
    }

    /// Appends the next page.
    pub(super) fn append(&mut self, mut next: Page) {
        self.objects.append(&mut next.objects);
        self.unreadable.append(&mut next.unreadable);
    }
}

/// Decodes events.
pub(super) fn updates(decode: &dyn Decode, events: &[Event]) -> Vec<Update> {
    let decoded = events.iter().map(|event| Update {
        revision: event.revision,
        key: event.key.clone(),
        value: match event.kind {
            EventKind::Delete => NewValue::Deleted,
            EventKind::Put => match decode.decode_event(event) {
                Ok(object) => NewValue::Object(object),
                Err(error) => NewValue::Unreadable(Arc::new(error)),
            },
        },
    });
    decoded.collect()
}

/// The values of a resource that could not be decoded.
#[derive(Debug, Default)]
pub(super) struct UnreadableValues {
    values: BTreeMap<Key, KeyValue>,
    /// The value that was retried last.
    tried: Option<Key>,
}

impl UnreadableValues {
    /// The unreadable values of a page.
    pub(super) fn of(page: &Page) -> UnreadableValues {
        let values = page.unreadable.iter();
        UnreadableValues {
            values: values
                .map(|(item, _)| (item.key.clone(), item.clone()))
                .collect(),
            tried: None,
        }
    }

    /// Follows a batch of events. The updates are those events decoded, in the same order.
    pub(super) fn follow(&mut self, updates: &[Update], events: &[Event]) {
        for (update, event) in updates.iter().zip(events) {
            match update.value {
                NewValue::Unreadable(_) => {
                    self.values.insert(event.key.clone(), event.key_value());
                }
                NewValue::Object(_) | NewValue::Deleted => {
                    self.values.remove(&event.key);
                }
            }
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Retries the next few values. Returns whether one of them can be decoded now.
    pub(super) fn retry_some(&mut self, decode: &dyn Decode) -> bool {
        let tried = self.tried.take();
        let is_later = |key: &Key| tried.as_ref().is_none_or(|tried| key > tried);
        let mut later = self.values.iter().filter(|(key, _)| is_later(key));
        let next: Vec<&KeyValue> = later
            .by_ref()
            .take(RETRIED_AT_ONCE)
            .map(|(_, item)| item)
            .collect();
        let is_readable = |item: &&KeyValue| {
            let decoded = decode.decode_again(&item.key, item.revision, &item.value);
            decoded.is_ok()
        };
        let is_any_readable = next.iter().any(is_readable);
        // After the last value it begins with the first one again.
        let last = next.last().map(|item| item.key.clone());
        self.tried = last.filter(|_| later.next().is_some());
        is_any_readable
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;
    use crate::engine::Prepared;
    use crate::engine::{LeaseId, Revision};
    use crate::testing::{OneLiners, key};

    fn item(name: &str, text: &str) -> KeyValue {
        KeyValue {
            key: key(name),
            value: Bytes::from(text.to_owned()),
            create_revision: Revision(1),
            revision: Revision(1),
            version: 1,
            lease: LeaseId::default(),
        }
    }

    /// Reads one key, and counts how often it is asked.
    struct OnlyThis(Key, AtomicUsize);

    impl Decode for OnlyThis {
        fn decode(
            &self,
            key: &Key,
            revision: Revision,
            _: &Bytes,
        ) -> Result<CachedObject, DecodeError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let text = if *key == self.0 { "red" } else { "undecodable" };
            OneLiners.decode(key, revision, &Bytes::from_static(text.as_bytes()))
        }
    }

    #[test]
    fn each_gets_its_turn_and_none_too_often() {
        let names: Vec<String> = (0..40).map(|number| format!("ns/{number:02}")).collect();
        let items = names.iter().map(|name| item(name, "undecodable"));
        let page = Page::decode(&OneLiners, items.collect());
        assert_eq!((page.objects.len(), page.unreadable.len()), (0, 40));
        let mut unread = UnreadableValues::of(&page);
        let decode = OnlyThis(key("ns/35"), AtomicUsize::new(0));
        let found: Vec<bool> = (0..6).map(|_| unread.retry_some(&decode)).collect();
        assert_eq!(found, [false, false, true, false, false, true]);
        assert!(decode.1.load(Ordering::Relaxed) <= 6 * RETRIED_AT_ONCE);
    }

    #[test]
    fn what_has_gone_or_become_readable_is_forgotten() {
        let mut unread = UnreadableValues::default();
        let event = |name: &str, revision, kind, text: &str| Event {
            revision: Revision(revision),
            key: key(name),
            kind,
            value: Bytes::from(text.to_owned()),
            create_revision: Revision(revision),
            prev_revision: Revision::ZERO,
            version: 1,
            lease: LeaseId::default(),
            time: std::time::UNIX_EPOCH,
            origin: Default::default(),
            previous: None,
            prepared: Prepared::default(),
        };
        let events = [
            event("ns/a", 1, EventKind::Put, "undecodable"),
            event("ns/b", 2, EventKind::Put, "undecodable"),
            event("ns/c", 3, EventKind::Put, "red"),
        ];
        unread.follow(&updates(&OneLiners, &events), &events);
        let names = |unread: &UnreadableValues| unread.values.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&unread), [key("ns/a"), key("ns/b")]);
        let events = [
            event("ns/a", 4, EventKind::Put, "blue"),
            event("ns/b", 5, EventKind::Delete, ""),
        ];
        unread.follow(&updates(&OneLiners, &events), &events);
        assert!(unread.is_empty());
    }
}
