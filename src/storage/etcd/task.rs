//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// Aborts the task when it is dropped.
pub(super) struct Task(JoinHandle<()>);

impl Task {
    /// Takes ownership of a task.
    pub(super) fn of(handle: JoinHandle<()>) -> Task {
        Task(handle)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
