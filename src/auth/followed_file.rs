//! The files of `--authentication-config` and `--authorization-config`, which are read again while
//! the daemon runs (AC-23, AC-33), and the metrics of that (AC-75).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actors::tasks;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use tokio::time::{Instant, sleep};

use super::digests::{digest, server};
use crate::files::{Stamp, given};

/// How often the file is looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// How often the file is read even if it seems unchanged.
const READ_PERIOD: Duration = Duration::from_secs(60);

/// A configuration that a file may replace.
pub(super) struct Configured {
    /// Its name in the log.
    pub(super) name: &'static str,
    /// The most bytes of the file.
    pub(super) bytes_max: u64,
    /// The counter of reloads.
    pub(super) reloads: &'static str,
    /// The time of the last one.
    pub(super) last_reload: &'static str,
    /// The digest of the file in use.
    pub(super) in_use: &'static str,
}

/// Why new content is not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotUsed {
    /// It is wrong, and not tried again.
    Faulty(String),
    /// It can't be used now, and is tried again.
    NotYet(String),
}

/// The result of reading the file again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// It has the content that was read before.
    Unchanged,
    /// It has another content, which is in use now.
    Changed,
}

/// A file that is read again.
pub(super) struct FollowedFile {
    of: &'static Configured,
    path: PathBuf,
    /// The content that was read last and is not tried again.
    read: Vec<u8>,
    /// The digest of the content in use.
    used: String,
}

/// Reads a file. A user who can write it decides about users and their rights, so files that other
/// users can write are refused.
pub(super) fn contents(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = given::read(path, bytes_max)?;
    file.check_writers()?;
    Ok(file.bytes.to_vec())
}

impl FollowedFile {
    /// Begins with the content in use.
    pub(super) fn new(of: &'static Configured, path: PathBuf, read: Vec<u8>) -> FollowedFile {
        of.describe();
        let used = digest(&read);
        of.publish(&used, 1.0);
        FollowedFile {
            of,
            path,
            read,
            used,
        }
    }

    /// Reads the file again, and has a changed content used.
    ///
    /// # Errors
    /// The file can't be read, or its content can't be used.
    pub(super) async fn reload(
        &mut self,
        apply: impl AsyncFn(&[u8]) -> Result<(), NotUsed>,
    ) -> Result<Reloaded, String> {
        let reloaded = self.read_again(apply).await;
        match &reloaded {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => self.of.count("success"),
            Err(_) => self.of.count("failure"),
        }
        reloaded
    }

    async fn read_again(
        &mut self,
        apply: impl AsyncFn(&[u8]) -> Result<(), NotUsed>,
    ) -> Result<Reloaded, String> {
        let (path, bytes_max) = (self.path.clone(), self.of.bytes_max);
        let read = tasks::spawn_blocking(move || contents(&path, bytes_max)).await;
        let read = read.map_err(|error| error.to_string())?;
        let unreadable = |error| format!("open {}: {error}", self.path.display());
        let bytes = read.map_err(unreadable)?;
        if bytes == self.read {
            return Ok(Reloaded::Unchanged);
        }
        match apply(&bytes).await {
            Ok(()) => {
                self.of.publish(&self.used, 0.0);
                self.used = digest(&bytes);
                self.of.publish(&self.used, 1.0);
                self.read = bytes;
                Ok(Reloaded::Changed)
            }
            Err(NotUsed::Faulty(why)) => {
                self.read = bytes;
                Err(why)
            }
            Err(NotUsed::NotYet(why)) => Err(why),
        }
    }

    /// Reads the file again when it has changed, and every minute; never returns. A file that is
    /// being written is left alone until it stays the same for a moment.
    pub(super) async fn follow(&mut self, apply: impl AsyncFn(&[u8]) -> Result<(), NotUsed>) {
        let mut seen = Stamp::of(&self.path);
        let (mut last, mut read_at) = (seen, Instant::now());
        loop {
            sleep(LOOK_PERIOD).await;
            let now = Stamp::of(&self.path);
            let is_settled = now == last;
            last = now;
            if is_settled && (now != seen || read_at.elapsed() >= READ_PERIOD) {
                (seen, read_at) = (now, Instant::now());
                let reloaded = self.reload(&apply).await;
                self.log(&reloaded);
            }
        }
    }

    fn log(&self, reloaded: &Result<Reloaded, String>) {
        let (file, name) = (self.path.display(), self.of.name);
        match reloaded {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => {
                tracing::info!(%file, "the {name} configuration has been reloaded");
            }
            Err(error) => tracing::error!(
                %file, error,
                "the {name} configuration was not reloaded; keeping the previous one"
            ),
        }
    }
}

impl Configured {
    fn describe(&self) {
        let name = self.name;
        describe_counter!(
            self.reloads,
            format!("Reloads of the {name} configuration by outcome")
        );
        describe_gauge!(
            self.last_reload,
            Unit::Seconds,
            format!("When the {name} configuration was last reloaded, by outcome, as a Unix time")
        );
        describe_gauge!(
            self.in_use,
            format!("1 for the digest of the {name} configuration in use")
        );
    }

    fn count(&self, status: &'static str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let labels = [
            ("status", status.to_owned()),
            ("apiserver_id_hash", server()),
        ];
        counter!(self.reloads, &labels).increment(1);
        gauge!(self.last_reload, &labels).set(now.unwrap_or_default().as_secs_f64());
    }

    fn publish(&self, digest: &str, is_used: f64) {
        let labels = [("hash", digest.to_owned()), ("apiserver_id_hash", server())];
        gauge!(self.in_use, &labels).set(is_used);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    static OF_TEST: Configured = Configured {
        name: "test",
        bytes_max: 64,
        reloads: "reloads_total",
        last_reload: "last_reload_seconds",
        in_use: "in_use",
    };

    #[tokio::test]
    async fn wrong_content_is_tried_once_and_content_of_later_again_ac_23_ac_33() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        let mut file = FollowedFile::new(&OF_TEST, path.clone(), b"first".to_vec());
        let tried = RefCell::new(Vec::new());
        let apply = async |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            tried.borrow_mut().push(text.clone());
            match text.as_str() {
                "wrong" => Err(NotUsed::Faulty(text)),
                "late" if tried.borrow().len() < 3 => Err(NotUsed::NotYet(text)),
                _ => Ok(()),
            }
        };
        let (unchanged, changed) = (Ok(Reloaded::Unchanged), Ok(Reloaded::Changed));
        for (text, expected) in [
            ("first", unchanged.clone()),
            ("wrong", Err("wrong".to_owned())),
            ("wrong", unchanged.clone()),
            ("late", Err("late".to_owned())),
            ("late", changed.clone()),
            ("late", unchanged),
            ("first", changed),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(file.reload(&apply).await, expected, "{text}");
        }
        assert_eq!(tried.take(), ["wrong", "late", "late", "first"]);
        assert_eq!(file.used, digest(b"first"));
        std::fs::write(&path, "x".repeat(65)).unwrap();
        let error = file.reload(&apply).await.unwrap_err();
        assert!(error.starts_with("open /"), "{error}");
        std::fs::remove_file(&path).unwrap();
        file.reload(&apply).await.unwrap_err();
        assert!(tried.take().is_empty());
    }
}
