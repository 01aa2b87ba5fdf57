//! Chooses how many keys a page of a range asks for, so that pages have about the same number of
//! bytes. Pure, except for its lock.

use std::collections::HashMap;

use actors::engine::{KeyValue, Prefix};
use parking_lot::Mutex;

/// The wanted bytes of a page.
const PAGE_BYTES: u64 = 2 << 20;
/// The keys of a first page when nothing is known of its prefix.
const FIRST_PAGE: u64 = 256;
/// The most keys of a page (also the limit of LI-12).
const PAGE_KEYS_MAX: u64 = 10_000;
/// The most that a page may grow over the previous one, because the next values may be larger.
const GROWTH: u64 = 4;
/// The most prefixes that are remembered, of resources and of their namespaces. When there are
/// more, all are forgotten and learnt again.
const PREFIXES_MAX: usize = 4096;

/// The last page of each prefix.
#[derive(Debug, Default)]
pub(super) struct PageSizes {
    last: Mutex<HashMap<Prefix, Last>>,
}

/// The last page of a prefix.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Average bytes of a key and its value.
    average: u64,
    keys: u64,
}

impl PageSizes {
    /// How many keys to ask for. `wanted` 0 means all of them.
    pub(super) fn keys(&self, prefix: &Prefix, wanted: usize) -> u64 {
        let last = self.last.lock().get(prefix).copied();
        let fit = last.map_or(FIRST_PAGE, |last| {
            let most = last.keys.max(FIRST_PAGE / GROWTH) * GROWTH;
            (PAGE_BYTES / last.average.max(1)).min(most)
        });
        let most = match wanted {
            0 => PAGE_KEYS_MAX,
            wanted => PAGE_KEYS_MAX.min(wanted as u64),
        };
        fit.clamp(1, most)
    }

    /// Learns from a page.
    pub(super) fn learn(&self, prefix: &Prefix, items: &[KeyValue]) {
        if items.is_empty() {
            return;
        }
        let bytes: usize = items.iter().map(size).sum();
        let keys = items.len() as u64;
        self.remember(prefix, bytes as u64 / keys, keys);
    }

    /// Learns that this many keys exceeded one message. Returns how many to ask for next; `None`
    /// when it was one key.
    pub(super) fn too_large(&self, prefix: &Prefix, keys: u64) -> Option<u64> {
        if keys <= 1 {
            return None;
        }
        let fewer = (keys / 4).max(1);
        self.remember(prefix, PAGE_BYTES / fewer, fewer);
        Some(fewer)
    }

    fn remember(&self, prefix: &Prefix, average: u64, keys: u64) {
        let mut last = self.last.lock();
        if last.len() >= PREFIXES_MAX && !last.contains_key(prefix) {
            last.clear();
        }
        last.insert(prefix.clone(), Last { average, keys });
    }
}

fn size(item: &KeyValue) -> usize {
    // Numbers and tags, in addition to key and value.
    item.key.as_bytes().len() + item.value.len() + 32
}

#[cfg(test)]
mod tests {
    use actors::engine::{Key, LeaseId, Revision};

    use super::*;

    fn page(count: usize, bytes: usize) -> Vec<KeyValue> {
        let item = KeyValue {
            key: Key::new("/a"),
            value: vec![0; bytes].into(),
            create_revision: Revision(1),
            revision: Revision(1),
            version: 1,
            lease: LeaseId(0),
        };
        vec![item; count]
    }

    #[test]
    fn pages_grow_and_shrink_with_what_they_hold() {
        let (pages, prefix) = (PageSizes::default(), Prefix::new("/r/"));
        assert_eq!(pages.keys(&prefix, 0), 256);
        assert_eq!(pages.keys(&prefix, 10), 10);
        pages.learn(&prefix, &page(256, 100));
        assert_eq!(pages.keys(&prefix, 0), 1_024);
        pages.learn(&prefix, &page(4_096, 100));
        assert_eq!(pages.keys(&prefix, 0), 10_000);
        assert_eq!(pages.keys(&prefix, 2_048), 2_048);
        pages.learn(&prefix, &page(10, 1 << 20));
        assert_eq!(pages.keys(&prefix, 0), 1);
        assert_eq!(pages.keys(&Prefix::new("/other/"), 0), 256);
    }

    #[test]
    fn a_page_too_large_for_a_message_is_asked_for_in_smaller_ones() {
        let (pages, prefix) = (PageSizes::default(), Prefix::new("/r/"));
        assert_eq!(pages.too_large(&prefix, 256), Some(64));
        assert_eq!(pages.keys(&prefix, 0), 64);
        assert_eq!(pages.too_large(&prefix, 2), Some(1));
        assert_eq!(pages.too_large(&prefix, 1), None);
    }
}
