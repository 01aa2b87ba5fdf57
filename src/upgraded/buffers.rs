//! Buffers that bytes pass through. A thread keeps a few for all of its connections.

use std::cell::RefCell;

/// The size of a buffer: four records of TLS.
pub const BUFFER_BYTES: usize = 64 << 10;

/// Buffers that a thread keeps. Connections fill and empty them one after the other, so more are
/// needed only while peers read slowly.
const SPARE_BUFFERS_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer with arbitrary content.
pub fn lend() -> Box<[u8]> {
    let spare = SPARE.with_borrow_mut(Vec::pop);
    spare.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice())
}

/// Takes a buffer back.
pub fn give_back(buffer: Box<[u8]>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_BUFFERS_MAX {
            spare.push(buffer);
        }
    });
}
