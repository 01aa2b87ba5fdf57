//! Tasks of tokio that share their code.
//!
//! tokio compiles the code that runs a task for each type of future, and again for each of its
//! schedulers: 3.5 kB each time. Here the type of the future is erased, so this
//! code exists once for each type of result. A task costs one allocation more.

mod pausable;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use tokio::runtime::Handle;
use tokio::task::{self, JoinHandle};

pub use pausable::{Pausable, Running, until_stopped};

/// Starts a task on the runtime of the calling thread, like `tokio::spawn`.
///
/// # Panics
/// The thread has no runtime.
#[track_caller]
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: BoxFuture<'static, T> = Box::pin(future);
    task::spawn(future)
}

/// Starts a task on this runtime, like `Handle::spawn`.
#[track_caller]
pub fn spawn_on<T: Send + 'static>(
    runtime: &Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let future: BoxFuture<'static, T> = Box::pin(future);
    runtime.spawn(future)
}

/// Starts a task that stays on the calling thread, like `tokio::task::spawn_local`.
///
/// # Panics
/// The calling thread has no `LocalSet`. Arbiters and the main thread have one.
#[track_caller]
pub fn spawn_local<T: 'static>(future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    let future: LocalBoxFuture<'static, T> = Box::pin(future);
    task::spawn_local(future)
}

/// Runs work that blocks on a thread for such work, like `tokio::task::spawn_blocking`.
///
/// # Panics
/// The thread has no runtime.
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    task::spawn_blocking(work)
}
