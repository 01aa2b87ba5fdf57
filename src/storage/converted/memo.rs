//! The values that were converted for watches. Pure.
//!
//! It is the cache of a version while somebody watches it (D-15): each event is converted once,
//! however many watches see it.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use actors::engine::{Key, Revision};
use bytes::Bytes;

/// The most bytes of values of one version.
const BYTES_MAX: usize = 4 << 20;
/// How long watches are answered with a failure before somebody is asked again.
const FAILURE_LASTS: Duration = Duration::from_secs(1);

/// A value, by its key and its revision.
pub(super) type ValueId = (Key, Revision);

/// The values that were converted for watches.
#[derive(Default)]
pub(super) struct Memo {
    values: HashMap<ValueId, Bytes>,
    /// Their order.
    order: VecDeque<ValueId>,
    bytes: usize,
    watches: usize,
    failure: Option<(Instant, String)>,
}

impl Memo {
    /// Notes that a watch has begun.
    pub fn begin(&mut self) {
        self.watches += 1;
    }

    /// Notes that a watch has ended. With the last one everything is forgotten.
    pub fn end(&mut self) {
        self.watches = self.watches.saturating_sub(1);
        if self.watches == 0 {
            *self = Memo::default();
        }
    }

    /// Returns a value.
    pub fn get(&self, id: &ValueId) -> Option<Bytes> {
        self.values.get(id).cloned()
    }

    /// Keeps a value while somebody watches. The oldest ones make room for it.
    pub fn add(&mut self, id: ValueId, value: Bytes) {
        if self.watches == 0 || value.len() > BYTES_MAX {
            return;
        }
        self.failure = None;
        self.bytes += value.len();
        match self.values.insert(id.clone(), value) {
            Some(before) => self.bytes -= before.len(),
            None => self.order.push_back(id),
        }
        while self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            let removed = self.values.remove(&oldest);
            self.bytes -= removed.map_or(0, |value| value.len());
        }
    }

    /// Notes that a conversion failed.
    pub fn fail(&mut self, why: &str, now: Instant) {
        self.failure = Some((now, why.to_owned()));
    }

    /// Returns the failure of a moment ago, so that many watches do not wait for it one after
    /// another.
    pub fn failure(&self, now: Instant) -> Option<String> {
        let (at, why) = self.failure.as_ref()?;
        (now.saturating_duration_since(*at) < FAILURE_LASTS).then(|| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(revision: u64) -> ValueId {
        (Key::new("/registry/a/b"), Revision(revision))
    }

    /// D-15: a cache of a further version exists while somebody watches it.
    #[test]
    fn values_are_kept_while_somebody_watches() {
        let mut memo = Memo::default();
        memo.add(id(1), Bytes::from_static(b"a"));
        assert_eq!(memo.get(&id(1)), None);
        memo.begin();
        memo.begin();
        memo.add(id(1), Bytes::from_static(b"a"));
        memo.end();
        assert_eq!(memo.get(&id(1)), Some(Bytes::from_static(b"a")));
        memo.end();
        assert_eq!((memo.get(&id(1)), memo.bytes), (None, 0));
    }

    /// D-15: its size is bounded, and the newest values stay.
    #[test]
    fn the_oldest_values_make_room() {
        let mut memo = Memo::default();
        memo.begin();
        let value = Bytes::from(vec![0; BYTES_MAX / 2]);
        for revision in 1..=3 {
            memo.add(id(revision), value.clone());
            memo.add(id(revision), value.clone());
        }
        let known = [1, 2, 3].map(|revision| memo.get(&id(revision)).is_some());
        assert_eq!((known, memo.bytes), ([false, true, true], BYTES_MAX));
        memo.add(id(4), Bytes::from(vec![0; BYTES_MAX + 1]));
        assert!(memo.get(&id(4)).is_none() && memo.get(&id(3)).is_some());
    }

    /// HK-82: a failure counts for a moment, and not after a success.
    #[test]
    fn a_failure_is_remembered_for_a_moment() {
        let (mut memo, now) = (Memo::default(), Instant::now());
        memo.begin();
        memo.fail("broken", now);
        assert_eq!(memo.failure(now).as_deref(), Some("broken"));
        assert_eq!(memo.failure(now + FAILURE_LASTS), None);
        memo.add(id(1), Bytes::new());
        assert_eq!(memo.failure(now), None);
    }
}
