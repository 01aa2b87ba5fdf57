//! The options of an etcd engine.

use std::sync::Arc;
use std::time::Duration;

use actors::watchdog::Watchdog;

use super::tls::ClientTls;

/// How to reach an etcd cluster, and what this daemon does for it.
#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of the members: `http://host:port` or `https://host:port`.
    pub servers: Vec<String>,
    /// TLS of the `https` ones.
    pub tls: Option<Arc<ClientTls>>,
    /// The prefix of this daemon's keys: `/registry/`. Probes read below it, so an etcd user who
    /// may read nothing else is enough.
    pub root: String,
    /// The time between two compactions. Zero leaves them to others (OP-10).
    pub compaction_interval: Duration,
    /// The time between two measurements of the database (SF-12). Zero is never.
    pub size_every: Duration,
    /// How long a probe for `/healthz` may take (OP-20).
    pub health_timeout: Duration,
    /// How long a probe for `/readyz` may take.
    pub ready_timeout: Duration,
    /// Watches the thread that talks to etcd. Default: nobody does.
    pub watchdog: Watchdog,
}

impl EtcdOptions {
    /// The defaults for these members.
    pub fn new(servers: Vec<String>) -> EtcdOptions {
        EtcdOptions {
            servers,
            tls: None,
            root: "/registry/".to_owned(),
            compaction_interval: Duration::from_secs(300),
            size_every: Duration::from_secs(30),
            health_timeout: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(2),
            watchdog: Watchdog::default(),
        }
    }
}
