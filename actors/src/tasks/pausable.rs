//! Tasks that work until they are stopped, and that pause while something must not be disturbed.

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

/// A running task.
pub struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A place for a running task, which is empty once the task has been stopped.
pub struct Pausable {
    /// The name in the log.
    name: &'static str,
    running: Mutex<Option<Running>>,
}

impl Running {
    /// Starts a task, which gets the signal to stop.
    pub fn start(start: impl FnOnce(watch::Receiver<bool>) -> JoinHandle<()>) -> Running {
        let (stop, stopped) = watch::channel(false);
        let task = start(stopped);
        Running { stop, task }
    }

    async fn stop(self, name: &str) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "{name} ended with an error");
        }
    }
}

impl Pausable {
    /// An empty place for a task with this name in the log.
    pub fn new(name: &'static str) -> Pausable {
        let running = Mutex::new(None);
        Pausable { name, running }
    }

    /// Puts a task into a place that nobody has used yet.
    pub fn begin(&self, running: Running) {
        if let Ok(mut place) = self.running.try_lock() {
            *place = Some(running);
        }
    }

    /// Stops the task after its current step.
    pub async fn stop(&self) {
        if let Some(running) = self.running.lock().await.take() {
            running.stop(self.name).await;
        }
    }

    /// Does work while the task does not run. Then another one is started, unless the task had been
    /// stopped before.
    pub async fn pause<T>(
        &self,
        work: impl Future<Output = T>,
        start: impl FnOnce() -> Running,
    ) -> T {
        let mut place = self.running.lock().await;
        let Some(running) = place.take() else {
            return work.await;
        };
        running.stop(self.name).await;
        let done = work.await;
        *place = Some(start());
        done
    }
}

/// Works until it is stopped. The work may be cancelled at any point: it begins again from the
/// caches.
pub async fn until_stopped(mut stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = work => {}
    }
}
