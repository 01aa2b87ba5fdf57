//! List and watch as a state machine: an outcome and a state give the next state and step. Pure.
//! `list_watch.rs` performs the steps and reports their outcomes.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::cacher::messages::ResumePoint;
use crate::engine::{At, EngineError, Revision};

/// The state of a Reflector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListWatchState {
    /// The cache can't be continued. Everything must be listed.
    Empty,
    /// Listing page by page at one revision, which is `None` before the first page.
    Listing { at: Option<Revision> },
    /// A feed continues the cache from here.
    Watching { resume_point: ResumePoint },
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListWatchStep {
    /// Wait, then call [`ListWatchMachine::start`].
    Pause(Duration),
    /// Read a page at this revision, from this key on, and start to decode it.
    ReadPage { at: At, start: Option<Vec<u8>> },
    /// All pages were read. Send them to the Cacher as its content at this revision.
    Install { revision: Revision },
    /// Open a feed after this point.
    OpenFeed { after: ResumePoint },
    /// Wait for the feed's next batch, decode it, and send it to the Cacher as a continuation of
    /// this generation.
    Forward { generation: u64 },
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// A page was read. `next` is where the following one starts, if there is one.
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
    /// The store was reset. The Cacher has its new content, in a new generation.
    Reset { generation: u64, revision: Revision },
    /// Everything must be listed again: somebody requested it, or a value that could not be decoded
    /// can be decoded now, which no event announced to the Cacher.
    RelistNeeded,
    /// The step failed.
    Failed(StepFailure),
}

/// Why a step failed, by how to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepFailure {
    /// The events needed to continue are compacted. Everything must be listed.
    Compacted,
    /// The decoding task failed.
    Undecodable(String),
    /// The engine failed.
    Engine(String),
    /// The Cacher ended, or is in another generation.
    CacherLost,
}

impl From<EngineError> for StepFailure {
    fn from(error: EngineError) -> StepFailure {
        match error {
            EngineError::Compacted { .. } => StepFailure::Compacted,
            error => StepFailure::Engine(error.to_string()),
        }
    }
}

impl std::fmt::Display for StepFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepFailure::Compacted => f.write_str("the events needed to go on are compacted"),
            StepFailure::Undecodable(error) | StepFailure::Engine(error) => f.write_str(error),
            StepFailure::CacherLost => f.write_str("the cacher was restarted"),
        }
    }
}

/// List and watch as a state machine.
#[derive(Debug)]
pub(crate) struct ListWatchMachine {
    state: ListWatchState,
    backoff: Backoff,
}

/// The first wait after a failure. It is short, because most failures are a feed that broke or an
/// engine that reopens.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// The longest wait: how often filling a cache is retried.
const BACKOFF_MOST: Duration = Duration::from_secs(5);

impl ListWatchMachine {
    /// A machine that continues where the Cacher is, if it has content.
    pub(crate) fn new(resume_point: Option<ResumePoint>) -> ListWatchMachine {
        ListWatchMachine {
            state: resume_point.map_or(ListWatchState::Empty, |resume_point| {
                ListWatchState::Watching { resume_point }
            }),
            backoff: Backoff::new(BACKOFF_FIRST, BACKOFF_MOST),
        }
    }

    /// The current state.
    pub(crate) fn state(&self) -> &ListWatchState {
        &self.state
    }

    /// The first step, and the one after a pause.
    pub(crate) fn start(&mut self) -> ListWatchStep {
        match self.state {
            ListWatchState::Empty | ListWatchState::Listing { .. } => {
                self.state = ListWatchState::Listing { at: None };
                ListWatchStep::ReadPage {
                    at: At::Latest,
                    start: None,
                }
            }
            ListWatchState::Watching { resume_point } => ListWatchStep::OpenFeed {
                after: resume_point,
            },
        }
    }

    /// The step after one that ended like this.
    pub(crate) fn next(&mut self, outcome: StepOutcome, random: f64) -> ListWatchStep {
        match (outcome, self.state.clone()) {
            (StepOutcome::PageRead { revision, next }, ListWatchState::Listing { at }) => {
                self.page_read(at.unwrap_or(revision), next)
            }
            // The backoff is not reset here, only by a feed that delivers: a store that refuses
            // every feed must be listed with longer and longer pauses.
            (StepOutcome::Installed(resume_point), _) => {
                self.state = ListWatchState::Watching { resume_point };
                self.start()
            }
            (StepOutcome::FeedOpened, ListWatchState::Watching { resume_point }) => {
                ListWatchStep::Forward {
                    generation: resume_point.generation,
                }
            }
            (StepOutcome::Forwarded { up_to }, ListWatchState::Watching { resume_point }) => {
                self.backoff.succeeded();
                self.forwarded(resume_point, up_to)
            }
            (
                StepOutcome::Reset {
                    generation,
                    revision,
                },
                ListWatchState::Watching { resume_point },
            ) => {
                let resume_point = ResumePoint {
                    generation,
                    ..resume_point
                };
                self.forwarded(resume_point, revision)
            }
            (StepOutcome::RelistNeeded, _) => {
                self.state = ListWatchState::Empty;
                self.start()
            }
            (StepOutcome::Failed(failure), _) => self.failed(&failure, random),
            // This state never asks for a step with such an outcome: start again.
            (
                _,
                ListWatchState::Empty
                | ListWatchState::Listing { .. }
                | ListWatchState::Watching { .. },
            ) => self.failed(&StepFailure::CacherLost, random),
        }
    }

    fn page_read(&mut self, at: Revision, next: Option<Vec<u8>>) -> ListWatchStep {
        self.state = ListWatchState::Listing { at: Some(at) };
        match next {
            Some(start) => ListWatchStep::ReadPage {
                at: At::Revision(at),
                start: Some(start),
            },
            None => ListWatchStep::Install { revision: at },
        }
    }

    fn forwarded(&mut self, resume_point: ResumePoint, up_to: Revision) -> ListWatchStep {
        let revision = resume_point.revision.max(up_to);
        self.state = ListWatchState::Watching {
            resume_point: ResumePoint {
                revision,
                ..resume_point
            },
        };
        ListWatchStep::Forward {
            generation: resume_point.generation,
        }
    }

    /// A broken feed continues where it ended. After any other failure everything is listed again.
    /// There is always a pause, because a step may fail again at once.
    fn failed(&mut self, failure: &StepFailure, random: f64) -> ListWatchStep {
        let can_continue = matches!(
            (failure, &self.state),
            (StepFailure::Engine(_), ListWatchState::Watching { .. })
        );
        if !can_continue {
            self.state = ListWatchState::Empty;
        }
        ListWatchStep::Pause(self.backoff.failed(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resume_point(revision: u64) -> ResumePoint {
        ResumePoint {
            generation: 1,
            revision: Revision(revision),
            epoch: 0,
        }
    }

    fn engine_failure() -> StepOutcome {
        StepOutcome::Failed(StepFailure::Engine("no answer".to_owned()))
    }

    fn watching(revision: u64) -> ListWatchMachine {
        let mut machine = ListWatchMachine::new(None);
        machine.start();
        machine.next(
            StepOutcome::PageRead {
                revision: Revision(revision),
                next: None,
            },
            1.0,
        );
        machine.next(StepOutcome::Installed(resume_point(revision)), 1.0);
        machine
    }

    #[test]
    fn all_pages_are_read_at_the_revision_of_the_first_and_the_feed_opens_after_it() {
        let mut machine = ListWatchMachine::new(None);
        assert_eq!(
            machine.start(),
            ListWatchStep::ReadPage {
                at: At::Latest,
                start: None
            }
        );
        let second = StepOutcome::PageRead {
            revision: Revision(7),
            next: Some(b"/b".to_vec()),
        };
        assert_eq!(
            machine.next(second, 1.0),
            ListWatchStep::ReadPage {
                at: At::Revision(Revision(7)),
                start: Some(b"/b".to_vec())
            }
        );
        // Others have written meanwhile; the list stays at the first page's revision.
        let last = StepOutcome::PageRead {
            revision: Revision(9),
            next: None,
        };
        assert_eq!(
            machine.next(last, 1.0),
            ListWatchStep::Install {
                revision: Revision(7)
            }
        );
        assert_eq!(
            machine.next(StepOutcome::Installed(resume_point(7)), 1.0),
            ListWatchStep::OpenFeed {
                after: resume_point(7)
            }
        );
        assert_eq!(
            machine.next(StepOutcome::FeedOpened, 1.0),
            ListWatchStep::Forward { generation: 1 }
        );
    }

    #[test]
    fn a_broken_feed_is_opened_again_after_the_last_revision_delivered_wc_44() {
        let mut machine = watching(7);
        machine.next(StepOutcome::FeedOpened, 1.0);
        machine.next(
            StepOutcome::Forwarded {
                up_to: Revision(12),
            },
            1.0,
        );
        assert_eq!(
            machine.next(engine_failure(), 1.0),
            ListWatchStep::Pause(Duration::from_millis(50))
        );
        assert_eq!(
            machine.start(),
            ListWatchStep::OpenFeed {
                after: resume_point(12)
            }
        );
    }

    #[test]
    fn a_compacted_feed_or_an_unreadable_event_or_a_new_cacher_means_reading_everything() {
        for failure in [
            StepFailure::Compacted,
            StepFailure::Undecodable("bad".to_owned()),
            StepFailure::CacherLost,
        ] {
            let mut machine = watching(7);
            let step = machine.next(StepOutcome::Failed(failure.clone()), 1.0);
            assert!(matches!(step, ListWatchStep::Pause(_)), "{failure:?}");
            assert_eq!(machine.state(), &ListWatchState::Empty, "{failure:?}");
            assert!(matches!(machine.start(), ListWatchStep::ReadPage { .. }));
        }
    }

    #[test]
    fn a_list_that_fails_midway_begins_anew_and_never_mixes_revisions_li_54() {
        let mut machine = ListWatchMachine::new(None);
        machine.start();
        machine.next(
            StepOutcome::PageRead {
                revision: Revision(7),
                next: Some(b"/b".to_vec()),
            },
            1.0,
        );
        machine.next(engine_failure(), 1.0);
        assert_eq!(
            machine.start(),
            ListWatchStep::ReadPage {
                at: At::Latest,
                start: None
            }
        );
    }

    #[test]
    fn pauses_grow_while_nothing_succeeds() {
        let mut machine = ListWatchMachine::new(None);
        machine.start();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pauses.push(machine.next(engine_failure(), 1.0));
            machine.start();
        }
        assert_eq!(pauses[0], ListWatchStep::Pause(Duration::from_millis(50)));
        assert_eq!(pauses[1], ListWatchStep::Pause(Duration::from_millis(100)));
        assert_eq!(pauses[8], ListWatchStep::Pause(Duration::from_secs(5)));
    }

    #[test]
    fn a_store_that_refuses_every_feed_is_read_with_longer_and_longer_pauses() {
        let mut machine = watching(7);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(machine.next(StepOutcome::Failed(StepFailure::Compacted), 1.0));
            machine.start();
            let page = StepOutcome::PageRead {
                revision: Revision(7),
                next: None,
            };
            machine.next(page, 1.0);
            machine.next(StepOutcome::Installed(resume_point(7)), 1.0);
        }
        assert_eq!(pauses[0], ListWatchStep::Pause(Duration::from_millis(50)));
        assert_eq!(pauses[7], ListWatchStep::Pause(Duration::from_secs(5)));
    }

    #[test]
    fn a_new_reflector_can_continue_where_the_cacher_is() {
        let mut machine = ListWatchMachine::new(Some(resume_point(40)));
        assert_eq!(
            machine.start(),
            ListWatchStep::OpenFeed {
                after: resume_point(40)
            }
        );
    }
}
