//! The members of the cluster, and calls that go to one that answers.
//!
//! Each member has connections of its own for each purpose: they don't share flow control, so that
//! watches nobody reads never hold up a transaction. Of those for keys each runtime that calls has
//! one: a request that changes a key then needs no other thread but the one that it came in on.
//! All calls go to one member until it fails them; then to the next one. What has an effect is sent
//! again only when it certainly had none.

use std::collections::HashMap;
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
use tokio::runtime::{self, Handle};
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tower::ServiceExt;

use super::connection::Connection;
use super::fault::{self, Fault};
use super::options::{ConnectError, EtcdOptions};

/// One message may be so large: a page of a list, a batch of events. etcd takes values of 1.5 MiB
/// unless told otherwise, and may be told.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Time for a TCP connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A silent connection with a call or a watch on it is asked for a sign of life so often; more
/// often than every five seconds, or on one without, etcd hangs up.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);
/// Those without are asked by the system, so that a write finds none that died while nobody used
/// it; so many in vain and one is dead.
const PINGS: u32 = 2;

/// Bytes that the server may have under way on one watch nobody reads.
const WATCH_WINDOW: u32 = 1 << 20;
/// Bytes under way on all watches of a connection: as good as no bound, the watches have theirs.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// How long calls are tried again after members that turned them away.
const TRY_FOR: Duration = Duration::from_secs(3);
/// The first pause after every member turned a call away.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A member's version is asked for again when it is older than this and a watch opens: another
/// one may have taken its place, which breaks the watches that it had.
const VERSION_KNOWN_FOR: Duration = Duration::from_secs(5);

/// Whether a member answers requests for progress truthfully (ST-72), once that is known.
#[derive(Debug, Default)]
pub(super) struct Truthful(Mutex<Option<(bool, Instant)>>);

impl Truthful {
    /// What its version says; whether that is news.
    pub(super) fn learn(&self, truthful: bool) -> bool {
        let before = self.0.lock().replace((truthful, Instant::now()));
        before.is_none_or(|(before, _)| before != truthful)
    }

    /// `None` while its version is unknown.
    pub(super) fn get(&self) -> Option<bool> {
        self.0.lock().map(|(truthful, _)| truthful)
    }

    /// Whether it is to be asked for, once more.
    pub(super) fn is_old(&self) -> bool {
        let known = self.0.lock();
        known.is_none_or(|(_, since)| since.elapsed() > VERSION_KNOWN_FOR)
    }
}

/// One member.
pub(super) struct Member {
    /// Its URL, as configured.
    pub(super) url: Arc<str>,
    keys: Lines,
    pub(super) watch: WatchClient,
    pub(super) lease: LeaseClient,
    pub(super) maintenance: MaintenanceClient,
    pub(super) truthful: Truthful,
}

/// Runtimes that have connections of their own; one more shares another's.
const LINES_MAX: usize = 256;

/// Connections for keys, each driven by the runtime that uses it.
struct Lines {
    endpoint: Endpoint,
    /// The engine's own.
    first: KvClient,
    by_runtime: Mutex<HashMap<runtime::Id, KvClient>>,
}

impl Lines {
    /// Must be called on the engine's own runtime.
    fn new(endpoint: Endpoint) -> Option<Lines> {
        let first = keys(&endpoint)?;
        let own = Handle::try_current().map(|own| (own.id(), first.clone()));
        Some(Lines {
            endpoint,
            first,
            by_runtime: Mutex::new(own.into_iter().collect()),
        })
    }

    /// The one of the calling runtime is of no use any more: the next call makes another one.
    fn forget_here(&self) {
        if let Ok(here) = Handle::try_current() {
            self.by_runtime.lock().remove(&here.id());
        }
    }

    /// The one of the calling runtime.
    fn here(&self) -> KvClient {
        let Ok(here) = Handle::try_current() else {
            return self.first.clone();
        };
        let mut by_runtime = self.by_runtime.lock();
        if let Some(line) = by_runtime.get(&here.id()) {
            return line.clone();
        }
        if by_runtime.len() >= LINES_MAX {
            return self.first.clone();
        }
        let line = keys(&self.endpoint).unwrap_or_else(|| self.first.clone());
        by_runtime.insert(here.id(), line.clone());
        line
    }
}

impl Member {
    /// Where keys are read and changed, on a connection of the calling runtime.
    pub(super) fn kv(&self) -> KvClient {
        self.keys.here()
    }
}

/// All members.
pub(super) struct Servers {
    members: Vec<Member>,
    current: AtomicUsize,
}

/// How a call may be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether it changes something: then it is sent again only if it certainly changed nothing.
    pub(super) has_effect: bool,
    /// How long one attempt may take.
    pub(super) attempt: Duration,
}

impl Manner {
    /// A read of little.
    pub(super) const READ: Manner = Manner {
        has_effect: false,
        attempt: Duration::from_secs(3),
    };
    /// A read of a page of data.
    pub(super) const PAGE: Manner = Manner {
        has_effect: false,
        attempt: Duration::from_secs(10),
    };
    /// A change. etcd itself gives up a proposal after seven seconds.
    pub(super) const CHANGE: Manner = Manner {
        has_effect: true,
        attempt: Duration::from_secs(10),
    };
}

impl Servers {
    /// Prepares the connections; none is made before the first call. Must be called on the runtime
    /// that is to drive them.
    ///
    /// # Errors
    /// [`ConnectError`] for what no waiting would mend.
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

    /// Whether requests for progress can be relied on: some member is known to answer them
    /// truthfully, and none not to. One that never answered says nothing.
    pub(super) fn believe_progress(&self) -> bool {
        let known = || {
            self.members
                .iter()
                .filter_map(|member| member.truthful.get())
        };
        known().any(|truthful| truthful) && known().all(|truthful| truthful)
    }

    /// The member that calls go to now, and its number.
    pub(super) fn current(&self) -> Option<(usize, &Member)> {
        let number = self.current.load(Ordering::Relaxed) % self.members.len().max(1);
        Some((number, self.members.get(number)?))
    }

    /// That member failed: the next calls go to the one after it.
    pub(super) fn leave(&self, number: usize) {
        let next = (number + 1) % self.members.len().max(1);
        // Who failed at the same member at the same time has moved on already.
        let moved =
            self.current
                .compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_ok() && next != number {
            tracing::debug!(server = %self.members[number].url, "going on with another server");
        }
    }

    /// Calls one member after the other until one answers.
    ///
    /// # Errors
    /// What the last one said, with its URL.
    pub(super) async fn call<T, C, F>(&self, manner: Manner, call: C) -> Result<T, Fault>
    where
        C: Fn(&Member) -> F,
        F: Future<Output = Result<T, Error>>,
    {
        let try_until = Instant::now() + TRY_FOR;
        let mut pause = FIRST_PAUSE;
        let mut tried = 0;
        loop {
            let Some((number, member)) = self.current() else {
                return Err(Fault::NotDone("there is no server".to_owned()));
            };
            let attempt = tokio::time::timeout(manner.attempt, call(member));
            let fault = match attempt.await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => {
                    if fault::is_dead_end(&error) {
                        member.keys.forget_here();
                    }
                    Fault::of(&error)
                }
                Err(_) => Fault::Unknown(format!("no answer within {:?}", manner.attempt)),
            };
            tried += 1;
            if matches!(fault, Fault::NotDone(_) | Fault::Unknown(_)) {
                self.leave(number);
            }
            let all_tried = tried >= self.members.len();
            let again = fault.may_be_tried_again(manner.has_effect)
                && (!all_tried || Instant::now() + pause < try_until);
            if !again {
                return Err(fault.at(&member.url));
            }
            if all_tried {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl Fault {
    /// Names the server in what is said of it.
    fn at(self, url: &str) -> Fault {
        match self {
            Fault::NotDone(text) => Fault::NotDone(format!("etcd at {url}: {text}")),
            Fault::Unknown(text) => Fault::Unknown(format!("etcd at {url}: {text}")),
            Fault::Denied(text) => Fault::Denied(format!("etcd at {url}: {text}")),
            fault => fault,
        }
    }
}

fn member(url: &str, options: &EtcdOptions) -> Result<Member, ConnectError> {
    let plain = connection(url, options)?;
    let watches = plain
        .clone()
        .initial_stream_window_size(WATCH_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let no_client = || bad_url(url, &"no client can be made of it");
    let rest = client(&plain, ConnectOptions::new()).ok_or_else(no_client)?;
    // Without a leader a watch would stay silent for ever (WC-45).
    let require_leader = ConnectOptions::new().with_require_leader(true);
    let watch = client(&watches, require_leader).ok_or_else(no_client)?;
    Ok(Member {
        url: Arc::from(url),
        keys: Lines::new(plain).ok_or_else(no_client)?,
        watch: watch
            .watch_client()
            .max_decoding_message_size(MESSAGE_BYTES_MAX),
        lease: rest.lease_client(),
        maintenance: rest.maintenance_client(),
        truthful: Truthful::default(),
    })
}

/// A client whose connection is made when it is called first, and driven by this runtime.
fn client(endpoint: &Endpoint, options: ConnectOptions) -> Option<Client> {
    // Without a user to log in there is nothing to wait for.
    let client = Client::from_channel(channel(endpoint), Some(options)).now_or_never();
    client.and_then(Result::ok)
}

/// A connection that is made when it is needed, and again. That one could not be made in time is
/// said by the connector itself, not by the endpoint around it: then it is known that nothing was
/// sent.
fn channel(endpoint: &Endpoint) -> Channel {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_WITHIN));
    tcp.set_keepalive(Some(PING_EVERY));
    tcp.set_keepalive_interval(Some(PONG_WITHIN));
    tcp.set_keepalive_retries(Some(PINGS));
    let connector = tcp.map_response(|stream| {
        let (reader, writer) = stream.into_inner().into_split();
        TokioIo::new(Connection::new(reader, writer))
    });
    Channel::Tonic(endpoint.connect_with_connector_lazy(connector))
}

fn keys(endpoint: &Endpoint) -> Option<KvClient> {
    let client = client(endpoint, ConnectOptions::new())?.kv_client();
    Some(
        client
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX),
    )
}

fn connection(url: &str, options: &EtcdOptions) -> Result<Endpoint, ConnectError> {
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| bad_url(url, &error))?;
    let uri = endpoint.uri();
    if url.starts_with("unix:") {
        // Which tonic would take for a socket of this machine.
        return Err(bad_url(url, &"it begins with neither http:// nor https://"));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(bad_url(url, &"it names no host"));
    }
    let endpoint = match uri.scheme_str() {
        Some("http") => endpoint,
        Some("https") => {
            let tls = options.tls.read(url)?;
            endpoint
                .tls_config(tls)
                .map_err(|error| bad_url(url, &error))?
        }
        _ => return Err(bad_url(url, &"it begins with neither http:// nor https://")),
    };
    Ok(endpoint
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(false))
}

fn bad_url(url: &str, reason: &dyn std::fmt::Display) -> ConnectError {
    ConnectError::BadUrl {
        url: url.to_owned(),
        reason: reason.to_string(),
    }
}
