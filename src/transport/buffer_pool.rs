//! The buffers in which the connections of one thread coalesce their writes.

use std::cell::RefCell;
use std::rc::Rc;

use crate::coalescing_writer::Buffers;

/// The most bytes that wait before they are written: four TLS records. Measurements show no gain
/// from more.
pub const COALESCED_BYTES: usize = 64 * 1024;

/// Buffers that a thread keeps for reuse. One serves all connections, because the thread writes
/// them one after another. It needs more only while sockets are full.
const SPARE_BUFFERS_MAX: usize = 4;

/// The smallest rest of a write that keeps its lent buffer. A smaller rest is copied, so that the
/// thread gets the buffer back.
const LEFTOVER_KEPT_BYTES: usize = COALESCED_BYTES / 4;

/// The buffers of one thread.
#[derive(Clone, Debug, Default)]
pub struct BufferPool {
    spare: Rc<RefCell<Vec<Vec<u8>>>>,
}

#[cfg(test)]
impl BufferPool {
    /// The number of free buffers.
    pub fn spare(&self) -> usize {
        self.spare.borrow().len()
    }
}

impl Buffers for BufferPool {
    const BYTES_MAX: usize = COALESCED_BYTES;

    fn lend(&mut self) -> Vec<u8> {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(COALESCED_BYTES))
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if buffer.capacity() == COALESCED_BYTES && spare.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }

    fn smaller(&self, capacity: usize, waiting: &[u8]) -> Option<Vec<u8>> {
        let is_lent = capacity == COALESCED_BYTES;
        (is_lent && waiting.len() <= LEFTOVER_KEPT_BYTES).then(|| waiting.to_vec())
    }
}
