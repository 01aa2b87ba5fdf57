//! The service Watch: streams of watches.
//!
//! A watch is a task that follows a feed of the engine ([`follower`]). The tasks of a stream
//! ([`stream`]) share its short queue. A task takes a place in the queue before it makes a message,
//! so a client that does not read holds up its own watches, and a few messages are all that waits
//! for it: the engine's feeds read from the log what was not taken in time.

mod follower;
mod request;
mod stream;

use std::pin::Pin;
use std::sync::Arc;

use actors::tasks;
use etcd_client::proto::{PbWatchRequest, PbWatchResponse, PbWatchService};
use futures_util::Stream;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::store::SharedStore;
use stream::WatchStream;

/// The messages that wait for a client.
const QUEUE: usize = 2;

/// The service.
#[derive(Clone)]
pub(super) struct WatchService {
    store: Arc<SharedStore>,
}

impl WatchService {
    /// The service over a store.
    pub(super) fn new(store: Arc<SharedStore>) -> WatchService {
        WatchService { store }
    }
}

#[tonic::async_trait]
impl PbWatchService for WatchService {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<PbWatchResponse, Status>> + Send>>;

    async fn watch(
        &self,
        requests: Request<Streaming<PbWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let store = self.store.get().await?;
        let interval = self.store.settings().progress_interval;
        let (send, queue) = mpsc::channel(QUEUE);
        let counts = (self.store.streams.one(), self.store.watches.clone());
        let stream = WatchStream::new(store, send, interval, counts);
        tasks::spawn(stream.run(requests.into_inner()));
        let responses = futures_util::stream::unfold(queue, |mut queue| async move {
            let next = queue.recv().await?;
            Some((next, queue))
        });
        Ok(Response::new(Box::pin(responses)))
    }
}
