//! How actors end, and how that becomes known.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Why an actor is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It was told to stop, or its thread went away.
    Stopped,
    /// A handler panicked; the panic hook has logged where.
    Panicked,
}

/// The number of a child of the Supervisor. It is never given to another child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildId(pub u64);

/// The report of an actor's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exited {
    /// Which of the supervisor's children.
    pub child: ChildId,
    /// Which incarnation of it, so that a late report is not taken for one about its successor.
    pub incarnation: u64,
    /// Why.
    pub reason: ExitReason,
}

/// The reports that the Supervisor has not read yet. There is at most one for each child: a child
/// has no next incarnation, and is not removed, before its report was read.
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

/// Lives inside an actor and reports its end when dropped: actix tells nobody of a panic, but
/// drops the actor while unwinding.
#[derive(Debug)]
pub struct ExitGuard {
    child: ChildId,
    incarnation: u64,
    reports: ExitReports,
}

impl ExitGuard {
    /// A guard for one incarnation of a child.
    pub fn new(child: ChildId, incarnation: u64, reports: ExitReports) -> ExitGuard {
        ExitGuard {
            child,
            incarnation,
            reports,
        }
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
