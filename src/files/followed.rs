//! Something that is made of files, and made again when they change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::tasks;
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::Stamp;

/// How often the files are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(60);

/// The names of some files.
pub trait Source: Send + Sync + 'static {
    /// The thing that is made of the files.
    type Made: Send + Sync + 'static;

    /// Names the files in the log, such as `the files of a webhook's kubeconfig`.
    fn what(&self) -> String;

    /// The files, as they are now.
    fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)>;

    /// Reads the files.
    ///
    /// # Errors
    /// The fault, without secrets.
    fn make(&self) -> Result<Self::Made, String>;
}

/// The files as they were when they were last read.
struct Looked {
    at: Instant,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
}

/// A source with what was made of it.
pub struct Followed<S: Source> {
    source: S,
    made: ArcSwap<S::Made>,
    looked: Mutex<Looked>,
}

impl<S: Source> Followed<S> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// The fault, without secrets.
    pub fn new(source: S) -> Result<Followed<S>, String> {
        let stamps = source.stamps();
        let made = source.make()?;
        Ok(Followed {
            source,
            made: ArcSwap::from_pointee(made),
            looked: Mutex::new(Looked {
                at: Instant::now(),
                stamps,
            }),
        })
    }

    /// Returns what was made of the files as they are now, or were a minute ago.
    pub async fn newest(self: &Arc<Self>) -> Arc<S::Made> {
        if self.is_due() {
            let followed = Arc::clone(self);
            // Without an answer everything stays as it is.
            let _ = tasks::spawn_blocking(move || followed.look()).await;
        }
        self.made.load_full()
    }

    fn is_due(&self) -> bool {
        let mut looked = self.looked.lock();
        let is_due = !looked.stamps.is_empty() && looked.at.elapsed() >= LOOK_PERIOD;
        if is_due {
            looked.at = Instant::now();
        }
        is_due
    }

    /// Reads the files again if one has changed.
    fn look(&self) {
        let stamps = self.source.stamps();
        if self.looked.lock().stamps == stamps {
            return;
        }
        match self.source.make() {
            Ok(made) => {
                self.made.store(Arc::new(made));
                self.looked.lock().stamps = stamps;
            }
            Err(problem) => tracing::warn!(
                problem,
                "{} have changed and cannot be used; keeping the previous ones",
                self.source.what()
            ),
        }
    }
}

#[cfg(test)]
impl<S: Source> Followed<S> {
    /// The number of files.
    pub fn files(&self) -> usize {
        self.looked.lock().stamps.len()
    }

    /// Looks at the files now. Returns what is made of them, and whether they would be looked at
    /// again at once.
    pub fn looked(&self) -> (Arc<S::Made>, bool) {
        self.look();
        (self.made.load_full(), self.is_due())
    }
}
