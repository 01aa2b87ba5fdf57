//! The writer's view of leases.

use std::time::Duration;

use actors::engine::LeaseId;
use actors::engine::local::{LeaseQueue, LeaseTime};

use crate::storage::embedded::lease_clock::LeaseClock;
use crate::storage::embedded::options::EmbeddedOptions;
use crate::storage::embedded::record::nanos_of;
use crate::storage::embedded::schema::LeaseTotals;
use crate::storage::embedded::store::{LeaseRows, Opened};

/// The writer's view of leases.
pub(super) struct WriterLeases {
    pub(super) leases: LeaseQueue,
    pub(super) clock: LeaseClock,
    /// The newest lease ID, even of a grant that failed.
    pub(super) last: LeaseId,
}

impl WriterLeases {
    pub(super) fn new(options: &EmbeddedOptions, opened: &Opened) -> WriterLeases {
        let seen = Duration::from_nanos(opened.meta.leases.time_nanos);
        let uptime = (options.uptime)();
        let mut writer_leases = WriterLeases {
            leases: LeaseQueue::default(),
            clock: LeaseClock::new((options.clock)(), uptime, seen),
            last: opened.meta.leases.last,
        };
        writer_leases.set(&opened.leases, uptime);
        writer_leases.log_state(uptime, LeaseTime(seen));
        writer_leases
    }

    /// Logs what explains why objects vanish at a start, or do not.
    fn log_state(&self, uptime: Duration, seen: LeaseTime) {
        let now = self.clock.now(uptime);
        if let Some(lag) = self.clock.lag() {
            tracing::warn!(
                seconds = lag.as_secs(),
                "the clock lags behind the time in the store: expired leases stay expired, and until \
                 the clock has caught up, leases expire only while the daemon runs"
            );
        }
        let due = self.leases.count_due(now);
        if due > 0 {
            let since = now.since(seen).as_secs();
            tracing::info!(
                leases = due,
                seconds = since,
                "leases have expired since the store was last written, or the clock was set \
                 forward; their objects will be deleted step by step"
            );
        }
    }

    /// Loads the leases after the store was reopened.
    pub(super) fn reload(&mut self, opened: &Opened, uptime: Duration) {
        self.set(&opened.leases, uptime);
        self.last = self.last.max(opened.meta.leases.last);
    }

    /// Loads the leases of a file. Known leases keep their deadlines, whatever the wall clock was
    /// set to since.
    pub(super) fn set(&mut self, rows: &LeaseRows, uptime: Duration) {
        let known = std::mem::take(&mut self.leases);
        for (lease, record) in rows {
            let deadline = known.deadline(*lease);
            let deadline = deadline.unwrap_or_else(|| self.clock.deadline(record, uptime));
            self.leases.insert(*lease, deadline);
            if record.revoked {
                self.leases.revoke(*lease);
            }
        }
        for (lease, until) in known.postponed() {
            self.leases.postpone(lease, until);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(super) fn totals(&self, now: LeaseTime) -> LeaseTotals {
        LeaseTotals {
            last: self.last,
            time_nanos: nanos_of(now.0),
        }
    }
}
