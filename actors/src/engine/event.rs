//! What a store keeps and what changes it: values, events, mutations. Pure.

use std::time::SystemTime;

use bytes::Bytes;

use super::key::{Key, LeaseId, Revision};

/// Who caused an event: kept in the log for history and audit, shown to no ordinary client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The authenticated user's name, such as `admin` or `system:taffrail:namespaces`.
    pub user: String,
    /// The field manager of the request, if any.
    pub manager: String,
    /// The request's `Audit-ID`.
    pub audit_id: String,
}

/// One key's value at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The physical key.
    pub key: Key,
    /// The stored bytes.
    pub value: Bytes,
    /// The revision of the put that brought the key into being.
    pub create_revision: Revision,
    /// The revision of the put that wrote this value (etcd's `mod_revision`).
    pub revision: Revision,
    /// How many puts the key has seen since it came into being, from 1.
    pub version: u64,
    /// The lease the key is attached to.
    pub lease: LeaseId,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key has a new value.
    Put,
    /// The key is gone.
    Delete,
}

/// A committed fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the store's order.
    pub revision: Revision,
    /// The key it is about.
    pub key: Key,
    /// Put or delete.
    pub kind: EventKind,
    /// The new value; empty for a delete.
    pub value: Bytes,
    /// The revision that brought the key into being (equal to `revision` for a create).
    pub create_revision: Revision,
    /// The revision of the key's value before this event; 0 when it was absent. An engine that
    /// has forgotten it names a revision at which that value was the newest.
    pub prev_revision: Revision,
    /// Puts since the key came into being; 0 for a delete.
    pub version: u64,
    /// The lease the new value is attached to. Of a delete the lease whose end it was, where the
    /// engine knows that.
    pub lease: LeaseId,
    /// Wall-clock time of the commit.
    pub time: SystemTime,
    /// Who caused it.
    pub origin: Origin,
    /// The value before this event, where the reader asked for it or the engine had it at hand.
    /// In the answers of [`super::DataEngine::history`] every event with a `prev_revision` has it.
    pub previous: Option<Bytes>,
}

impl Event {
    /// What the event left at its key, of a put.
    pub fn key_value(&self) -> KeyValue {
        KeyValue {
            key: self.key.clone(),
            value: self.value.clone(),
            create_revision: self.create_revision,
            revision: self.revision,
            version: self.version,
            lease: self.lease,
        }
    }
}

/// What must hold of a key for a mutation to take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key must be absent; a delete that expects this is always refused.
    Absent,
    /// The key's value must still be the one of this revision.
    Unchanged(Revision),
}

/// What a mutation does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store this value, attached to this lease.
    Put {
        /// The bytes to store.
        value: Bytes,
        /// The lease that the key is attached to from now on, and to no other; 0 detaches it from
        /// any it had (ST-57).
        lease: LeaseId,
    },
    /// Remove the key.
    Delete,
}

/// A requested change with a precondition. The engine answers with an event or with a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The key to change.
    pub key: Key,
    /// What must hold.
    pub expect: Expect,
    /// What to do.
    pub change: Change,
    /// Who wants it.
    pub origin: Origin,
}

/// The answer to a mutation. Both kinds are given only once the state they speak of is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took place.
    Committed(Event),
    /// The precondition did not hold.
    Refused {
        /// The key's value now, `None` when it is absent.
        current: Option<KeyValue>,
        /// The store's revision when it was looked at.
        revision: Revision,
    },
}
