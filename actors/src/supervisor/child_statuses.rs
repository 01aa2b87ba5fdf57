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
pub(crate) struct ChildStatuses(Arc<Mutex<Statuses>>);

#[derive(Default)]
struct Statuses {
    by_id: BTreeMap<ChildId, ChildStatus>,
    /// How many of each kind are degraded.
    degraded: BTreeMap<ActorKind, usize>,
}

impl ChildStatuses {
    /// Adds a child as running.
    pub(crate) fn add(&self, child: &Child) {
        let status = ChildStatus {
            kind: child.kind,
            name: child.name.clone(),
            state: ChildState::Running,
            restarts: 0,
        };
        self.0.lock().by_id.insert(child.id, status);
    }

    /// Removes a child.
    pub(crate) fn remove(&self, child: ChildId) {
        let mut statuses = self.0.lock();
        if let Some(removed) = statuses.by_id.remove(&child) {
            statuses.count_degraded(removed.kind, removed.is_degraded(), false);
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
        if let Some(status) = statuses.by_id.get_mut(&child) {
            let before = status.is_degraded();
            change(status);
            let (kind, after) = (status.kind, status.is_degraded());
            statuses.count_degraded(kind, before, after);
        }
    }

    /// All children, in the order in which they are started.
    pub(crate) fn read(&self) -> Vec<ChildStatus> {
        let mut statuses: Vec<ChildStatus> = self.0.lock().by_id.values().cloned().collect();
        // The sort is stable: children of a kind stay in the order of their ids.
        statuses.sort_by_key(|status| status.kind);
        statuses
    }
}

impl ChildStatus {
    fn is_degraded(&self) -> bool {
        self.state == ChildState::Degraded
    }
}

impl Statuses {
    /// Counts a child of this kind that was degraded before a change or is after it, and writes
    /// the metric.
    fn count_degraded(&mut self, kind: ActorKind, before: bool, after: bool) {
        let count = self.degraded.entry(kind).or_default();
        *count = count.saturating_add(usize::from(after)) - usize::from(before);
        metrics::degraded(kind, *count);
    }
}
