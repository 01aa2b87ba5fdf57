//! One pass over all values. Each back end is read at one revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::{Origin, Revision};
use tokio::sync::mpsc::Sender;

use super::progress::{RewriteError, RewriteProgress};
use super::rewritten_store::RewrittenStore;
use crate::storage::underlying::{RewrittenPage, RewrittenValues};
use crate::storage::{Storage, StorageError, StorageErrorKind};

/// The findings of one pass.
#[derive(Default)]
pub(super) struct Pass {
    number: u32,
    pub(super) values: RewrittenValues,
    total: u64,
    pub(super) seen: u64,
    stale: u64,
    /// Stale values that cannot be rewritten, because their lease has expired.
    pub(super) expired: u64,
    pub(super) unreadable: Vec<String>,
    /// Values of other versions that no object can be made of.
    pub(super) undecodable: Vec<String>,
    /// The revision at which each back end is read.
    pub(super) revisions: BTreeMap<String, Revision>,
}

impl Pass {
    fn add(&mut self, page: &mut RewrittenPage) {
        self.seen += page.seen;
        self.stale += page.stale;
        self.expired += page.expired;
        self.unreadable.append(&mut page.unreadable);
        self.undecodable.append(&mut page.undecodable);
    }

    /// Returns whether the current first key has encrypted every readable value.
    pub(super) fn is_clean(&self) -> bool {
        self.stale == 0
    }

    /// Reads every value and rewrites the stale ones.
    pub(super) async fn run(
        stores: &[Arc<RewrittenStore>],
        number: u32,
        values: RewrittenValues,
        rewritten: &mut u64,
        origin: &Origin,
        progress: &Sender<RewriteProgress>,
    ) -> Result<Pass, RewriteError> {
        let mut pass = Pass {
            number,
            values,
            ..Pass::default()
        };
        for one in stores {
            let stats = one.store.stats().await.map_err(RewriteError::of)?;
            pass.total += stats.object_count;
        }
        for one in stores {
            let mut start = None;
            loop {
                let at = pass.revision(one).await?;
                let page = one
                    .store
                    .rewrite_page(at, start.clone(), pass.values, origin)
                    .await;
                let mut page = match page {
                    Ok(page) => page,
                    Err(error) if is_compacted(&error) => {
                        // History was compacted meanwhile. The rest is read at a newer revision.
                        pass.revisions.remove(&one.back_end);
                        continue;
                    }
                    Err(error) => return Err(RewriteError::of(error)),
                };
                pass.add(&mut page);
                *rewritten += page.written;
                let report = RewriteProgress::Looking {
                    pass: pass.number,
                    resource: one.resource.clone(),
                    seen: pass.seen,
                    total: pass.total.max(pass.seen),
                    rewritten: *rewritten,
                };
                if page.seen > 0 {
                    let sent = progress.send(report).await;
                    sent.map_err(|_| RewriteError::unheard())?;
                }
                start = page.next;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(pass)
    }

    /// Returns the revision at which this pass reads a store. All stores of a back end have the
    /// same one.
    async fn revision(&mut self, one: &RewrittenStore) -> Result<Revision, RewriteError> {
        if let Some(revision) = self.revisions.get(&one.back_end) {
            return Ok(*revision);
        }
        let revision = one.store.current_revision().await;
        let revision = revision.map_err(RewriteError::of)?;
        self.revisions.insert(one.back_end.clone(), revision);
        Ok(revision)
    }
}

fn is_compacted(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::Expired { .. })
}
