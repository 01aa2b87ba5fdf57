//! Chunks of history that have been read and not yet been taken by their clients: bounded for
//! the whole thread, so that a thousand stopped clients hold no more memory than one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::replay::{Replay, Replayed};
use crate::engine::Revision;

/// Bytes of objects that may wait on one thread.
const BYTES_MAX: usize = 4 << 20;

/// See the module's documentation. When there is too much, the chunk that has waited longest is
/// dropped; its watch reads it again when its client moves on.
#[derive(Default)]
pub(super) struct Shelf {
    chunks: RefCell<VecDeque<Weak<RefCell<Chunk>>>>,
    bytes: Rc<Cell<usize>>,
}

/// A chunk on the shelf.
pub(super) struct Chunk {
    events: std::vec::IntoIter<Replayed>,
    reached: Revision,
    is_dropped: bool,
    bytes: usize,
    bytes_on_shelf: Rc<Cell<usize>>,
}

/// What is taken from a chunk.
pub(super) enum Taken {
    /// Its next event.
    Event(Replayed),
    /// There is none left; everything up to here has been taken.
    Finished {
        /// The chunk's end.
        reached: Revision,
    },
    /// It was dropped to make room.
    Dropped,
}

impl Shelf {
    /// Puts a chunk on the shelf, and drops old ones if there is too much.
    pub(super) fn put(&self, replay: Replay) -> Rc<RefCell<Chunk>> {
        let sizes = replay.events.iter().map(|event| event.object.size());
        let bytes = sizes.sum();
        self.bytes.set(self.bytes.get() + bytes);
        let chunk = Rc::new(RefCell::new(Chunk {
            events: replay.events.into_iter(),
            reached: replay.reached,
            is_dropped: false,
            bytes,
            bytes_on_shelf: Rc::clone(&self.bytes),
        }));
        let mut chunks = self.chunks.borrow_mut();
        chunks.retain(|chunk| chunk.strong_count() > 0);
        while self.bytes.get() > BYTES_MAX
            && let Some(oldest) = chunks.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                oldest.borrow_mut().discard();
            }
        }
        chunks.push_back(Rc::downgrade(&chunk));
        chunk
    }
}

impl Chunk {
    pub(super) fn take(&mut self) -> Taken {
        if self.is_dropped {
            return Taken::Dropped;
        }
        match self.events.next() {
            Some(event) => Taken::Event(event),
            None => Taken::Finished {
                reached: self.reached,
            },
        }
    }

    fn discard(&mut self) {
        self.is_dropped = true;
        self.events = Vec::new().into_iter();
        self.release();
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes_on_shelf
            .set(self.bytes_on_shelf.get().saturating_sub(bytes));
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::object::Decode;
    use crate::testing::{OneLiners, key};
    use crate::watch::WatchEventKind;

    fn replay(bytes: usize) -> Replay {
        let value = Bytes::from(vec![b'x'; bytes]);
        let object = OneLiners.decode(&key("ns/a"), Revision(1), &value).unwrap();
        Replay {
            events: vec![Replayed {
                kind: WatchEventKind::Added,
                object,
                revision: Revision(1),
            }],
            reached: Revision(9),
        }
    }

    #[test]
    fn the_chunk_that_waited_longest_makes_room_for_new_ones() {
        let shelf = Shelf::default();
        let chunks: Vec<_> = (0..3).map(|_| shelf.put(replay(BYTES_MAX / 2))).collect();
        assert!(matches!(chunks[0].borrow_mut().take(), Taken::Dropped));
        assert!(matches!(chunks[1].borrow_mut().take(), Taken::Dropped));
        assert!(matches!(chunks[2].borrow_mut().take(), Taken::Event(_)));
        let finished = chunks[2].borrow_mut().take();
        assert!(matches!(
            finished,
            Taken::Finished {
                reached: Revision(9)
            }
        ));
        assert!(shelf.bytes.get() <= BYTES_MAX);
        drop(chunks);
        assert_eq!(shelf.bytes.get(), 0);
    }
}
