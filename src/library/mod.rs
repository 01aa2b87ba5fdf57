//! A daemon inside another program, such as a test or a tool that needs an API server of its own.
//!
//! [`Server::builder`] starts one on a free port. It runs on threads of its own and shares nothing
//! with the process or with other servers in it: no flags are read, no signals are handled, no
//! logger is set and no recorder of metrics is installed. Log lines go to the subscriber of the
//! program, if it has one, and each server has its own page of metrics. The limits of the process
//! stay as they are: its soft limit of open files, less 256, bounds the connections.
//!
//! ```no_run
//! # async fn run() -> Result<(), taffrail::ServerError> {
//! use taffrail::{Server, StorageEngine};
//!
//! let server = Server::builder()
//!     .engine(StorageEngine::Memory)
//!     .user("ann", "a-secret-token", &["system:masters"])
//!     .start()
//!     .await?;
//! server.ready().await?;
//! println!("kubectl --kubeconfig {}", server.kubeconfig().display());
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod error;
mod resources;
mod thread;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use actors::engine::MemorySnapshot;

use crate::auth::{AdminAccess, Token};
use crate::server::test_controls::{FaultPlan, Snapshots, TestControls};
use crate::telemetry::Series;
use crate::test_server;

pub use builder::{ServerBuilder, StorageEngine};
pub use error::ServerError;
pub use resources::ServerResources;
use thread::{Facts, ServerThread};

/// A daemon inside this process. Dropping it stops the daemon in the background, in the same order
/// as [`Server::stop`].
pub struct Server {
    facts: Facts,
    admin_token: Option<Token>,
    series: Series,
    thread: ServerThread,
    /// The number of simulated nodes.
    nodes: u32,
}

/// The content of a server for tests at one time. It belongs to that server. Clones share it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    content: MemorySnapshot,
    /// Identifies the server. A later one may have the same address.
    server: Weak<TestControls>,
}

impl Server {
    /// Returns the builder of a server on a free port of 127.0.0.1, with the embedded engine in a
    /// temporary directory.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    /// The address of HTTPS, with the chosen port.
    pub fn address(&self) -> SocketAddr {
        self.facts.address
    }

    /// The address of plain HTTP for scrapers, if `metrics-bind-address` is set.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.facts.metrics_address
    }

    /// The path of the admin's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.facts.kubeconfig
    }

    /// The admin's token at the start.
    pub fn admin_token(&self) -> Option<&str> {
        self.admin_token.as_ref().map(Token::secret)
    }

    /// The certificates that clients must trust, in PEM.
    pub fn trust_pem(&self) -> &str {
        &self.facts.trust_pem
    }

    /// Returns the handle that adds and removes resources while the server runs.
    pub fn resources(&self) -> ServerResources {
        ServerResources::of(&self.thread)
    }

    /// The metrics of this server in Prometheus' text format. `/metrics` also shows the counts that
    /// are taken for each request of the page.
    pub fn metrics(&self) -> String {
        self.series.render()
    }

    /// Waits until every cache is filled, the system objects exist, and simulated nodes are Ready.
    /// The future may be polled by any executor.
    ///
    /// # Errors
    /// [`ServerError::Ended`]: the server ended by itself before. [`ServerError::Nodes`]
    pub async fn ready(&self) -> Result<(), ServerError> {
        self.thread.ready().await?;
        let (access, nodes) = (self.access()?, self.nodes);
        let ready = async move { test_server::nodes_ready(&access, nodes).await };
        let ready = self.thread.work().run(|_| ready).await;
        ready
            .ok_or_else(ServerError::gone)?
            .map_err(ServerError::Nodes)
    }

    /// Applies manifests as `taffrail test --load` does: each path is a file, or a folder whose
    /// files are applied, however deep. Returns when the definitions among them are served. The
    /// future may be polled by any executor.
    ///
    /// # Errors
    /// [`ServerError::Load`] has the file, the document and the fault. Objects before it stay.
    pub async fn load(&self, paths: &[PathBuf]) -> Result<(), ServerError> {
        let (access, paths) = (self.access()?, paths.to_vec());
        let loading = async move { test_server::load(&access, &paths).await };
        let loaded = self.thread.work().run(|_| loading).await;
        loaded
            .ok_or_else(ServerError::gone)?
            .map_err(ServerError::Load)
    }

    /// Takes a snapshot of all objects of a server for tests ([`ServerBuilder::for_tests`]).
    ///
    /// # Errors
    /// [`ServerError::NotForTests`], [`ServerError::Ended`]
    pub fn snapshot(&self) -> Result<Snapshot, ServerError> {
        let content = self.snapshots()?.take().map_err(|_| ServerError::gone())?;
        Ok(Snapshot {
            content,
            server: Arc::downgrade(self.test()?),
        })
    }

    /// Resets a server for tests to a snapshot: afterwards it has the objects of then, with their
    /// UIDs and times, and no others. Returns their resourceVersion, which is greater than all
    /// before. Open watches end with a Status 410, after which informers list again, and earlier
    /// resourceVersions are too old. The clock goes on. The future may be polled by any executor.
    ///
    /// # Errors
    /// [`ServerError::NotForTests`], [`ServerError::OtherServer`], [`ServerError::Ended`]
    pub async fn reset(&self, snapshot: &Snapshot) -> Result<u64, ServerError> {
        let snapshots = self.snapshots()?;
        if snapshot.server.as_ptr() != Arc::as_ptr(self.test()?) {
            return Err(ServerError::OtherServer);
        }
        let reset = snapshots.reset(snapshot.content.clone()).await;
        reset
            .map(|revision| revision.0)
            .map_err(|_| ServerError::gone())
    }

    fn snapshots(&self) -> Result<&Snapshots, ServerError> {
        let snapshots = self.test()?.snapshots.as_deref();
        snapshots.ok_or(ServerError::NotForTests)
    }

    fn test(&self) -> Result<&Arc<TestControls>, ServerError> {
        let test = self.facts.test.as_ref();
        test.ok_or(ServerError::NotForTests)
    }

    /// The address and the credentials of the admin, for requests of the server's own.
    fn access(&self) -> Result<AdminAccess, ServerError> {
        Ok(AdminAccess {
            address: self.facts.address,
            trust_pem: self.facts.trust_pem.clone(),
            token: self.admin_token.clone().ok_or_else(ServerError::gone)?,
        })
    }

    /// Moves the clock of a server for tests forward ([`ServerBuilder::for_tests`]), at least by a
    /// microsecond. Events and tokens expire, old history is compacted, and the objects that are
    /// written from now on have later times. Expired objects are gone when this returns. The future
    /// may be polled by any executor.
    ///
    /// # Errors
    /// [`ServerError::NotForTests`], [`ServerError::Advance`] and [`ServerError::Ended`].
    pub async fn advance(&self, by: Duration) -> Result<(), ServerError> {
        let clock = self.test()?.clock.clone();
        let advancing = async move { clock.advance(by).await };
        let advanced = self.thread.work().run(|_| advancing).await;
        Ok(advanced.ok_or_else(ServerError::gone)??)
    }

    /// Replaces the faults that requests to a server for tests meet, by a document as of
    /// `/taffrail/v1/test/faults`. `{}` ends all faults.
    ///
    /// # Errors
    /// [`ServerError::NotForTests`], [`ServerError::Faults`]
    pub fn set_faults(&self, document: &str) -> Result<(), ServerError> {
        let plan = FaultPlan::read(document.as_bytes()).map_err(ServerError::Faults)?;
        self.test()?.faults.set(plan);
        Ok(())
    }

    /// Stops in order: listeners, requests and watches, controllers, actors, and the store. The
    /// store is closed and a temporary directory is removed when this returns. Threads that only
    /// wait may take another second to end.
    ///
    /// # Errors
    /// [`ServerError::Ended`]: the server ended by itself before. [`ServerError::Removal`]
    pub async fn stop(self) -> Result<(), ServerError> {
        self.thread.stop().await
    }

    /// Whether the server has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }
}

/// The admin's token is left out.
impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("address", &self.facts.address)
            .finish_non_exhaustive()
    }
}
