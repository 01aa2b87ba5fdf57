//! Listens, and passes each request to gRPC or to the plain paths. Both share a port, as with etcd.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use etcd_client::proto::{
    PbClusterServer, PbKvServer, PbLeaseServer, PbMaintenanceServer, PbWatchServer,
};
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::cluster::ClusterService;
use super::command_line::ListenUrl;
use super::kv::KvService;
use super::leases::LeaseService;
use super::maintenance::MaintenanceService;
use super::paths;
use super::peer::Ends;
use super::store::SharedStore;
use super::watch::WatchService;

/// How long a connection may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a silent connection is pinged, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(120);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The most streams of one connection, whatever the flag says.
const STREAMS_MAX: u32 = 1 << 20;
/// The longest message that is read, as a multiple of the largest request. Requests in between get
/// etcd's own error.
const MESSAGE_FACTOR: usize = 4;

/// The gRPC services.
#[derive(Clone)]
struct Services {
    kv: PbKvServer<KvService>,
    watch: PbWatchServer<WatchService>,
    lease: PbLeaseServer<LeaseService>,
    cluster: PbClusterServer<ClusterService>,
    maintenance: PbMaintenanceServer<MaintenanceService>,
}

impl Services {
    fn new(store: &Arc<SharedStore>) -> Services {
        let bytes_max = store
            .settings()
            .request_bytes_max
            .saturating_mul(MESSAGE_FACTOR);
        let kv = PbKvServer::new(KvService::new(Arc::clone(store)));
        let watch = PbWatchServer::new(WatchService::new(Arc::clone(store)));
        Services {
            kv: kv.max_decoding_message_size(bytes_max),
            watch: watch.max_decoding_message_size(bytes_max),
            lease: PbLeaseServer::new(LeaseService::new(Arc::clone(store))),
            cluster: PbClusterServer::new(ClusterService::new(Arc::clone(store))),
            maintenance: PbMaintenanceServer::new(MaintenanceService::new(Arc::clone(store))),
        }
    }

    async fn call(mut self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        match service {
            "etcdserverpb.KV" => self.kv.call(request).await,
            "etcdserverpb.Watch" => self.watch.call(request).await,
            "etcdserverpb.Lease" => self.lease.call(request).await,
            "etcdserverpb.Cluster" => self.cluster.call(request).await,
            "etcdserverpb.Maintenance" => self.maintenance.call(request).await,
            other => Ok(Status::unimplemented(format!("unknown service {other}")).into_http()),
        }
    }
}

/// One address that is listened at.
pub(super) struct Server {
    url: String,
    listener: TcpListener,
    store: Arc<SharedStore>,
    /// `None` where only the plain paths are served.
    services: Option<Services>,
}

impl Server {
    /// Listens at all addresses of the settings.
    ///
    /// # Errors
    /// The flag with the address that can't be listened at, and why, in one line.
    pub(super) fn listen(store: &Arc<SharedStore>) -> Result<Vec<Server>, String> {
        let services = Services::new(store);
        let settings = store.settings();
        let clients = settings.client_urls.iter();
        let clients = clients.map(|url| ("listen-client-urls", url, Some(services.clone())));
        let metrics = settings.metrics_urls.iter();
        let metrics = metrics.map(|url| ("listen-metrics-urls", url, None));
        let servers = clients.chain(metrics).map(|(flag, url, services)| {
            let listener = bind(url).map_err(|error| format!("--{flag}={}: {error}", url.text))?;
            Ok(Server {
                url: url.text.clone(),
                listener,
                store: Arc::clone(store),
                services,
            })
        });
        servers.collect()
    }

    /// The URL, as it was given.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Accepts connections. It never returns.
    pub(super) async fn serve(self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.accepted(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn accepted(&self, stream: TcpStream, peer: SocketAddr) {
        let Ok(local) = stream.local_addr() else {
            return;
        };
        // Without it small answers only take longer.
        let _ = stream.set_nodelay(true);
        let ends = Ends { peer, local };
        let (store, services) = (Arc::clone(&self.store), self.services.clone());
        let streams_max = store.settings().streams_max.min(STREAMS_MAX);
        let service =
            service_fn(move |request| answer(Arc::clone(&store), services.clone(), request, ends));
        tasks::spawn(async move {
            let mut server = auto::Builder::new(TokioExecutor::new());
            server
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN);
            server
                .http2()
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .max_concurrent_streams(streams_max);
            let served = server.serve_connection(TokioIo::new(stream), service).await;
            if let Err(error) = served {
                tracing::debug!(%error, %peer, "a connection has ended");
            }
        });
    }
}

fn bind(url: &ListenUrl) -> std::io::Result<TcpListener> {
    let host = match url.host.as_str() {
        // No resolver is needed for it.
        "localhost" => "127.0.0.1",
        host => host,
    };
    let address: std::net::IpAddr = host.parse().map_err(std::io::Error::other)?;
    let listener = std::net::TcpListener::bind((address, url.port))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn answer(
    store: Arc<SharedStore>,
    services: Option<Services>,
    request: Request<Incoming>,
    ends: Ends,
) -> Result<Response<Body>, Infallible> {
    let kind = request.headers().get(CONTENT_TYPE);
    let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    match services {
        Some(services) if is_grpc => services.call(request).await,
        None if is_grpc => {
            let why = "gRPC is not served here\n";
            Ok(paths::text(StatusCode::NOT_FOUND, why))
        }
        _ => {
            let (parts, _) = request.into_parts();
            Ok(paths::answer(&store, &parts, ends))
        }
    }
}
