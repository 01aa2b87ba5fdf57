//! The newest revision that anybody was shown, as the file of the database remembers it.
//!
//! A commit is durable when the journal has it. If the files of the journal are lost, emptied or
//! replaced by older ones, the database alone can't know that something is missing. So once a
//! commit is durable, and before anybody sees it, its revision is also written to the header's
//! page, after the header. The mark is written without a sync: it survives the death of the process
//! at once, and a power cut after the kernel has written it, which takes it half a minute. It never
//! names a revision that was not durable.

use std::io;

use actors::engine::Revision;
use redb::StorageBackend;

use super::header::HEADER_BYTES;
use super::page::{u32_at, u64_at};
use crate::storage::embedded::store_id::StoreId;

/// Where the mark lies: in the header's page, in another sector than the header, so that neither is
/// torn with the other. redb uses nothing of the page after its header.
pub const OFFSET: u64 = 2048;
const BYTES: usize = 16;
const MAGIC: [u8; 4] = *b"tfak";

// The mark does not overlap redb's header.
const _: () = assert!(HEADER_BYTES as u64 <= OFFSET);

/// Writes the mark, without a sync.
///
/// # Errors
/// When the file system fails.
pub fn write(file: &dyn StorageBackend, store: &StoreId, revision: Revision) -> io::Result<()> {
    let mut mark = [0; BYTES];
    mark[..4].copy_from_slice(&MAGIC);
    mark[4..8].copy_from_slice(&checksum(store, revision).to_le_bytes());
    mark[8..].copy_from_slice(&revision.0.to_le_bytes());
    file.write(OFFSET, &mark)
}

/// Reads the mark of a store. Zero if it has none, or none that is whole: a mark proves what is
/// missing, and its absence proves nothing.
///
/// # Errors
/// When the file system fails.
pub fn read(file: &dyn StorageBackend, store: &StoreId) -> io::Result<Revision> {
    if file.len()? < OFFSET + BYTES as u64 {
        return Ok(Revision::ZERO);
    }
    let mut mark = [0; BYTES];
    file.read(OFFSET, &mut mark)?;
    let revision = Revision(u64_at(&mark, 8).unwrap_or_default());
    let is_whole = mark.starts_with(&MAGIC) && u32_at(&mark, 4) == Some(checksum(store, revision));
    Ok(if is_whole { revision } else { Revision::ZERO })
}

fn checksum(store: &StoreId, revision: Revision) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(store), &revision.0.to_le_bytes())
}
