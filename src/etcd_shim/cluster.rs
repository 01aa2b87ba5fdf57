//! The service Cluster: one member, which stays alone.

use std::sync::Arc;

use etcd_client::proto::{
    PbClusterService, PbMember, PbMemberAddRequest, PbMemberAddResponse, PbMemberListRequest,
    PbMemberListResponse, PbMemberPromoteRequest, PbMemberPromoteResponse, PbMemberRemoveRequest,
    PbMemberRemoveResponse, PbMemberUpdateRequest, PbMemberUpdateResponse,
};
use tonic::{Request, Response, Status};

use super::status;
use super::store::SharedStore;

/// The service.
#[derive(Clone)]
pub(super) struct ClusterService {
    store: Arc<SharedStore>,
}

impl ClusterService {
    /// The service over a store.
    pub(super) fn new(store: Arc<SharedStore>) -> ClusterService {
        ClusterService { store }
    }
}

fn alone() -> Status {
    status::not_offered("changes of members")
}

#[tonic::async_trait]
impl PbClusterService for ClusterService {
    async fn member_list(
        &self,
        _: Request<PbMemberListRequest>,
    ) -> Result<Response<PbMemberListResponse>, Status> {
        let store = self.store.get().await?;
        let settings = self.store.settings();
        let member = PbMember {
            id: store.member(),
            name: settings.name.clone(),
            peer_ur_ls: settings.peer_urls.clone(),
            client_ur_ls: settings.advertised_urls.clone(),
            is_learner: false,
        };
        let revision = store.revision().await?;
        Ok(Response::new(PbMemberListResponse {
            header: store.header(revision),
            members: vec![member],
        }))
    }

    async fn member_add(
        &self,
        _: Request<PbMemberAddRequest>,
    ) -> Result<Response<PbMemberAddResponse>, Status> {
        Err(alone())
    }

    async fn member_remove(
        &self,
        _: Request<PbMemberRemoveRequest>,
    ) -> Result<Response<PbMemberRemoveResponse>, Status> {
        Err(alone())
    }

    async fn member_update(
        &self,
        _: Request<PbMemberUpdateRequest>,
    ) -> Result<Response<PbMemberUpdateResponse>, Status> {
        Err(alone())
    }

    async fn member_promote(
        &self,
        _: Request<PbMemberPromoteRequest>,
    ) -> Result<Response<PbMemberPromoteResponse>, Status> {
        Err(alone())
    }
}
