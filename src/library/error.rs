//! The errors of a server inside a program.

use std::path::PathBuf;

use crate::auth::AdminError;
use crate::clock::ClockError;
use crate::config::ConfigError;
use crate::controllers::Simulation;
use crate::daemon::{AdvanceError, StartError};
use crate::process_limits::TooLow;
use crate::telemetry::TelemetryError;

/// The reason why a server could not start, or did not stop in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting is unknown, or its value is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A user of the builder cannot be added.
    #[error("user {name:?}: {problem}")]
    User {
        /// The name of the user.
        name: String,
        /// The problem. It never contains a token.
        problem: &'static str,
    },
    /// The path of the data directory is not UTF-8.
    #[error("the path of the data directory must be UTF-8: {}", .0.display())]
    Path(PathBuf),
    /// The clock is out of the range that certificates and objects can represent.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// A limit of the process is too low.
    #[error(transparent)]
    Limits(#[from] TooLow),
    /// The daemon refused to start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The admin's token can't be read.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The recorder of metrics can't be set up.
    #[error(transparent)]
    Metrics(#[from] TelemetryError),
    /// A manifest can't be loaded: the file, the document and the fault.
    #[error("{0}")]
    Load(String),
    /// More nodes should be simulated than is possible.
    #[error("{0} simulated nodes are too many; at most {max} are possible", max = Simulation::NODES_MAX)]
    TooManyNodes(u32),
    /// The simulated nodes are not Ready.
    #[error("the simulated nodes are not ready: {0}")]
    Nodes(String),
    /// The server is not one for tests.
    #[error("the server is not one for tests; start it by ServerBuilder::for_tests")]
    NotForTests,
    /// The snapshot is of another server.
    #[error("the snapshot is of another server; a server can only be reset to its own")]
    OtherServer,
    /// A temporary data directory can't be created.
    #[error("a temporary data directory can't be created: {0}")]
    Directory(std::io::Error),
    /// The temporary data directory can't be removed.
    #[error("the temporary data directory can't be removed: {0}")]
    Removal(std::io::Error),
    /// The system refuses a thread, or what a thread needs.
    #[error("the thread of the server can't be started: {0}")]
    Thread(std::io::Error),
    /// The document of faults is wrong: the place and the fault.
    #[error("{0}")]
    Faults(String),
    /// The clock of the server can't be moved so far, or the server can't follow it.
    #[error(transparent)]
    Advance(#[from] AdvanceError),
    /// The server ended by itself: its thread panicked with this message, or an actor could not be
    /// restarted any more.
    #[error("the server ended by itself: {0}")]
    Ended(String),
}

impl ServerError {
    /// The server is gone, and nothing says why.
    pub(super) fn gone() -> ServerError {
        ServerError::Ended("its thread is gone".to_owned())
    }
}
