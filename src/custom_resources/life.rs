//! The life of one definition, from which follows whose objects are in its store. Pure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::definition::Definition;

/// Whether a definition is being deleted. All generations of its resource share it, so that a
/// request which has begun in an earlier one stores nothing after the objects were deleted.
#[derive(Clone, Default)]
pub(super) struct Closing(Arc<AtomicBool>);

impl Closing {
    /// Returns whether the deletion has begun.
    pub fn is_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn set(&self, is_begun: bool) {
        self.0.store(is_begun, Ordering::SeqCst);
    }
}

/// The life of a definition with one uid.
#[derive(Default)]
pub(super) struct Life {
    uid: String,
    pub closing: Closing,
    /// The revision at which this daemon saw that the definition is being deleted.
    since: Option<u64>,
}

/// Objects that this daemon may have stored under a definition after another daemon had looked at
/// the objects for the last time, and before this one saw the deletion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leftovers {
    /// They are newer than this revision, ...
    pub since: u64,
    /// ... and older than this one, at which a definition of the same name was created.
    pub until: Option<u64>,
}

impl Life {
    /// Takes the newest state of the definition. `created` is the revision of its creation, if that
    /// is what was seen. Returns what the definition before it may have left.
    pub fn take(&mut self, definition: &Definition, created: Option<u64>) -> Option<Leftovers> {
        let mut left = None;
        if self.uid != definition.uid {
            let ended = self.end();
            *self = Life {
                uid: definition.uid.clone(),
                ..Life::default()
            };
            // Without it nobody knows whose the objects are.
            left = ended.zip(created).map(|(ended, created)| Leftovers {
                until: Some(created),
                ..ended
            });
        }
        // A store that was restored from a backup may have it undeleted.
        self.closing.set(definition.is_deleting);
        self.since = match definition.is_deleting {
            true => self.since.or(Some(definition.version)),
            false => None,
        };
        left
    }

    /// Takes note that the definition is gone. Returns what it may have left.
    pub fn end(&mut self) -> Option<Leftovers> {
        self.closing.set(true);
        let since = self.since.take()?;
        Some(Leftovers { since, until: None })
    }
}

impl Leftovers {
    /// Returns whether an object of this version is one of them.
    pub fn includes(&self, version: u64) -> bool {
        version > self.since && self.until.is_none_or(|until| version < until)
    }
}
