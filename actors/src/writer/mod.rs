//! Writers: a few shards by key hash that give out turns, so that retries of one key's updates
//! come one after the other.

mod handle;

pub use handle::{Turn, TurnError, WriterHandle};
