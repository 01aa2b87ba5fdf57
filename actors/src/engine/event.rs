//! The types of a store: values, the events that changed them, and mutations. Pure.

use std::time::SystemTime;

use bytes::Bytes;
use smol_str::SmolStr;

use super::key::{Key, LeaseId, Revision};
use super::prepared::Prepared;
use super::ticket::Ticket;

/// The cause of an event. It is kept in the log for history and audit, and not shown to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The authenticated user's name, such as `admin` or `system:taffrail:namespaces`.
    pub user: SmolStr,
    /// The field manager of the request, if any.
    pub manager: SmolStr,
    /// The request's `Audit-ID`.
    pub audit_id: SmolStr,
}

/// One key's value at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The physical key.
    pub key: Key,
    /// The stored bytes.
    pub value: Bytes,
    /// The revision of the put that created the key.
    pub create_revision: Revision,
    /// The revision of the put that wrote this value (etcd's `mod_revision`).
    pub revision: Revision,
    /// The number of puts since the key was created, from 1.
    pub version: u64,
    /// The lease the key is attached to.
    pub lease: LeaseId,
}

/// The kind of change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key has a new value.
    Put,
    /// The key is gone.
    Delete,
}

/// A committed change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its revision. It defines the order of events.
    pub revision: Revision,
    /// The changed key.
    pub key: Key,
    /// Put or delete.
    pub kind: EventKind,
    /// The new value; empty for a delete.
    pub value: Bytes,
    /// The revision that created the key; equal to `revision` for a create.
    pub create_revision: Revision,
    /// The revision of the key's value before this event; 0 if it was absent. An engine that no
    /// longer knows it gives a revision at which that value was the newest.
    pub prev_revision: Revision,
    /// The number of puts since the key was created; 0 for a delete.
    pub version: u64,
    /// The lease that the new value is attached to. For a delete: the lease that expired, if the
    /// engine knows it.
    pub lease: LeaseId,
    /// Wall-clock time of the commit.
    pub time: SystemTime,
    /// The user and request that caused it.
    pub origin: Origin,
    /// Knowledge of the writer about the value, if the event was written in this process.
    pub prepared: Prepared,
    /// The value before this event, if the engine provides it. In answers of
    /// [`super::DataEngine::history`] every event with a `prev_revision` has it.
    pub previous: Option<Bytes>,
}

impl Event {
    /// The value after a put.
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

/// The precondition of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key must be absent. A delete that expects this is always refused.
    Absent,
    /// The key's value must be the one of this revision.
    Unchanged(Revision),
    /// The key's value must be the one that this earlier mutation leaves. That one may not be
    /// durable yet. It becomes durable together with this one or before it.
    LeftBy(Ticket),
}

impl Expect {
    /// Whether the precondition holds for a key whose value is of this revision; `None` if it is
    /// absent. Only an engine that decides mutations in order, one after the other, may ask this.
    pub fn holds(&self, current: Option<Revision>) -> bool {
        match self {
            Expect::Absent => current.is_none(),
            Expect::Unchanged(revision) => current == Some(*revision),
            Expect::LeftBy(ticket) => current.is_some() && current == ticket.decided(),
        }
    }
}

/// The change that a mutation makes to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store this value, attached to this lease.
    Put {
        /// The bytes to store.
        value: Bytes,
        /// The only lease that the key is attached to from now on; 0 means no lease (ST-57).
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
    /// The precondition.
    pub expect: Expect,
    /// The change to make.
    pub change: Change,
    /// The user and request that caused it.
    pub origin: Origin,
    /// Knowledge of the writer about the value. It travels with the event.
    pub prepared: Prepared,
}

/// The answer to a mutation. Both kinds are given only when the state that they report is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The mutation was committed.
    Committed(Event),
    /// The precondition did not hold.
    Refused {
        /// The key's current value; `None` if it is absent.
        current: Option<KeyValue>,
        /// The store's revision when the key was read.
        revision: Revision,
    },
}
