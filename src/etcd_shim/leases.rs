//! The service Lease.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{At, EngineError, HeldLease, LeaseEngine, LeaseId};
use etcd_client::proto::{
    PbLeaseGrantRequest, PbLeaseGrantResponse, PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse,
    PbLeaseLeasesRequest, PbLeaseLeasesResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse,
    PbLeaseService, PbLeaseStatus, PbLeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse,
};
use futures_util::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::key_range::KeyRange;
use super::kv::read;
use super::status;
use super::store::{SharedStore, Store};

/// The longest time to live, in seconds, that etcd grants.
const TTL_MAX: i64 = 9_000_000_000;

/// The shortest one that is granted, in seconds.
const TTL_MIN: i64 = 1;

/// The service.
#[derive(Clone)]
pub(super) struct LeaseService {
    store: Arc<SharedStore>,
}

impl LeaseService {
    /// The service over a store.
    pub(super) fn new(store: Arc<SharedStore>) -> LeaseService {
        LeaseService { store }
    }
}

#[tonic::async_trait]
impl PbLeaseService for LeaseService {
    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<PbLeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_grant(
        &self,
        request: Request<PbLeaseGrantRequest>,
    ) -> Result<Response<PbLeaseGrantResponse>, Status> {
        let request = request.into_inner();
        if request.id != 0 {
            return Err(status::not_offered("numbers of leases that clients choose"));
        }
        if request.ttl > TTL_MAX {
            return Err(status::lease_too_long());
        }
        let ttl = Duration::from_secs(request.ttl.max(TTL_MIN).unsigned_abs());
        let store = self.store.get().await?;
        let lease = store.engine.grant(ttl).await.map_err(status::of)?;
        store.granted();
        let revision = store.revision().await?;
        Ok(Response::new(PbLeaseGrantResponse {
            header: store.header(revision),
            id: lease.id.0 as i64,
            ttl: seconds(lease.ttl),
            error: String::new(),
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<PbLeaseRevokeRequest>,
    ) -> Result<Response<PbLeaseRevokeResponse>, Status> {
        let lease = LeaseId(request.into_inner().id as u64);
        let store = self.store.get().await?;
        let _turn = store.turns.of_all().await;
        store.engine.revoke(lease).await.map_err(status::of)?;
        let revision = store.revision().await?;
        Ok(Response::new(PbLeaseRevokeResponse {
            header: store.header(revision),
        }))
    }

    async fn lease_keep_alive(
        &self,
        requests: Request<Streaming<PbLeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let store = self.store.get().await?;
        let state = (requests.into_inner(), store);
        let answers = futures_util::stream::try_unfold(state, |(mut requests, store)| async {
            let Some(request) = requests.message().await? else {
                return Ok(None);
            };
            let answer = renew(&store, request.id).await?;
            Ok(Some((answer, (requests, store))))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<PbLeaseTimeToLiveRequest>,
    ) -> Result<Response<PbLeaseTimeToLiveResponse>, Status> {
        let request = request.into_inner();
        let store = self.store.get().await?;
        let leases = store.engine.leases().await.map_err(status::of)?;
        let id = LeaseId(request.id as u64);
        // linear: the engine lists its leases, and kube-apiserver has one for each minute.
        let found = leases.into_iter().find(|held| held.lease.id == id);
        let keys = match found.is_some() && request.keys {
            true => keys(&store, id).await?,
            false => Vec::new(),
        };
        let revision = store.revision().await?;
        let gone = -1;
        let of = |time: fn(&HeldLease) -> Duration| {
            found.as_ref().map_or(gone, |held| seconds(time(held)))
        };
        Ok(Response::new(PbLeaseTimeToLiveResponse {
            header: store.header(revision),
            id: request.id,
            ttl: of(|held| held.remaining),
            granted_ttl: of(|held| held.lease.ttl).max(0),
            keys,
        }))
    }

    async fn lease_leases(
        &self,
        _: Request<PbLeaseLeasesRequest>,
    ) -> Result<Response<PbLeaseLeasesResponse>, Status> {
        let store = self.store.get().await?;
        let leases = store.engine.leases().await.map_err(status::of)?;
        let leases = leases.into_iter().map(|held| PbLeaseStatus {
            id: held.lease.id.0 as i64,
        });
        let revision = store.revision().await?;
        Ok(Response::new(PbLeaseLeasesResponse {
            header: store.header(revision),
            leases: leases.collect(),
        }))
    }
}

/// Lets a lease live on. One that is gone has no time to live.
async fn renew(store: &Store, id: i64) -> Result<PbLeaseKeepAliveResponse, Status> {
    let ttl = match store.engine.renew(LeaseId(id as u64)).await {
        Ok(lease) => seconds(lease.ttl),
        Err(EngineError::LeaseNotFound(_)) => 0,
        Err(error) => return Err(status::of(error)),
    };
    let revision = store.revision().await?;
    Ok(PbLeaseKeepAliveResponse {
        header: store.header(revision),
        id,
        ttl,
    })
}

/// The keys that are attached to a lease.
async fn keys(store: &Store, lease: LeaseId) -> Result<Vec<Vec<u8>>, Status> {
    let all = KeyRange::new(vec![0], vec![0]);
    let found = read(store, &all, At::Latest, 0).await?;
    let attached = found.items.iter().filter(|item| item.lease == lease);
    let keys = attached.map(|item| item.key.as_bytes().to_vec());
    Ok(keys.collect())
}

/// Whole seconds, as many as have begun.
fn seconds(time: Duration) -> i64 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}
