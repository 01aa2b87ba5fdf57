//! Tasks that work until they are stopped, and that pause while something must not be disturbed.

use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::task::JoinHandle;

/// A task that runs until it is stopped, or until this is dropped.
pub struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A task that can be stopped, and stopped for a while. It holds nothing after it has been stopped.
pub struct Pausable {
    /// The name in the log.
    name: &'static str,
    running: Mutex<Option<Running>>,
}

impl Running {
    /// Starts a task. `start` gets the signal to stop: the task must end soon after it is true, or
    /// its sender is gone.
    pub fn start(start: impl FnOnce(watch::Receiver<bool>) -> JoinHandle<()>) -> Running {
        let (stop, stopped) = watch::channel(false);
        let task = start(stopped);
        Running { stop, task }
    }

    async fn stop(&mut self, name: &str) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "{name} ended with an error");
        }
    }
}

impl Pausable {
    /// Takes a task that runs. The log calls it by this name.
    pub fn new(name: &'static str, running: Running) -> Pausable {
        let running = Mutex::new(Some(running));
        Pausable { name, running }
    }

    /// Stops the task after its current step.
    pub async fn stop(&self) {
        let mut place = self.running.lock().await;
        if let Some(running) = &mut *place {
            running.stop(self.name).await;
        }
        *place = None;
    }

    /// Does work while the task does not run. Then another one is started, also if the work panics,
    /// or the caller is cancelled, unless the task had been stopped before.
    pub async fn pause<T>(
        &self,
        work: impl Future<Output = T>,
        start: impl FnOnce() -> Running,
    ) -> T {
        let place = self.running.lock().await;
        if place.is_none() {
            return work.await;
        }
        let mut next = Next {
            place,
            start: Some(start),
        };
        if let Some(running) = &mut *next.place {
            running.stop(self.name).await;
        }
        work.await
    }
}

/// Starts the next task when it is dropped.
struct Next<'p, F: FnOnce() -> Running> {
    place: MutexGuard<'p, Option<Running>>,
    start: Option<F>,
}

impl<F: FnOnce() -> Running> Drop for Next<'_, F> {
    fn drop(&mut self) {
        // A runtime that ends cancels the work, and starts nothing any more.
        let is_running = Handle::try_current().is_ok();
        *self.place = self
            .start
            .take()
            .filter(|_| is_running)
            .map(|start| start());
    }
}

/// Works until the signal is true or its sender is gone. The work may be cancelled at any await.
pub async fn until_stopped(mut stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = work => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;
    use crate::tasks;

    /// Counts the tasks that run, and how many there have been.
    #[derive(Clone, Default)]
    struct Counts {
        running: Arc<AtomicUsize>,
        begun: Arc<AtomicUsize>,
    }

    impl Counts {
        fn start(&self) -> Running {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.running.fetch_add(1, Ordering::SeqCst);
            let running = Arc::clone(&self.running);
            Running::start(|stopped| {
                tasks::spawn(async move {
                    until_stopped(stopped, std::future::pending()).await;
                    // The last step takes a turn.
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                })
            })
        }

        fn now(&self) -> (usize, usize) {
            let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
            (of(&self.running), of(&self.begun))
        }
    }

    fn begun(counts: &Counts) -> Arc<Pausable> {
        Arc::new(Pausable::new("a task", counts.start()))
    }

    #[tokio::test]
    async fn a_task_rests_during_work_and_another_one_follows() {
        let counts = Counts::default();
        let place = begun(&counts);
        let during = place.pause(async { counts.now() }, || counts.start());
        assert_eq!(during.await, (0, 1));
        assert_eq!(counts.now(), (1, 2));
        place.stop().await;
        assert_eq!(counts.now(), (0, 2));
        // A stopped task stays stopped.
        place.pause(async {}, || counts.start()).await;
        assert_eq!(counts.now(), (0, 2));
    }

    #[tokio::test]
    async fn another_task_follows_work_that_is_cancelled_or_panics() {
        let counts = Counts::default();
        let place = begun(&counts);
        let forever = {
            let (place, counts) = (Arc::clone(&place), counts.clone());
            async move {
                let next = || counts.start();
                place.pause(std::future::pending::<()>(), next).await;
            }
        };
        let cancelled = tokio::spawn(forever);
        while counts.now() != (0, 1) {
            tokio::task::yield_now().await;
        }
        cancelled.abort();
        assert!(cancelled.await.unwrap_err().is_cancelled());
        assert_eq!(counts.now(), (1, 2));
        let panics = {
            let (place, counts) = (Arc::clone(&place), counts.clone());
            async move {
                let next = || counts.start();
                place.pause(async { panic!("as expected") }, next).await
            }
        };
        assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
        assert_eq!(counts.now(), (1, 3));
    }

    #[tokio::test]
    async fn another_task_follows_a_pause_that_is_cancelled_during_the_last_step() {
        let counts = Counts::default();
        let place = begun(&counts);
        tokio::task::yield_now().await;
        // The first poll asks the task to stop, whose last step takes a turn.
        let pause = place.pause(async {}, || counts.start());
        assert!(pause.now_or_never().is_none());
        assert_eq!(counts.now(), (2, 2));
        while counts.now().0 != 1 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_stop_waits_for_the_end_of_a_pause() {
        let counts = Counts::default();
        let place = begun(&counts);
        let (open, opened) = tokio::sync::oneshot::channel::<()>();
        let pause = place.pause(opened, || counts.start());
        let (done, ()) = tokio::join!(pause, async {
            open.send(()).unwrap();
            place.stop().await;
        });
        done.unwrap();
        assert_eq!(counts.now(), (0, 2));
    }
}
