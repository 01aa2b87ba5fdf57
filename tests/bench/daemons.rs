//! Starts daemons for measurements, over the store that the environment names.

use std::ops::{Deref, DerefMut};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Daemon, Options};
use crate::servers::etcd::Cluster;

/// Names a version of etcd (`3.5`) for the daemons. Each daemon gets its own etcd with durable
/// writes. Without the variable the daemons use the embedded store.
const VARIABLE: &str = "BENCH_ETCD";

/// A daemon and its store.
pub struct Measured {
    daemon: Daemon,
    cluster: Option<Cluster>,
}

/// Returns the requested etcd version.
pub fn version() -> Option<String> {
    std::env::var(VARIABLE)
        .ok()
        .filter(|version| !version.is_empty())
}

/// Starts a daemon with default flags.
pub async fn daemon() -> Measured {
    with(&[]).await
}

/// Starts a daemon with more flags.
pub async fn with(arguments: &[&str]) -> Measured {
    match version() {
        Some(version) => over(cluster(&version).await, arguments).await,
        None => Measured {
            daemon: Daemon::with(arguments).await,
            cluster: None,
        },
    }
}

/// Starts an etcd that syncs each write.
pub async fn cluster(version: &str) -> Cluster {
    let version = version.to_owned();
    let started = tokio::task::spawn_blocking(move || Cluster::durable(&version));
    started.await.unwrap()
}

/// Returns the metrics of a cluster's first member.
pub async fn metrics(cluster: &Cluster) -> String {
    let address = cluster.members[0].address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page
}

/// Starts another daemon over a cluster that it does not own.
pub async fn beside(cluster: &Cluster, arguments: &[&str]) -> Daemon {
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    Options::default()
        .arguments(&[&servers])
        .arguments(arguments)
        .start()
        .await
}

/// Starts a daemon over a cluster.
pub async fn over(cluster: Cluster, arguments: &[&str]) -> Measured {
    let daemon = beside(&cluster, arguments).await;
    Measured {
        daemon,
        cluster: Some(cluster),
    }
}

impl Measured {
    /// Returns the CPU time of the store, which is not noise. It is zero if the store is the daemon
    /// itself.
    pub fn store_seconds(&self) -> f64 {
        let members = self.cluster.iter().flat_map(|cluster| &cluster.members);
        members.map(|member| member.cpu_seconds()).sum()
    }
}

impl Deref for Measured {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for Measured {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}
