//! Writers that know what they wrote, and the rules that what watchers see must obey: for tests
//! that cut the daemon off under both.

pub mod churn;
pub mod random;
pub mod record;
pub mod watcher;
pub mod writer;

use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

pub use random::Random;
pub use record::{Possible, Seen, fold};
pub use watcher::Watcher;
pub use writer::{Form, Ledger, Writer};

/// A number out of the environment.
pub fn from_environment(name: &str) -> Option<u64> {
    Some(
        std::env::var(name)
            .ok()?
            .parse()
            .unwrap_or_else(|error| panic!("{name}: {error}")),
    )
}

/// What chance follows from, `TAFFRAIL_SEED` or the time.
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

/// How long a watcher may take to reach the end once it is known: some watches of a few seconds
/// each, as one may begin before the end was written and show nothing.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Sees to it that a watcher reaches the end once that is known.
#[derive(Default)]
pub struct Patience {
    known_since: Option<Instant>,
}

impl Patience {
    /// It stands at this version, and the end is known to be there.
    pub fn check(&mut self, who: &str, at: u64, until: u64) {
        let since = self.known_since.get_or_insert_with(Instant::now);
        assert!(
            since.elapsed() < CATCH_UP,
            "the watch of {who} stands at {at} and never reaches {until}"
        );
    }
}
