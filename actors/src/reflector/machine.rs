//! List and watch as an explicit state machine: what happened → where we are → what to do next.
//! Pure; `drive.rs` does what it says and reports what came of it.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::cacher::messages::ResumePoint;
use crate::engine::{At, EngineError, Revision};

/// Where a Reflector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The cache can't be continued: everything must be read.
    Empty,
    /// Reading everything, page by page, at one revision (`None` until the first page tells it).
    Listing { at: Option<Revision> },
    /// The cache is continued from here by a feed.
    Watching { place: ResumePoint },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait, then call [`Machine::start`].
    Pause(Duration),
    /// Read a page of the range at this revision, from these bytes on, and start to decode it.
    ReadPage { at: At, start: Option<Vec<u8>> },
    /// All pages are there: hand them to the Cacher as its content at this revision.
    Install { revision: Revision },
    /// Open a feed after this place.
    OpenFeed { after: ResumePoint },
    /// Wait for the feed's next batch, decode it and hand it to the Cacher as a continuation of
    /// this generation.
    Forward { generation: u64 },
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A page; `next` is where the following one starts, if there is one.
    PageRead {
        revision: Revision,
        next: Option<Vec<u8>>,
    },
    /// The Cacher has the content.
    Installed(ResumePoint),
    /// The feed is open.
    FeedOpened,
    /// The Cacher has everything up to here.
    Forwarded { up_to: Revision },
    /// A value that could not be read can be read now: everything is to be read anew, as nothing
    /// tells what it was meanwhile.
    Readable,
    /// The step failed.
    Failed(Failure),
}

/// Why a step failed, by what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The events needed to go on are gone: read everything.
    Compacted,
    /// What decodes failed itself.
    Undecodable(String),
    /// The engine can't answer now.
    Engine(String),
    /// The Cacher died or began anew.
    CacherLost,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        match error {
            EngineError::Compacted { .. } => Failure::Compacted,
            error => Failure::Engine(error.to_string()),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Compacted => f.write_str("the events needed to go on are compacted"),
            Failure::Undecodable(error) | Failure::Engine(error) => f.write_str(error),
            Failure::CacherLost => f.write_str("the cacher began anew"),
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    backoff: Backoff,
}

/// The first wait after a failure. Short: most are an engine that reopens or a feed that broke.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// The longest wait: a cache that can't be filled is looked at again about this often.
const BACKOFF_MOST: Duration = Duration::from_secs(5);

impl Machine {
    /// A machine that goes on where the Cacher is, if it is anywhere.
    pub(crate) fn new(place: Option<ResumePoint>) -> Machine {
        Machine {
            state: place.map_or(State::Empty, |place| State::Watching { place }),
            backoff: Backoff::new(BACKOFF_FIRST, BACKOFF_MOST),
        }
    }

    /// Where it is.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The first step, and the one after a pause.
    pub(crate) fn start(&mut self) -> Step {
        match self.state {
            State::Empty | State::Listing { .. } => {
                self.state = State::Listing { at: None };
                Step::ReadPage {
                    at: At::Latest,
                    start: None,
                }
            }
            State::Watching { place } => Step::OpenFeed { after: place },
        }
    }

    /// The step after one that ended like this.
    pub(crate) fn next(&mut self, outcome: Outcome, random: f64) -> Step {
        match (outcome, self.state.clone()) {
            (Outcome::PageRead { revision, next }, State::Listing { at }) => {
                self.page_read(at.unwrap_or(revision), next)
            }
            // Only what a feed brings shows that the content can be continued: a store that says
            // otherwise is not read again and again without longer and longer pauses.
            (Outcome::Installed(place), _) => {
                self.state = State::Watching { place };
                self.start()
            }
            (Outcome::FeedOpened, State::Watching { place }) => Step::Forward {
                generation: place.generation,
            },
            (Outcome::Forwarded { up_to }, State::Watching { place }) => {
                self.backoff.succeeded();
                self.forwarded(place, up_to)
            }
            (Outcome::Readable, _) => {
                self.state = State::Empty;
                self.start()
            }
            (Outcome::Failed(failure), _) => self.failed(&failure, random),
            // An outcome of a step that this state never asks for: begin anew.
            (_, State::Empty | State::Listing { .. } | State::Watching { .. }) => {
                self.failed(&Failure::CacherLost, random)
            }
        }
    }

    fn page_read(&mut self, at: Revision, next: Option<Vec<u8>>) -> Step {
        self.state = State::Listing { at: Some(at) };
        match next {
            Some(start) => Step::ReadPage {
                at: At::Revision(at),
                start: Some(start),
            },
            None => Step::Install { revision: at },
        }
    }

    fn forwarded(&mut self, place: ResumePoint, up_to: Revision) -> Step {
        let revision = place.revision.max(up_to);
        self.state = State::Watching {
            place: ResumePoint { revision, ..place },
        };
        Step::Forward {
            generation: place.generation,
        }
    }

    /// A broken feed goes on from where it was; everything else is read anew. Nothing is retried
    /// without a pause: whatever fails may fail again at once.
    fn failed(&mut self, failure: &Failure, random: f64) -> Step {
        let goes_on = matches!(
            (failure, &self.state),
            (Failure::Engine(_), State::Watching { .. })
        );
        if !goes_on {
            self.state = State::Empty;
        }
        Step::Pause(self.backoff.failed(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(revision: u64) -> ResumePoint {
        ResumePoint {
            generation: 1,
            revision: Revision(revision),
            epoch: 0,
        }
    }

    fn engine_failure() -> Outcome {
        Outcome::Failed(Failure::Engine("no answer".to_owned()))
    }

    fn watching(revision: u64) -> Machine {
        let mut machine = Machine::new(None);
        machine.start();
        machine.next(
            Outcome::PageRead {
                revision: Revision(revision),
                next: None,
            },
            1.0,
        );
        machine.next(Outcome::Installed(place(revision)), 1.0);
        machine
    }

    #[test]
    fn all_pages_are_read_at_the_revision_of_the_first_and_the_feed_opens_after_it() {
        let mut machine = Machine::new(None);
        assert_eq!(
            machine.start(),
            Step::ReadPage {
                at: At::Latest,
                start: None
            }
        );
        let second = Outcome::PageRead {
            revision: Revision(7),
            next: Some(b"/b".to_vec()),
        };
        assert_eq!(
            machine.next(second, 1.0),
            Step::ReadPage {
                at: At::Revision(Revision(7)),
                start: Some(b"/b".to_vec())
            }
        );
        // Others have written meanwhile; the list stays at the first page's revision.
        let last = Outcome::PageRead {
            revision: Revision(9),
            next: None,
        };
        assert_eq!(
            machine.next(last, 1.0),
            Step::Install {
                revision: Revision(7)
            }
        );
        assert_eq!(
            machine.next(Outcome::Installed(place(7)), 1.0),
            Step::OpenFeed { after: place(7) }
        );
        assert_eq!(
            machine.next(Outcome::FeedOpened, 1.0),
            Step::Forward { generation: 1 }
        );
    }

    #[test]
    fn a_broken_feed_is_opened_again_after_the_last_revision_delivered_wc_44() {
        let mut machine = watching(7);
        machine.next(Outcome::FeedOpened, 1.0);
        machine.next(
            Outcome::Forwarded {
                up_to: Revision(12),
            },
            1.0,
        );
        assert_eq!(
            machine.next(engine_failure(), 1.0),
            Step::Pause(Duration::from_millis(50))
        );
        assert_eq!(machine.start(), Step::OpenFeed { after: place(12) });
    }

    #[test]
    fn a_compacted_feed_or_an_unreadable_event_or_a_new_cacher_means_reading_everything() {
        for failure in [
            Failure::Compacted,
            Failure::Undecodable("bad".to_owned()),
            Failure::CacherLost,
        ] {
            let mut machine = watching(7);
            let step = machine.next(Outcome::Failed(failure.clone()), 1.0);
            assert!(matches!(step, Step::Pause(_)), "{failure:?}");
            assert_eq!(machine.state(), &State::Empty, "{failure:?}");
            assert!(matches!(machine.start(), Step::ReadPage { .. }));
        }
    }

    #[test]
    fn a_list_that_fails_midway_begins_anew_and_never_mixes_revisions_li_54() {
        let mut machine = Machine::new(None);
        machine.start();
        machine.next(
            Outcome::PageRead {
                revision: Revision(7),
                next: Some(b"/b".to_vec()),
            },
            1.0,
        );
        machine.next(engine_failure(), 1.0);
        assert_eq!(
            machine.start(),
            Step::ReadPage {
                at: At::Latest,
                start: None
            }
        );
    }

    #[test]
    fn pauses_grow_while_nothing_succeeds() {
        let mut machine = Machine::new(None);
        machine.start();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pauses.push(machine.next(engine_failure(), 1.0));
            machine.start();
        }
        assert_eq!(pauses[0], Step::Pause(Duration::from_millis(50)));
        assert_eq!(pauses[1], Step::Pause(Duration::from_millis(100)));
        assert_eq!(pauses[8], Step::Pause(Duration::from_secs(5)));
    }

    #[test]
    fn a_store_that_refuses_every_feed_is_read_with_longer_and_longer_pauses() {
        let mut machine = watching(7);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(machine.next(Outcome::Failed(Failure::Compacted), 1.0));
            machine.start();
            let page = Outcome::PageRead {
                revision: Revision(7),
                next: None,
            };
            machine.next(page, 1.0);
            machine.next(Outcome::Installed(place(7)), 1.0);
        }
        assert_eq!(pauses[0], Step::Pause(Duration::from_millis(50)));
        assert_eq!(pauses[7], Step::Pause(Duration::from_secs(5)));
    }

    #[test]
    fn a_new_reflector_goes_on_where_the_cacher_is() {
        let mut machine = Machine::new(Some(place(40)));
        assert_eq!(machine.start(), Step::OpenFeed { after: place(40) });
    }
}
