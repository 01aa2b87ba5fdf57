//! Threads that have the recorder of metrics, and the clock, of the thread that started them.
//!
//! The `metrics` crate has one recorder for the process, which belongs to the program, and one for
//! each thread. A daemon that runs inside another program has a recorder of its own, so that two
//! daemons in one process have two pages of metrics. Its first thread names that recorder, and all
//! threads that are started here inherit it. Where no recorder is named, threads measure into the
//! recorder of the process. The clock of a server for tests is inherited in the same way
//! ([`crate::clock`]).

use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle};

use actix_rt::{Arbiter, System, SystemRunner};
use metrics::Recorder;
use tokio::runtime;

use crate::clock;

/// A recorder that lives as long as the process, as a thread may end at any time.
pub type ThreadRecorder = &'static (dyn Recorder + Sync);

thread_local! {
    static RECORDER: Cell<Option<ThreadRecorder>> = const { Cell::new(None) };
}

/// Has this thread, and the threads that it starts, measure into a recorder until they end.
pub fn record_into(recorder: ThreadRecorder) {
    RECORDER.set(Some(recorder));
    // The guard would restore the recorder before, which nothing on this thread may use any more.
    std::mem::forget(metrics::set_default_local_recorder(recorder));
}

/// Returns a function that gives another thread the recorder and the clock of this one.
fn inheritance() -> impl Fn() + Clone + Send + Sync + 'static {
    let (recorder, clock) = (RECORDER.get(), clock::of_thread());
    move || {
        clock::inherit(clock);
        if let Some(recorder) = recorder {
            record_into(recorder);
        }
    }
}

/// Starts a thread.
///
/// # Errors
/// The system has no thread left.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let inherit = inheritance();
    Builder::new().name(name.into()).spawn(move || {
        inherit();
        work()
    })
}

/// Starts a thread that runs actors and tasks.
///
/// # Errors
/// The system has no thread left.
pub fn spawn_arbiter() -> io::Result<Arbiter> {
    let inherit = inheritance();
    // The factory runs on the new thread.
    Arbiter::try_with_tokio_rt(move || {
        inherit();
        single_threaded()
    })
}

/// Creates the system of actors of the calling thread.
///
/// # Errors
/// The kernel refuses what a runtime needs.
pub fn system() -> io::Result<SystemRunner> {
    let runtime = single_threaded()?;
    Ok(System::with_tokio_rt(move || runtime))
}

/// A runtime of the calling thread. Its threads for blocking work inherit from that thread.
fn single_threaded() -> io::Result<runtime::Runtime> {
    let mut builder = runtime::Builder::new_current_thread();
    inherited(&mut builder).enable_all().build()
}

/// Has all threads of a runtime inherit from this thread.
pub fn inherited(builder: &mut runtime::Builder) -> &mut runtime::Builder {
    builder.on_thread_start(inheritance())
}
