//! Chunks of history that were read and that their clients have not taken yet. Their bytes are
//! bounded for the whole thread, so a thousand stopped clients hold no more memory than one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::replay::{ReplayChunk, ReplayedEvent};
use crate::engine::Revision;

/// Bytes of objects that may be buffered on one thread.
const BYTES_MAX: usize = 4 << 20;

/// The buffered chunks of one thread. Beyond the bound the oldest chunk is dropped. Its watch reads
/// it again when its client continues.
#[derive(Default)]
pub(super) struct ReplayBuffer {
    chunks: RefCell<VecDeque<Weak<RefCell<BufferedChunk>>>>,
    bytes: Rc<Cell<usize>>,
}

/// A chunk in the buffer.
pub(super) struct BufferedChunk {
    events: std::vec::IntoIter<ReplayedEvent>,
    reached: Revision,
    /// The revision of the last event that was taken.
    taken: Revision,
    is_dropped: bool,
    bytes: usize,
    bytes_buffered: Rc<Cell<usize>>,
}

/// The part of a chunk that a watch takes.
pub(super) enum Taken {
    /// Its next event.
    Event(ReplayedEvent),
    /// No event is left.
    Finished {
        /// Everything up to here was in the chunk.
        reached: Revision,
    },
    /// It was dropped to make room.
    Dropped,
}

impl ReplayBuffer {
    /// Adds a chunk, and drops old ones beyond the bound.
    pub(super) fn add(&self, replay: ReplayChunk) -> Rc<RefCell<BufferedChunk>> {
        let bytes = bytes_of(&replay.events);
        self.bytes.set(self.bytes.get() + bytes);
        let chunk = Rc::new(RefCell::new(BufferedChunk {
            events: replay.events.into_iter(),
            reached: replay.reached,
            taken: Revision::ZERO,
            is_dropped: false,
            bytes,
            bytes_buffered: Rc::clone(&self.bytes),
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

impl BufferedChunk {
    pub(super) fn take(&mut self) -> Taken {
        if self.is_dropped {
            return Taken::Dropped;
        }
        match self.events.next() {
            Some(event) => {
                self.taken = event.revision;
                Taken::Event(event)
            }
            None => Taken::Finished {
                reached: self.reached,
            },
        }
    }

    /// Drops everything but the rest of a revision that its client has in part: the client reads
    /// again after that revision.
    fn discard(&mut self) {
        let events = self.events.as_slice().iter();
        let rest = events.take_while(|event| event.revision == self.taken);
        let rest = rest.count();
        let rest: Vec<ReplayedEvent> = self.events.by_ref().take(rest).collect();
        self.release();
        match rest.is_empty() {
            true => self.is_dropped = true,
            false => {
                self.reached = self.taken;
                self.bytes = bytes_of(&rest);
                self.bytes_buffered
                    .set(self.bytes_buffered.get() + self.bytes);
            }
        }
        self.events = rest.into_iter();
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes_buffered
            .set(self.bytes_buffered.get().saturating_sub(bytes));
    }
}

fn bytes_of(events: &[ReplayedEvent]) -> usize {
    events.iter().map(|event| event.object.size()).sum()
}

impl Drop for BufferedChunk {
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

    fn replay(bytes: usize) -> ReplayChunk {
        let value = Bytes::from(format!("red {}", "x".repeat(bytes)));
        let object = OneLiners.decode(&key("ns/a"), Revision(1), &value).unwrap();
        ReplayChunk {
            events: vec![ReplayedEvent {
                kind: WatchEventKind::Added,
                object,
                revision: Revision(1),
            }],
            reached: Revision(9),
        }
    }

    #[test]
    fn the_chunk_that_waited_longest_makes_room_for_new_ones() {
        let buffer = ReplayBuffer::default();
        let chunks: Vec<_> = (0..3).map(|_| buffer.add(replay(BYTES_MAX / 2))).collect();
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
        assert!(buffer.bytes.get() <= BYTES_MAX);
        drop(chunks);
        assert_eq!(buffer.bytes.get(), 0);
    }

    #[test]
    fn a_revision_that_a_client_has_in_part_is_kept() {
        let buffer = ReplayBuffer::default();
        let mut several = replay(1);
        for revision in [1, 1, 2] {
            let mut more = replay(1).events;
            more[0].revision = Revision(revision);
            several.events.append(&mut more);
        }
        let chunk = buffer.add(several);
        assert!(matches!(chunk.borrow_mut().take(), Taken::Event(_)));
        drop(buffer.add(replay(2 * BYTES_MAX)));
        for _ in 0..2 {
            let Taken::Event(event) = chunk.borrow_mut().take() else {
                panic!("two are left of revision 1");
            };
            assert_eq!(event.revision, Revision(1));
        }
        let finished = chunk.borrow_mut().take();
        assert!(matches!(
            finished,
            Taken::Finished {
                reached: Revision(1)
            }
        ));
        drop(chunk);
        assert_eq!(buffer.bytes.get(), 0);
    }
}
