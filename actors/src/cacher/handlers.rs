//! One handler per message, each a few lines over the store and the shared part.

use std::sync::Arc;

use actix::{ActorContext, Context, Handler};

use super::Cacher;
use super::messages::{Apply, FillFailed, Outdated, Place, Replace, Stop, WhereToResume};
use crate::snapshot::Snapshot;

impl Handler<WhereToResume> for Cacher {
    type Result = Option<Place>;

    fn handle(&mut self, _: WhereToResume, _: &mut Context<Cacher>) -> Option<Place> {
        let generation = self.generation?;
        if self.store.snapshot().unreadable_count() > 0 {
            // Only who has read it knows the values that may be read later.
            return None;
        }
        Some(Place {
            generation,
            revision: self.store.revision(),
            epoch: self.store.epoch(),
        })
    }
}

impl Handler<Replace> for Cacher {
    type Result = u64;

    fn handle(&mut self, message: Replace, _: &mut Context<Cacher>) -> u64 {
        let before = self.store.replace(message.content);
        let (generation, published) = self.shared.replace(self.store.snapshot());
        free_elsewhere((before, published));
        self.generation = Some(generation);
        self.metrics.replaced(&self.store.snapshot());
        tracing::debug!(resource = self.shared.resource, generation, "cache filled");
        generation
    }
}

/// A hundred thousand objects are not freed on a thread that other actors share.
fn free_elsewhere(contents: (Snapshot, Option<Arc<Snapshot>>)) {
    if !contents.0.is_empty() {
        actix_rt::task::spawn_blocking(move || drop(contents));
    }
}

impl Handler<Apply> for Cacher {
    type Result = Result<(), Outdated>;

    fn handle(&mut self, message: Apply, _: &mut Context<Cacher>) -> Result<(), Outdated> {
        if self.generation != Some(message.generation) {
            return Err(Outdated);
        }
        let received = message.updates.len();
        let changes = self.store.apply(message.updates, message.up_to);
        let snapshot = self.store.snapshot();
        self.metrics.applied(received, changes.len(), &snapshot);
        self.shared.publish(changes, snapshot);
        self.metrics.ring(self.shared.ring_size());
        Ok(())
    }
}

impl Handler<FillFailed> for Cacher {
    type Result = ();

    fn handle(&mut self, message: FillFailed, _: &mut Context<Cacher>) {
        if message.is_broken {
            self.generation = None;
            self.shared.abandon(Some(message.error));
        } else if self.generation.is_none() {
            self.shared.set_pending(Some(message.error));
        }
    }
}

impl Handler<Stop> for Cacher {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Cacher>) {
        let content = self.store.replace(Snapshot::default());
        let published = self.shared.set_stopped();
        free_elsewhere((content, published));
        context.stop();
    }
}

#[cfg(test)]
impl Handler<super::messages::Panic> for Cacher {
    type Result = ();

    fn handle(&mut self, _: super::messages::Panic, _: &mut Context<Cacher>) {
        panic!("told to panic");
    }
}
