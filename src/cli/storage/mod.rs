//! `taffrail storage …`: what operators do about how objects are stored.

pub mod rewrite;
pub mod table;
