//! The log, in maps. It decides mutations, answers reads and removes history. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::time::SystemTime;

use bytes::Bytes;

use crate::engine::local::{self, LeaseQueue, LeaseTime, TimelineMark, horizon};
use crate::engine::{
    At, Change, EngineError, EngineStats, Event, EventKind, GetResponse, HistoryChunk,
    HistoryRequest, Key, LeaseId, Maintenance, Mutation, Outcome, RangeRequest, RangeResponse,
    Retention, Revision,
};

/// Values up to this size come in one answer to a range without a limit.
const RANGE_BYTES: usize = 4 * 1024 * 1024;

/// The log and what is derived from it.
#[derive(Default)]
pub(super) struct EventLog {
    pub(super) revision: Revision,
    compacted: Revision,
    /// Events retained.
    events: BTreeMap<Revision, Event>,
    /// Revisions of retained events by key, ascending.
    pub(super) keys: BTreeMap<Key, Vec<Revision>>,
    /// Keys that exist.
    live_keys: u64,
    retained_bytes: u64,
    superseded_bytes: u64,
    marks: VecDeque<TimelineMark>,
    /// Events whose predecessors are removed once they are compacted, oldest first.
    superseding: VecDeque<Revision>,
    pub(super) leases: LeaseQueue,
    pub(super) attached: HashMap<LeaseId, BTreeSet<Key>>,
    pub(super) last_lease: LeaseId,
    /// The latest time seen, since 1970. It never goes back: leases are judged by it.
    pub(super) time: LeaseTime,
}

impl EventLog {
    pub(super) fn compacted(&self) -> Revision {
        self.compacted
    }

    pub(super) fn stats(&self) -> EngineStats {
        EngineStats {
            revision: self.revision,
            compacted: self.compacted,
            live_keys: self.live_keys,
            retained_bytes: self.retained_bytes,
            file_bytes: 0,
        }
    }

    /// The retained records after a revision and up to another one, of about this many bytes.
    pub(super) fn records(&self, after: Revision, until: Revision, bytes_max: usize) -> Vec<Event> {
        let mut bytes = 0;
        let between = (Bound::Excluded(after), Bound::Included(until.max(after)));
        let records = self.events.range(between);
        let some = records.take_while(|(_, event)| {
            let is_wanted = bytes < bytes_max;
            bytes += event.value.len();
            is_wanted
        });
        some.map(|(_, event)| event.clone()).collect()
    }

    pub(super) fn commit(
        &mut self,
        mutation: Mutation,
        now: SystemTime,
    ) -> Result<Outcome, EngineError> {
        let current = self.value_at(&mutation.key, self.revision);
        let holds = mutation.expect.holds(current.map(|event| event.revision));
        // An absent key can't be deleted, whatever was expected.
        let deletes_nothing = current.is_none() && mutation.change == Change::Delete;
        if !holds || deletes_nothing {
            return Ok(Outcome::Refused {
                current: current.map(Event::key_value),
                revision: self.revision,
            });
        }
        if let Change::Put { lease, .. } = mutation.change {
            let time = self.lease_time(now);
            if lease != LeaseId::default() && !self.leases.is_alive(lease, time) {
                return Err(EngineError::LeaseNotFound(lease));
            }
        }
        Ok(Outcome::Committed(self.append(
            mutation,
            LeaseId::default(),
            now,
        )))
    }

    /// Appends the event of a mutation whose precondition holds. `ended` is the lease whose end
    /// deletes the key; 0 for none.
    pub(super) fn append(&mut self, mutation: Mutation, ended: LeaseId, now: SystemTime) -> Event {
        let before = self.value_at(&mutation.key, self.revision);
        let (prev_revision, create_revision, version) = before.map_or_else(
            || (Revision::ZERO, Revision::ZERO, 0),
            |event| (event.revision, event.create_revision, event.version),
        );
        let held = before.map_or(LeaseId::default(), |event| event.lease);
        let revision = self.revision.next();
        let (kind, value, lease, version) = match mutation.change {
            Change::Put { value, lease } => (EventKind::Put, value, lease, version + 1),
            Change::Delete => (EventKind::Delete, Bytes::new(), ended, 0),
        };
        let attached = match kind {
            EventKind::Put => lease,
            EventKind::Delete => LeaseId::default(),
        };
        self.attach(&mutation.key, held, attached);
        let created = prev_revision == Revision::ZERO && kind == EventKind::Put;
        let event = Event {
            revision,
            key: mutation.key,
            kind,
            value,
            create_revision: if created { revision } else { create_revision },
            prev_revision,
            version,
            lease,
            time: now,
            origin: mutation.origin,
            previous: None,
            prepared: mutation.prepared,
        };
        self.apply(event.clone());
        event
    }

    fn apply(&mut self, event: Event) {
        self.revision = event.revision;
        let existed = event.prev_revision != Revision::ZERO;
        match event.kind {
            EventKind::Put if !existed => self.live_keys += 1,
            EventKind::Delete if existed => self.live_keys -= 1,
            EventKind::Put | EventKind::Delete => {}
        }
        self.retained_bytes += weight(&event);
        if let Some(previous) = self.events.get(&event.prev_revision) {
            self.superseded_bytes += weight(previous);
        }
        if event.kind == EventKind::Delete {
            self.superseded_bytes += weight(&event);
        }
        if existed || event.kind == EventKind::Delete {
            self.superseding.push_back(event.revision);
        }
        self.marks.push_back(TimelineMark {
            revision: event.revision,
            time: event.time,
            superseded_bytes: self.superseded_bytes,
        });
        self.keys
            .entry(event.key.clone())
            .or_default()
            .push(event.revision);
        self.events.insert(event.revision, event);
    }

    pub(super) fn get(&self, key: &Key, at: At) -> Result<GetResponse, EngineError> {
        let at = self.check_at(at)?;
        Ok(GetResponse {
            revision: self.revision,
            item: self.value_at(key, at).map(Event::key_value),
        })
    }

    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, EngineError> {
        let at = self.check_at(request.at)?;
        let prefix = request.prefix.as_bytes();
        let start = request.start.as_deref().unwrap_or(prefix).max(prefix);
        let (mut items, mut more, mut count, mut bytes) = (Vec::new(), false, 0, 0);
        for (key, revisions) in self
            .keys
            .range::<[u8], _>((Bound::Included(start), Bound::Unbounded))
        {
            if !request.prefix.covers(key) {
                break;
            }
            let Some(event) = self.value_of(revisions, at) else {
                continue;
            };
            count += 1;
            more = more
                || request.count_only
                || (request.limit > 0 && items.len() >= request.limit)
                || bytes >= RANGE_BYTES;
            if !more {
                bytes += event.value.len();
                items.push(event.key_value());
            }
        }
        Ok(RangeResponse {
            revision: self.revision,
            items,
            more: more && !request.count_only,
            count,
        })
    }

    pub(super) fn history(&self, request: &HistoryRequest) -> Result<HistoryChunk, EngineError> {
        self.check_after(request.after)?;
        let until = request.until.min(self.revision).max(request.after);
        let mut chunk = HistoryChunk {
            events: Vec::new(),
            reached: until,
        };
        if request.after >= until {
            return Ok(chunk);
        }
        let mut bytes = 0;
        let range = (Bound::Excluded(request.after), Bound::Included(until));
        for (revision, event) in self.events.range(range) {
            if !request.prefix.covers(&event.key) {
                continue;
            }
            if bytes >= request.bytes_max && !chunk.events.is_empty() {
                chunk.reached = Revision(revision.0 - 1);
                break;
            }
            let previous = self
                .events
                .get(&event.prev_revision)
                .map(|event| event.value.clone());
            bytes += event.value.len() + previous.as_ref().map_or(0, Bytes::len);
            chunk.events.push(Event {
                previous,
                ..event.clone()
            });
        }
        Ok(chunk)
    }

    /// Whether every event after this revision is still there.
    pub(super) fn check_after(&self, after: Revision) -> Result<(), EngineError> {
        local::check_after(after, self.compacted)
    }

    pub(super) fn horizon(&self, retention: Retention, now: SystemTime) -> Revision {
        horizon(
            self.marks.iter().copied(),
            retention,
            now,
            self.superseded_bytes,
        )
    }

    pub(super) fn compact(&mut self, up_to: Revision) -> Result<(), EngineError> {
        local::check_future(up_to, self.revision)?;
        self.compacted = self.compacted.max(up_to);
        while self
            .marks
            .front()
            .is_some_and(|mark| mark.revision <= self.compacted)
        {
            self.marks.pop_front();
        }
        Ok(())
    }

    /// Removes what was compacted, at most `records_max` records.
    pub(super) fn maintain(&mut self, records_max: usize) -> Maintenance {
        let mut removed = 0;
        while removed < records_max as u64
            && let Some(revision) = self.next_compacted()
        {
            self.superseding.pop_front();
            let Some(event) = self.events.get(&revision).cloned() else {
                continue;
            };
            removed += self.forget(&event.key, event.prev_revision);
            if event.kind == EventKind::Delete {
                removed += self.forget(&event.key, revision);
            }
        }
        Maintenance {
            removed,
            reclaimed_bytes: 0,
            more: self.next_compacted().is_some(),
        }
    }

    fn next_compacted(&self) -> Option<Revision> {
        self.superseding
            .front()
            .copied()
            .filter(|revision| *revision <= self.compacted)
    }

    fn forget(&mut self, key: &Key, revision: Revision) -> u64 {
        let Some(event) = self.events.remove(&revision) else {
            return 0;
        };
        self.retained_bytes -= weight(&event);
        if let Some(revisions) = self.keys.get_mut(key) {
            revisions.retain(|other| *other != revision);
            if revisions.is_empty() {
                self.keys.remove(key);
            }
        }
        1
    }

    /// The put that gave the key the value it has at this revision.
    pub(super) fn value_at(&self, key: &Key, at: Revision) -> Option<&Event> {
        self.value_of(self.keys.get(key)?, at)
    }

    /// The same, of the revisions of the key.
    pub(super) fn value_of(&self, revisions: &[Revision], at: Revision) -> Option<&Event> {
        let upto = revisions.partition_point(|revision| *revision <= at);
        let revision = revisions.get(upto.checked_sub(1)?)?;
        self.events
            .get(revision)
            .filter(|event| event.kind == EventKind::Put)
    }

    fn check_at(&self, at: At) -> Result<Revision, EngineError> {
        local::resolve(at, self.revision, self.compacted)
    }
}

fn weight(event: &Event) -> u64 {
    (event.key.as_bytes().len() + event.value.len()) as u64
}
