//! How transactions become durable: in the journal, or in redb by a checkpoint.

use std::sync::Arc;
use std::time::Instant;

use actors::engine::Event;
use redb::WriteTransaction;

use super::thread::WriterThread;
use crate::storage::embedded::applier::Applier;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::{Appended, Changes};
use crate::storage::embedded::metrics;
use crate::storage::embedded::store::Store;
use crate::storage::embedded::write_txn::{ChangedRows, WriteTxn};

/// Changes beyond this do not wait for the next commit.
const CARRIED_BYTES_MAX: usize = 1024 * 1024;

impl WriterThread {
    /// Makes a batch durable that was planned on top of the overlay. The applier gives it to redb.
    pub(super) fn commit_planned(
        &mut self,
        store: &Arc<Store>,
        changes: Changes,
        rows: ChangedRows,
        events: &Arc<[Event]>,
    ) -> Result<(), Failure> {
        let mut appended = self.journal.append(&changes)?;
        if appended == Appended::Full && self.begin_checkpoint(store)? {
            appended = self.journal.append(&changes)?;
        }
        if appended == Appended::Full {
            // Everything before is in redb when this transaction begins.
            let transaction = store.write()?;
            let mut txn = WriteTxn::open(&transaction)?;
            txn.make(changes.iter())?;
            drop(txn);
            return self.checkpoint(store, transaction);
        }
        let number = self.apply(store, changes)?;
        self.overlay.add(number, Arc::clone(events), rows);
        if self.journal.is_checkpoint_due() {
            self.begin_checkpoint(store)?;
        }
        Ok(())
    }

    /// Lets the applier give changes to redb. Returns the number of the group.
    fn apply(&mut self, store: &Arc<Store>, changes: Changes) -> Result<u64, Failure> {
        if self.applier.is_none() {
            self.applier = Some(Applier::start(
                Arc::clone(store),
                &self.state.options.watchdog,
            )?);
        }
        Ok(store.unapplied().send(changes))
    }

    /// Lets the applier make changes that need no sync of their own. The next group of the journal
    /// makes them durable, or a checkpoint before it.
    pub(super) fn apply_unsynced(
        &mut self,
        store: &Arc<Store>,
        changes: Changes,
    ) -> Result<(), Failure> {
        let carried = self.journal.carry(&changes);
        self.apply(store, changes)?;
        match carried > CARRIED_BYTES_MAX {
            true => self.sync_carried(store),
            false => Ok(()),
        }
    }

    /// Lets the applier make a checkpoint of everything so far, while groups go to the next epoch.
    /// Returns `false` if another one is still being made, or if the journal is not open.
    fn begin_checkpoint(&mut self, store: &Store) -> Result<bool, Failure> {
        let is_possible = self.applier.is_some() && !self.is_checkpointing();
        let Some(epoch) = is_possible
            .then(|| self.journal.switch())
            .transpose()?
            .flatten()
        else {
            return Ok(false);
        };
        store.unapplied().send_checkpoint(epoch);
        self.has_removed = false;
        self.checkpointed = Instant::now();
        Ok(true)
    }

    /// Whether the applier makes a checkpoint, or is about to.
    pub(super) fn is_checkpointing(&self) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| store.unapplied().is_checkpointing())
    }

    /// Makes a transaction durable, and only then visible. The journal has its changes then, or
    /// redb if the journal has no room for them.
    pub(super) fn commit_durably(
        &mut self,
        store: &Store,
        transaction: WriteTransaction,
        changes: &Changes,
    ) -> Result<(), Failure> {
        match self.journal.append(changes)? {
            Appended::Durably => {
                store.commit_lazily(transaction)?;
                Ok(())
            }
            Appended::Full => self.checkpoint(store, transaction),
        }
    }

    /// Makes a transaction visible without a sync. The next group of the journal makes it durable.
    pub(super) fn commit_unsynced(
        &mut self,
        store: &Store,
        transaction: WriteTransaction,
        changes: &Changes,
    ) -> Result<(), Failure> {
        store.commit_lazily(transaction)?;
        match self.journal.carry(changes) {
            carried if carried > CARRIED_BYTES_MAX => self.sync_carried(store),
            _ => Ok(()),
        }
    }

    fn sync_carried(&mut self, store: &Store) -> Result<(), Failure> {
        match self.journal.append(&Changes::default())? {
            Appended::Durably => Ok(()),
            Appended::Full => self.checkpoint(store, store.write()?),
        }
    }

    /// Makes redb durable with this transaction. The journal begins a new epoch.
    pub(super) fn checkpoint(
        &mut self,
        store: &Store,
        transaction: WriteTransaction,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let prepared = self.journal.prepare()?;
        store.checkpoint(transaction, prepared.epoch())?;
        self.journal.begin(prepared);
        self.has_removed = false;
        self.checkpointed = Instant::now();
        metrics::checkpointed(started.elapsed());
        Ok(())
    }

    /// Makes redb durable, and ends the use of the journal: the database is whole without it.
    pub(super) fn end_journal(&mut self, store: &Store) -> Result<(), Failure> {
        if self.journal.is_open() || self.journal.has_carried() {
            store.checkpoint(store.write()?, 0)?;
            self.has_removed = false;
        }
        self.journal.end();
        Ok(())
    }

    /// Makes unsynced changes durable.
    pub(super) fn sync_pending(&mut self) {
        if !self.journal.has_carried() || self.store.is_none() {
            return;
        }
        // `run_guarded` handles the failure, and no caller waits.
        let _ = self.run_guarded(|writer| {
            let store = writer.store()?;
            writer.sync_carried(&store)
        });
    }

    /// Makes a checkpoint while no request comes, if the last one is long ago, so that opening the
    /// store takes less time. Also if records were removed since, because redb frees their pages
    /// with a checkpoint only.
    pub(super) fn checkpoint_when_idle(&mut self) {
        let is_old = self.checkpointed.elapsed() >= self.state.options.checkpoint_pause;
        let is_due = self.has_removed || (is_old && self.journal.bytes() > 0);
        if !is_due || self.store.is_none() {
            return;
        }
        // As above.
        let _ = self.run_guarded(|writer| {
            let store = writer.store()?;
            writer.checkpoint(&store, store.write()?)
        });
    }
}
