//! Limits of the process within which no daemon can run. Libraries panic where they meet them, so
//! they are looked at before.

use rustix::process::{Resource, getrlimit};

/// The least open files: sockets, the store, and a few for each thread. One more is taken by each
/// connection.
const FILES_MIN: u64 = 64;

/// The least address space.
const ADDRESS_SPACE_MIN: u64 = 256 << 20;

/// A limit is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLow {
    /// Of open files.
    #[error(
        "at most {0} files may be open: a daemon needs {FILES_MIN} and one for each connection; \
         raise the limit (ulimit -n, LimitNOFILE)"
    )]
    Files(u64),
    /// Of memory.
    #[error(
        "at most {} MiB of address space may be used: a daemon needs {}; raise the limit (ulimit \
         -v, LimitAS)", .0 >> 20, ADDRESS_SPACE_MIN >> 20
    )]
    AddressSpace(u64),
}

/// Looks at the limits of this process.
///
/// # Errors
/// [`TooLow`]
pub fn check() -> Result<(), TooLow> {
    // The soft limit of open files is raised to the hard one.
    judge(
        getrlimit(Resource::Nofile).maximum,
        getrlimit(Resource::As).current,
    )
}

/// Without a limit there is `None`.
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
