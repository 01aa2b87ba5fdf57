//! A list of values whose numbers are reused. Pure.

/// A number of a slab, and which use of the number is meant. It finds nothing once its value was
/// removed, even if the number is in use again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlabKey {
    pub(super) number: u32,
    use_count: u32,
}

/// A list of values whose numbers are reused. It grows by chunks. A vector would double, and half
/// of its memory could be unused.
#[derive(Debug)]
pub(super) struct Slab<T> {
    /// All but the last have [`CHUNK_ENTRIES`].
    chunks: Vec<Vec<SlabEntry<T>>>,
    free: Vec<u32>,
}

/// Entries of a chunk.
const CHUNK_ENTRIES: usize = 64;

#[derive(Debug)]
struct SlabEntry<T> {
    use_count: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            chunks: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// The number that the next value gets.
    pub(super) fn next_number(&self) -> u32 {
        let last = self.free.last().copied();
        last.unwrap_or(self.entries() as u32)
    }

    /// The number of entries, used and free.
    fn entries(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK_ENTRIES;
        full + self.chunks.last().map_or(0, Vec::len)
    }

    fn entry(&self, number: u32) -> Option<&SlabEntry<T>> {
        let number = number as usize;
        let chunk = self.chunks.get(number / CHUNK_ENTRIES)?;
        chunk.get(number % CHUNK_ENTRIES)
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut SlabEntry<T>> {
        let number = number as usize;
        let chunk = self.chunks.get_mut(number / CHUNK_ENTRIES)?;
        chunk.get_mut(number % CHUNK_ENTRIES)
    }

    /// Adds a free entry and returns its number.
    fn add_entry(&mut self) -> u32 {
        let number = self.entries();
        let entry = SlabEntry {
            use_count: 0,
            value: None,
        };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_ENTRIES => chunk.push(entry),
            // Most slabs stay small. Only the first chunk grows as a vector does.
            None => self.chunks.push(vec![entry]),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK_ENTRIES);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
        number as u32
    }

    pub(super) fn insert(&mut self, value: T) -> SlabKey {
        let number = match self.free.pop() {
            Some(number) => number,
            None => self.add_entry(),
        };
        let mut use_count = 0;
        if let Some(entry) = self.entry_mut(number) {
            entry.use_count = entry.use_count.wrapping_add(1);
            entry.value = Some(value);
            use_count = entry.use_count;
        }
        SlabKey { number, use_count }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.entry_mut(number)?.value.take()?;
        self.free.push(number);
        Some(value)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.entry(number)?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entry_mut(number)?.value.as_mut()
    }

    /// The value that was inserted with this key, unless it was removed.
    pub(super) fn find_mut(&mut self, slab_key: SlabKey) -> Option<&mut T> {
        let entry = self.entry_mut(slab_key.number)?;
        if entry.use_count == slab_key.use_count {
            entry.value.as_mut()
        } else {
            None
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let entries = self.chunks.iter().flatten();
        entries.filter_map(|entry| entry.value.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let entries = self.chunks.iter_mut().flatten();
        entries.filter_map(|entry| entry.value.as_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.entries() - self.free.len()
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

    #[test]
    fn values_of_many_chunks_are_found_by_their_numbers() {
        let mut slab = Slab::default();
        let numbers = 0..(3 * CHUNK_ENTRIES as u32 + 5);
        for number in numbers.clone() {
            assert_eq!(slab.next_number(), number);
            assert_eq!(slab.insert(number).number, number);
        }
        assert!(slab.iter().copied().eq(numbers.clone()));
        for number in numbers.clone() {
            assert_eq!(slab.get(number), Some(&number));
            assert_eq!(slab.remove(number), Some(number));
        }
        assert_eq!(slab.len(), 0);
        assert_eq!(slab.next_number(), numbers.end - 1);
        assert_eq!(slab.get(numbers.end), None);
        // A slab has unused entries in its last chunk only, however it grows.
        assert_eq!(slab.chunks.len(), 4);
        assert!(
            slab.chunks
                .iter()
                .all(|chunk| chunk.capacity() == CHUNK_ENTRIES)
        );
    }
}
