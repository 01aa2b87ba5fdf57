//! The interface between the transport and the service that answers its requests.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::request_body::RequestBody;
use super::response_body::{ResponseBody, WatchBody};
use crate::x509::PeerCertificates;

/// Answers requests. Each HTTP thread has one value, which is cheap to clone and never leaves the
/// thread.
pub trait HttpService: Clone + Unpin + 'static {
    /// The watches of the service. Their type is known, so that a connection keeps each in one
    /// piece with the rest of its stream: with thousands of watches, most of the time of a delivery
    /// goes into fetching their memory.
    type Watch: WatchBody;

    /// Answers one request. The future is dropped when the client cancels the request.
    fn call(
        &self,
        request: http::Request<RequestBody>,
    ) -> impl Future<Output = http::Response<ResponseBody<Self::Watch>>>;

    /// Returns the owner of a connection over which a request with these headers arrived, if its
    /// credentials are valid. The transport calls it for the requests of a connection until one has
    /// valid credentials. The connection belongs to that owner from then on.
    fn owner(&self, headers: &http::HeaderMap, facts: &ConnectionFacts) -> Option<Owner>;

    /// Returns the response to a request that the transport refuses before the service sees it.
    fn refuse(&self, refusal: Refusal) -> http::Response<ResponseBody<Self::Watch>>;

    /// Ends the watches of this thread gracefully, because the daemon stops. Requests may still
    /// arrive.
    fn drain(&self) {}

    /// Waits for requests that are carried out to their end after their clients have gone.
    fn unattended_ended(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Returns a receiver that changes whenever access to watches was revoked. These watches then
    /// end.
    fn revocations(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}

/// The identity of the client to whom a connection belongs. All connections of an owner share the
/// time that fairness grants to the owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub Arc<str>);

/// The reason why the transport refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client is authenticated, and there are too many authenticated connections (429). The
    /// connection closes afterwards.
    TooManyConnections,
    /// The client has left too many responses unread (429).
    TooManyUnread,
    /// The request lacks a Host header that it needs (400).
    MissingHost,
    /// The request has several Host headers. A proxy may have used another one than the daemon
    /// (400).
    SeveralHosts,
    /// The Host header is not a host and a port (400).
    MalformedHost,
    /// The body has a transfer coding other than `chunked` (501).
    TransferEncoding,
}

/// Facts about the connection of a request, stored in the extensions of the request.
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// The client's address.
    pub peer: std::net::SocketAddr,
    /// Whether the connection speaks HTTP/2.
    pub http2: bool,
    /// The certificates that the client has shown.
    pub certificates: Option<Arc<PeerCertificates>>,
    /// The limit on the connection's reads that may find much.
    pub reads: LongReads,
}

/// Limits how many reads that may find much are in progress for a connection. A request whose
/// connection already holds too much waits for its client, and meanwhile holds what it has found.
#[derive(Clone, Debug)]
pub struct LongReads(Arc<Semaphore>);

/// The total weight of the long reads of a connection that may be in progress.
const LONG_READS: usize = 16;

impl Default for LongReads {
    fn default() -> LongReads {
        LongReads(Arc::new(Semaphore::new(LONG_READS)))
    }
}

impl LongReads {
    /// Waits for the turn of a read, which lasts until the permit is dropped. `weight` is its share
    /// of the total of 16.
    pub async fn turn(&self, weight: u32) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.0).acquire_many_owned(weight);
        turn.await.ok()
    }
}
