//! A list of values whose numbers are reused. Pure.

/// A number of a slab, and which use of the number is meant. It finds nothing once its value was
/// removed, even if the number is in use again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlabKey {
    pub(super) number: u32,
    use_count: u32,
}

/// A list of values whose numbers are reused.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlabEntry<T> {
    use_count: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// The number that the next value gets.
    pub(super) fn next_number(&self) -> u32 {
        let last = self.free.last().copied();
        last.unwrap_or(self.entries.len() as u32)
    }

    pub(super) fn insert(&mut self, value: T) -> SlabKey {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(SlabEntry {
                use_count: 0,
                value: None,
            });
            (self.entries.len() - 1) as u32
        });
        let mut use_count = 0;
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.use_count = entry.use_count.wrapping_add(1);
            entry.value = Some(value);
            use_count = entry.use_count;
        }
        SlabKey { number, use_count }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.entries.get_mut(number as usize)?.value.take()?;
        self.free.push(number);
        Some(value)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.value.as_mut()
    }

    /// The value that was inserted with this key, unless it was removed.
    pub(super) fn find_mut(&mut self, slab_key: SlabKey) -> Option<&mut T> {
        let entry = self.entries.get_mut(slab_key.number as usize)?;
        if entry.use_count == slab_key.use_count {
            entry.value.as_mut()
        } else {
            None
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries
            .iter_mut()
            .filter_map(|entry| entry.value.as_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_but_old_keys_find_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        let second = slab.insert("b");
        assert_eq!(slab.remove(first.number), Some("a"));
        assert_eq!(slab.next_number(), first.number);
        let third = slab.insert("c");
        assert_eq!(slab.next_number(), second.number + 1);
        assert_eq!(third.number, first.number);
        assert_eq!(slab.find_mut(first), None);
        assert_eq!(slab.find_mut(third), Some(&mut "c"));
        assert_eq!(slab.get(second.number), Some(&"b"));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [&"c", &"b"]);
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.remove(9), None);
    }
}
