//! The leases of the log: granted, revoked, expired. A set holds the keys of each. Pure.

use std::time::{Duration, SystemTime};

use super::log::EventLog;
use crate::engine::local::LeaseTime;
use crate::engine::{
    Change, EngineError, Event, Expect, Expiry, Key, Lease, LeaseId, Mutation, Origin, Prepared,
    Revision,
};

/// Keys deleted in one step of expiry.
const STEP_KEYS: usize = 64;

impl EventLog {
    /// The time by which leases are judged: it never goes back.
    pub(super) fn lease_time(&mut self, now: SystemTime) -> LeaseTime {
        let now = now.duration_since(SystemTime::UNIX_EPOCH);
        self.time = self.time.max(LeaseTime(now.unwrap_or_default()));
        self.time
    }

    /// Moves a key from the lease that holds it to another; 0 means no lease.
    pub(super) fn attach(&mut self, key: &Key, held: LeaseId, lease: LeaseId) {
        if let Some(keys) = self.attached.get_mut(&held) {
            keys.remove(key);
        }
        if lease != LeaseId::default() {
            self.attached.entry(lease).or_default().insert(key.clone());
        }
    }

    pub(super) fn grant(&mut self, ttl: Duration, now: SystemTime) -> Lease {
        let deadline = self.lease_time(now).after(ttl);
        let id = LeaseId(self.last_lease.0 + 1);
        self.last_lease = id;
        self.leases.insert(id, deadline);
        Lease { id, ttl }
    }

    /// Ends a lease and deletes all of its keys.
    pub(super) fn revoke(
        &mut self,
        lease: LeaseId,
        now: SystemTime,
    ) -> Result<Vec<Event>, EngineError> {
        if !self.leases.revoke(lease) {
            return Err(EngineError::LeaseNotFound(lease));
        }
        Ok(self.end(lease, usize::MAX, now))
    }

    /// Deletes some keys of leases that have run out.
    pub(super) fn expire(&mut self, now: SystemTime) -> (Expiry, Vec<Event>) {
        let time = self.lease_time(now);
        let mut events = Vec::new();
        while events.len() < STEP_KEYS
            && let Some(lease) = self.leases.due(time)
        {
            let rest = STEP_KEYS - events.len();
            events.extend(self.end(lease, rest, now));
        }
        let expiry = Expiry {
            expired: events.len() as u64,
            more: self.leases.due(time).is_some(),
            next: self.leases.until_next(time),
        };
        (expiry, events)
    }

    /// Deletes keys of a lease, at most `keys_max`, and the lease with its last key.
    fn end(&mut self, lease: LeaseId, keys_max: usize, now: SystemTime) -> Vec<Event> {
        let attached = self.attached.get(&lease);
        let keys: Vec<Key> = attached
            .into_iter()
            .flatten()
            .take(keys_max)
            .cloned()
            .collect();
        let deleted = keys.into_iter().map(|key| {
            let mutation = Mutation {
                key,
                expect: Expect::Unchanged(Revision::ZERO),
                change: Change::Delete,
                origin: Origin::default(),
                prepared: Prepared::default(),
            };
            self.append(mutation, lease, now)
        });
        let events = deleted.collect();
        if self.attached.get(&lease).is_none_or(|keys| keys.is_empty()) {
            self.attached.remove(&lease);
            self.leases.remove(lease);
        }
        events
    }
}
