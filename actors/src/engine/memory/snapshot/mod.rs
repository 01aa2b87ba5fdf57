//! Snapshots of the content of a store, and the reset to one. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::log::EventLog;
use crate::engine::{
    Change, EngineError, Event, Expect, Key, LeaseId, Mutation, Origin, Prepared, Revision,
};

/// The content of a store at one time. Clones share it.
#[derive(Clone, Debug)]
pub struct MemorySnapshot {
    /// In the order in which the keys were created.
    rows: Arc<[Row]>,
    /// The time that each lease had left.
    leases: Arc<HashMap<LeaseId, Duration>>,
}

/// The value of one key.
#[derive(Debug)]
struct Row {
    key: Key,
    value: Bytes,
    prepared: Prepared,
    created: Revision,
    lease: LeaseId,
}

impl MemorySnapshot {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the store was empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Row {
    fn of(event: &Event) -> Row {
        Row {
            key: event.key.clone(),
            value: event.value.clone(),
            prepared: event.prepared.clone(),
            created: event.create_revision,
            lease: event.lease,
        }
    }
}

impl EventLog {
    /// The content now.
    pub(super) fn snapshot(&mut self, now: SystemTime) -> MemorySnapshot {
        let time = self.lease_time(now);
        let mut rows: Vec<Row> = self.current().map(Row::of).collect();
        rows.sort_by_key(|row| row.created);
        let leases = rows.iter().filter_map(|row| {
            let deadline = self.leases.deadline(row.lease)?;
            Some((row.lease, deadline.since(time)))
        });
        MemorySnapshot {
            leases: Arc::new(leases.collect()),
            rows: rows.into(),
        }
    }

    /// The puts that gave keys their values.
    fn current(&self) -> impl Iterator<Item = &Event> {
        let revisions = self.keys.values();
        revisions.filter_map(|revisions| self.value_of(revisions, self.revision))
    }

    /// Makes a snapshot the content, by events after all others, and compacts everything before.
    /// Leases have the time left that they had then. Every key gets an event, so the mutation of a
    /// writer that has read an earlier state is refused.
    ///
    /// Keys that go are deleted in the reverse order of their creation. Then the keys of the
    /// snapshot are put in the order of theirs, so that each follows what it depends on.
    ///
    /// # Errors
    /// As of [`EventLog::compact`].
    pub(super) fn reset(
        &mut self,
        snapshot: &MemorySnapshot,
        now: SystemTime,
    ) -> Result<Vec<Event>, EngineError> {
        let kept: HashSet<&Key> = snapshot.rows.iter().map(|row| &row.key).collect();
        let gone = self.current().filter(|event| !kept.contains(&event.key));
        let gone = gone.map(|event| (event.create_revision, event.key.clone()));
        let mut gone: Vec<(Revision, Key)> = gone.collect();
        gone.sort_unstable();
        let mut events = Vec::with_capacity(gone.len() + snapshot.len());
        for (_, key) in gone.into_iter().rev() {
            let deletion = mutation(key, Change::Delete, Prepared::default());
            events.push(self.append(deletion, LeaseId::default(), now));
        }
        let leases = snapshot.leases.iter();
        let leases = leases.map(|(lease, left)| (*lease, self.grant(*left, now).id));
        let leases: HashMap<LeaseId, LeaseId> = leases.collect();
        for row in &*snapshot.rows {
            let change = Change::Put {
                value: row.value.clone(),
                lease: leases.get(&row.lease).copied().unwrap_or_default(),
            };
            let put = mutation(row.key.clone(), change, row.prepared.clone());
            events.push(self.append(put, LeaseId::default(), now));
        }
        self.compact(self.revision)?;
        Ok(events)
    }
}

/// A mutation that is not decided by its precondition.
fn mutation(key: Key, change: Change, prepared: Prepared) -> Mutation {
    Mutation {
        key,
        expect: Expect::Absent,
        change,
        origin: Origin::default(),
        prepared,
    }
}

#[cfg(test)]
mod tests;
