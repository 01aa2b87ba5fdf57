//! Rounds of compaction, and compaction itself.

use std::time::Instant;

use actors::engine::{EngineError, Revision};
use etcd_client::proto::PbTxnOpResponse;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};

use super::call_error::CallError;
use super::cluster::Cluster;
use super::cluster_state::{Header, KnownBefore, number};
use super::compact_rounds::{Attempt, COMPACT_REV_KEY, compacted};
use super::servers::CallKind;

impl Cluster {
    /// Makes a round if one is due, and compacts if it is this daemon's turn. Returns the newest
    /// compacted revision. The compaction happens at once, because all who follow the key assume
    /// that it is done.
    pub(super) async fn compact_round(&self) -> Result<Revision, EngineError> {
        let known = self.state.known();
        let attempt = self
            .compaction
            .lock()
            .attempt(Instant::now(), known.epoch());
        if let Some(attempt) = attempt
            && let Some(up_to) = self.write_attempt(attempt, known).await?
        {
            self.compact(up_to).await?;
        }
        Ok(self.state.compacted())
    }

    async fn write_attempt(
        &self,
        attempt: Attempt,
        known: KnownBefore,
    ) -> Result<Option<Revision>, EngineError> {
        let transaction = Txn::new()
            .when([Compare::version(
                COMPACT_REV_KEY,
                CompareOp::Equal,
                attempt.version,
            )])
            .and_then([TxnOp::put(
                COMPACT_REV_KEY,
                attempt.revision.to_string(),
                None,
            )])
            .or_else([TxnOp::get(COMPACT_REV_KEY, None)]);
        let answer = self
            .servers
            .call(CallKind::WRITE, |member| {
                let (mut kv, transaction) = (member.kv(), transaction.clone());
                async move { kv.txn(transaction).await }
            })
            .await
            .map_err(CallError::into_write_error)?;
        let header = Header::from(answer.header());
        self.state.learn_linearizable(header, known, Instant::now());
        let answer = answer.0;
        let mut rounds = self.compaction.lock();
        let epoch = self.state.epoch();
        if answer.succeeded {
            return Ok(rounds.won(header.revision, epoch));
        }
        let read = answer
            .responses
            .into_iter()
            .find_map(|response| match response.response {
                Some(PbTxnOpResponse::ResponseRange(range)) => range.kvs.into_iter().next(),
                _ => None,
            });
        let version = read.as_ref().map_or(0, |kv| kv.version);
        rounds.lost(version, header.revision, epoch);
        if let Some(revision) = read.and_then(|kv| compacted(&kv.value, header.revision)) {
            self.state.learn_compacted(revision, known.epoch());
        }
        Ok(None)
    }

    /// See [`actors::engine::MaintenanceEngine::compact`].
    pub(super) async fn compact(&self, up_to: Revision) -> Result<(), EngineError> {
        let epoch = self.state.epoch();
        let compacted = self
            .servers
            .call(CallKind::PAGE, |member| {
                let mut kv = member.kv();
                async move { kv.compact(number(up_to), None).await }
            })
            .await;
        match compacted {
            // Another daemon has compacted further.
            Ok(_) | Err(CallError::Compacted) => {
                self.state.learn_compacted(up_to, epoch);
                Ok(())
            }
            Err(CallError::FutureRevision) => Err(EngineError::FutureRevision {
                requested: up_to,
                current: self.current_revision.read().await?,
            }),
            Err(error) => Err(error.into_read_error()),
        }
    }
}
