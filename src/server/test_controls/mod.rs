//! The parts of a server for tests that a test may change while it runs.
//!
//! A daemon has them only if its [`Host`](crate::daemon::Host) says that it serves tests. The paths
//! below `/taffrail/v1/test` change them; [`super::handlers`] reads the requests.

mod clock;
pub(in crate::server) mod faults;
pub(in crate::server) mod members;
mod snapshots;

use std::sync::Arc;

pub use clock::{AdvanceError, TestClock};
pub use faults::{FaultPlan, Faults};
pub use snapshots::{KEPT_MAX, Reset, Snapshots};

/// The parts that a test may change.
pub struct TestControls {
    /// The faults that requests meet.
    pub faults: Arc<Faults>,
    /// The clock of the server.
    pub clock: TestClock,
    /// Snapshots of the store, if it is in memory.
    pub snapshots: Option<Arc<Snapshots>>,
}

impl TestControls {
    /// Has no faults, and a clock that shows the machine's time.
    pub fn new(clock: TestClock, snapshots: Option<Arc<Snapshots>>) -> TestControls {
        TestControls {
            faults: Arc::default(),
            clock,
            snapshots,
        }
    }
}
