//! The lock file: one engine for each directory, and a text about its holder.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use crate::clock;
use crate::files::own;

/// Longer than the text of any holder.
const TEXT_BYTES_MAX: u64 = 4096;

/// Who holds a directory, as written into its lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process ID.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
    /// Since when it holds the directory, RFC 3339.
    pub since: String,
}

impl Holder {
    fn this_process() -> Holder {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Holder {
            pid: std::process::id(),
            host: host.trim().to_owned(),
            since: clock::now().strftime("%FT%TZ").to_string(),
        }
    }

    fn to_text(&self) -> String {
        format!(
            "pid {}\nhost {}\nsince {}\n",
            self.pid, self.host, self.since
        )
    }

    /// Parses the text of [`Holder::to_text`]. Missing parts stay empty.
    fn parse(text: &str) -> Holder {
        let mut holder = Holder::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("pid", pid)) => holder.pid = pid.parse().unwrap_or_default(),
                Some(("host", host)) => holder.host = host.to_owned(),
                Some(("since", since)) => holder.since = since.to_owned(),
                _ => {}
            }
        }
        holder
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |text: &str| if text.is_empty() { "unknown" } else { text }.to_owned();
        write!(
            f,
            "process {} on host {} since {}",
            self.pid,
            or_unknown(&self.host),
            or_unknown(&self.since)
        )
    }
}

/// Why the lock could not be taken.
#[derive(Debug)]
pub(super) enum LockError {
    Held(Holder),
    Io(io::Error),
}

/// A held lock. The operating system releases it when the process dies.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(path: &Path) -> Result<Lock, LockError> {
        let mut file = own::open(path).map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // That there is a holder matters more than who it is.
                let _ = file.take(TEXT_BYTES_MAX).read_to_string(&mut text);
                return Err(LockError::Held(Holder::parse(&text)));
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        write_holder(&mut file).map_err(LockError::Io)?;
        Ok(Lock { _file: file })
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    match file.write_all(Holder::this_process().to_text().as_bytes()) {
        // Only the lock counts, not its text. A full disk must not keep a store from opening.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_reads_back_as_written_and_rubbish_reads_as_nobody() {
        let holder = Holder {
            pid: 7,
            host: "ship".to_owned(),
            since: "2026-01-02T03:04:05Z".to_owned(),
        };
        assert_eq!(Holder::parse(&holder.to_text()), holder);
        assert_eq!(Holder::parse("\0\0nonsense"), Holder::default());
        assert_eq!(
            Holder::default().to_string(),
            "process 0 on host unknown since unknown"
        );
    }

    #[test]
    fn a_second_lock_is_refused_with_the_name_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let Err(LockError::Held(holder)) = Lock::take(&path) else {
            panic!("two locks at once")
        };
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.since.is_empty());
        drop(first);
        assert!(Lock::take(&path).is_ok());
    }
}
