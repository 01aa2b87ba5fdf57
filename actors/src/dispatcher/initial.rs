//! The initial events of a watch: the objects of a snapshot, piece by piece, as the client takes
//! them.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Prefix, Revision};
use crate::object::CachedObject;
use crate::snapshot::Snapshot;
use crate::watch::{Scope, WatchEventKind, WatchInterest};

/// Where a watcher stands in its initial events.
pub(super) struct Initial {
    interest: WatchInterest,
    prefix: Prefix,
    snapshot: Arc<Snapshot>,
    end_bookmark: Option<Revision>,
    /// The next object to look at lies at or after this key; `None` once all were looked at.
    next: Option<Vec<u8>>,
    selected: std::vec::IntoIter<Arc<CachedObject>>,
}

/// What comes next of the initial events.
pub(super) enum Step {
    /// The frame of an object.
    Frame(Bytes),
    /// The bookmark after the last object (WA-15).
    End(Bytes),
    /// None of the objects just looked at is selected; there are more.
    LookedOn,
    /// They are over: go on with events after this revision.
    Over(Revision),
}

/// Objects that are looked at in one go.
const PIECE: usize = 128;

/// The keys to read for a scope.
pub(super) fn prefix_of(scope: &Scope, resource: &Prefix) -> Prefix {
    match scope {
        Scope::All => resource.clone(),
        Scope::Namespace(prefix) => prefix.clone(),
        Scope::Object(key) => Prefix::new(key.as_bytes()),
    }
}

impl Initial {
    pub(super) fn new(
        interest: WatchInterest,
        resource: &Prefix,
        snapshot: Arc<Snapshot>,
        end_bookmark: Option<Revision>,
    ) -> Initial {
        let prefix = prefix_of(&interest.scope, resource);
        Initial {
            next: Some(prefix.as_bytes().to_vec()),
            prefix,
            interest,
            snapshot,
            end_bookmark,
            selected: Vec::new().into_iter(),
        }
    }

    /// What the watch wants.
    pub(super) fn interest(&self) -> &WatchInterest {
        &self.interest
    }

    /// The next step; `first` if nothing has been sent on the stream yet (API-74).
    pub(super) fn step(&mut self, first: bool) -> Step {
        let projection = &self.interest.projection;
        if let Some(object) = self.selected.next() {
            let kind = WatchEventKind::Added;
            return Step::Frame(projection.frame(kind, &object, object.revision, first));
        }
        if let Some(from) = self.next.take() {
            self.look_on(&from);
            return Step::LookedOn;
        }
        match self.end_bookmark.take() {
            Some(revision) => Step::End(projection.bookmark(revision, true, first)),
            None => Step::Over(self.snapshot.revision),
        }
    }

    fn look_on(&mut self, from: &[u8]) {
        let WatchInterest {
            scope, predicate, ..
        } = &self.interest;
        let piece: Vec<&Arc<CachedObject>> = self
            .snapshot
            .range(&self.prefix, Some(from))
            // Whoever opened the watch has refused a state that can't be read where it is watched.
            .flatten()
            .take(PIECE)
            .collect();
        if let (PIECE, Some(last)) = (piece.len(), piece.last()) {
            self.next = Some([last.key.as_bytes(), b"\0"].concat());
        }
        let is_selected =
            |object: &&Arc<CachedObject>| scope.covers(&object.key) && predicate.matches(object);
        let selected = piece.into_iter().filter(is_selected).cloned();
        self.selected = selected.collect::<Vec<_>>().into_iter();
    }
}
