//! Daemons on a cluster of real etcds, with connections that can be cut.

use crate::harness::{Daemon, Options};
use crate::servers::etcd::Cluster;
use crate::servers::proxy::Proxy;

/// The options of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Members of etcd.
    pub members: usize,
    pub daemons: usize,
    /// Whether the daemons reach etcd through proxies.
    pub proxied: bool,
    /// Further arguments of etcd.
    pub etcd: &'static [&'static str],
    /// Further arguments of the daemons.
    pub daemon: &'static [&'static str],
}

impl Plan {
    pub const SINGLE: Plan = Plan {
        members: 1,
        daemons: 2,
        proxied: false,
        etcd: &[],
        daemon: &[],
    };
    pub const THREE: Plan = Plan {
        members: 3,
        ..Plan::SINGLE
    };
}

/// See the module's documentation.
pub struct Fleet {
    pub cluster: Cluster,
    pub proxies: Vec<Proxy>,
    pub daemons: Vec<Daemon>,
}

impl Fleet {
    pub async fn start(plan: Plan) -> Fleet {
        let started =
            tokio::task::spawn_blocking(move || Cluster::start("3.5", plan.members, plan.etcd));
        let cluster = started.await.unwrap();
        let mut proxies = Vec::new();
        let mut urls = cluster.urls();
        if plan.proxied {
            for member in &cluster.members {
                proxies.push(Proxy::to(member.address()).await);
            }
            urls = proxies
                .iter()
                .map(|proxy| format!("http://{}", proxy.address))
                .collect();
        }
        let servers = format!("--etcd-servers={}", urls.join(","));
        let mut daemons = Vec::new();
        for _ in 0..plan.daemons {
            let options = Options::default()
                .arguments(&[&servers])
                .arguments(plan.daemon);
            daemons.push(options.launch().await);
        }
        for daemon in &daemons {
            daemon.ready().await;
        }
        Fleet {
            cluster,
            proxies,
            daemons,
        }
    }
}
