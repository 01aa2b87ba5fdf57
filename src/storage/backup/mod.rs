//! Backups: a whole store as one stream of bytes.
//!
//! This folder owns the format of the file (`FORMAT.md`), and converts between a store of any
//! engine and that format: it takes an engine's export, and yields checked records. It must not
//! know objects, HTTP or the command line.
//!
//! [`BackupSource`] turns an engine into the stream. [`Decoder`] takes the stream apart and checks
//! it. [`Points`] finds the revision to go back to. [`into_engine`] puts a state into an engine
//! that numbers revisions itself, as etcd does; [`super::embedded::restore`] keeps the numbers.

mod decoder;
mod document;
mod encoder;
mod into_engine;
mod points;
mod source;
#[cfg(test)]
mod tests;

pub use decoder::{DecodeError, Decoder, Item};
pub use document::{Header, Summary};
pub use into_engine::{IntoEngine, IntoEngineError};
pub use points::{Point, PointError, Points};
pub use source::BackupSource;

/// The format that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The beginning of every backup.
const MAGIC: &[u8; 8] = b"tfbackup";
/// The bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 32;
/// The bytes of a frame before its content.
const FRAME_HEAD_BYTES: usize = 5;
/// The longest frame that is accepted, as that of a record.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The kinds of frames. Numbers are never reused.
mod kind {
    pub(super) const HEADER: u8 = 1;
    pub(super) const EVENT: u8 = 2;
    pub(super) const END: u8 = 3;
    pub(super) const FAILURE: u8 = 4;
}
