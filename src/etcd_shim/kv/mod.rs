//! The service KV: reads, writes, transactions and compaction.

mod message;
mod read;
mod request;
mod transaction;
mod write;

use std::pin::Pin;
use std::sync::Arc;

use actors::engine::{At, DataEngine, MaintenanceEngine, Revision};
use etcd_client::proto::{
    PbCompactionRequest, PbCompactionResponse, PbDeleteRequest, PbDeleteResponse, PbKvService,
    PbPutRequest, PbPutResponse, PbRangeRequest, PbRangeResponse, PbRangeStreamResponse,
    PbTxnRequest, PbTxnResponse,
};
use futures_util::Stream;
use prost::Message;
use tonic::{Request, Response, Status};

use super::status;
use super::store::SharedStore;
pub(super) use message::{event, key_value};
pub(super) use read::read;

/// The service.
#[derive(Clone)]
pub(super) struct KvService {
    store: Arc<SharedStore>,
}

impl KvService {
    /// The service over a store.
    pub(super) fn new(store: Arc<SharedStore>) -> KvService {
        KvService { store }
    }

    /// Checks the size of a request that writes.
    fn check_size(&self, request: &impl Message) -> Result<(), Status> {
        match request.encoded_len() > self.store.settings().request_bytes_max {
            true => Err(status::request_too_large()),
            false => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl PbKvService for KvService {
    type RangeStreamStream =
        Pin<Box<dyn Stream<Item = Result<PbRangeStreamResponse, Status>> + Send>>;

    async fn range(
        &self,
        request: Request<PbRangeRequest>,
    ) -> Result<Response<PbRangeResponse>, Status> {
        let request = request.into_inner();
        request::check_range(&request)?;
        let store = self.store.get().await?;
        let answer = read::range(&store, request, At::Latest).await?;
        Ok(Response::new(answer))
    }

    async fn range_stream(
        &self,
        _: Request<PbRangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(status::not_offered("ranges as streams"))
    }

    async fn put(&self, request: Request<PbPutRequest>) -> Result<Response<PbPutResponse>, Status> {
        let request = request.into_inner();
        request::check_put(&request)?;
        self.check_size(&request)?;
        let store = self.store.get().await?;
        Ok(Response::new(write::put(&store, request).await?))
    }

    async fn delete_range(
        &self,
        request: Request<PbDeleteRequest>,
    ) -> Result<Response<PbDeleteResponse>, Status> {
        let request = request.into_inner();
        request::check_delete(&request)?;
        let store = self.store.get().await?;
        Ok(Response::new(write::delete(&store, request).await?))
    }

    async fn txn(&self, request: Request<PbTxnRequest>) -> Result<Response<PbTxnResponse>, Status> {
        let request = request.into_inner();
        request::check_transaction(&request, self.store.settings().transaction_operations_max)?;
        self.check_size(&request)?;
        let store = self.store.get().await?;
        Ok(Response::new(transaction::run(&store, request).await?))
    }

    async fn compact(
        &self,
        request: Request<PbCompactionRequest>,
    ) -> Result<Response<PbCompactionResponse>, Status> {
        let request = request.into_inner();
        let store = self.store.get().await?;
        let up_to = Revision(u64::try_from(request.revision).unwrap_or(0));
        if up_to <= store.engine.compacted() {
            return Err(status::compacted());
        }
        store.compact(up_to).await.map_err(status::of)?;
        let mut more = request.physical;
        while more {
            more = store.engine.maintain(false).await.map_err(status::of)?.more;
        }
        let revision = store.revision().await?;
        Ok(Response::new(PbCompactionResponse {
            header: store.header(revision),
        }))
    }
}
