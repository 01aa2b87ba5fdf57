//! `taffrail storage rewrite`: everything that an old key has written is written anew, online,
//! so that the key may go.
//!
//! The values of each resource are looked at in passes, each at one revision, until a pass finds
//! nothing that another than today's first key wrote. History holds what the old key wrote until
//! it is compacted: where the daemon keeps history itself, it is compacted up to the revision of
//! that last pass, and purged from the files. Nothing is remembered between two runs: what one
//! that was cut off has done, the next one finds done.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::compactor::CompactorHandle;
use actors::engine::{Origin, Revision};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::encryption::Encryption;
use super::underlying::{RewrittenPage, Underlying};
use super::{Storage, StorageError, StorageErrorKind};

/// Steps that the one who is told may lag behind.
const STEPS_AHEAD: usize = 16;

/// Passes after which somebody else must be writing with an old key.
const PASSES_MAX: u32 = 20;

/// So many values that can't be read are named.
const NAMED_MAX: usize = 20;

/// How far it has come; each a line of JSON of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "step",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Step {
    /// Values are being looked at.
    Looking {
        /// The number of the pass, from 1.
        pass: u32,
        /// Whose values.
        resource: String,
        /// Values looked at in this pass, of all resources.
        seen: u64,
        /// Values there are, about.
        total: u64,
        /// Values written anew so far.
        rewritten: u64,
    },
    /// Everything is fresh; history is being forgotten and purged from the files.
    Purging {
        /// Up to here.
        revision: u64,
    },
    /// It is done: nothing that is stored needs a key that does not write.
    Done {
        /// Values looked at in the last pass.
        seen: u64,
        /// Values written anew.
        rewritten: u64,
        /// How far the history of the daemon's own store is forgotten now, where it has one.
        compacted_revision: Option<u64>,
        /// Bytes given back to the file system.
        reclaimed_bytes: u64,
        /// Back ends that forget history by themselves, which holds old values until then.
        histories: Vec<String>,
    },
    /// It ended before everything was done. Run again, it goes on.
    Failed {
        /// Why.
        reason: String,
        /// Some of the values that can't be read.
        unreadable: Vec<String>,
    },
}

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
struct Failure {
    reason: String,
    unreadable: Vec<String>,
}

impl Failure {
    fn of(reason: impl ToString) -> Failure {
        Failure {
            reason: reason.to_string(),
            unreadable: Vec::new(),
        }
    }

    /// Whoever was told has gone away: there is nobody to tell that, either.
    fn unheard() -> Failure {
        Failure::of("nobody listens any more")
    }
}

/// One pass over everything.
#[derive(Default)]
struct Pass {
    number: u32,
    total: u64,
    seen: u64,
    stale: u64,
    unreadable: Vec<String>,
    /// The state that is looked at, of each back end.
    revisions: BTreeMap<String, Revision>,
}

impl Pass {
    fn add(&mut self, page: &mut RewrittenPage) {
        self.seen += page.seen;
        self.stale += page.stale;
        self.unreadable.append(&mut page.unreadable);
    }

    /// Nothing is left that another than today's key wrote and today's configuration reads.
    fn is_clean(&self) -> bool {
        self.stale == 0
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
    pub fn start(self: Arc<Self>, origin: Origin) -> Receiver<Step> {
        let (steps, told) = mpsc::channel(STEPS_AHEAD);
        tokio::spawn(async move {
            let last = match self.run(&origin, &steps).await {
                Ok(done) => {
                    tracing::info!(?done, "what is stored is rewritten");
                    done
                }
                Err(Failure { reason, unreadable }) => {
                    tracing::warn!(reason, ?unreadable, "what is stored is not all rewritten");
                    Step::Failed { reason, unreadable }
                }
            };
            // Whoever has gone away finds it in the log.
            let _ = steps.send(last).await;
        });
        told
    }

    async fn run(&self, origin: &Origin, steps: &Sender<Step>) -> Result<Step, Failure> {
        self.reload().await?;
        let mut rewritten = 0;
        for number in 1..=PASSES_MAX {
            let pass = self.pass(number, &mut rewritten, origin, steps).await?;
            if !pass.is_clean() {
                continue;
            }
            if !pass.unreadable.is_empty() {
                return Err(unreadable(pass.unreadable));
            }
            return self.purge(pass, rewritten, steps).await;
        }
        Err(Failure::of(
            "values are still being written with old keys: every daemon on these servers must \
             have today's encryption configuration first",
        ))
    }

    /// What the file says now is what counts: whoever has changed it may have forgotten to have it
    /// reloaded, and would be told that a key may go which writes still.
    async fn reload(&self) -> Result<(), Failure> {
        let encryption = self.encryption.clone();
        let reload = tokio::task::spawn_blocking(move || encryption.reload()).await;
        let reload = reload.map_err(Failure::of)?.map_err(Failure::of)?;
        tracing::info!("before rewriting what is stored: {reload}");
        Ok(())
    }

    async fn pass(
        &self,
        number: u32,
        rewritten: &mut u64,
        origin: &Origin,
        steps: &Sender<Step>,
    ) -> Result<Pass, Failure> {
        let mut pass = Pass {
            number,
            ..Pass::default()
        };
        for one in &self.stores {
            pass.total += one.store.stats().await.map_err(Failure::of)?.object_count;
        }
        for one in &self.stores {
            let mut start = None;
            loop {
                let at = self.revision(one, &mut pass).await?;
                let page = one.store.rewrite_page(at, start.clone(), origin).await;
                let mut page = match page {
                    Ok(page) => page,
                    Err(error) if is_expired(&error) => {
                        // History was compacted meanwhile: the rest is looked at as it is now.
                        pass.revisions.remove(&one.back_end);
                        continue;
                    }
                    Err(error) => return Err(Failure::of(error)),
                };
                pass.add(&mut page);
                *rewritten += page.written;
                let step = Step::Looking {
                    pass: pass.number,
                    resource: one.resource.clone(),
                    seen: pass.seen,
                    total: pass.total.max(pass.seen),
                    rewritten: *rewritten,
                };
                if page.seen > 0 {
                    steps.send(step).await.map_err(|_| Failure::unheard())?;
                }
                start = page.next;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(pass)
    }

    /// The revision at which a store is looked at in this pass: one for all of a back end.
    async fn revision(&self, one: &RewrittenStore, pass: &mut Pass) -> Result<Revision, Failure> {
        if let Some(revision) = pass.revisions.get(&one.back_end) {
            return Ok(*revision);
        }
        let revision = one.store.current_revision().await.map_err(Failure::of)?;
        pass.revisions.insert(one.back_end.clone(), revision);
        Ok(revision)
    }

    async fn purge(
        &self,
        pass: Pass,
        rewritten: u64,
        steps: &Sender<Step>,
    ) -> Result<Step, Failure> {
        let (mut compacted, mut reclaimed_bytes) = (None, 0);
        let mut histories = Vec::new();
        for (back_end, revision) in pass.revisions {
            let Some(compactor) = self.compactors.get(&back_end) else {
                histories.push(back_end);
                continue;
            };
            let step = Step::Purging {
                revision: revision.0,
            };
            steps.send(step).await.map_err(|_| Failure::unheard())?;
            let report = compactor.purge(revision).await.map_err(|error| {
                Failure::of(format!(
                    "everything is under today's keys, but history holds older values still, as \
                     it can't be purged: {error}"
                ))
            })?;
            compacted = compacted.or(Some(report.compacted.0));
            reclaimed_bytes += report.reclaimed_bytes;
        }
        Ok(Step::Done {
            seen: pass.seen,
            rewritten,
            compacted_revision: compacted,
            reclaimed_bytes,
            histories,
        })
    }
}

fn is_expired(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::Expired { .. })
}

fn unreadable(mut values: Vec<String>) -> Failure {
    let count = values.len();
    values.truncate(NAMED_MAX);
    Failure {
        reason: format!(
            "{count} values can't be read by any key; everything else is under today's keys. Put \
             the keys back that wrote them, or restore or delete them, and run this again"
        ),
        unreadable: values,
    }
}
