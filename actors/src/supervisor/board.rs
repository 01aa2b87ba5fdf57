//! What is known of every part of the house, where anybody may read it.

use std::sync::Arc;

use parking_lot::Mutex;

/// How one child is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It lives.
    Running,
    /// It died and will be started again.
    Restarting,
    /// It died too often and is left alone for a while.
    Degraded,
    /// It was stopped.
    Stopped,
}

/// One line of the board.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) standing: Standing,
    pub(crate) restarts: u64,
}

/// Written by the Supervisor, read by whoever wants to know.
#[derive(Clone, Default)]
pub(crate) struct Board(Arc<Mutex<Vec<Line>>>);

impl Board {
    /// Adds a line; its number is the child's.
    pub(crate) fn add(&self, name: String) {
        self.0.lock().push(Line {
            name,
            standing: Standing::Running,
            restarts: 0,
        });
    }

    /// Notes how a child is now.
    pub(crate) fn set(&self, child: usize, standing: Standing) {
        if let Some(line) = self.0.lock().get_mut(child) {
            line.standing = standing;
        }
    }

    /// Counts a restart.
    pub(crate) fn restarted(&self, child: usize) {
        if let Some(line) = self.0.lock().get_mut(child) {
            line.standing = Standing::Running;
            line.restarts += 1;
        }
    }

    /// All lines.
    pub(crate) fn read(&self) -> Vec<Line> {
        self.0.lock().clone()
    }
}
