//! Pure. Ranges of keys, as etcd's requests name them, and the prefixes of the engine.

use actors::engine::{Prefix, namespace_of};

/// Where a range ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// It is one key.
    Here,
    /// It ends before these bytes.
    Before(Vec<u8>),
    /// It has no end.
    Open,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    start: Vec<u8>,
    end: End,
}

impl KeyRange {
    /// The range from a key to an end: none for the key alone, a zero byte for all keys from it on.
    pub(super) fn new(key: Vec<u8>, range_end: Vec<u8>) -> KeyRange {
        let end = match range_end.as_slice() {
            [] => End::Here,
            [0] => End::Open,
            _ => End::Before(range_end),
        };
        KeyRange { start: key, end }
    }

    /// The one key that it has, if it is not a range.
    pub(super) fn key(&self) -> Option<&[u8]> {
        (self.end == End::Here).then_some(&*self.start)
    }

    /// Where it starts.
    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Whether no key can be in it.
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.end, End::Before(end) if *end <= self.start)
    }

    /// Whether a key is in it.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            End::Here => key == self.start,
            End::Before(end) => key >= &*self.start && key < &**end,
            End::Open => key >= &*self.start,
        }
    }

    /// Where it ends, if keys of its prefix may follow it.
    pub(super) fn end_within_prefix(&self) -> Option<&[u8]> {
        match &self.end {
            End::Before(end) if self.prefix().end().as_ref() != Some(end) => Some(end),
            _ => None,
        }
    }

    /// The longest prefix that all of its keys have.
    pub(super) fn prefix(&self) -> Prefix {
        match &self.end {
            End::Here => Prefix::new(&self.start),
            End::Open => Prefix::new([]),
            End::Before(end) => {
                let whole = Prefix::new(&self.start);
                if whole.end().as_ref() == Some(end) {
                    return whole;
                }
                let same = self
                    .start
                    .iter()
                    .zip(end)
                    .take_while(|(one, other)| one == other);
                let length = same.count();
                Prefix::new(self.start.get(..length).unwrap_or_default())
            }
        }
    }
}

impl KeyRange {
    /// A prefix of all of its keys whose position the engine knows exactly: one that ends in a
    /// slash, or that of all keys.
    pub(super) fn directory(&self) -> Prefix {
        Prefix::new(namespace_of(self.prefix().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &str, end: &str) -> KeyRange {
        KeyRange::new(key.as_bytes().to_vec(), end.as_bytes().to_vec())
    }

    #[test]
    fn ranges_have_prefixes_of_the_engine() {
        for (key, end, prefix, rest) in [
            ("/a/", "/a0", "/a/", None),
            ("/a/b", "/a0", "/a", Some("/a0")),
            ("/a", "/b", "/a", None),
            ("/a/b", "/a/d", "/a/", Some("/a/d")),
            ("a", "\0", "", None),
            ("\0", "\0", "", None),
            ("/a", "", "/a", None),
            ("b", "a", "", Some("a")),
        ] {
            let range = range(key, end);
            assert_eq!(range.prefix().as_bytes(), prefix.as_bytes(), "{key} {end}");
            let directory = range.directory();
            assert!(directory.covers(prefix), "{key} {end}");
            let ends = directory.as_bytes().last().copied();
            assert!(matches!(ends, None | Some(b'/')), "{key} {end}");
            let found = range.end_within_prefix();
            assert_eq!(found, rest.map(str::as_bytes), "{key} {end}");
        }
    }

    /// Whatever is in a range has its prefix, for all short keys over two letters.
    #[test]
    fn each_key_of_a_range_has_its_prefix() {
        let letters = [b'a', b'b', 0xff];
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 0..3 {
            let longer: Vec<Vec<u8>> = keys
                .iter()
                .filter(|key| key.len() == length)
                .flat_map(|key| letters.map(|letter| [&**key, &[letter]].concat()))
                .collect();
            keys.extend(longer);
        }
        for start in keys.iter().skip(1) {
            for end in &keys {
                let range = KeyRange::new(start.clone(), end.clone());
                for key in &keys {
                    assert!(!range.contains(key) || range.prefix().covers(key));
                    assert!(!range.contains(key) || !range.is_empty());
                }
            }
        }
    }
}
