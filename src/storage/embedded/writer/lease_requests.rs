//! Requests about leases. Leases are granted and revoked here, and the keys of those that ended
//! are deleted, a few keys at a time.

use std::time::{Duration, Instant, SystemTime};

use actors::engine::local::{LeaseQueue, LeaseTime};
use actors::engine::{EngineError, Expiry, HeldLease, Lease, LeaseId};

use super::request::LeaseRequest;
use super::thread::WriterThread;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::lease_clock::Jump;
use crate::storage::embedded::metrics;
use crate::storage::embedded::record::LeaseRecord;
use crate::storage::embedded::write_txn::{Moment, WriteTxn};

/// The most keys that one step deletes. Bounds what watchers get at once.
const STEP_KEYS: usize = 128;

/// How long expiry gives way to a checkpoint.
const GIVES_WAY: Duration = Duration::from_secs(1);

/// How long a lease is set aside when damage keeps it from being ended.
const ASIDE: Duration = Duration::from_secs(3600);

impl WriterThread {
    pub(super) fn carry_out_lease(&mut self, request: LeaseRequest) {
        match request {
            LeaseRequest::Grant(ttl, reply) => reply.send(self.grant(ttl)),
            LeaseRequest::Revoke(lease, reply) => reply.send(self.revoke(lease)),
            LeaseRequest::ContinueRevoking(lease, reply) => {
                reply.send(self.continue_revoking(lease))
            }
            LeaseRequest::Expire(reply) => reply.send(self.expire()),
            LeaseRequest::Renew(lease, reply) => reply.send(self.renew(lease)),
            LeaseRequest::List(reply) => reply.send(self.held_leases()),
        }
    }

    pub(super) fn lease_time(&self) -> LeaseTime {
        self.leases.clock.now((self.state.options.uptime)())
    }

    /// The wall clock, and how long the process has been up.
    fn times(&self) -> (SystemTime, Duration) {
        let options = &self.state.options;
        ((options.clock)(), (options.uptime)())
    }

    /// The time and the leases that mutations are decided by.
    pub(super) fn moment(&self) -> Moment<'_> {
        Moment {
            time: (self.state.options.clock)(),
            leases: &self.leases.leases,
            lease_time: self.lease_time(),
        }
    }

    /// Logs that the wall clock was set. It matters for the times of events. Leases use the uptime
    /// of the process.
    pub(super) fn check_clock(&mut self) {
        let (wall, uptime) = self.times();
        match self.leases.clock.check(wall, uptime) {
            None => {}
            Some(jump @ Jump::Forward(_)) => tracing::warn!(
                %jump,
                "the clock was set forward, or the machine slept: leases expire as granted, and by \
                 the new time after a restart"
            ),
            Some(jump @ Jump::Back(_)) => {
                tracing::warn!(
                    %jump,
                    "the clock was set back: leases expire as granted, and none is revived"
                );
                if let Err(error) = self.correct_stored_deadlines() {
                    tracing::warn!(
                        %error,
                        "correcting stored leases failed: leases granted while the clock was ahead \
                         may be revived by a restart"
                    );
                }
            }
        }
    }

    /// Corrects the stored deadlines of leases that were granted while the clock was ahead. Their
    /// deadlines would revive them at the next start.
    fn correct_stored_deadlines(&mut self) -> Result<(), EngineError> {
        if self.leases.is_empty() {
            return Ok(());
        }
        let (wall, uptime) = self.times();
        self.run_guarded(|writer| {
            let clock = &writer.leases.clock;
            let now = clock.now(uptime);
            let store = writer.store()?;
            let rows = store.leases()?;
            let transaction = store.write()?;
            let mut txn = WriteTxn::open_recorded(&transaction)?;
            for (lease, record) in rows.into_iter().filter(|(_, record)| !record.revoked) {
                let Some(deadline) = writer.leases.leases.deadline(lease) else {
                    continue;
                };
                let deadline = clock.stored_deadline(wall, uptime, deadline.since(now));
                if deadline < record.deadline {
                    txn.put_lease(lease, &LeaseRecord { deadline, ..record })?;
                }
            }
            let (_, changes) = txn.finish()?;
            writer.commit_unsynced(&store, transaction, &changes)?;
            Ok(())
        })
    }

    /// Grants a lease without a sync. The first put that uses the lease syncs both. A lease that a
    /// power loss removes before that has kept no key alive.
    fn grant(&mut self, ttl: Duration) -> Result<Lease, EngineError> {
        if let Some(why) = self.check_disk_space(Instant::now()) {
            return Err(EngineError::OutOfSpace(why));
        }
        let (wall, uptime) = self.times();
        let clock = &self.leases.clock;
        let now = clock.now(uptime);
        let record = LeaseRecord {
            revoked: false,
            ttl,
            deadline: clock.stored_deadline(wall, uptime, ttl),
        };
        // The ID is used up even if the grant fails, because the outcome is then unknown.
        let id = LeaseId(self.leases.last.0.saturating_add(1));
        self.leases.last = id;
        self.run_guarded(|writer| {
            let store = writer.store()?;
            let transaction = store.write()?;
            let mut txn = WriteTxn::open_recorded(&transaction)?;
            txn.put_lease(id, &record)?;
            txn.set_lease_totals(writer.leases.totals(now))?;
            let (_, changes) = txn.finish()?;
            writer.commit_unsynced(&store, transaction, &changes)?;
            writer.leases.leases.insert(id, now.after(ttl));
            Ok(Lease { id, ttl })
        })
    }

    /// Postpones the deadline of a lease, as unsynced as its grant: after a power loss it may run
    /// out by the deadline before.
    fn renew(&mut self, lease: LeaseId) -> Result<Lease, EngineError> {
        let (wall, uptime) = self.times();
        let now = self.leases.clock.now(uptime);
        // A lease whose time is over is gone, even if its keys are not deleted yet.
        if !self.leases.leases.is_alive(lease, now) {
            return Err(EngineError::LeaseNotFound(lease));
        }
        self.run_guarded(|writer| {
            let store = writer.store()?;
            let Some(record) = store.leases()?.remove(&lease) else {
                return Ok(Err(EngineError::LeaseNotFound(lease)));
            };
            let clock = &writer.leases.clock;
            let deadline = clock.stored_deadline(wall, uptime, record.ttl);
            let transaction = store.write()?;
            let mut txn = WriteTxn::open_recorded(&transaction)?;
            let ttl = record.ttl;
            txn.put_lease(lease, &LeaseRecord { deadline, ..record })?;
            txn.set_lease_totals(writer.leases.totals(now))?;
            let (_, changes) = txn.finish()?;
            writer.commit_unsynced(&store, transaction, &changes)?;
            writer.leases.leases.insert(lease, now.after(ttl));
            Ok(Ok(Lease { id: lease, ttl }))
        })?
    }

    /// The leases that have not ended.
    fn held_leases(&mut self) -> Result<Vec<HeldLease>, EngineError> {
        let now = self.lease_time();
        self.run_guarded(|writer| {
            let rows = writer.store()?.leases()?.into_iter();
            let leases = &writer.leases.leases;
            let held = |(id, record): (LeaseId, LeaseRecord)| {
                let deadline = leases.deadline(id).filter(|_| leases.is_alive(id, now))?;
                Some(HeldLease {
                    lease: Lease {
                        id,
                        ttl: record.ttl,
                    },
                    remaining: deadline.since(now),
                })
            };
            Ok(rows.filter_map(held).collect())
        })
    }

    /// Revokes a lease durably and deletes its keys as far as one step goes. Returns whether keys
    /// are left.
    fn revoke(&mut self, lease: LeaseId) -> Result<bool, EngineError> {
        if !self.leases.leases.can_be_revoked(lease) {
            return Err(EngineError::LeaseNotFound(lease));
        }
        let (wall, uptime) = self.times();
        let clock = &self.leases.clock;
        let revoked = LeaseRecord {
            revoked: true,
            ttl: Duration::ZERO,
            deadline: clock.stored_deadline(wall, uptime, Duration::ZERO),
        };
        let own = |leases: &LeaseQueue| leases.contains(lease).then_some(lease);
        self.end(Some((lease, revoked)), own).0?;
        self.leases.leases.revoke(lease);
        Ok(self.leases.leases.contains(lease))
    }

    /// Deletes more keys of a revoked lease.
    fn continue_revoking(&mut self, lease: LeaseId) -> Result<bool, EngineError> {
        // Expiry may have ended it already.
        if self.leases.leases.contains(lease) {
            let own = |leases: &LeaseQueue| leases.contains(lease).then_some(lease);
            self.end(None, own).0?;
        }
        Ok(self.leases.leases.contains(lease))
    }

    /// Deletes some of the keys whose lease has expired.
    fn expire(&mut self) -> Result<Expiry, EngineError> {
        self.check_clock();
        let now = self.lease_time();
        let expired = match self.leases.leases.due(now) {
            // The step would wait for the checkpoint, and writers for the step. It comes later.
            Some(_) if self.is_checkpointing() && self.checkpointed.elapsed() < GIVES_WAY => 0,
            Some(_) => match self.end(None, |leases| leases.due(now)) {
                // The other leases are next.
                (Err(_), Some(_)) => 0,
                (ended, _) => ended?,
            },
            None => 0,
        };
        let now = self.lease_time();
        Ok(Expiry {
            expired,
            more: self.leases.leases.due(now).is_some(),
            next: self.leases.leases.until_next(now),
        })
    }

    /// One step: ends the leases that `next` names, one after the other, within the time of a step.
    /// Returns how many keys it deleted, and which lease was postponed because it cannot be ended.
    /// Works on a full disk, because deletes do.
    fn end(
        &mut self,
        revoked: Option<(LeaseId, LeaseRecord)>,
        next: impl Fn(&LeaseQueue) -> Option<LeaseId>,
    ) -> (Result<u64, EngineError>, Option<LeaseId>) {
        let (mut gone, mut ending) = (Vec::new(), None);
        let ended =
            self.run_guarded(|writer| writer.end_some(revoked, next, &mut gone, &mut ending));
        let Err(error) = &ended else {
            return (ended, None);
        };
        // The leases still exist. If not, reopening the database corrects this.
        for (lease, deadline) in gone {
            self.leases.leases.insert(lease, deadline);
        }
        let damaged = ending.filter(|_| matches!(error, EngineError::Corrupt(_)));
        if let Some(lease) = damaged {
            let until = self.lease_time().after(ASIDE);
            if self.leases.leases.postpone(lease, until) {
                tracing::error!(
                    lease = lease.0,
                    %error,
                    "a lease cannot be ended, so its keys are not deleted yet; it is tried again \
                     later, after other leases"
                );
            }
        }
        (ended, damaged)
    }

    fn end_some(
        &mut self,
        revoked: Option<(LeaseId, LeaseRecord)>,
        next: impl Fn(&LeaseQueue) -> Option<LeaseId>,
        gone: &mut Vec<(LeaseId, LeaseTime)>,
        ending: &mut Option<LeaseId>,
    ) -> Result<u64, Failure> {
        let started = Instant::now();
        let budget = self.state.options.expiry_budget;
        let time = (self.state.options.clock)();
        let lease_time = self.lease_time();
        let store = self.store()?;
        let transaction = store.write()?;
        let mut txn = WriteTxn::open_recorded(&transaction)?;
        if let Some((lease, record)) = &revoked {
            txn.put_lease(*lease, record)?;
        }
        let mut events = Vec::new();
        let mut looked_at = 0;
        while let Some(lease) = next(&self.leases.leases) {
            *ending = Some(lease);
            let is_gone = txn.end_lease(lease, time, &mut events, |events| {
                looked_at += 1;
                looked_at == 1 || (events.len() < STEP_KEYS && started.elapsed() < budget)
            })?;
            *ending = None;
            if !is_gone {
                break;
            }
            let deadline = self.leases.leases.remove(lease);
            gone.push((lease, deadline.unwrap_or_default()));
            if started.elapsed() >= budget {
                break;
            }
        }
        txn.set_lease_totals(self.leases.totals(lease_time))?;
        let mut last_mark = self.last_mark;
        if !events.is_empty() {
            txn.mark(time, &mut last_mark)?;
        }
        let (totals, changes) = txn.finish()?;
        if events.is_empty() && revoked.is_none() {
            // No key was attached. If this is lost, the leases are ended once more.
            self.commit_unsynced(&store, transaction, &changes)?;
            return Ok(0);
        }
        self.commit_durably(&store, transaction, &changes)?;
        self.last_mark = last_mark;
        let count = events.len();
        metrics::committed(count, count, started.elapsed());
        if count > 0 {
            store.acknowledge(&self.state.name, totals.revision)?;
            self.publish(&events.into(), totals);
        }
        Ok(count as u64)
    }

    /// Stores the current lease time, so that a clock that is set back while no daemon runs revives
    /// no lease.
    pub(super) fn store_lease_time(&mut self) {
        if self.leases.is_empty() || self.store.is_none() {
            return;
        }
        let totals = self.leases.totals(self.lease_time());
        // Best effort, because the daemon ends. Every expiry has stored the time already.
        let _ = self.run_guarded(|writer| {
            let store = writer.store()?;
            let transaction = store.write()?;
            let mut txn = WriteTxn::open_recorded(&transaction)?;
            txn.set_lease_totals(totals)?;
            let (_, changes) = txn.finish()?;
            writer.commit_unsynced(&store, transaction, &changes)?;
            Ok(())
        });
    }
}
