//! What the Supervisor knows of every child, where anybody may read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::child::{ActorKind, Child};
use crate::exit::ChildId;

/// The state of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActorState {
    /// It runs.
    Running,
    /// It died and will be started again.
    Restarting,
    /// It died too often and is left alone for a while.
    Degraded,
    /// It was stopped.
    Stopped,
}

/// What is known of one child.
#[derive(Clone, Debug)]
pub(crate) struct ActorStatus {
    pub(crate) kind: ActorKind,
    pub(crate) name: String,
    pub(crate) state: ActorState,
    pub(crate) restarts: u64,
}

/// Written by the Supervisor, read by whoever wants to know.
#[derive(Clone, Default)]
pub(crate) struct ActorStatuses(Arc<Mutex<BTreeMap<ChildId, ActorStatus>>>);

impl ActorStatuses {
    /// Adds a child, which counts as running.
    pub(crate) fn add(&self, child: &Child) {
        let status = ActorStatus {
            kind: child.kind,
            name: child.name.clone(),
            state: ActorState::Running,
            restarts: 0,
        };
        self.0.lock().insert(child.id, status);
    }

    /// Removes a child.
    pub(crate) fn remove(&self, child: ChildId) {
        self.0.lock().remove(&child);
    }

    /// Notes the state of a child.
    pub(crate) fn set(&self, child: ChildId, state: ActorState) {
        if let Some(status) = self.0.lock().get_mut(&child) {
            status.state = state;
        }
    }

    /// Counts a restart of a child.
    pub(crate) fn restarted(&self, child: ChildId) {
        if let Some(status) = self.0.lock().get_mut(&child) {
            status.state = ActorState::Running;
            status.restarts += 1;
        }
    }

    /// All children, in the order they are started in.
    pub(crate) fn read(&self) -> Vec<ActorStatus> {
        let mut statuses: Vec<ActorStatus> = self.0.lock().values().cloned().collect();
        // Those of a kind stay in the order of their numbers.
        statuses.sort_by_key(|status| status.kind);
        statuses
    }
}
