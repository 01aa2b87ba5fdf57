//! The main thread of a server, and the requests that the program sends to it.

use std::any::Any;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_rt::System;
use actors::tasks;
use actors::threads;
use futures_util::future::LocalBoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::ServerError;
use crate::clock;
use crate::config::Config;
use crate::daemon::{Daemon, Host};
use crate::files::ThrowawayFolder;
use crate::server::test_controls::TestControls;

/// The interval at which a starting server looks whether it is ready.
const READINESS_INTERVAL: Duration = Duration::from_millis(5);

/// The requests of the program that wait for the thread. Further ones wait for room.
const REQUESTS_MAX: usize = 16;

/// The facts about a server that has started.
pub(super) struct Facts {
    pub(super) address: SocketAddr,
    pub(super) metrics_address: Option<SocketAddr>,
    pub(super) kubeconfig: PathBuf,
    pub(super) trust_pem: String,
    /// The parts that a test may change, of a server for tests.
    pub(super) test: Option<Arc<TestControls>>,
}

/// Work on a server, which runs on its thread, so that it is measured there.
type Work = Box<dyn FnOnce(&Daemon) -> LocalBoxFuture<'static, ()> + Send>;

/// The channel to the thread of a server.
#[derive(Clone)]
pub(super) struct WorkSender(mpsc::Sender<Work>);

impl WorkSender {
    /// Runs work on the thread of the server, or returns `None` if the server has ended.
    pub(super) async fn run<T, F>(
        &self,
        work: impl FnOnce(&Daemon) -> F + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |daemon| {
            let working = work(daemon);
            Box::pin(async move {
                // The program may not wait for the outcome.
                let _ = answer.send(working.await);
            })
        });
        self.0.send(work).await.ok()?;
        answered.await.ok()
    }
}

/// The handle of a server's thread. Dropping it stops the server in the background.
pub(super) struct ServerThread {
    work: WorkSender,
    /// Dropping it stops the server.
    stop: oneshot::Sender<()>,
    ready: watch::Receiver<bool>,
    ended: oneshot::Receiver<Result<(), ServerError>>,
    thread: JoinHandle<()>,
}

impl ServerThread {
    /// Starts a server, and waits until it serves. The temporary directory is removed when the
    /// thread ends.
    ///
    /// # Errors
    /// [`ServerError`]. The thread has ended.
    pub(super) async fn start(
        config: Config,
        host: Host,
        temporary: Option<ThrowawayFolder>,
    ) -> Result<(ServerThread, Facts), ServerError> {
        let (starting, has_started) = oneshot::channel();
        let (work, works) = mpsc::channel(REQUESTS_MAX);
        let (stop, stopping) = oneshot::channel();
        let (is_ready, ready) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let recorder = host.series.thread_recorder();
        let requests = Requests {
            starting,
            works,
            stopping,
            is_ready,
        };
        let thread = threads::spawn("taffrail", move || {
            threads::record_into(recorder);
            if host.for_tests {
                // All threads of the server inherit it.
                clock::own();
            }
            let run = run(config, host, requests);
            let removed = temporary.map_or(Ok(()), ThrowawayFolder::remove);
            // The program may not wait for the end.
            let _ = end.send(run.and(removed.map_err(ServerError::Removal)));
        });
        let thread = ServerThread {
            work: WorkSender(work),
            stop,
            ready,
            ended,
            thread: thread.map_err(ServerError::Thread)?,
        };
        match has_started.await {
            Ok(facts) => Ok((thread, facts)),
            Err(_) => Err(thread.stop().await.err().unwrap_or_else(ServerError::gone)),
        }
    }

    /// Waits until the server is ready.
    ///
    /// # Errors
    /// [`ServerError::Ended`]
    pub(super) async fn ready(&self) -> Result<(), ServerError> {
        let mut ready = self.ready.clone();
        let waited = ready.wait_for(|is_ready| *is_ready).await;
        waited.map(drop).map_err(|_| ServerError::gone())
    }

    /// The channel to the thread.
    pub(super) fn work(&self) -> WorkSender {
        self.work.clone()
    }

    /// Stops the server in order, and waits for the end of its thread.
    ///
    /// # Errors
    /// The server had ended by itself, or its temporary directory can't be removed.
    pub(super) async fn stop(self) -> Result<(), ServerError> {
        drop(self.stop);
        let ended = self.ended.await;
        // The thread has sent its last message, so this does not block.
        let _ = self.thread.join();
        ended.unwrap_or_else(|_| Err(ServerError::gone()))
    }

    /// Whether the thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// The ends of the channels that the thread has.
struct Requests {
    starting: oneshot::Sender<Facts>,
    works: mpsc::Receiver<Work>,
    /// Resolves when the program stops the server, or drops it.
    stopping: oneshot::Receiver<()>,
    is_ready: watch::Sender<bool>,
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a message"))
}

/// Runs the server on the calling thread until it has stopped.
fn run(config: Config, host: Host, requests: Requests) -> Result<(), ServerError> {
    let system = threads::system().map_err(ServerError::Thread)?;
    let served = catch_unwind(AssertUnwindSafe(|| {
        system.block_on(serve(config, host, requests))
    }));
    // The threads of actors and of HTTP outlive their handles. After a panic, or an error of the
    // start, they end here.
    System::current().stop();
    let ended = system.run().map_err(ServerError::Thread);
    match served {
        Ok(served) => served.and(ended),
        Err(panic) => Err(ServerError::Ended(message(&*panic))),
    }
}

async fn serve(config: Config, host: Host, requests: Requests) -> Result<(), ServerError> {
    let Requests {
        starting,
        mut works,
        mut stopping,
        is_ready,
    } = requests;
    let daemon = Daemon::start(config, host).await?;
    let announcement = daemon.announcement();
    let facts = Facts {
        address: announcement.secure,
        metrics_address: announcement.metrics,
        kubeconfig: announcement.kubeconfig,
        trust_pem: daemon.trust_pem(),
        test: daemon.test_controls().cloned(),
    };
    let mut outcome = Ok(());
    // A program that no longer waits for the start has dropped the server.
    if starting.send(facts).is_ok() {
        let ended = daemon.ended();
        tokio::pin!(ended);
        let mut ticks = tokio::time::interval(READINESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_starting = !*is_ready.borrow();
            tokio::select! {
                () = &mut ended => {
                    let why = "its actors could not be restarted any more".to_owned();
                    outcome = Err(ServerError::Ended(why));
                    break;
                }
                _ = &mut stopping => break,
                Some(work) = works.recv() => {
                    tasks::spawn_local(work(&daemon));
                }
                _ = ticks.tick(), if is_starting => {
                    if daemon.has_started() && daemon.is_ready() {
                        is_ready.send_replace(true);
                    }
                }
            }
        }
    }
    daemon.stop().await;
    outcome
}
