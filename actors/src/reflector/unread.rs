//! Values that could not be decoded, kept to be tried again: the key that they were encrypted with
//! may be given later, without anything happening to them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cacher::{NewValue, Update};
use crate::engine::{Event, EventKind, Key, KeyValue};
use crate::object::{CachedObject, Decode, DecodeError};

/// How many are tried at once. What makes one readable mostly makes all of them so.
const TRIED_AT_ONCE: usize = 16;

/// What decoding a page came to.
#[derive(Default)]
pub(super) struct Page {
    pub(super) objects: Vec<Arc<CachedObject>>,
    pub(super) unread: Vec<(KeyValue, Arc<DecodeError>)>,
}

impl Page {
    /// Decodes what a range holds.
    pub(super) fn decode(decode: &dyn Decode, items: Vec<KeyValue>) -> Page {
        let mut page = Page::default();
        for item in items {
            match decode.decode(&item.key, item.revision, &item.value) {
                Ok(object) => page.objects.push(Arc::new(object)),
                Err(error) => page.unread.push((item, Arc::new(error))),
            }
        }
        page
    }

    /// Takes in the page after this one.
    pub(super) fn append(&mut self, mut next: Page) {
        self.objects.append(&mut next.objects);
        self.unread.append(&mut next.unread);
    }
}

/// Decodes events.
pub(super) fn updates(decode: &dyn Decode, events: &[Event]) -> Vec<Update> {
    let decoded = events.iter().map(|event| Update {
        revision: event.revision,
        key: event.key.clone(),
        value: match event.kind {
            EventKind::Delete => NewValue::Deleted,
            EventKind::Put => match decode.decode(&event.key, event.revision, &event.value) {
                Ok(object) => NewValue::Object(Arc::new(object)),
                Err(error) => NewValue::Unreadable(Arc::new(error)),
            },
        },
    });
    decoded.collect()
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Unread {
    values: BTreeMap<Key, KeyValue>,
    /// The one that was tried last.
    tried: Option<Key>,
}

impl Unread {
    /// Those of a page, and no others.
    pub(super) fn of(page: &Page) -> Unread {
        let values = page.unread.iter();
        Unread {
            values: values
                .map(|(item, _)| (item.key.clone(), item.clone()))
                .collect(),
            tried: None,
        }
    }

    /// Follows what happened: each update is of the event in the same place.
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

    /// Tries the next few, and says whether one can be read by now.
    pub(super) fn can_be_read(&mut self, decode: &dyn Decode) -> bool {
        let tried = self.tried.take();
        let is_later = |key: &Key| tried.as_ref().is_none_or(|tried| key > tried);
        let mut later = self.values.iter().filter(|(key, _)| is_later(key));
        let next: Vec<&KeyValue> = later
            .by_ref()
            .take(TRIED_AT_ONCE)
            .map(|(_, item)| item)
            .collect();
        let is_readable = |item: &&KeyValue| {
            let decoded = decode.decode_again(&item.key, item.revision, &item.value);
            decoded.is_ok()
        };
        let can_be_read = next.iter().any(is_readable);
        // From the beginning again after the last one.
        let last = next.last().map(|item| item.key.clone());
        self.tried = last.filter(|_| later.next().is_some());
        can_be_read
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;
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
        assert_eq!((page.objects.len(), page.unread.len()), (0, 40));
        let mut unread = Unread::of(&page);
        let decode = OnlyThis(key("ns/35"), AtomicUsize::new(0));
        let found: Vec<bool> = (0..6).map(|_| unread.can_be_read(&decode)).collect();
        assert_eq!(found, [false, false, true, false, false, true]);
        assert!(decode.1.load(Ordering::Relaxed) <= 6 * TRIED_AT_ONCE);
    }

    #[test]
    fn what_has_gone_or_become_readable_is_forgotten() {
        let mut unread = Unread::default();
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
        };
        let events = [
            event("ns/a", 1, EventKind::Put, "undecodable"),
            event("ns/b", 2, EventKind::Put, "undecodable"),
            event("ns/c", 3, EventKind::Put, "red"),
        ];
        unread.follow(&updates(&OneLiners, &events), &events);
        let names = |unread: &Unread| unread.values.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&unread), [key("ns/a"), key("ns/b")]);
        let events = [
            event("ns/a", 4, EventKind::Put, "blue"),
            event("ns/b", 5, EventKind::Delete, ""),
        ];
        unread.follow(&updates(&OneLiners, &events), &events);
        assert!(unread.is_empty());
    }
}
