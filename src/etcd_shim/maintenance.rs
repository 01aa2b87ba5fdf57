//! The service Maintenance.

use std::pin::Pin;
use std::sync::Arc;

use actors::engine::MaintenanceEngine;
use etcd_client::proto::{
    PbAlarmRequest, PbAlarmResponse, PbDefragmentRequest, PbDefragmentResponse, PbDowngradeRequest,
    PbDowngradeResponse, PbHashKvRequest, PbHashKvResponse, PbHashRequest, PbHashResponse,
    PbMaintenanceService, PbMoveLeaderRequest, PbMoveLeaderResponse, PbSnapshotRequest,
    PbSnapshotResponse, PbStatusRequest, PbStatusResponse,
};
use futures_util::Stream;
use tonic::{Request, Response, Status};

use super::VERSION;
use super::status;
use super::store::{SharedStore, TERM};

/// The action of a request about alarms that changes nothing.
const LIST_ALARMS: i32 = 0;

/// The service.
#[derive(Clone)]
pub(super) struct MaintenanceService {
    store: Arc<SharedStore>,
}

impl MaintenanceService {
    /// The service over a store.
    pub(super) fn new(store: Arc<SharedStore>) -> MaintenanceService {
        MaintenanceService { store }
    }
}

#[tonic::async_trait]
impl PbMaintenanceService for MaintenanceService {
    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<PbSnapshotResponse, Status>> + Send>>;

    async fn status(
        &self,
        _: Request<PbStatusRequest>,
    ) -> Result<Response<PbStatusResponse>, Status> {
        let store = self.store.get().await?;
        let revision = store.revision().await?;
        let stats = store.engine.stats();
        Ok(Response::new(PbStatusResponse {
            header: store.header(revision),
            version: VERSION.to_owned(),
            db_size: stats.file_bytes as i64,
            leader: store.member(),
            raft_index: revision.0,
            raft_term: TERM,
            raft_applied_index: revision.0,
            errors: self.store.fault().into_iter().collect(),
            db_size_in_use: stats.retained_bytes.min(stats.file_bytes) as i64,
            is_learner: false,
            storage_version: "3.6.0".to_owned(),
            db_size_quota: 0,
            downgrade_info: None,
        }))
    }

    /// Nothing raises alarms here: a full disk refuses writes until there is room.
    async fn alarm(
        &self,
        request: Request<PbAlarmRequest>,
    ) -> Result<Response<PbAlarmResponse>, Status> {
        if request.into_inner().action != LIST_ALARMS {
            return Err(status::not_offered("alarms that clients raise or end"));
        }
        let store = self.store.get().await?;
        let revision = store.revision().await?;
        Ok(Response::new(PbAlarmResponse {
            header: store.header(revision),
            alarms: Vec::new(),
        }))
    }

    async fn defragment(
        &self,
        _: Request<PbDefragmentRequest>,
    ) -> Result<Response<PbDefragmentResponse>, Status> {
        let store = self.store.get().await?;
        while store.engine.purge().await.map_err(status::of)?.more {}
        let revision = store.revision().await?;
        Ok(Response::new(PbDefragmentResponse {
            header: store.header(revision),
        }))
    }

    async fn hash(&self, _: Request<PbHashRequest>) -> Result<Response<PbHashResponse>, Status> {
        Err(status::not_offered("hashes of the store"))
    }

    async fn hash_kv(
        &self,
        _: Request<PbHashKvRequest>,
    ) -> Result<Response<PbHashKvResponse>, Status> {
        Err(status::not_offered("hashes of keys"))
    }

    async fn snapshot(
        &self,
        _: Request<PbSnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(status::not_offered(
            "snapshots; `taffrail backup` writes the store into a file",
        ))
    }

    async fn move_leader(
        &self,
        _: Request<PbMoveLeaderRequest>,
    ) -> Result<Response<PbMoveLeaderResponse>, Status> {
        Err(status::not_offered("other leaders"))
    }

    async fn downgrade(
        &self,
        _: Request<PbDowngradeRequest>,
    ) -> Result<Response<PbDowngradeResponse>, Status> {
        Err(status::not_offered("downgrades"))
    }
}
