//! How the Supervisor learns that an actor has ended.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::watchdog::Pulse;

/// Why an actor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It received a request to stop, or its thread ended.
    Stopped,
    /// A handler panicked. The panic hook has logged where.
    Panicked,
}

/// The number of a child of the Supervisor. No other child ever gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildId(pub u64);

/// The report of an actor's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exited {
    /// The child that ended.
    pub child: ChildId,
    /// The incarnation that ended, so that a late report is not applied to its successor.
    pub incarnation: u64,
    /// Why.
    pub reason: ExitReason,
}

/// The reports that the Supervisor has not read yet. There is at most one for each child, because a
/// child is neither restarted nor removed before its report was read.
#[derive(Clone, Debug, Default)]
pub struct ExitReports {
    queue: Arc<ReportQueue>,
}

#[derive(Debug, Default)]
struct ReportQueue {
    exits: Mutex<VecDeque<Exited>>,
    added: Notify,
}

impl ExitReports {
    /// Waits for the next report. Only one task may wait.
    pub async fn next(&self) -> Exited {
        loop {
            if let Some(exited) = self.queue.exits.lock().pop_front() {
                return exited;
            }
            self.queue.added.notified().await;
        }
    }

    fn add(&self, exited: Exited) {
        self.queue.exits.lock().push_back(exited);
        self.queue.added.notify_one();
    }
}

/// A member of each actor that reports the actor's end when it is dropped. actix reports no panic,
/// but drops the actor while unwinding.
#[derive(Debug)]
pub struct ExitGuard {
    child: ChildId,
    incarnation: u64,
    reports: ExitReports,
    pulse: Pulse,
}

impl ExitGuard {
    /// A guard for one incarnation of a child.
    pub fn new(child: ChildId, incarnation: u64, reports: ExitReports, pulse: Pulse) -> ExitGuard {
        ExitGuard {
            child,
            incarnation,
            reports,
            pulse,
        }
    }

    /// With it the actor marks its turns. Every message handler begins with a turn.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() {
            ExitReason::Panicked
        } else {
            ExitReason::Stopped
        };
        self.reports.add(Exited {
            child: self.child,
            incarnation: self.incarnation,
            reason,
        });
    }
}
