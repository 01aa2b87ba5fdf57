//! Reads everything below the prefix as of one revision, for a backup. etcd's log can't be read
//! backwards, so there is no history in it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, EngineError, Event, EventKind, Export, ExportEnd, ExportItem, ExportedLease, KeyValue,
    Lease, LeaseId, Origin, Prefix, Prepared, RangeRequest, RangeResponse, Revision,
};
use actors::tasks;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use super::call_error::CallError;
use super::cluster::Cluster;
use super::servers::CallKind;

/// An export under way.
pub(super) struct EtcdExport {
    cluster: Arc<Cluster>,
    /// The engine's thread.
    handle: Handle,
    state: State,
}

/// How far it has come.
#[derive(Clone, Debug, Default)]
struct State {
    /// The revision that is read, once it is known.
    revision: Option<Revision>,
    /// The key that the next page begins with.
    start: Option<Vec<u8>>,
    is_complete: bool,
    /// The leases of the keys so far.
    leases: BTreeSet<LeaseId>,
}

impl EtcdExport {
    pub(super) fn new(cluster: Arc<Cluster>, handle: Handle) -> EtcdExport {
        EtcdExport {
            cluster,
            handle,
            state: State::default(),
        }
    }
}

impl Export for EtcdExport {
    fn next(&mut self) -> BoxFuture<'_, Result<ExportItem, EngineError>> {
        let (cluster, state) = (Arc::clone(&self.cluster), self.state.clone());
        let read = tasks::spawn_on(&self.handle, read(cluster, state));
        async move {
            let (item, state) = read.await.map_err(|_| EngineError::Closed)??;
            self.state = state;
            Ok(item)
        }
        .boxed()
    }
}

async fn read(cluster: Arc<Cluster>, mut state: State) -> Result<(ExportItem, State), EngineError> {
    let revision = match state.revision {
        Some(revision) => revision,
        None => cluster.current_revision.read().await?,
    };
    state.revision = Some(revision);
    if !state.is_complete {
        let page = cluster.range(RangeRequest {
            prefix: Prefix::new(&cluster.root),
            start: state.start.take(),
            at: At::Revision(revision),
            limit: 0,
            count_only: false,
        });
        let RangeResponse { items, more, .. } = page.await?;
        state.is_complete = !more;
        state.start = items.last().map(|item| after(item.key.as_bytes()));
        state.leases.extend(items.iter().map(|item| item.lease));
        if !items.is_empty() {
            let events = items.into_iter().map(put).collect();
            return Ok((ExportItem::Events(events), state));
        }
    }
    let mut leases = Vec::new();
    for lease in &state.leases {
        if *lease != LeaseId::default() {
            leases.extend(cluster.exported_lease(*lease).await?);
        }
    }
    let end = ExportEnd {
        revision,
        compacted: revision,
        leases,
    };
    Ok((ExportItem::End(end), state))
}

/// The least key after this one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The put that a key has its value from. etcd does not record when it happened or who made it.
fn put(item: KeyValue) -> Event {
    Event {
        revision: item.revision,
        key: item.key,
        kind: EventKind::Put,
        value: item.value,
        create_revision: item.create_revision,
        prev_revision: Revision::ZERO,
        version: item.version,
        lease: item.lease,
        time: SystemTime::UNIX_EPOCH,
        origin: Origin::default(),
        prepared: Prepared::default(),
        previous: None,
    }
}

impl Cluster {
    /// A lease with the time that it has left; `None` if it has run out.
    async fn exported_lease(&self, id: LeaseId) -> Result<Option<ExportedLease>, EngineError> {
        let number = id.0 as i64;
        let answer = self.servers.call(CallKind::READ, |member| {
            let mut leases = member.lease.clone();
            async move { leases.time_to_live(number, None).await }
        });
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(CallError::LeaseNotFound) => return Ok(None),
            Err(error) => return Err(error.into_read_error()),
        };
        // etcd says -1 for a lease that has run out.
        let Ok(left) = u64::try_from(answer.ttl()) else {
            return Ok(None);
        };
        let granted = u64::try_from(answer.granted_ttl()).unwrap_or(left);
        Ok(Some(ExportedLease {
            lease: Lease {
                id,
                ttl: Duration::from_secs(granted),
            },
            deadline: SystemTime::now() + Duration::from_secs(left),
        }))
    }
}
