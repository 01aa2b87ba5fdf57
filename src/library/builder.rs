//! Collects what a server is started with.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use super::thread::ServerThread;
use super::{Server, ServerError};
use crate::api::user_info::UserInfo;
use crate::auth::{Token, read_token};
use crate::config::{Config, TEST_SERVER_DEFAULTS};
use crate::controllers::Simulation;
use crate::daemon::{Conduct, Host, Stop};
use crate::files::{ThrowawayFolder, remove_leftovers};
use crate::{clock, process_limits, telemetry};

/// The place where a server keeps its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageEngine {
    /// Memory: objects are gone when the server stops.
    Memory,
    /// The event log in the data directory.
    Embedded,
    /// An etcd cluster.
    Etcd {
        /// The URLs of its members.
        servers: Vec<String>,
        /// The prefix of all keys, `/registry` in Kubernetes.
        prefix: String,
    },
}

/// The settings that [`ServerBuilder::engine`] replaces.
const ENGINE_SETTINGS: [&str; 3] = ["storage-backend", "etcd-servers", "etcd-prefix"];

/// The setting that is a directory of its own in the builder.
const DATA_DIR: &str = "data-dir";

/// The beginning of the names of temporary directories.
const TEMPORARY: &str = "taffrail-server-";

/// Collects what a [`Server`] is started with.
#[must_use]
pub struct ServerBuilder {
    data_dir: Option<PathBuf>,
    settings: Vec<(String, String)>,
    users: Vec<(Option<Token>, UserInfo)>,
    simulation: Simulation,
    conduct: Conduct,
    for_tests: bool,
}

impl ServerBuilder {
    pub(super) fn new() -> ServerBuilder {
        let builder = ServerBuilder {
            data_dir: None,
            settings: Vec::new(),
            users: Vec::new(),
            simulation: Simulation::default(),
            conduct: Conduct::default(),
            for_tests: false,
        };
        builder
            .setting("secure-port", "0")
            .setting("metrics-bind-address", "")
    }

    /// Sets where objects are kept. The default is [`StorageEngine::Embedded`].
    pub fn engine(mut self, engine: StorageEngine) -> ServerBuilder {
        self.settings
            .retain(|(name, _)| !ENGINE_SETTINGS.contains(&name.as_str()));
        match engine {
            StorageEngine::Memory => self.setting("storage-backend", "memory"),
            StorageEngine::Embedded => self.setting("storage-backend", "embedded"),
            StorageEngine::Etcd { servers, prefix } => self
                .setting("storage-backend", "etcd3")
                .setting("etcd-servers", servers.join(","))
                .setting("etcd-prefix", prefix),
        }
    }

    /// Sets the directory of data, certificates and kubeconfig, which is created with mode 0700 if
    /// it does not exist. The default is a temporary directory, which is removed when the server
    /// has stopped.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> ServerBuilder {
        self.data_dir = Some(directory.into());
        self
    }

    /// Sets the address and port of HTTPS. The default is a free port of 127.0.0.1.
    pub fn address(self, address: SocketAddr) -> ServerBuilder {
        self.setting("bind-address", address.ip().to_string())
            .setting("secure-port", address.port().to_string())
    }

    /// Adds a user, who authenticates with this token. A member of `system:masters` may do
    /// everything. The admin's token exists in addition ([`Server::admin_token`]).
    pub fn user(mut self, name: &str, token: &str, groups: &[&str]) -> ServerBuilder {
        let groups = groups.iter().map(|group| (*group).to_owned());
        let user = UserInfo::authenticated(name, groups.collect());
        self.users.push((Token::new(token), user));
        self
    }

    /// Makes this a server for tests, as `taffrail test` starts one: it keeps its objects in
    /// memory, has few threads, and stops without waiting for its clients. The test may reset it to
    /// snapshots, inject faults into its answers and move its clock forward, also by the paths
    /// below `/taffrail/v1/test`.
    pub fn for_tests(mut self) -> ServerBuilder {
        self.for_tests = true;
        self.conduct = Conduct::of_test_server(Stop::Cut);
        let defaults = TEST_SERVER_DEFAULTS.into_iter();
        defaults.fold(self, |builder, (name, value)| builder.setting(name, value))
    }

    /// Sets the parts of a cluster that are simulated, for tests. By default nothing is.
    pub fn simulation(mut self, simulation: Simulation) -> ServerBuilder {
        self.simulation = simulation;
        self
    }

    /// Sets one of the settings that `taffrail config` lists, by its name and the text of its
    /// value. A later value replaces an earlier one.
    pub fn setting(mut self, name: &str, value: impl Into<String>) -> ServerBuilder {
        let value = value.into();
        if name == DATA_DIR {
            return self.data_dir(value);
        }
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value));
        self
    }

    /// Starts the server. It serves as soon as this returns, while its caches still fill
    /// ([`Server::ready`]). The future may be polled by any executor. If it is dropped, the server
    /// stops in the background.
    ///
    /// # Errors
    /// [`ServerError`]. Nothing is left running.
    pub async fn start(self) -> Result<Server, ServerError> {
        let started = Instant::now();
        clock::check(SystemTime::now())?;
        process_limits::check()?;
        let nodes = self.simulation.nodes;
        if nodes > Simulation::NODES_MAX {
            return Err(ServerError::TooManyNodes(nodes));
        }
        let users = checked(self.users)?;
        let (directory, temporary) = match self.data_dir {
            Some(directory) => (directory, None),
            None => {
                let temporary = ThrowawayFolder::make(TEMPORARY).map_err(ServerError::Directory)?;
                (temporary.path().join("data"), Some(temporary))
            }
        };
        let config = configured(self.settings, &directory)?;
        let series = telemetry::new_series()?;
        let host = Host {
            series: series.clone(),
            started,
            users,
            notifies_service_manager: false,
            simulation: self.simulation,
            conduct: self.conduct,
            for_tests: self.for_tests,
        };
        let (thread, facts) = ServerThread::start(config, host, temporary).await?;
        remove_leftovers(TEMPORARY);
        Ok(Server {
            admin_token: read_token(&directory)?,
            facts,
            series,
            thread,
            nodes: self.simulation.nodes,
        })
    }
}

/// Tokens and users are left out.
impl fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerBuilder")
            .field(DATA_DIR, &self.data_dir)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn configured(settings: Vec<(String, String)>, directory: &Path) -> Result<Config, ServerError> {
    let path = directory.to_str();
    let path = path.ok_or_else(|| ServerError::Path(directory.to_owned()))?;
    let data_dir = (DATA_DIR.to_owned(), path.to_owned());
    Ok(Config::of_entries(settings.into_iter().chain([data_dir]))?)
}

/// Checks users as those of a token file are checked (API-278).
fn checked(users: Vec<(Option<Token>, UserInfo)>) -> Result<Vec<(Token, UserInfo)>, ServerError> {
    let mut tokens = HashSet::new();
    let checked = users.into_iter().map(|(token, user)| {
        let has_controls = |text: &String| text.contains(char::is_control);
        let problem = match &token {
            _ if user.name.is_empty() => Some("it has no name"),
            // Names appear in logs and on terminals.
            _ if has_controls(&user.name) || user.groups.iter().any(has_controls) => {
                Some("its name or a group has a control character")
            }
            None => Some("its token must be printable ASCII characters without spaces"),
            Some(token) if !tokens.insert(token.secret().to_owned()) => {
                Some("its token is that of another user")
            }
            Some(_) => None,
        };
        match (token, problem) {
            (Some(token), None) => Ok((token, user)),
            (_, problem) => Err(ServerError::User {
                name: user.name,
                problem: problem.unwrap_or("it has no token"),
            }),
        }
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_nodes_are_refused() {
        let simulation = Simulation {
            nodes: Simulation::NODES_MAX + 1,
            ..Simulation::default()
        };
        let start = ServerBuilder::new().simulation(simulation).start();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let fault = runtime.unwrap().block_on(start).err().unwrap();
        let expected = "1001 simulated nodes are too many; at most 1000 are possible";
        assert_eq!(fault.to_string(), expected);
    }
}
