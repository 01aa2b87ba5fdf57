//! Reads the configuration file. Its size is bounded, and its permissions are checked.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::files::given;

/// A file with thousands of keys is smaller. A larger one is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The content of the file. The text is wiped from memory when dropped.
pub(super) struct Contents {
    /// The text.
    pub(super) text: Zeroizing<String>,
    /// Its SHA-256 as metrics show it: `sha256:0a1b…` (ME-53).
    pub(super) digest: String,
    /// The file's mode and the remedy, if others than its owner can read it.
    pub(super) open_mode: Option<(u32, String)>,
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Contents, String> {
    let unusable = |error: std::io::Error| match error.raw_os_error() {
        Some(_) => format!("it can't be read: {error}"),
        None => error.to_string(),
    };
    let file = given::read(path, FILE_BYTES_MAX).map_err(unusable)?;
    let text = file.text().map_err(unusable)?;
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(Contents {
        text: Zeroizing::new(text.to_owned()),
        digest: digest(&file.bytes),
        open_mode: file.close_to_readers().map(|remedy| (file.mode, remedy)),
    })
}

/// The SHA-256 as metrics show it.
pub(super) fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
