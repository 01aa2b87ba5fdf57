//! The state of every child, as the Supervisor knows it. Any thread may read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::child::{ActorKind, Child};
use super::metrics;
use crate::exit::ChildId;

/// The state of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildState {
    /// It runs.
    Running,
    /// It ended unexpectedly and will be restarted.
    Restarting,
    /// It failed too often. It is restarted after the window of the budget.
    Degraded,
    /// It was stopped.
    Stopped,
}

/// The status of one child.
#[derive(Clone, Debug)]
pub(crate) struct ChildStatus {
    pub(crate) kind: ActorKind,
    pub(crate) name: String,
    pub(crate) state: ChildState,
    pub(crate) restarts: u64,
}

/// The statuses of all children. The Supervisor writes them.
#[derive(Clone, Default)]
pub(crate) struct ChildStatuses(Arc<Mutex<BTreeMap<ChildId, ChildStatus>>>);

impl ChildStatuses {
    /// Adds a child as running.
    pub(crate) fn add(&self, child: &Child) {
        let status = ChildStatus {
            kind: child.kind,
            name: child.name.clone(),
            state: ChildState::Running,
            restarts: 0,
        };
        self.0.lock().insert(child.id, status);
    }

    /// Removes a child.
    pub(crate) fn remove(&self, child: ChildId) {
        let mut statuses = self.0.lock();
        if let Some(removed) = statuses.remove(&child) {
            count_degraded(&statuses, removed.kind);
        }
    }

    /// Sets the state of a child.
    pub(crate) fn set(&self, child: ChildId, state: ChildState) {
        self.change(child, |status| status.state = state);
    }

    /// Sets a child to running and counts the restart.
    pub(crate) fn restarted(&self, child: ChildId) {
        self.change(child, |status| {
            status.state = ChildState::Running;
            status.restarts += 1;
            metrics::restarted(status.kind);
        });
    }

    fn change(&self, child: ChildId, change: impl FnOnce(&mut ChildStatus)) {
        let mut statuses = self.0.lock();
        if let Some(status) = statuses.get_mut(&child) {
            change(status);
            let kind = status.kind;
            count_degraded(&statuses, kind);
        }
    }

    /// All children, in the order in which they are started.
    pub(crate) fn read(&self) -> Vec<ChildStatus> {
        let mut statuses: Vec<ChildStatus> = self.0.lock().values().cloned().collect();
        // The sort is stable: children of a kind stay in the order of their ids.
        statuses.sort_by_key(|status| status.kind);
        statuses
    }
}

/// Writes the metric.
fn count_degraded(statuses: &BTreeMap<ChildId, ChildStatus>, kind: ActorKind) {
    let is_degraded =
        |status: &&ChildStatus| status.kind == kind && status.state == ChildState::Degraded;
    metrics::degraded(kind, statuses.values().filter(is_degraded).count());
}
