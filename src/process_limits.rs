//! Limits of the process that are too low for any daemon. They are checked at the start, because
//! libraries panic when they reach them.

use rustix::process::{Resource, getrlimit};

/// The fewest open files that a daemon needs: sockets, the store, and a few for each thread. Each
/// connection needs one more.
const FILES_MIN: u64 = 64;

/// The least address space that a daemon needs.
const ADDRESS_SPACE_MIN: u64 = 256 << 20;

/// A limit that is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLow {
    /// The limit of open files.
    #[error(
        "at most {0} files may be open: a daemon needs {FILES_MIN} and one for each connection; \
         raise the limit (ulimit -n, LimitNOFILE)"
    )]
    Files(u64),
    /// The limit of memory.
    #[error(
        "at most {} MiB of address space may be used: a daemon needs {}; raise the limit (ulimit \
         -v, LimitAS)", .0 >> 20, ADDRESS_SPACE_MIN >> 20
    )]
    AddressSpace(u64),
}

/// Checks the limits of this process.
///
/// # Errors
/// [`TooLow`]
pub fn check() -> Result<(), TooLow> {
    // The soft limit can be raised to the hard one, so the hard one counts.
    judge(
        getrlimit(Resource::Nofile).maximum,
        getrlimit(Resource::As).current,
    )
}

/// Checks limits. `None` means unlimited.
fn judge(files: Option<u64>, address_space: Option<u64>) -> Result<(), TooLow> {
    if let Some(files) = files.filter(|files| *files < FILES_MIN) {
        return Err(TooLow::Files(files));
    }
    let low = address_space.filter(|bytes| *bytes < ADDRESS_SPACE_MIN);
    low.map_or(Ok(()), |bytes| Err(TooLow::AddressSpace(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_within_which_nothing_works_are_named() {
        assert_eq!(judge(None, None), Ok(()));
        assert_eq!(judge(Some(64), Some(256 << 20)), Ok(()));
        let files = judge(Some(20), None).unwrap_err().to_string();
        assert!(files.contains("at most 20 files"), "{files}");
        let bytes = judge(None, Some(120 << 20)).unwrap_err().to_string();
        assert!(bytes.contains("at most 120 MiB"), "{bytes}");
    }
}
