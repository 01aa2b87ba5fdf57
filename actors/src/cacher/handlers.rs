//! The message handlers of a Cacher.

use std::sync::Arc;

use actix::{ActorContext, Context, Handler};

use super::Cacher;
use super::messages::{
    Apply, FillFailed, Outdated, Replace, Reset, ResumePoint, Stop, WhereToResume,
};
use crate::snapshot::Snapshot;
use crate::tasks;
#[cfg(any(test, feature = "testing"))]
use crate::testing::failpoints;

impl Handler<WhereToResume> for Cacher {
    type Result = Option<ResumePoint>;

    fn handle(&mut self, _: WhereToResume, _: &mut Context<Cacher>) -> Option<ResumePoint> {
        let _turn = self.exit.pulse().turn();
        let generation = self.generation?;
        if self.content.snapshot().unreadable_count() > 0 {
            // Only the Reflector that read the unreadable values can try them again.
            return None;
        }
        Some(ResumePoint {
            generation,
            revision: self.content.revision(),
            epoch: self.content.epoch(),
        })
    }
}

impl Handler<Replace> for Cacher {
    type Result = u64;

    fn handle(&mut self, message: Replace, _: &mut Context<Cacher>) -> u64 {
        let _turn = self.exit.pulse().turn();
        #[cfg(any(test, feature = "testing"))]
        failpoints::hit_keys(|key| message.content.get(key).is_some());
        let before = self.content.replace(message.content);
        let (generation, published) = self.watch_cache.replace(self.content.snapshot());
        free_off_thread((before, published));
        self.generation = Some(generation);
        self.metrics.replaced(&self.content.snapshot());
        tracing::debug!(
            resource = self.watch_cache.resource,
            generation,
            "cache filled"
        );
        generation
    }
}

impl Handler<Reset> for Cacher {
    type Result = Result<u64, Outdated>;

    fn handle(&mut self, message: Reset, _: &mut Context<Cacher>) -> Result<u64, Outdated> {
        let _turn = self.exit.pulse().turn();
        if self.generation != Some(message.generation) {
            return Err(Outdated);
        }
        self.content.apply(message.updates, message.revision);
        let snapshot = self.content.snapshot();
        self.metrics.replaced(&snapshot);
        let (generation, before) = self.watch_cache.reset(snapshot);
        free_off_thread((Snapshot::default(), before));
        self.generation = Some(generation);
        Ok(generation)
    }
}

/// Frees objects on a blocking thread. There may be a hundred thousand, and other actors share the
/// Cacher's thread.
fn free_off_thread(contents: (Snapshot, Option<Arc<Snapshot>>)) {
    if !contents.0.is_empty() {
        tasks::spawn_blocking(move || drop(contents));
    }
}

impl Handler<Apply> for Cacher {
    type Result = Result<(), Outdated>;

    fn handle(&mut self, message: Apply, _: &mut Context<Cacher>) -> Result<(), Outdated> {
        let _turn = self.exit.pulse().turn();
        if self.generation != Some(message.generation) {
            return Err(Outdated);
        }
        #[cfg(any(test, feature = "testing"))]
        failpoints::hit_keys(|key| message.updates.iter().any(|update| update.key == *key));
        let received = message.updates.len();
        let changes = self.content.apply(message.updates, message.up_to);
        let snapshot = self.content.snapshot();
        self.metrics.applied(received, changes.len(), &snapshot);
        self.watch_cache.publish(changes, snapshot);
        let (events, bytes) = self.watch_cache.ring_size();
        self.metrics.ring(events, bytes);
        Ok(())
    }
}

impl Handler<FillFailed> for Cacher {
    type Result = ();

    fn handle(&mut self, message: FillFailed, _: &mut Context<Cacher>) {
        if message.is_broken {
            self.generation = None;
            self.watch_cache.abandon(Some(message.error));
        } else if self.generation.is_none() {
            self.watch_cache.set_pending(Some(message.error));
        }
    }
}

impl Handler<Stop> for Cacher {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Cacher>) {
        let content = self.content.replace(Snapshot::default());
        let published = self.watch_cache.set_stopped();
        free_off_thread((content, published));
        context.stop();
    }
}

#[cfg(test)]
impl Handler<super::messages::Panic> for Cacher {
    type Result = ();

    fn handle(&mut self, _: super::messages::Panic, _: &mut Context<Cacher>) {
        panic!("a test requested this panic");
    }
}
