//! A log that continues in a new file when the current one is full.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};

use super::irregular;

/// The bounds of a log and its predecessors. 0 means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollingLimits {
    /// Bytes of a file, after which the next one begins.
    pub file_bytes: u64,
    /// How many predecessors are kept.
    pub count: usize,
    /// How old a predecessor may be.
    pub age: Duration,
}

/// An append-only log. The name of a predecessor has the time when it ended: `audit.log` becomes
/// `audit-2026-01-31T12-00-00.123456789.log`, much as kube-apiserver names them.
pub struct RollingLog {
    path: PathBuf,
    limits: RollingLimits,
    file: File,
    bytes: u64,
}

impl RollingLog {
    /// Opens the log, or creates it for its owner only.
    ///
    /// # Errors
    /// When it is not a regular file, and those of the file system.
    pub fn open(path: &Path, limits: RollingLimits) -> io::Result<RollingLog> {
        let (file, bytes) = open(path)?;
        Ok(RollingLog {
            path: path.to_owned(),
            limits,
            file,
            bytes,
        })
    }

    /// Checks that a log can be at a path, without creating it.
    ///
    /// # Errors
    /// When the path is not a regular file, or its directory is missing.
    pub fn check(path: &Path) -> io::Result<()> {
        let Err(error) = std::fs::metadata(path) else {
            return check_kind(path);
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let has_folder = folder.is_none_or(Path::is_dir);
        match error.kind() {
            io::ErrorKind::NotFound if has_folder => Ok(()),
            io::ErrorKind::NotFound => {
                let problem = "its directory does not exist; make it, or choose another path";
                Err(io::Error::new(io::ErrorKind::NotFound, problem))
            }
            _ => Err(error),
        }
    }

    /// Appends whole lines.
    ///
    /// # Errors
    /// Those of the file system. Some of the lines may have been written.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let bytes = lines.len() as u64;
        let is_full = self.bytes > 0 && self.bytes + bytes > self.limits.file_bytes;
        if self.limits.file_bytes > 0 && is_full {
            self.roll()?;
        }
        self.file.write_all(lines)?;
        self.bytes += bytes;
        Ok(())
    }

    fn roll(&mut self) -> io::Result<()> {
        // To the nanosecond, so that names are unique.
        let ended = crate::clock::of_machine().strftime("%Y-%m-%dT%H-%M-%S%.9f");
        let (start, end) = self.name_parts();
        let ended = self.path.with_file_name(format!("{start}{ended}{end}"));
        std::fs::rename(&self.path, &ended)?;
        (self.file, self.bytes) = open(&self.path)?;
        self.remove_old();
        Ok(())
    }

    /// The parts of a predecessor's name before and after the time.
    fn name_parts(&self) -> (String, String) {
        let text =
            |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let stem = text(self.path.file_stem()).unwrap_or_default();
        let end = text(self.path.extension()).map(|end| format!(".{end}"));
        (format!("{stem}-"), end.unwrap_or_default())
    }

    /// Removes predecessors beyond the limits. A failed removal is tried again when the next file
    /// ends.
    fn remove_old(&self) {
        let folder = self
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
            return;
        };
        let (start, end) = self.name_parts();
        let mut kept: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().map(|name| name.to_string_lossy());
                let ended = name.as_deref().and_then(|name| {
                    let rest = name.strip_prefix(start.as_str())?;
                    rest.strip_suffix(end.as_str())
                });
                ended.is_some_and(is_time)
            })
            .collect();
        // The names sort by time.
        kept.sort_unstable_by(|one, other| other.cmp(one));
        let now = SystemTime::now();
        for (number, path) in kept.iter().enumerate() {
            let too_many = self.limits.count > 0 && number >= self.limits.count;
            let age = || {
                now.duration_since(path.metadata().ok()?.modified().ok()?)
                    .ok()
            };
            let too_old =
                !self.limits.age.is_zero() && age().is_some_and(|age| age > self.limits.age);
            if too_many || too_old {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Whether a part of a name is a time as [`RollingLog::roll`] writes it. Files with other names are
/// kept.
fn is_time(text: &str) -> bool {
    let pattern = b"0000-00-00T00-00-00.000000000";
    text.len() == pattern.len()
        && text
            .bytes()
            .zip(pattern)
            .all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                wanted => byte == *wanted,
            })
}

/// Refuses an existing path that is not a regular file, because opening a device may have effects.
fn check_kind(path: &Path) -> io::Result<()> {
    let kind = std::fs::metadata(path).ok().map(|found| found.file_type());
    kind.and_then(irregular).map_or(Ok(()), Err)
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    check_kind(path)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?.into();
    let metadata = file.metadata()?;
    match irregular(metadata.file_type()) {
        Some(refusal) => Err(refusal),
        None => Ok((file, metadata.size())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_kept_under_another_name_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let limits = RollingLimits {
            file_bytes: 10,
            count: 2,
            age: Duration::ZERO,
        };
        let other = folder.path().join("audit-policy.log");
        std::fs::write(&other, "").unwrap();
        let mut log = RollingLog::open(&path, limits).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for number in 0..5 {
            log.append(format!("line {number}\n").as_bytes()).unwrap();
        }
        std::fs::remove_file(other).unwrap();
        let names = names(folder.path());
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 4\n");
        let last = folder.path().join(&names[1]);
        assert_eq!(std::fs::read_to_string(last).unwrap(), "line 3\n");
        // It goes on where it was.
        drop(log);
        let mut log = RollingLog::open(&path, limits).unwrap();
        log.append(b"x\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 4\nx\n");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RollingLog::open(folder.path(), RollingLimits::default()).is_err());
    }
}
