//! The ID of the store that a directory holds, in a small file next to the log. A missing or
//! emptied log is therefore never taken for a new store.
//!
//! The order of writing makes every crash harmless. The file is written after the log with all its
//! tables is durable, and before anything is served. Without the file nobody was promised anything,
//! and what an interrupted creation left may be created again. With the file the log must exist and
//! must be that store's.

use std::fmt::Write;
use std::path::Path;

use redb::StorageBackend;

use super::disk::{DataFile, Disk};
use super::error::{Failure, OpenError};

/// A store's ID, drawn at random when the store is created.
pub type StoreId = [u8; 16];

/// The word before the ID.
const WORD: &str = "store ";
/// The length of redb's magic number; see [`is_unfinished`].
const MAGIC_BYTES: usize = 9;
/// The bytes that redb writes to create a database, before its first transaction: one page.
const HEADER_BYTES: u64 = 4096;
/// The bytes of one read.
const CHUNK_BYTES: u64 = 64 * 1024;

/// The ID as hexadecimal digits.
pub fn to_hex(name: &StoreId) -> String {
    name.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn parse(bytes: &[u8]) -> Option<StoreId> {
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.strip_prefix(WORD)?.strip_suffix('\n')?;
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

/// The ID of the store that a directory holds. `None` when no store was ever served from it.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn read(disk: &dyn Disk) -> Result<Option<StoreId>, OpenError> {
    let file = disk.path(DataFile::StoreId);
    let bytes = match disk.store_id() {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(source) => return Err(OpenError::Io { file, source }),
    };
    match parse(&bytes) {
        Some(name) => Ok(Some(name)),
        None => Err(OpenError::StoreId {
            file,
            log: disk.path(DataFile::Log),
            what: format!(
                "{:?}",
                String::from_utf8_lossy(bytes.get(..64).unwrap_or(&bytes))
            ),
        }),
    }
}

/// Stores durably which store the directory holds.
///
/// # Errors
/// When the file cannot be written. A full disk is not an error: the existing store must open, and
/// the file is written at the next opening.
pub fn write(disk: &dyn Disk, name: &StoreId) -> Result<(), OpenError> {
    let text = format!("{WORD}{}\n", to_hex(name));
    match disk.set_store_id(text.as_bytes()).map_err(Failure::from) {
        Ok(()) => Ok(()),
        Err(Failure::NoSpace(why)) => {
            let file = disk.path(DataFile::StoreId);
            tracing::warn!(
                %file,
                %why,
                "disk full: the file with the store's ID is written at the next start"
            );
            Ok(())
        }
        Err(failure) => Err(failure.into_open_error(disk.path(DataFile::StoreId))),
    }
}

/// Checks that the log of a served store exists, before anything is changed.
///
/// # Errors
/// [`Failure::Corrupt`] when it does not.
pub fn check_log(disk: &dyn Disk, file: DataFile, name: &StoreId) -> Result<(), Failure> {
    let what = match disk.length(file)? {
        None => "it is missing",
        Some(0) => "it is empty",
        Some(_) => return Ok(()),
    };
    Err(gone(what, name))
}

/// Checks that a directory without an ID holds a store, before anything is created. The ID may not
/// have been written yet.
///
/// # Errors
/// [`OpenError::NoStore`] when it holds none.
pub fn check_existing(disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
    let is_there = || match disk.length(DataFile::Log)? {
        None | Some(0) => Ok(false),
        Some(_) => Ok(!is_unfinished(&*disk.open(DataFile::Log)?)?),
    };
    match is_there() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::NoStore {
            path: directory.to_owned(),
        }),
        Err::<_, Failure>(failure) => Err(failure.into_open_error(disk.path(DataFile::Log))),
    }
}

/// The failure of a log that does not hold its store.
pub fn gone(what: &str, name: &StoreId) -> Failure {
    Failure::Corrupt(format!(
        "{what}, and the file {:?} next to it says that this directory holds store {}",
        DataFile::StoreId.name(),
        to_hex(name)
    ))
}

/// Whether a file is what an interrupted creation of a database leaves. redb sets the length,
/// writes the header's page without its magic number, syncs, and then writes the number. Beyond
/// that page it has written nothing.
///
/// # Errors
/// When the file can't be read.
pub fn is_unfinished(backend: &dyn StorageBackend) -> Result<bool, Failure> {
    let length = backend.len()?;
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    // The magic number, and everything after the header's page.
    let mut places = vec![(0, length.min(MAGIC_BYTES as u64))];
    let mut offset = HEADER_BYTES;
    while offset < length {
        places.push((offset, CHUNK_BYTES.min(length - offset)));
        offset += CHUNK_BYTES;
    }
    for (offset, bytes) in places {
        let Some(part) = chunk.get_mut(..bytes as usize) else {
            return Ok(false);
        };
        backend.read(offset, part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_it_was_written_and_nothing_else_reads() {
        let mut name = StoreId::default();
        name[0] = 1;
        name[15] = 0xab;
        assert_eq!(to_hex(&name), "010000000000000000000000000000ab");
        let text = format!("{WORD}{}\n", to_hex(&name));
        assert_eq!(parse(text.as_bytes()), Some(name));
        for other in [
            "",
            "store \n",
            "store 010000000000000000000000000000ab",
            "store +10000000000000000000000000000ab\n",
            "shop 010000000000000000000000000000ab\n",
            "store 010000000000000000000000000000ab\n\n",
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other:?}");
        }
    }
}
