//! Answers that are kept for some time, by a digest of their question. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The digest of a question.
pub type Key = [u8; 32];

/// Answers, at most so many. Those that were used last are kept longest.
pub struct Kept<V> {
    most: usize,
    young: HashMap<Key, (V, Instant)>,
    old: HashMap<Key, (V, Instant)>,
}

impl<V: Clone> Kept<V> {
    pub fn new(most: usize) -> Kept<V> {
        Kept {
            most,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// Returns an answer that is still valid.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<V> {
        if let Some((value, until)) = self.young.get(key) {
            return (now < *until).then(|| value.clone());
        }
        let (value, until) = self.old.remove(key)?;
        if until <= now {
            return None;
        }
        self.put(*key, (value.clone(), until));
        Some(value)
    }

    /// Keeps an answer for some time.
    pub fn keep(&mut self, key: Key, value: V, time: Duration, now: Instant) {
        if let Some(until) = now.checked_add(time).filter(|until| *until > now) {
            self.old.remove(&key);
            self.put(key, (value, until));
        }
    }

    fn put(&mut self, key: Key, entry: (V, Instant)) {
        if self.young.len() >= self.most / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, entry);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(number: u32) -> Key {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key
    }

    #[test]
    fn answers_are_valid_for_their_time_ac_39() {
        let (mut kept, now) = (Kept::new(8), Instant::now());
        kept.keep(key(1), "a", SECOND, now);
        kept.keep(key(2), "b", Duration::ZERO, now);
        assert_eq!(kept.get(&key(1), now), Some("a"));
        assert_eq!(kept.get(&key(1), now + SECOND), None);
        assert_eq!(kept.get(&key(2), now), None, "no time");
        kept.keep(key(1), "c", 3 * SECOND, now + SECOND);
        assert_eq!(kept.get(&key(1), now + 2 * SECOND), Some("c"));
    }

    #[test]
    fn there_is_a_most_and_what_is_used_stays_ac_39() {
        let (mut kept, now) = (Kept::new(8192), Instant::now());
        kept.keep(key(0), 0, SECOND, now);
        for number in 1..100_000 {
            kept.keep(key(number), number, SECOND, now);
            assert!(kept.len() <= 8192);
            assert_eq!(kept.get(&key(0), now), Some(0), "{number}");
            assert_eq!(kept.get(&key(number), now), Some(number));
        }
        assert_eq!(kept.get(&key(1), now), None);
    }
}
