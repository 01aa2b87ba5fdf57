//! Opens files by name safely.
//!
//! This folder owns the two ways to open a file. [`own`] opens the files that the daemon makes in
//! its data directory, and refuses links. [`given`] reads the files that an operator names by a
//! flag, and follows links, because Kubernetes mounts Secrets as links. [`RollingLog`] appends to a
//! log that an operator names, and [`NewFile`] creates a file that does not exist yet.
//! [`PrivateDirectory`] is the data directory itself, or one within it, and [`ThrowawayFolder`] a
//! folder for one run. [`Followed`] makes something of files, and again when they change.
//!
//! The functions take a path and return bounded contents or an open file, or an error that says
//! what to fix. Anybody who may write to a folder can put a pipe, a device or a link in a file's
//! place. So only regular files are read, and nothing blocks. This folder must not know what a file
//! means.
//!
//! No other product code opens files by name, except to sync a directory and to read what the
//! kernel shows below `/proc`.

mod directory;
mod followed;
pub mod given;
mod new_file;
pub mod own;
mod programs;
mod rolling;
mod throwaway;

use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

pub use directory::PrivateDirectory;
pub use followed::{Followed, Source};
pub use new_file::NewFile;
pub use programs::{create_archive, open_program, place_program};
pub use rolling::{RollingLimits, RollingLog};
pub use throwaway::{ThrowawayFolder, remove_leftovers};

const ROOT: u32 = 0;
/// The write permissions of others than the owner.
const OTHERS_WRITE: u32 = 0o022;

/// Identifies a version of a file, to notice changes. It follows links, so that it changes when
/// Kubernetes replaces a mounted Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file; `None` if its metadata can't be read.
    pub fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// The mode as `chmod` takes it.
fn mode_of(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

/// The user that the process acts as.
fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The error for a file that is not a regular one.
fn irregular(kind: FileType) -> Option<io::Error> {
    let what = match kind {
        kind if kind.is_file() => return None,
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Some(refused(format!("it is {what} and not a regular file")))
}

/// Opens a file without blocking. The caller must check that the opened file is a regular one.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?.into())
}

/// The content of an open file; its memory is wiped when dropped.
fn read_all(file: &File, bytes_max: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let expected = file.metadata()?.len().min(bytes_max) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected as usize));
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(refused(format!("it is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn refused(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

fn to_text(bytes: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| refused("it is not valid UTF-8".to_owned()))
}
