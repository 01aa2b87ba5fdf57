//! The parts of a daemon that serves tests.

use std::sync::Arc;

use actors::supervisor::ActorSystem;

use super::Daemon;
use crate::clock::OwnClock;
use crate::server::test_controls::{FaultPlan, TestClock, TestControls};

/// Returns the parts that a test may change, if the daemon has a clock of its own.
pub(super) fn controls(
    clock: Option<OwnClock>,
    actor_system: &ActorSystem,
) -> Option<Arc<TestControls>> {
    clock.map(|clock| {
        let clock = TestClock::new(clock, actor_system.clone());
        Arc::new(TestControls::new(clock))
    })
}

impl Daemon {
    /// Replaces the faults that requests meet, if the daemon serves tests.
    pub fn set_faults(&self, plan: FaultPlan) {
        if let Some(test) = &self.test {
            test.faults.set(plan);
        }
    }

    /// The clock of the daemon, if the daemon serves tests.
    pub fn test_clock(&self) -> Option<TestClock> {
        self.test.as_ref().map(|test| test.clock.clone())
    }
}
