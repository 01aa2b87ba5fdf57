//! One pass over everything, each back end at one revision.

use std::collections::BTreeMap;

use actors::engine::{Origin, Revision};
use tokio::sync::mpsc::Sender;

use super::{RewriteError, RewriteProgress, Rewriter, RewrittenStore};
use crate::storage::underlying::RewrittenPage;
use crate::storage::{Storage, StorageError, StorageErrorKind};

/// One pass over everything.
#[derive(Default)]
pub(super) struct Pass {
    number: u32,
    total: u64,
    pub(super) seen: u64,
    stale: u64,
    /// Stale ones that can't be written any more, as their lease has run out.
    pub(super) dying: u64,
    pub(super) unreadable: Vec<String>,
    /// The state that is looked at, of each back end.
    pub(super) revisions: BTreeMap<String, Revision>,
}

impl Pass {
    fn add(&mut self, page: &mut RewrittenPage) {
        self.seen += page.seen;
        self.stale += page.stale;
        self.dying += page.dying;
        self.unreadable.append(&mut page.unreadable);
    }

    /// Nothing is left that another than today's key wrote and today's configuration reads.
    pub(super) fn is_clean(&self) -> bool {
        self.stale == 0
    }
}

impl Rewriter {
    /// Looks at every value, and writes anew those that are stale.
    pub(super) async fn pass(
        &self,
        number: u32,
        rewritten: &mut u64,
        origin: &Origin,
        steps: &Sender<RewriteProgress>,
    ) -> Result<Pass, RewriteError> {
        let mut pass = Pass {
            number,
            ..Pass::default()
        };
        for one in &self.stores {
            pass.total += one
                .store
                .stats()
                .await
                .map_err(RewriteError::of)?
                .object_count;
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
                    Err(error) => return Err(RewriteError::of(error)),
                };
                pass.add(&mut page);
                *rewritten += page.written;
                let step = RewriteProgress::Looking {
                    pass: pass.number,
                    resource: one.resource.clone(),
                    seen: pass.seen,
                    total: pass.total.max(pass.seen),
                    rewritten: *rewritten,
                };
                if page.seen > 0 {
                    steps
                        .send(step)
                        .await
                        .map_err(|_| RewriteError::unheard())?;
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
    async fn revision(
        &self,
        one: &RewrittenStore,
        pass: &mut Pass,
    ) -> Result<Revision, RewriteError> {
        if let Some(revision) = pass.revisions.get(&one.back_end) {
            return Ok(*revision);
        }
        let revision = one
            .store
            .current_revision()
            .await
            .map_err(RewriteError::of)?;
        pass.revisions.insert(one.back_end.clone(), revision);
        Ok(revision)
    }
}

fn is_expired(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::Expired { .. })
}
