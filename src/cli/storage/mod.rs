//! `taffrail storage …`: commands about the storage of objects.
//!
//! This folder owns the table of storage plans and the rewrite after a change of keys. It must not
//! know requests of clients.

pub mod rewrite;
pub mod table;
