//! The initial events of a watch: the objects of a snapshot, in pieces, as the client takes them.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Prefix, Revision};
use crate::object::CachedObject;
use crate::snapshot::Snapshot;
use crate::watch::{Scope, WatchEventKind, WatchInterest};

/// A watcher's progress through its initial events.
pub(super) struct InitialEvents {
    interest: WatchInterest,
    prefix: Prefix,
    snapshot: Arc<Snapshot>,
    end_bookmark: Option<Revision>,
    /// The next object to evaluate is at or after this key; `None` once all were evaluated.
    next: Option<Vec<u8>>,
    selected: std::vec::IntoIter<Arc<CachedObject>>,
}

/// The next step of the initial events.
pub(super) enum InitialStep {
    /// The frame of an object.
    Frame(Bytes),
    /// The bookmark after the last object (WA-15).
    End(Bytes),
    /// A piece was evaluated. Its selected objects, if any, come next.
    PieceEvaluated,
    /// The initial events are complete. The watch continues after this revision.
    Finished(Revision),
}

/// Objects evaluated in one step.
const PIECE: usize = 128;

/// The prefix of the keys in a scope.
pub(super) fn prefix_of(scope: &Scope, resource: &Prefix) -> Prefix {
    match scope {
        Scope::All => resource.clone(),
        Scope::Namespace(prefix) => prefix.clone(),
        Scope::Object(key) => Prefix::new(key.as_bytes()),
    }
}

impl InitialEvents {
    pub(super) fn new(
        interest: WatchInterest,
        resource: &Prefix,
        snapshot: Arc<Snapshot>,
        end_bookmark: Option<Revision>,
    ) -> InitialEvents {
        let prefix = prefix_of(&interest.scope, resource);
        InitialEvents {
            next: Some(prefix.as_bytes().to_vec()),
            prefix,
            interest,
            snapshot,
            end_bookmark,
            selected: Vec::new().into_iter(),
        }
    }

    /// The interest of the watch.
    pub(super) fn interest(&self) -> &WatchInterest {
        &self.interest
    }

    /// The next step. `first` says whether nothing was sent on the stream yet (API-74).
    pub(super) fn step(&mut self, first: bool) -> InitialStep {
        let projection = &self.interest.projection;
        if let Some(object) = self.selected.next() {
            let kind = WatchEventKind::Added;
            return InitialStep::Frame(projection.frame(kind, &object, object.revision, first));
        }
        if let Some(from) = self.next.take() {
            self.select_next(&from);
            return InitialStep::PieceEvaluated;
        }
        match self.end_bookmark.take() {
            Some(revision) => InitialStep::End(projection.bookmark(revision, true, first)),
            None => InitialStep::Finished(self.snapshot.revision),
        }
    }

    fn select_next(&mut self, from: &[u8]) {
        let WatchInterest {
            scope, predicate, ..
        } = &self.interest;
        let piece: Vec<&Arc<CachedObject>> = self
            .snapshot
            .candidates(&self.prefix, Some(from), &**predicate)
            // The watch was refused if a value in its scope can't be decoded.
            .flatten()
            .take(PIECE)
            .collect();
        if let (PIECE, Some(last)) = (piece.len(), piece.last()) {
            self.next = Some([last.key(), b"\0"].concat());
        }
        let is_selected =
            |object: &&Arc<CachedObject>| scope.covers(object.key()) && predicate.matches(object);
        let selected = piece.into_iter().filter(is_selected).cloned();
        self.selected = selected.collect::<Vec<_>>().into_iter();
    }
}
