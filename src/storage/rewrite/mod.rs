//! `taffrail storage rewrite`: everything that an old key has written is written anew, online,
//! so that the key may go.
//!
//! The values of each resource are looked at in passes, each at one revision, until a pass finds
//! nothing that another than today's first key wrote. A pass begins once no write is on its way
//! any more that an earlier configuration has encrypted, and counts only if none has come since.
//! What lies beside all resources that are served is looked at too: what is encrypted there needs
//! its keys. History holds what the old key wrote until
//! it is compacted: where the daemon keeps history itself, it is compacted up to the revision of
//! that last pass, and purged from the files. Nothing is remembered between two runs: what one
//! that was cut off has done, the next one finds done.

mod pass;
mod progress;
#[cfg(test)]
mod tests;
mod unserved;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::compactor::CompactorHandle;
use actors::engine::Origin;
use tokio::sync::mpsc::{self, Receiver, Sender};

use self::pass::Pass;
pub use self::progress::{Covered, RewriteProgress};
use self::unserved::UnservedValues;
use super::encryption::Encryption;
use super::underlying::Underlying;

/// Steps that the one who is told may lag behind.
const STEPS_AHEAD: usize = 16;

/// Passes after which somebody else must be writing with an old key.
const PASSES_MAX: u32 = 20;

/// How long is waited for writes that an earlier configuration has encrypted: longer than any of
/// them can take.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// The pause before the next pass while values are there whose lease has run out: the first one,
/// and the longest, as each is twice as long as the one before.
const EXPIRY_PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(15)];

/// So many values that can't be read are named.
const NAMED_MAX: usize = 20;

/// A store whose values are rewritten.
pub struct RewrittenStore {
    /// Its resource, `secrets` or `deployments.apps`.
    pub resource: String,
    /// The back end that keeps it.
    pub back_end: String,
    /// The store itself.
    pub store: Underlying,
}

/// See the module's documentation.
#[derive(Default)]
pub struct Rewriter {
    encryption: Encryption,
    stores: Vec<RewrittenStore>,
    /// Of the back ends whose history the daemon keeps itself.
    compactors: BTreeMap<String, CompactorHandle>,
}

/// Why it can't go on.
struct RewriteError {
    reason: String,
    unreadable: Vec<String>,
}

impl RewriteError {
    fn of(reason: impl ToString) -> RewriteError {
        RewriteError {
            reason: reason.to_string(),
            unreadable: Vec::new(),
        }
    }

    /// Whoever was told has gone away: there is nobody to tell that, either.
    fn unheard() -> RewriteError {
        RewriteError::of("nobody listens any more")
    }
}

impl Rewriter {
    /// A rewriter of these stores; `compactors` are those of the back ends whose history the
    /// daemon keeps itself.
    pub fn new(
        encryption: Encryption,
        stores: Vec<RewrittenStore>,
        compactors: BTreeMap<String, CompactorHandle>,
    ) -> Rewriter {
        Rewriter {
            encryption,
            stores,
            compactors,
        }
    }

    /// Begins, in a task of its own, and tells each step. It ends early when nobody listens any
    /// more. Two at a time do each other no harm.
    pub fn start(self: Arc<Self>, origin: Origin) -> Receiver<RewriteProgress> {
        let (steps, told) = mpsc::channel(STEPS_AHEAD);
        tokio::spawn(async move {
            let last = match self.run(&origin, &steps).await {
                Ok(done) => {
                    tracing::info!(?done, "what is stored is rewritten");
                    done
                }
                Err(RewriteError { reason, unreadable }) => {
                    tracing::warn!(reason, ?unreadable, "what is stored is not all rewritten");
                    RewriteProgress::Failed { reason, unreadable }
                }
            };
            // Whoever has gone away finds it in the log.
            let _ = steps.send(last).await;
        });
        told
    }

    async fn run(
        &self,
        origin: &Origin,
        steps: &Sender<RewriteProgress>,
    ) -> Result<RewriteProgress, RewriteError> {
        self.reload().await?;
        let (mut rewritten, mut dying) = (0, 0);
        let [mut pause, pause_max] = EXPIRY_PAUSES;
        for number in 1..=PASSES_MAX {
            let generation = self.settled().await?;
            let pass = self.pass(number, &mut rewritten, origin, steps).await?;
            dying = pass.dying;
            if dying > 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(pause_max);
            }
            if !pass.is_clean() || self.encryption.generation() != generation {
                continue;
            }
            self.check_rest(&pass).await?;
            let done = self.purge(pass, rewritten, steps).await?;
            if self.encryption.generation() == generation {
                return Ok(done);
            }
        }
        Err(match dying {
            0 => RewriteError::of(
                "values are still being written with old keys: every daemon on these servers must \
                 have today's encryption configuration first",
            ),
            _ => RewriteError::of(format!(
                "{dying} values have outlived their lease and are yet to be deleted, and need the \
                 keys that wrote them until then: run this again later"
            )),
        })
    }

    /// Waits until no write is on its way any more that another configuration than the present
    /// one has encrypted; the answer is that one's generation.
    async fn settled(&self) -> Result<u64, RewriteError> {
        let settled = tokio::time::timeout(SETTLE_MAX, self.encryption.settled()).await;
        settled.map_err(|_| {
            RewriteError::of(
                "writes that began under an earlier encryption configuration do not end",
            )
        })
    }

    /// What a clean pass has no power over: values that can't be read, and encrypted ones that no
    /// resource has which is served.
    async fn check_rest(&self, pass: &Pass) -> Result<(), RewriteError> {
        let unserved = unserved::find(&self.stores)
            .await
            .map_err(RewriteError::of)?;
        let unreadable = unreadable(&pass.unreadable);
        let reasons: Vec<String> = unreadable
            .into_iter()
            .chain(unserved.map(told_of))
            .collect();
        if reasons.is_empty() {
            return Ok(());
        }
        let named = pass.unreadable.iter().take(NAMED_MAX);
        Err(RewriteError {
            reason: format!(
                "{}; everything else is under today's keys",
                reasons.join("; ")
            ),
            unreadable: named.cloned().collect(),
        })
    }

    /// What the file says now is what counts: whoever has changed it may have forgotten to have it
    /// reloaded, and would be told that a key may go which writes still.
    async fn reload(&self) -> Result<(), RewriteError> {
        let encryption = self.encryption.clone();
        let reload = tokio::task::spawn_blocking(move || encryption.reload()).await;
        let reload = reload
            .map_err(RewriteError::of)?
            .map_err(RewriteError::of)?;
        tracing::info!("before rewriting what is stored: {reload}");
        Ok(())
    }

    async fn purge(
        &self,
        pass: Pass,
        rewritten: u64,
        steps: &Sender<RewriteProgress>,
    ) -> Result<RewriteProgress, RewriteError> {
        let (mut compacted, mut reclaimed_bytes) = (None, 0);
        let mut covered = Vec::new();
        for (back_end, revision) in pass.revisions {
            let compactor = self.compactors.get(&back_end);
            let kept = self.stores.iter().filter(|one| one.back_end == back_end);
            covered.push(Covered {
                resources: kept.count() as u64,
                revision: revision.0,
                is_shared: compactor.is_none(),
                back_end,
            });
            let Some(compactor) = compactor else {
                continue;
            };
            let step = RewriteProgress::Purging {
                revision: revision.0,
            };
            steps
                .send(step)
                .await
                .map_err(|_| RewriteError::unheard())?;
            let report = compactor.purge(revision).await.map_err(|error| {
                RewriteError::of(format!(
                    "everything is under today's keys, but history holds older values still, as \
                     it can't be purged: {error}"
                ))
            })?;
            compacted = compacted.or(Some(report.compacted.0));
            reclaimed_bytes += report.reclaimed_bytes;
        }
        Ok(RewriteProgress::Done {
            seen: pass.seen,
            rewritten,
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

fn told_of(UnservedValues { count, example }: UnservedValues) -> String {
    format!(
        "{count} encrypted values belong to no resource that is served, such as {example}: they \
         still need the keys that wrote them, until whoever serves them has written them anew or \
         they are deleted"
    )
}
