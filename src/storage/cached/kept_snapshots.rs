//! Snapshots that are kept for the next page of a list (docs/design.md 5, LI-27, LI-30). Pure,
//! except for its lock.
//!
//! A kept snapshot differs from the newest one in the objects that were replaced since. The ring
//! holds these anyway. So a snapshot is kept only while the ring reaches back to it, and costs
//! little more than its tree.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::Revision;
use actors::snapshot::Snapshot;
use metrics::{Gauge, gauge};
use parking_lot::Mutex;

/// The most snapshots of one resource, for lists that clients page through at the same time. The
/// store serves older ones.
const SNAPSHOTS_MAX: usize = 16;

/// How long a snapshot is kept for the next page, before the store must serve it: about the
/// lifetime of kube-apiserver's tokens.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// The kept snapshots of one resource.
pub(super) struct KeptSnapshots {
    snapshots: Mutex<VecDeque<Entry>>,
    count: Gauge,
}

/// The conditions under which kept snapshots are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The oldest revision in the ring.
    pub(super) floor: Revision,
    /// The epoch of the store. The same revision in another epoch is another state.
    pub(super) epoch: u64,
}

struct Entry {
    /// The version of the list.
    revision: Revision,
    snapshot: Arc<Snapshot>,
    since: Instant,
}

impl KeptSnapshots {
    /// Creates an empty set.
    pub(super) fn new(resource: &str) -> KeptSnapshots {
        KeptSnapshots {
            snapshots: Mutex::default(),
            count: gauge!("taffrail_kept_snapshots", "resource" => resource.to_owned()),
        }
    }

    /// Keeps the snapshot of a list at this version, for its next page.
    pub(super) fn keep(&self, revision: Revision, snapshot: &Arc<Snapshot>, bounds: Bounds) {
        let now = Instant::now();
        let mut snapshots = self.snapshots.lock();
        prune(&mut snapshots, bounds, now);
        if let Some(known) = snapshots
            .iter_mut()
            .find(|entry| entry.revision == revision)
        {
            known.since = now;
            return;
        }
        if snapshots.len() == SNAPSHOTS_MAX {
            snapshots.pop_front();
        }
        snapshots.push_back(Entry {
            revision,
            snapshot: Arc::clone(snapshot),
            since: now,
        });
        self.count.set(snapshots.len() as f64);
    }

    /// The snapshot at a version, if it is kept.
    pub(super) fn find(&self, revision: Revision, bounds: Bounds) -> Option<Arc<Snapshot>> {
        let mut snapshots = self.snapshots.lock();
        prune(&mut snapshots, bounds, Instant::now());
        self.count.set(snapshots.len() as f64);
        let found = snapshots.iter().find(|entry| entry.revision == revision)?;
        Some(Arc::clone(&found.snapshot))
    }
}

fn prune(snapshots: &mut VecDeque<Entry>, bounds: Bounds, now: Instant) {
    snapshots.retain(|entry| {
        entry.snapshot.epoch == bounds.epoch
            && entry.snapshot.revision >= bounds.floor
            && now.duration_since(entry.since) < KEPT_FOR
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(revision: u64) -> Arc<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.revision = Revision(revision);
        Arc::new(snapshot)
    }

    fn bounds(floor: u64) -> Bounds {
        Bounds {
            floor: Revision(floor),
            epoch: 0,
        }
    }

    fn kept(revisions: impl IntoIterator<Item = u64>) -> KeptSnapshots {
        let kept = KeptSnapshots::new("things");
        for revision in revisions {
            kept.keep(Revision(revision), &snapshot(revision), bounds(0));
        }
        kept
    }

    #[test]
    fn a_snapshot_is_found_by_the_version_its_list_showed() {
        let kept = kept([7]);
        kept.keep(Revision(12), &snapshot(9), bounds(0));
        let found = |revision| {
            let found = kept.find(Revision(revision), bounds(0));
            found.map(|snapshot| snapshot.revision)
        };
        assert_eq!(found(7), Some(Revision(7)));
        assert_eq!(found(12), Some(Revision(9)));
        assert_eq!(found(9), None);
    }

    #[test]
    fn what_the_ring_does_not_reach_and_what_is_too_much_is_let_go() {
        let kept = kept(1..=20);
        assert!(kept.find(Revision(4), bounds(0)).is_none());
        assert!(kept.find(Revision(5), bounds(0)).is_some());
        assert!(kept.find(Revision(12), bounds(13)).is_none());
        assert!(kept.find(Revision(13), bounds(13)).is_some());
        assert_eq!(kept.snapshots.lock().len(), 8);
    }

    #[test]
    fn a_store_in_another_epoch_has_other_states() {
        let kept = kept([7]);
        let other = Bounds {
            epoch: 1,
            ..bounds(0)
        };
        assert!(kept.find(Revision(7), other).is_none());
    }
}
