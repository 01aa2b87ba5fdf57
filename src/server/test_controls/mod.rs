//! The parts of a server for tests that a test may change while it runs.
//!
//! A daemon has them only if its [`Host`](crate::daemon::Host) says that it serves tests. The paths
//! below `/taffrail/v1/test` change them; [`super::handlers`] reads the requests.

mod snapshots;

use std::sync::Arc;

pub use snapshots::{KEPT_MAX, Reset, Snapshots};

/// The parts that a test may change.
#[derive(Default)]
pub struct TestControls {
    /// Snapshots of the store, if it is in memory.
    pub snapshots: Option<Arc<Snapshots>>,
}
