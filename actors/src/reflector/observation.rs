//! The current activity of a Reflector, for state dumps.

use std::sync::Arc;

use parking_lot::Mutex;

use super::machine::ListWatchState;

/// The current activity of a Reflector, for state dumps.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) state: ListWatchState,
    pub(crate) last_error: Option<String>,
}

/// Where a Reflector records what it is doing.
pub(crate) type Observed = Arc<Mutex<Observation>>;

impl Default for Observation {
    fn default() -> Observation {
        Observation {
            state: ListWatchState::Empty,
            last_error: None,
        }
    }
}

impl Observation {
    /// One phrase for state dumps.
    pub(crate) fn describe(&self) -> String {
        let state = match &self.state {
            ListWatchState::Empty => "waiting to read everything".to_owned(),
            ListWatchState::Listing { at: None } => "reading everything".to_owned(),
            ListWatchState::Listing { at: Some(at) } => {
                format!("reading everything at revision {at}")
            }
            ListWatchState::Watching { resume_point } => {
                format!("following from revision {}", resume_point.revision)
            }
        };
        match &self.last_error {
            None => state,
            Some(error) => format!("{state}, after an error: {error}"),
        }
    }
}
