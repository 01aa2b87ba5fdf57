//! Reads of the embedded engine.
//!
//! Owns the reader threads ([`ReaderPool`]) and their reads: one key ([`read_key`]), a page of a
//! prefix ([`read_range`]), a chunk of history ([`read_history`]), and the revision that retention
//! has reached ([`horizon`]). Each read is one short read transaction ([`read_txn`]). Nothing here
//! writes, and nothing here knows the writer.

mod history;
mod pool;
mod range;
mod read_txn;

pub use history::{LargePrefixes, horizon, read_history};
pub use pool::ReaderPool;
pub use range::read_range;
pub use read_txn::{ReadTxn, read_key};

/// The assumed size of a record whose size is unknown.
const RECORD_BYTES_GUESS: usize = 1024;
