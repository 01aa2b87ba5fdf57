//! Leases: granted and revoked. etcd expires them by itself.

use std::time::Duration;

use actors::engine::{EngineError, Lease, LeaseId};

use super::call_error::CallError;
use super::cluster::Cluster;
use super::servers::CallKind;

impl Cluster {
    /// See [`actors::engine::LeaseEngine::grant`]; whole seconds, rounded up.
    pub(super) async fn grant(&self, ttl: Duration) -> Result<Lease, EngineError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let answer = self
            .servers
            // A lease that was granted without an answer runs out by itself.
            .call(CallKind::READ, |member| {
                let mut leases = member.lease.clone();
                async move { leases.grant(seconds, None).await }
            })
            .await
            .map_err(CallError::into_read_error)?;
        Ok(Lease {
            id: LeaseId(answer.id() as u64),
            ttl: Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or_default()),
        })
    }

    /// See [`actors::engine::LeaseEngine::revoke`].
    pub(super) async fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        let id = lease.0 as i64;
        let answer = self
            .servers
            .call(CallKind::WRITE, |member| {
                let mut leases = member.lease.clone();
                async move { leases.revoke(id).await }
            })
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(CallError::LeaseNotFound) => Err(EngineError::LeaseNotFound(lease)),
            Err(error) => Err(error.into_write_error()),
        }
    }
}
