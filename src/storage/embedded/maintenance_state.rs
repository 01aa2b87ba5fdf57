//! The state that maintenance keeps between two steps.

use super::defrag::Defrag;

/// The state of maintenance. One step at a time holds it.
#[derive(Default)]
pub struct MaintenanceState {
    /// The defragmentation under way.
    pub defrag: Option<Box<Defrag>>,
    /// The log's size after the last defragmentation. A new one waits until the log has grown.
    pub defragged_bytes: u64,
}

/// The right to do maintenance. It travels with the work of a step.
pub type HeldMaintenance = tokio::sync::OwnedMutexGuard<MaintenanceState>;
