//! Follows the configuration file (EN-17): checks it every minute, compares its SHA-256, and uses a
//! new content only if all of it is valid.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actors::tasks;
use metrics::{counter, gauge};

use super::{Contents, Encryption, EncryptionError, Phase, contents_of, file, rules_of};

/// How often the file is checked (EN-17).
pub const POLL_PERIOD: Duration = Duration::from_secs(60);

/// How long a changed file must stay the same before it is used.
const STABLE_FOR: Duration = Duration::from_millis(200);

/// How often a changing file is checked.
const CHECKS_MAX: usize = 50;

pub(super) const RELOADS: &str = "apiserver_encryption_config_controller_automatic_reloads_total";
pub(super) const LAST_RELOAD: &str =
    "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds";
pub(super) const CONFIG_INFO: &str = "apiserver_encryption_config_controller_last_config_info";

/// The result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// No file is configured.
    NotConfigured,
    /// The file has not changed.
    Unchanged,
    /// The new rules are in force.
    Reloaded,
}

impl fmt::Display for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reload::NotConfigured => "no encryption configuration to reload",
            Reload::Unchanged => "the encryption configuration has not changed",
            Reload::Reloaded => "the encryption configuration has been reloaded",
        })
    }
}

impl Encryption {
    /// Reads the file and applies its rules if they changed. Blocks on the file, so call it from a
    /// thread that may.
    ///
    /// # Errors
    /// [`EncryptionError`]. The previous configuration stays in force.
    pub fn reload(&self) -> Result<Reload, EncryptionError> {
        let Some(path) = &self.config.path else {
            return Ok(Reload::NotConfigured);
        };
        // Held to the end, so that the reload that read the file last wins.
        let _checking = self.config.checking.lock();
        let known = self.config.active.lock().digest.clone();
        let loaded = contents_of(path).and_then(|contents| {
            let read_again = || {
                std::thread::sleep(STABLE_FOR);
                contents_of(path)
            };
            let Some(contents) = changed(path, &known, contents, read_again)? else {
                return Ok(None);
            };
            let rules = rules_of(path, &contents)?;
            Ok(Some((rules, contents.digest)))
        });
        let (rules, digest) = match loaded {
            Ok(None) => return Ok(Reload::Unchanged),
            Ok(Some(loaded)) => loaded,
            Err(error) => {
                count("failure");
                return Err(error);
            }
        };
        let mut active = self.config.active.lock();
        for ((group, plural), transformer) in &active.handed_out {
            let transformers = rules.transformers_for(group, plural);
            transformer.transformers.store(Arc::new(transformers));
        }
        // The new generation begins last, so that a write that holds it cannot use an old key any
        // more.
        self.config.generations.begin();
        publish_digest(&active.digest, 0.0);
        publish_digest(&digest, 1.0);
        active.rules = rules;
        active.digest = digest;
        drop(active);
        count("success");
        self.warn_of_unknown_resources();
        Ok(Reload::Reloaded)
    }
}

/// Returns the new content of a file, once two checks in a row agree. A file that is being written
/// may look complete and lack keys.
fn changed(
    path: &Path,
    known: &str,
    mut contents: Contents,
    mut read_again: impl FnMut() -> Result<Contents, EncryptionError>,
) -> Result<Option<Contents>, EncryptionError> {
    for _ in 0..CHECKS_MAX {
        if contents.digest == known {
            return Ok(None);
        }
        let next = read_again()?;
        if next.digest == contents.digest {
            return Ok(Some(next));
        }
        contents = next;
    }
    let problem = "it keeps changing; reload it when it no longer changes".to_owned();
    Err(EncryptionError::new(path, Phase::Parsing, problem))
}

/// Checks the file periodically; never returns. After a failure the next check tries again.
pub async fn follow(encryption: Encryption, period: Duration) {
    let mut checks = tokio::time::interval(period);
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is due at once, but the file has just been read.
    checks.tick().await;
    loop {
        checks.tick().await;
        let checking = encryption.clone();
        match tasks::spawn_blocking(move || checking.reload()).await {
            Ok(Ok(Reload::Reloaded)) => tracing::info!("{}", Reload::Reloaded),
            Ok(Ok(Reload::Unchanged | Reload::NotConfigured)) => {}
            Ok(Err(error)) => tracing::error!(
                %error,
                "the encryption configuration was not reloaded; keeping the previous one"
            ),
            // The runtime is ending.
            Err(_) => return,
        }
    }
}

/// Counts a reload that succeeded or failed (ME-51, ME-52).
fn count(status: &'static str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let labels = [("status", status.to_owned()), server()];
    counter!(RELOADS, &labels).increment(1);
    gauge!(LAST_RELOAD, &labels).set(now.unwrap_or_default().as_secs_f64());
}

/// Publishes which configuration is in use (ME-53).
pub(super) fn publish_digest(digest: &str, used: f64) {
    let labels = [("hash", digest.to_owned()), server()];
    gauge!(CONFIG_INFO, &labels).set(used);
}

/// The label by which Kubernetes distinguishes servers: a digest of the host name.
fn server() -> (&'static str, String) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    ("apiserver_id_hash", file::digest(host.trim().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> Contents {
        Contents {
            text: text.to_owned().into(),
            digest: file::digest(text.as_bytes()),
            open_mode: None,
        }
    }

    /// Checks these texts one after the other. Returns the accepted text and the number of texts
    /// that were read.
    fn taken(texts: &[&str]) -> (Option<String>, usize) {
        let mut checks = texts.iter().map(|text| contents(text));
        let mut count = 1;
        let known = file::digest(b"old");
        let first = checks.next().unwrap();
        let taken = changed(Path::new("keys"), &known, first, || {
            count += 1;
            Ok(checks.next().unwrap())
        });
        let text = taken.unwrap().map(|contents| contents.text.to_string());
        (text, count)
    }

    #[test]
    fn a_file_that_is_being_written_is_looked_at_until_it_stays_the_same_en_17() {
        let whole = |count| (Some("new\nwhole".to_owned()), count);
        assert_eq!(taken(&["old"]), (None, 1));
        assert_eq!(taken(&["new\nwhole", "new\nwhole"]), whole(2));
        let written = ["new", "new\nwh", "new\nwhole", "new\nwhole"];
        assert_eq!(taken(&written), whole(4));
        assert_eq!(taken(&["new", "old"]), (None, 2), "taken back");
        let mut number = 0;
        let endless = changed(Path::new("keys"), "", contents("a"), || {
            number += 1;
            Ok(contents(&number.to_string()))
        });
        let told = endless.err().map(|error| error.to_string());
        assert!(
            told.unwrap()
                .contains("keys: error while parsing the file: it keeps")
        );
    }
}
