//! Verification: finds damage in the store while it serves.
//!
//! Owns a thread ([`Verifier`]) that reads the whole file again and again at a limited rate, and
//! reports what it finds as [`Damage`](super::damage::Damage). It also reports a file that is no
//! longer at its path, because that file will not be there at the next start. Nobody waits for this
//! thread, it locks nothing, and it never writes. It knows neither the writer nor the readers.
//!
//! [`pass`] decides what is read next, [`image`] reads redb's pages past its cache,
//! [`rows`] compares the tables.

mod image;
mod pass;
mod rows;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use actors::threads;
use crossbeam_channel::{Sender, bounded};

use super::engine_state::EngineState;
use super::store::Alarm;
use pass::Pass;

/// The thread that verifies. It ends when this is dropped, after its current step.
pub struct Verifier {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Verifier {
    /// Starts the thread, unless nothing is to be verified.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(state: Arc<EngineState>, alarm: Alarm) -> io::Result<Option<Verifier>> {
        if state.options.verify_bytes_per_second == 0 {
            return Ok(None);
        }
        let (stop, stopped) = bounded(1);
        let pass = Pass::new(state, alarm);
        let thread = threads::spawn("storage-verify", move || pass.run(&stopped))?;
        Ok(Some(Verifier {
            stop: Some(stop),
            thread: Some(thread),
        }))
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been logged by the runtime.
            let _ = thread.join();
        }
    }
}
