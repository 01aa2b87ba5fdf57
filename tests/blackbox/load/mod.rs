//! Writers and watchers for tests that interrupt the daemon.
//!
//! The writers record their writes, the watchers resume, and rules check their records. They send
//! requests, and get responses and events. They know neither the daemon's code nor the kind of
//! interruption.

pub mod churn;
pub mod mixed;
pub mod random;
pub mod record;
pub mod watcher;
pub mod writer;

use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

pub use random::Random;
pub use record::{PossibleStates, WatchEvent, fold};
pub use watcher::Watcher;
pub use writer::{Collection, Labelled, WriteLog, Writer};

/// A number from an environment variable.
pub fn from_environment(name: &str) -> Option<u64> {
    Some(
        std::env::var(name)
            .ok()?
            .parse()
            .unwrap_or_else(|error| panic!("{name}: {error}")),
    )
}

/// The random seed: `TAFFRAIL_SEED` or the time.
pub fn seed() -> u64 {
    from_environment("TAFFRAIL_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_nanos() as u64
    })
}

/// The event in a line of a watch, with its kind.
pub fn event(line: &[u8]) -> (String, Value) {
    let mut event: Value = serde_json::from_slice(line).unwrap();
    let object = event["object"].take();
    (event["type"].as_str().unwrap().to_owned(), object)
}

/// How long a watcher may take to reach the end once it is known. It may need several watches of a
/// few seconds each, because a watch that began before the end may show nothing.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Checks that a watcher reaches the end once the end is known.
#[derive(Default)]
pub struct CatchUpDeadline {
    known_since: Option<Instant>,
}

impl CatchUpDeadline {
    /// Fails if the watcher is still at version `at` too long after the end became known.
    pub fn check(&mut self, who: &str, at: u64, until: u64) {
        let since = self.known_since.get_or_insert_with(Instant::now);
        assert!(
            since.elapsed() < CATCH_UP,
            "the watch of {who} stays at {at} and never reaches {until}"
        );
    }
}
