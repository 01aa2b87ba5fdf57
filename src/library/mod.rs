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
use std::path::Path;
use std::time::Duration;

use crate::auth::Token;
use crate::telemetry::Series;

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

    /// Waits until every cache is filled and the system objects exist. The future may be polled by
    /// any executor.
    ///
    /// # Errors
    /// [`ServerError::Ended`]: the server ended by itself before.
    pub async fn ready(&self) -> Result<(), ServerError> {
        self.thread.ready().await
    }

    /// Moves the clock of a server for tests forward ([`ServerBuilder::for_tests`]), at least by a
    /// microsecond. Events and tokens expire, old history is compacted, and the objects that are
    /// written from now on have later times. Expired objects are gone when this returns. The future
    /// may be polled by any executor.
    ///
    /// # Errors
    /// [`ServerError::NotForTests`], [`ServerError::Advance`] and [`ServerError::Ended`].
    pub async fn advance(&self, by: Duration) -> Result<(), ServerError> {
        let work = self.thread.work();
        let advanced = work.run(move |daemon| {
            let clock = daemon.test_clock();
            async move {
                let clock = clock.ok_or(ServerError::NotForTests)?;
                Ok(clock.advance(by).await?)
            }
        });
        advanced.await.unwrap_or_else(|| Err(ServerError::gone()))
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
