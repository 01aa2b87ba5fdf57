//! The parts of a server for tests that a test may change while it runs.
//!
//! A daemon has them only if its [`Host`](crate::daemon::Host) says that it serves tests. The paths
//! below `/taffrail/v1/test` change them; [`super::handlers`] reads the requests.

/// The parts that a test may change.
#[derive(Debug, Default)]
pub struct TestControls {}
