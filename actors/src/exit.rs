//! How actors end, and how that becomes known.

use tokio::sync::mpsc;

/// Why an actor is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It was told to stop, or its thread went away.
    Stopped,
    /// A handler panicked; the panic hook has logged where.
    Panicked,
}

/// The report of an actor's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exited {
    /// Which of the supervisor's children.
    pub child: usize,
    /// Which life of it, so that a late report is not taken for one about its successor.
    pub life: u64,
    /// Why.
    pub reason: ExitReason,
}

/// Lives inside an actor and reports its end when dropped: actix tells nobody of a panic, but
/// drops the actor while unwinding.
#[derive(Debug)]
pub struct ExitGuard {
    child: usize,
    life: u64,
    reports: mpsc::Sender<Exited>,
}

impl ExitGuard {
    /// A guard for one life of a child. The channel must have room for one report per child: a
    /// child has no next life before its report was read, so then a report is never lost.
    pub fn new(child: usize, life: u64, reports: mpsc::Sender<Exited>) -> ExitGuard {
        ExitGuard {
            child,
            life,
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
        // A supervisor that is gone restarts nobody.
        let _ = self.reports.try_send(Exited {
            child: self.child,
            life: self.life,
            reason,
        });
    }
}
