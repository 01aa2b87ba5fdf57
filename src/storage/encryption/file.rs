//! Reading the configuration file: bounded, and not for everybody's eyes.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Thousands of keys fit into this; anything larger was given by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What anybody but the owner may read.
const OTHERS_READ: u32 = 0o044;

/// The file's text, wiped from memory when dropped.
pub(super) struct Contents {
    /// The text.
    pub(super) text: Zeroizing<String>,
    /// SHA-256 of it, as metrics show it: `sha256:0a1b…` (ME-53).
    pub(super) digest: String,
    /// The file's mode when others than its owner can read it.
    pub(super) open_mode: Option<u32>,
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Contents, String> {
    let unreadable = |error: io::Error| format!("it can't be read: {error}");
    // Asked by name first: opening a pipe would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let mode = metadata.permissions().mode() & 0o777;
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        metadata.len().min(FILE_BYTES_MAX) as usize
    ));
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    let digest = digest(&bytes);
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err("it is no text in UTF-8".to_owned());
    };
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(Contents {
        text: Zeroizing::new(text.to_owned()),
        digest,
        open_mode: (mode & OTHERS_READ != 0).then_some(mode),
    })
}

/// SHA-256 in the form that metrics have it in.
pub(super) fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
