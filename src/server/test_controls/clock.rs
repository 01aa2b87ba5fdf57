//! The clock of a server for tests, which a test moves forward.

use std::time::Duration;

use actors::supervisor::ActorSystem;
use jiff::Timestamp;

use crate::clock::{self, OwnClock};

/// The most time in which everything that has expired is removed.
const REMOVAL: Duration = Duration::from_secs(30);

/// Why the clock was not moved, or what did not follow it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvanceError {
    /// The clock can't show such a time. It has not moved.
    #[error("{0}")]
    Refused(String),
    /// The clock has moved, but the store is slow or fails.
    #[error("the clock has moved, but what has expired could not be removed in time")]
    Removal,
}

/// The clock of a server, with the parts that remove what has expired.
#[derive(Clone)]
pub struct TestClock {
    clock: OwnClock,
    actor_system: ActorSystem,
}

impl TestClock {
    /// The clock of the server of this thread.
    pub fn new(clock: OwnClock, actor_system: ActorSystem) -> TestClock {
        TestClock {
            clock,
            actor_system,
        }
    }

    /// Returns the time that the server has.
    pub fn now(&self) -> Timestamp {
        clock::now()
    }

    /// Returns how far the clock is ahead of that of the machine.
    pub fn advanced(&self) -> Duration {
        self.clock.ahead()
    }

    /// Moves the clock forward. Objects whose time to live has ended are deleted when this returns,
    /// and history that is too old is compacted. Controllers follow at once, and are not waited
    /// for.
    ///
    /// # Errors
    /// [`AdvanceError`]
    pub async fn advance(&self, by: Duration) -> Result<(), AdvanceError> {
        clock::advance(self.clock, by).map_err(AdvanceError::Refused)?;
        let removal = async {
            self.actor_system.expired().await;
            for (_, compactor) in self.actor_system.compactors() {
                compactor.compact_now(false).await.map_err(drop)?;
            }
            Ok(())
        };
        let removed = tokio::time::timeout(REMOVAL, removal).await;
        removed
            .unwrap_or(Err(()))
            .map_err(|()| AdvanceError::Removal)
    }
}
