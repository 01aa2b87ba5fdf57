//! Writes whose outcome may still be unknown.

use std::time::Duration;

use actors::engine::{EngineError, Outcome};
use actors::tasks;
use tokio::runtime::Handle;

use crate::storage::Hold;

/// How long a write may still take effect after its outcome stayed unknown or its caller went
/// away. Servers give up an abandoned request much sooner.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// A write that keeps a [`Hold`] until its outcome is certain.
pub(super) struct Outstanding(Option<Hold>);

impl Outstanding {
    /// A write that is about to be sent.
    pub(super) fn new(hold: Option<Hold>) -> Outstanding {
        Outstanding(hold)
    }

    /// Drops the hold if the answer is certain.
    pub(super) fn answered(mut self, answer: &Result<Outcome, EngineError>) {
        if !matches!(answer, Err(EngineError::OutcomeUnknown(_))) {
            self.0 = None;
        }
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let Some(hold) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            tasks::spawn_on(&runtime, async move {
                tokio::time::sleep(UNKNOWN_FOR).await;
                drop(hold);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use actors::engine::Revision;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_certain_is_held_until_it_can_not_take_place_any_more() {
        let refused = Ok(Outcome::Refused {
            current: None,
            revision: Revision(1),
        });
        let unknown = Err(EngineError::OutcomeUnknown("no answer".to_owned()));
        for (answer, is_held) in [(Some(refused), false), (Some(unknown), true), (None, true)] {
            let held: Arc<()> = Arc::default();
            let write = Outstanding::new(Some(held.clone()));
            match &answer {
                Some(answer) => write.answered(answer),
                // The waiting caller has gone away.
                None => drop(write),
            }
            tokio::time::sleep(UNKNOWN_FOR / 2).await;
            assert_eq!(Arc::strong_count(&held) > 1, is_held, "{answer:?}");
            tokio::time::sleep(UNKNOWN_FOR).await;
            assert_eq!(Arc::strong_count(&held), 1, "{answer:?}");
        }
    }
}
