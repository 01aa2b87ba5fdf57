//! Converts etcd's watch messages into events, whole revisions at a time. Pure.

use std::time::SystemTime;

use actors::engine::{Event, EventKind, Key, KeyValue, LeaseId, Origin, Prepared, Revision};
use bytes::Bytes;
use etcd_client::proto::{PbEvent, PbKeyValue};

use super::cluster_state::revision;

/// etcd's numbers of the two types of events.
const PUT: i32 = 0;
const DELETE: i32 = 1;

/// Joins messages that etcd has split into fragments. A revision is passed on once all its events
/// are there. A transaction has several events, and so has an expiring lease.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// Events of the revision that may go on in the next fragment.
    held: Vec<Event>,
}

impl Assembler {
    /// Takes the events of a message. `cut` says that the next fragment continues it. Events up to
    /// `after` are skipped: a watch from the future gets nothing older (WA-10).
    ///
    /// # Errors
    /// The part of the message that cannot be understood.
    pub(super) fn take(
        &mut self,
        events: Vec<PbEvent>,
        cut: bool,
        after: Revision,
        now: SystemTime,
    ) -> Result<Vec<Event>, String> {
        let mut whole = std::mem::take(&mut self.held);
        for event in events {
            let event = read(event, now)?;
            if event.revision > after {
                whole.push(event);
            }
        }
        if cut && let Some(last) = whole.last().map(|event| event.revision) {
            let goes_on = whole.partition_point(|event| event.revision < last);
            self.held = whole.split_off(goes_on);
        }
        Ok(whole)
    }
}

fn read(event: PbEvent, now: SystemTime) -> Result<Event, String> {
    let kv = event.kv.ok_or("an event without a key")?;
    let happened = revision(kv.mod_revision);
    let previous = event.prev_kv;
    let (kind, version) = match event.r#type {
        PUT => (EventKind::Put, kv.version),
        DELETE => (EventKind::Delete, 0),
        other => return Err(format!("an event of the unknown type {other}")),
    };
    // A new key has no previous value. Where etcd has compacted the previous value, the revision
    // before this one stands for it (WA-32, PF-29).
    let is_new = kind == EventKind::Put && kv.version == 1;
    let prev_revision = match &previous {
        Some(before) => revision(before.mod_revision),
        None if is_new => Revision::ZERO,
        None => Revision(happened.0.saturating_sub(1)),
    };
    let create_revision = match (&previous, kind) {
        (Some(before), EventKind::Delete) => revision(before.create_revision),
        _ => revision(kv.create_revision),
    };
    Ok(Event {
        revision: happened,
        key: Key::new(&kv.key),
        kind,
        value: Bytes::from(kv.value),
        create_revision,
        prev_revision,
        version: u64::try_from(version).unwrap_or_default(),
        lease: lease(kv.lease),
        time: now,
        origin: Origin::default(),
        previous: previous.map(|before| Bytes::from(before.value)),
        prepared: Prepared::default(),
    })
}

/// A value as the port has it.
pub(super) fn key_value(kv: PbKeyValue) -> KeyValue {
    KeyValue {
        key: Key::new(&kv.key),
        value: Bytes::from(kv.value),
        create_revision: revision(kv.create_revision),
        revision: revision(kv.mod_revision),
        version: u64::try_from(kv.version).unwrap_or_default(),
        lease: lease(kv.lease),
    }
}

/// etcd's leases are signed, and never negative when it chooses them.
fn lease(id: i64) -> LeaseId {
    LeaseId(id as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(key: &str, at: i64, version: i64) -> PbEvent {
        PbEvent {
            r#type: PUT,
            kv: Some(PbKeyValue {
                key: key.into(),
                mod_revision: at,
                create_revision: at,
                version,
                value: b"v".to_vec(),
                lease: 0,
            }),
            prev_kv: None,
        }
    }

    fn take(assembler: &mut Assembler, events: Vec<PbEvent>, cut: bool) -> Vec<u64> {
        let whole = assembler.take(events, cut, Revision(4), SystemTime::UNIX_EPOCH);
        whole
            .unwrap()
            .iter()
            .map(|event| event.revision.0)
            .collect()
    }

    #[test]
    fn a_revision_is_never_split_however_it_is_cut() {
        let mut assembler = Assembler::default();
        let first = vec![event("a", 5, 1), event("b", 6, 1), event("c", 6, 1)];
        assert_eq!(take(&mut assembler, first, true), [5]);
        assert_eq!(take(&mut assembler, vec![event("d", 6, 1)], true), [0; 0]);
        let last = vec![event("e", 6, 1), event("f", 7, 1)];
        assert_eq!(take(&mut assembler, last, false), [6, 6, 6, 6, 7]);
    }

    #[test]
    fn what_is_older_than_the_start_is_passed_over_wa_10() {
        let mut assembler = Assembler::default();
        let events = vec![event("a", 3, 1), event("b", 4, 1), event("c", 5, 1)];
        assert_eq!(take(&mut assembler, events, false), [5]);
    }

    #[test]
    fn a_value_that_was_forgotten_is_not_taken_for_a_creation_wa_32_pf_29() {
        let read = |event| read(event, SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(read(event("a", 9, 1)).prev_revision, Revision::ZERO);
        let forgotten = read(event("a", 9, 3));
        assert_eq!(
            (forgotten.prev_revision, forgotten.previous),
            (Revision(8), None)
        );
        let deleted = PbEvent {
            r#type: DELETE,
            ..event("a", 9, 0)
        };
        assert_eq!(read(deleted).prev_revision, Revision(8));
    }

    #[test]
    fn what_is_unknown_is_an_error() {
        let unknown = PbEvent {
            r#type: 7,
            ..event("a", 9, 1)
        };
        assert!(read(unknown, SystemTime::UNIX_EPOCH).is_err());
        let empty = PbEvent {
            kv: None,
            ..event("a", 9, 1)
        };
        assert!(read(empty, SystemTime::UNIX_EPOCH).is_err());
    }
}
