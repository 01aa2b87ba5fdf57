//! The members of the cluster, and calls that go to one that answers.
//!
//! Each member has separate connections for each purpose. They do not share flow control, so a
//! watch that nobody reads never delays a transaction. Each calling runtime has its own connection
//! for keys, so that a request that changes a key needs no other thread. All calls go to one member
//! until it fails, then to the next one. A write is repeated only if it certainly had no effect.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    Channel, Client, ConnectOptions, Error, KvClient, LeaseClient, MaintenanceClient, WatchClient,
};
use futures_util::FutureExt;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tower::ServiceExt;

use super::call_error::{self, CallError};
use super::connect_error::ConnectError;
use super::connection::Connection;
use super::options::EtcdOptions;
use super::tls::ClientTls;

/// The largest message: a page of a list, a batch of events. etcd accepts values of 1.5 MiB by
/// default.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The time to open a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a silent connection with a call or a watch is pinged. etcd closes connections that
/// ping more often than every five seconds, or without calls and watches.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How many keepalive probes of an unused connection may stay unanswered. They keep a write from
/// meeting a dead connection.
const KEEPALIVE_RETRIES: u32 = 2;

/// The bytes that the server may have under way on a watch that nobody reads.
const WATCH_WINDOW: u32 = 1 << 20;
/// The bytes under way on all watches of a connection. Practically unlimited, because each watch
/// has its own limit.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// How long a call is retried after members rejected it.
const TRY_FOR: Duration = Duration::from_secs(3);
/// The first pause after every member rejected a call.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a member's version is valid when a watch opens. Another server may have replaced it,
/// which breaks its watches.
const VERSION_KNOWN_FOR: Duration = Duration::from_secs(5);

/// Whether a member answers requests for progress truthfully (ST-72), once that is known.
#[derive(Debug, Default)]
pub(super) struct ProgressSupport(Mutex<Option<(bool, Instant)>>);

impl ProgressSupport {
    /// Learns what the member's version implies. Returns whether that is new.
    pub(super) fn learn(&self, is_supported: bool) -> bool {
        let before = self.0.lock().replace((is_supported, Instant::now()));
        before.is_none_or(|(before, _)| before != is_supported)
    }

    /// Whether the member supports progress requests, by its version. `None` while that is unknown.
    pub(super) fn get(&self) -> Option<bool> {
        self.0.lock().map(|(is_supported, _)| is_supported)
    }

    /// Whether to ask for the version again.
    pub(super) fn is_outdated(&self) -> bool {
        let known = self.0.lock();
        known.is_none_or(|(_, since)| since.elapsed() > VERSION_KNOWN_FOR)
    }
}

/// One member.
pub(super) struct Member {
    /// Its URL, as configured.
    pub(super) url: Arc<str>,
    kv_connections: KvConnections,
    pub(super) watch: WatchClient,
    pub(super) lease: LeaseClient,
    pub(super) maintenance: MaintenanceClient,
    pub(super) progress_support: ProgressSupport,
}

/// The most runtimes with a connection of their own. Others use the engine's.
const KV_CONNECTIONS_MAX: usize = 256;

/// A member's connections for keys, each driven by the runtime that uses it.
struct KvConnections {
    door: Door,
    /// The connection of the engine's runtime.
    own: KvClient,
    by_runtime: Mutex<HashMap<runtime::Id, KvClient>>,
}

impl KvConnections {
    /// Must be called on the engine's own runtime.
    fn new(door: Door) -> Option<KvConnections> {
        let own = kv_client(&door)?;
        let here = Handle::try_current().map(|here| (here.id(), own.clone()));
        Some(KvConnections {
            door,
            own,
            by_runtime: Mutex::new(here.into_iter().collect()),
        })
    }

    /// Drops the useless connection of the calling runtime. The next call opens another one.
    fn drop_here(&self) {
        if let Ok(here) = Handle::try_current() {
            self.by_runtime.lock().remove(&here.id());
        }
    }

    /// The connection of the calling runtime.
    fn here(&self) -> KvClient {
        let Ok(here) = Handle::try_current() else {
            return self.own.clone();
        };
        let mut by_runtime = self.by_runtime.lock();
        if let Some(client) = by_runtime.get(&here.id()) {
            return client.clone();
        }
        if by_runtime.len() >= KV_CONNECTIONS_MAX {
            return self.own.clone();
        }
        let client = kv_client(&self.door).unwrap_or_else(|| self.own.clone());
        by_runtime.insert(here.id(), client.clone());
        client
    }
}

impl Member {
    /// Reads and changes keys, on the connection of the calling runtime.
    pub(super) fn kv(&self) -> KvClient {
        self.kv_connections.here()
    }
}

/// All members.
pub(super) struct Servers {
    members: Vec<Member>,
    current: AtomicUsize,
}

/// How a call may be made and repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallKind {
    /// Whether it changes something. Then it is repeated only if it certainly had no effect.
    pub(super) is_write: bool,
    /// How long one attempt may take.
    pub(super) timeout: Duration,
}

impl CallKind {
    /// A small read.
    pub(super) const READ: CallKind = CallKind {
        is_write: false,
        timeout: Duration::from_secs(3),
    };
    /// A read of a page.
    pub(super) const PAGE: CallKind = CallKind {
        is_write: false,
        timeout: Duration::from_secs(10),
    };
    /// A write. etcd itself gives up a proposal after seven seconds.
    pub(super) const WRITE: CallKind = CallKind {
        is_write: true,
        timeout: Duration::from_secs(10),
    };
}

impl Servers {
    /// Prepares the connections. The first call opens them. Must be called on the runtime that
    /// drives them.
    ///
    /// # Errors
    /// [`ConnectError`] for mistakes that waiting does not repair.
    pub(super) fn prepare(options: &EtcdOptions) -> Result<Servers, ConnectError> {
        if options.servers.is_empty() {
            return Err(ConnectError::NoServers);
        }
        let members = options.servers.iter().map(|url| member(url, options));
        Ok(Servers {
            members: members.collect::<Result<_, _>>()?,
            current: AtomicUsize::new(0),
        })
    }

    /// Every member.
    pub(super) fn all(&self) -> &[Member] {
        &self.members
    }

    /// Whether progress requests are reliable: some member is known to answer them truthfully, and
    /// none is known not to. A member that never answered does not count.
    pub(super) fn support_progress(&self) -> bool {
        let known = || {
            self.members
                .iter()
                .filter_map(|member| member.progress_support.get())
        };
        known().any(|is_supported| is_supported) && known().all(|is_supported| is_supported)
    }

    /// The member that calls go to now, and its index.
    pub(super) fn current(&self) -> Option<(usize, &Member)> {
        let number = self.current.load(Ordering::Relaxed) % self.members.len().max(1);
        Some((number, self.members.get(number)?))
    }

    /// Switches to the member after this one, which failed.
    pub(super) fn switch_from(&self, number: usize) {
        let next = (number + 1) % self.members.len().max(1);
        // Another failed call may have switched already.
        let moved =
            self.current
                .compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_ok() && next != number {
            tracing::debug!(
                server = %self.members[number].url,
                "this etcd server failed a call: calls go to the next one"
            );
        }
    }

    /// Calls the members in turn until one answers.
    ///
    /// # Errors
    /// The error of the last one, with its URL.
    pub(super) async fn call<T, C, F>(&self, kind: CallKind, call: C) -> Result<T, CallError>
    where
        C: Fn(&Member) -> F,
        F: Future<Output = Result<T, Error>>,
    {
        let try_until = Instant::now() + TRY_FOR;
        let mut pause = FIRST_PAUSE;
        let mut tried = 0;
        loop {
            let Some((number, member)) = self.current() else {
                return Err(CallError::NotDone("there is no server".to_owned()));
            };
            let attempt = tokio::time::timeout(kind.timeout, call(member));
            let error = match attempt.await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => {
                    if call_error::is_dead_end(&error) {
                        member.kv_connections.drop_here();
                    }
                    CallError::of(&error)
                }
                Err(_) => CallError::Unknown(format!("no answer within {:?}", kind.timeout)),
            };
            tried += 1;
            if matches!(error, CallError::NotDone(_) | CallError::Unknown(_)) {
                self.switch_from(number);
            }
            let all_tried = tried >= self.members.len();
            let again = error.may_be_tried_again(kind.is_write)
                && (!all_tried || Instant::now() + pause < try_until);
            if !again {
                return Err(error.at(&member.url));
            }
            if all_tried {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

fn member(url: &str, options: &EtcdOptions) -> Result<Member, ConnectError> {
    let plain = Door::of(url, options)?;
    let watches = plain.clone().with(|endpoint| {
        endpoint
            .initial_stream_window_size(WATCH_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
    });
    let no_client = || bad_url(url, &"no client can be made of it");
    let rest = client(&plain, ConnectOptions::new()).ok_or_else(no_client)?;
    // Without a leader a watch would stay silent for ever (WC-45).
    let require_leader = ConnectOptions::new().with_require_leader(true);
    let watch = client(&watches, require_leader).ok_or_else(no_client)?;
    Ok(Member {
        url: Arc::from(url),
        kv_connections: KvConnections::new(plain).ok_or_else(no_client)?,
        watch: watch
            .watch_client()
            .max_decoding_message_size(MESSAGE_BYTES_MAX),
        lease: rest.lease_client(),
        maintenance: rest.maintenance_client(),
        progress_support: ProgressSupport::default(),
    })
}

/// A client that connects on its first call. This runtime drives it.
fn client(door: &Door, options: ConnectOptions) -> Option<Client> {
    // Without a user to log in this does not wait.
    let client = Client::from_channel(channel(door), Some(options)).now_or_never();
    client.and_then(Result::ok)
}

/// A connection that is opened on demand, again and again. The connector itself reports a timeout,
/// not the endpoint around it. Then it is certain that nothing was sent.
fn channel(door: &Door) -> Channel {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(PING_INTERVAL));
    tcp.set_keepalive_interval(Some(PING_TIMEOUT));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    let (tls, host) = (door.tls.clone(), door.host.clone());
    let connector = tcp
        .map_err(io::Error::other)
        .and_then(move |stream: TokioIo<TcpStream>| {
            let (tls, host) = (tls.clone(), host.clone());
            async move {
                let (reader, writer) = stream.into_inner().into_split();
                let connection = Connection::new(reader, writer);
                let stream: Box<dyn Stream> = match tls {
                    None => Box::new(connection),
                    Some(tls) => Box::new(tls.connect(&host, connection).await?),
                };
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
    Channel::Tonic(door.endpoint.connect_with_connector_lazy(connector))
}

fn kv_client(door: &Door) -> Option<KvClient> {
    let client = client(door, ConnectOptions::new())?.kv_client();
    Some(
        client
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX),
    )
}

/// The parts of connections to a member.
#[derive(Clone)]
struct Door {
    endpoint: Endpoint,
    host: String,
    tls: Option<Arc<ClientTls>>,
}

/// A connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Door {
    fn of(url: &str, options: &EtcdOptions) -> Result<Door, ConnectError> {
        let endpoint =
            Endpoint::from_shared(url.to_owned()).map_err(|error| bad_url(url, &error))?;
        let uri = endpoint.uri().clone();
        if url.starts_with("unix:") {
            // tonic would take this for a socket of this machine.
            return Err(bad_url(url, &"it begins with neither http:// nor https://"));
        }
        let host = uri.host().unwrap_or_default().to_owned();
        if host.is_empty() {
            return Err(bad_url(url, &"it names no host"));
        }
        let (endpoint, tls) = match uri.scheme_str() {
            Some("http") => (endpoint, None),
            Some("https") => {
                let no_authority = || ConnectError::NoAuthority(url.to_owned());
                let tls = options.tls.clone().ok_or_else(no_authority)?;
                // tonic leaves TLS to the connector only for `http`.
                let plain = url.replacen("https", "http", 1);
                let endpoint = Endpoint::from_shared(plain);
                let endpoint = endpoint.map_err(|error| bad_url(url, &error))?;
                (endpoint.origin(uri), Some(tls))
            }
            _ => return Err(bad_url(url, &"it begins with neither http:// nor https://")),
        };
        let endpoint = endpoint
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false);
        Ok(Door {
            endpoint,
            host,
            tls,
        })
    }

    fn with(self, change: impl FnOnce(Endpoint) -> Endpoint) -> Door {
        Door {
            endpoint: change(self.endpoint),
            ..self
        }
    }
}

fn bad_url(url: &str, reason: &dyn std::fmt::Display) -> ConnectError {
    ConnectError::BadUrl {
        url: url.to_owned(),
        reason: reason.to_string(),
    }
}
