//! `taffrail storage …`: what operators do about how objects are stored.

pub mod table;
