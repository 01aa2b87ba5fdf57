//! The whole rewrite: passes until one is clean, then compaction and purge.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::compactor::CompactorHandle;
use actors::engine::Origin;
use actors::tasks;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::pass::Pass;
use super::progress::{Covered, RewriteError, RewriteProgress};
use super::rewritten_store::{RewrittenStore, RewrittenStores};
use super::unserved::{self, UnservedValues};
use crate::storage::encryption::Encryption;
use crate::storage::underlying::RewrittenValues;

/// Progress reports that may wait for the receiver.
const REPORTS_MAX: usize = 16;

/// If this many passes are not enough, another daemon must be writing with an old key.
const PASSES_MAX: u32 = 20;

/// How long the rewrite waits for writes that an earlier configuration has encrypted. Writes end
/// sooner.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// The pause before the next pass while values remain whose lease has expired: the first one and
/// the longest one. Each is twice as long as the one before.
const EXPIRY_PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(15)];

/// The most unreadable values that are named.
const NAMED_MAX: usize = 20;

/// Rewrites the values of all stores.
#[derive(Default)]
pub struct Rewriter {
    encryption: Encryption,
    stores: RewrittenStores,
    /// The compactors of the back ends whose history the daemon keeps itself.
    compactors: BTreeMap<String, CompactorHandle>,
}

impl Rewriter {
    /// Creates a rewriter of these stores. `compactors` are those of the back ends whose history
    /// the daemon keeps itself.
    pub fn new(
        encryption: Encryption,
        stores: RewrittenStores,
        compactors: BTreeMap<String, CompactorHandle>,
    ) -> Rewriter {
        Rewriter {
            encryption,
            stores,
            compactors,
        }
    }

    /// Starts the rewrite in a task of its own and reports its progress. The rewrite ends early if
    /// the receiver is dropped. Two rewrites at a time do no harm.
    pub fn start(
        self: Arc<Self>,
        origin: Origin,
        values: RewrittenValues,
    ) -> Receiver<RewriteProgress> {
        let (progress, reports) = mpsc::channel(REPORTS_MAX);
        tasks::spawn(async move {
            let last = match self.run(&origin, values, &progress).await {
                Ok(done) => {
                    tracing::info!(?done, "storage rewrite is done");
                    done
                }
                Err(RewriteError { reason, unreadable }) => {
                    tracing::warn!(reason, ?unreadable, "storage rewrite failed");
                    RewriteProgress::Failed { reason, unreadable }
                }
            };
            // Without a receiver the log still says how it ended.
            let _ = progress.send(last).await;
        });
        reports
    }

    async fn run(
        &self,
        origin: &Origin,
        values: RewrittenValues,
        progress: &Sender<RewriteProgress>,
    ) -> Result<RewriteProgress, RewriteError> {
        if self.encryption.is_configured() && values == RewrittenValues::All {
            self.reload().await?;
        }
        let (mut rewritten, mut expired, mut is_clean) = (0, 0, false);
        let [mut pause, pause_max] = EXPIRY_PAUSES;
        for number in 1..=PASSES_MAX {
            let generation = self.settled().await?;
            let stores = self.stores.current();
            let pass = Pass::run(&stores, number, values, &mut rewritten, origin, progress);
            let pass = pass.await?;
            expired = pass.expired;
            if expired > 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(pause_max);
            }
            is_clean = pass.is_clean();
            // A resource may have been added, or another version of it may be stored by now.
            let is_of_now = self.stores.are_among(&stores);
            if !is_clean || !is_of_now || self.encryption.generation() != generation {
                continue;
            }
            self.check_rest(&pass, &stores).await?;
            let done = self.purge(pass, &stores, rewritten, progress).await?;
            if self.encryption.generation() == generation {
                return Ok(done);
            }
        }
        Err(match expired {
            0 if is_clean => RewriteError::of(
                "the resources or the encryption configuration have changed again and again: run \
                 this again when they are at rest",
            ),
            0 if values == RewrittenValues::OtherVersions => RewriteError::of(
                "values of other versions are still being written: every daemon on these servers \
                 must store the same versions first",
            ),
            0 => RewriteError::of(
                "values are still being written with old keys: every daemon on these servers must \
                 have today's encryption configuration first",
            ),
            _ => RewriteError::of(format!(
                "{expired} values have outlived their lease and are yet to be deleted, and \
                 need the keys that wrote them until then: run this again later"
            )),
        })
    }

    /// Waits until all writes that an earlier configuration has encrypted have ended. Returns the
    /// generation of the current configuration.
    async fn settled(&self) -> Result<u64, RewriteError> {
        let settled = tokio::time::timeout(SETTLE_MAX, self.encryption.settled()).await;
        settled.map_err(|_| {
            RewriteError::of(
                "writes that began under an earlier encryption configuration have not ended",
            )
        })
    }

    /// Fails if values remain that a pass cannot rewrite: values that cannot be read, and encrypted
    /// values that belong to no served resource.
    async fn check_rest(
        &self,
        pass: &Pass,
        stores: &[Arc<RewrittenStore>],
    ) -> Result<(), RewriteError> {
        let is_of_keys = pass.values == RewrittenValues::All;
        let unserved = match is_of_keys {
            true => unserved::find(stores).await.map_err(RewriteError::of)?,
            false => None,
        };
        let reasons = unreadable(&pass.unreadable).into_iter();
        let reasons = reasons.chain(undecodable(&pass.undecodable));
        let reasons: Vec<String> = reasons.chain(unserved.map(describe)).collect();
        if reasons.is_empty() {
            return Ok(());
        }
        let rest = match is_of_keys {
            true => "is encrypted with the current keys",
            false => "is of the version that is stored",
        };
        let named = pass.unreadable.iter().chain(&pass.undecodable);
        Err(RewriteError {
            reason: format!("{}; everything else {rest}", reasons.join("; ")),
            unreadable: named.take(NAMED_MAX).cloned().collect(),
        })
    }

    /// Reloads the configuration, because the file decides. Otherwise an operator who changed the
    /// file and forgot the reload would remove a key that still writes.
    async fn reload(&self) -> Result<(), RewriteError> {
        let encryption = self.encryption.clone();
        let reload = tasks::spawn_blocking(move || encryption.reload()).await;
        let reload = reload
            .map_err(RewriteError::of)?
            .map_err(RewriteError::of)?;
        tracing::info!("before the storage rewrite: {reload}");
        Ok(())
    }

    async fn purge(
        &self,
        pass: Pass,
        stores: &[Arc<RewrittenStore>],
        rewritten: u64,
        progress: &Sender<RewriteProgress>,
    ) -> Result<RewriteProgress, RewriteError> {
        let (mut compacted, mut reclaimed_bytes) = (None, 0);
        let mut covered = Vec::new();
        let is_encrypted = self.encryption.is_configured();
        let only_versions = pass.values == RewrittenValues::OtherVersions;
        for (back_end, revision) in pass.revisions {
            let mut of_back_end = stores.iter().filter(|one| one.back_end == back_end);
            if let Some(one) = of_back_end.next() {
                let noted = one.engine.note_edition(revision).await;
                noted.map_err(RewriteError::of)?;
            }
            let compactor = self.compactors.get(&back_end);
            let kept = stores.iter().filter(|one| one.back_end == back_end);
            covered.push(Covered {
                resources: kept.count() as u64,
                revision: revision.0,
                is_shared: compactor.is_none(),
                back_end,
            });
            // Without keys a purge would only forget history.
            let Some(compactor) = compactor.filter(|_| is_encrypted && !only_versions) else {
                continue;
            };
            let report = RewriteProgress::Purging {
                revision: revision.0,
            };
            progress
                .send(report)
                .await
                .map_err(|_| RewriteError::unheard())?;
            let report = compactor.purge(revision).await.map_err(|error| {
                RewriteError::of(format!(
                    "everything is encrypted with the current keys, but history still has older \
                     values, as it can't be purged: {error}"
                ))
            })?;
            compacted = compacted.or(Some(report.compacted.0));
            reclaimed_bytes += report.reclaimed_bytes;
        }
        Ok(RewriteProgress::Done {
            seen: pass.seen,
            rewritten,
            is_encrypted,
            only_versions,
            stored_as: stores
                .iter()
                .filter_map(|one| Some((one.resource.clone(), one.custom_version.clone()?)))
                .collect(),
            covered,
            compacted_revision: compacted,
            reclaimed_bytes,
        })
    }
}

fn unreadable(values: &[String]) -> Option<String> {
    let count = values.len();
    (count > 0).then(|| {
        format!(
            "{count} values can't be read by any key: put the keys back that wrote them, or \
             restore or delete them, and run this again"
        )
    })
}

fn undecodable(values: &[String]) -> Option<String> {
    let count = values.len();
    (count > 0).then(|| {
        format!(
            "{count} values of other versions than the stored one can't be decoded, and \
             stay as they are: restore or delete them, and run this again"
        )
    })
}

fn describe(UnservedValues { count, example }: UnservedValues) -> String {
    format!(
        "{count} encrypted values belong to no resource that is served, such as {example}: they \
         still need the keys that wrote them, until whoever serves them has written them anew or \
         they are deleted"
    )
}
