//! The header of redb's file format 3: where its regions are, and the two commits that it names.
//!
//! Nothing here panics, whatever the bytes are.

use redb::StorageBackend;

use super::page::{Link, PAGE_BYTES, Region, checksum, u32_at, u128_at};

const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
/// The flags of a file in use, except the bit that names the newest commit: the file was not
/// closed, and commits have two phases.
const FLAGS_IN_USE: u8 = 0b110;
/// The version of redb's file format.
const FORMAT: u8 = 3;
/// The bytes of the header.
pub const HEADER_BYTES: usize = 320;
const SLOT_BYTES: usize = 128;
/// The bytes of a slot that its checksum covers. The checksum follows them.
const SLOT_COVERED: usize = 112;

/// A header whose newest commit has its checksum.
#[derive(Clone, Debug)]
pub struct Header {
    bytes: [u8; HEADER_BYTES],
    /// The sizes of the file's regions. They never change.
    pub region: Region,
}

impl Header {
    /// Reads the header of a file. Fails with what is wrong with it.
    pub fn read(file: &dyn StorageBackend) -> Result<Header, String> {
        let unreadable = |error| format!("its header can't be read: {error}");
        let mut bytes = [0; HEADER_BYTES];
        if file.len().map_err(unreadable)? >= HEADER_BYTES as u64 {
            file.read(0, &mut bytes).map_err(unreadable)?;
        }
        Header::parse(bytes)
    }

    /// Parses a header. Fails with what is wrong with it.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Header, String> {
        let region = region(&bytes)
            .ok_or("it does not begin with the magic number and page size of a database")?;
        let header = Header { bytes, region };
        let slot = header.slot();
        if u128_at(slot, SLOT_COVERED) != slot.get(..SLOT_COVERED).map(checksum) {
            return Err("its newest commit has not the checksum that it should have".to_owned());
        }
        Ok(header)
    }

    /// Fails with what is wrong with a header while the file is in use.
    pub fn check_in_use(&self) -> Result<(), String> {
        // The format of the older commit is checked too. Nothing else of that commit is.
        let formats = [64, 64 + SLOT_BYTES].map(|at| self.bytes[at]);
        let flags = self.bytes[9] & !1;
        if flags != FLAGS_IN_USE || formats != [FORMAT; 2] {
            return Err(format!(
                "its flags are {flags} and its formats {formats:?}, and should be {FLAGS_IN_USE} \
                 and {FORMAT}"
            ));
        }
        Ok(())
    }

    /// The slot of the newest durable commit. A bit of the header names one of two.
    pub fn slot(&self) -> &[u8] {
        let second = usize::from(self.bytes[9] & 1);
        &self.bytes[64 + second * SLOT_BYTES..][..SLOT_BYTES]
    }

    /// The root of the list of the engine's tables, if there are any.
    pub fn tables(&self) -> Option<Link> {
        self.root(1, 8)
    }

    /// The root of the list of redb's own tables, if there are any.
    pub fn own_tables(&self) -> Option<Link> {
        self.root(2, 40)
    }

    fn root(&self, is_there: usize, root: usize) -> Option<Link> {
        let slot = self.slot();
        let is_there = slot.get(is_there).is_some_and(|flag| *flag != 0);
        is_there
            .then(|| slot.get(root..).and_then(Link::parse))
            .flatten()
    }
}

/// The sizes of the regions of a file with this header, whatever else is wrong with it.
pub fn region(header: &[u8]) -> Option<Region> {
    let page_bytes = u32_at(header, 12).filter(|bytes| u64::from(*bytes) == PAGE_BYTES);
    page_bytes.filter(|_| header.starts_with(MAGIC))?;
    Some(Region {
        header_pages: u32_at(header, 16)?,
        data_pages: u32_at(header, 20)?,
    })
}
