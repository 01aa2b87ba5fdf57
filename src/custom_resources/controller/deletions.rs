//! Deletes the objects of definitions that are being deleted, and objects that outlive them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;

use super::{Controller, Done, PAUSE_AFTER_ERROR};
use crate::api::deep::Roomy;
use crate::api::status::Status;
use crate::custom_resources::cleanup::Cleanup;
use crate::custom_resources::leftovers::Sweep;
use crate::custom_resources::life::Leftovers;

/// The pause before another attempt to delete the objects of a definition.
const PAUSE_OF_CLEANUP: Duration = Duration::from_secs(2);
/// The pause before another look for left objects.
const PAUSE_OF_SWEEP: Duration = Duration::from_millis(100);
/// How often such a look may fail.
const SWEEPS: u32 = 10;
/// The number of definitions whose objects are deleted at a time.
const CLEANUPS: usize = 16;

impl Controller {
    /// Deletes the objects of a definition that is being deleted.
    pub(super) fn clean(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if entry.is_cleaning || !entry.needs_cleanup() {
            return;
        }
        if self.cleanups >= CLEANUPS || self.pause.is_on() {
            self.add_later(name, PAUSE_AFTER_ERROR);
            return;
        }
        let Some(current) = &entry.current else {
            return;
        };
        entry.is_cleaning = true;
        self.cleanups += 1;
        let cleanup = Cleanup::new(
            Arc::clone(&self.store),
            self.serving.store(name),
            current.definition.clone(),
        );
        let (name, pause) = (name.to_owned(), self.pause.clone());
        let cleaning = async move {
            let outcome = pause.unless_on(cleanup.run()).await;
            Done::Cleaned(name, outcome.unwrap_or(Ok(false)))
        };
        self.work.push(Roomy::new(cleaning).boxed());
    }

    /// Takes the outcome of an attempt to delete the objects of a definition.
    pub(super) fn cleaned(&mut self, name: &str, outcome: Result<bool, Box<Status>>) {
        self.cleanups = self.cleanups.saturating_sub(1);
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_cleaning = false;
        }
        match outcome {
            Ok(true) => self.add(name),
            Ok(false) => self.add_later(name, PAUSE_OF_CLEANUP),
            Err(status) => self.attempt_failed(name, &status, "the objects can't be deleted"),
        }
    }

    /// Looks for objects that a definition has left which is gone.
    pub(super) fn sweep(&mut self, name: &str, left: Leftovers) {
        let Some(instances) = self.serving.store(name) else {
            self.swept(name, &left, Ok(true));
            return;
        };
        let sweep = Sweep {
            definitions: Arc::clone(&self.store),
            instances,
            name: name.to_owned(),
            left: left.clone(),
        };
        let (name, pause) = (name.to_owned(), self.pause.clone());
        let sweeping = async move {
            let outcome = pause.unless_on(sweep.run()).await;
            Done::Swept(name, left, outcome.unwrap_or(Ok(false)))
        };
        self.work.push(Roomy::new(sweeping).boxed());
    }

    /// Takes the outcome of a look for left objects.
    pub(super) fn swept(
        &mut self,
        name: &str,
        left: &Leftovers,
        outcome: Result<bool, Box<Status>>,
    ) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.is_sweeping = false;
        let is_done = match outcome {
            Ok(is_done) => is_done,
            Err(status) => {
                tracing::warn!(definition = name, %status, "left objects can't be deleted");
                entry.failed_sweeps += 1;
                entry.failed_sweeps >= SWEEPS
            }
        };
        if is_done {
            entry.failed_sweeps = 0;
            // Another one may have ended meanwhile.
            entry.left.take_if(|known| known == left);
            self.add(name);
        } else {
            self.add_later(name, PAUSE_OF_SWEEP);
        }
    }
}
