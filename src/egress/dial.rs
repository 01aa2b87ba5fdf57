//! Opens connections: names, sockets, and TLS, with errors in Go's words.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::error::Failure;
use super::outgoing::OutgoingBody;
use super::target::{Peers, Target};
use super::trust::{self, ALPN_HTTP2};
use super::wire::Wire;

/// The time for a connection, including the look-up of its name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer's head, and of a piece of its body. With its head and end as a chunk
/// a piece fits into the 64 KiB that TLS takes at a time, so that a few bytes are not left over for
/// a record and a system call of their own.
pub(super) const HEAD_BYTES_MAX: usize = (64 << 10) - 64;

/// The most bytes that wait for the reader of one answer over HTTP/2.
pub(super) const STREAM_WINDOW_BYTES: u32 = 128 << 10;

/// The most bytes that an answer which is passed on may hold while nobody reads it: those of its
/// window, or of the buffer of HTTP/1.1, and a piece.
pub const HELD_BYTES_MAX: usize = STREAM_WINDOW_BYTES as usize + HEAD_BYTES_MAX;

/// The TCP keep-alive times.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// A connection that was just opened.
pub(super) enum Dialed {
    /// It has one request at a time.
    Http1(http1::SendRequest<OutgoingBody>),
    /// Both sides have chosen HTTP/2, which has to begin until this moment.
    Http2(Wire, Instant),
}

/// Connects to a target.
pub(super) async fn dial(target: &Target, tls: &Arc<ClientConfig>) -> Result<Dialed, Failure> {
    let begin = Instant::now();
    let (wire, is_http2) = open(target, tls).await?;
    if is_http2 {
        let until = match target.settings().connect_timeout {
            Some(within) => begin + within,
            None => Instant::now() + HANDSHAKE_TIMEOUT,
        };
        return Ok(Dialed::Http2(wire, until));
    }
    let (sender, connection) = http1()
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|error| Failure::Transport(error.to_string()))?;
    tasks::spawn(connection);
    Ok(Dialed::Http1(sender))
}

/// The settings of HTTP/1.1.
pub(super) fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    builder
}

/// Opens a connection, and says whether both sides have chosen HTTP/2.
pub(super) async fn open(
    target: &Target,
    tls: &Arc<ClientConfig>,
) -> Result<(Wire, bool), Failure> {
    let (address, peers) = (target.dialed(), target.settings().peers);
    let Some(within) = target.settings().connect_timeout else {
        let socket = connect(&address, peers, CONNECT_TIMEOUT).await?;
        return shake_hands(target, tls, socket).await;
    };
    let opening = async {
        let socket = connect(&address, peers, within).await?;
        shake_hands(target, tls, socket).await
    };
    let late = || Failure::Tls("net/http: TLS handshake timeout".to_owned());
    timeout(within, opening)
        .await
        .unwrap_or_else(|_| Err(late()))
}

async fn shake_hands(
    target: &Target,
    tls: &Arc<ClientConfig>,
    socket: TcpStream,
) -> Result<(Wire, bool), Failure> {
    if !target.is_tls {
        return Ok((Wire::Plain(socket), false));
    }
    let unusable = |_| Failure::Tls("tls: the server name is not valid".to_owned());
    let name = ServerName::try_from(target.server_name().to_owned()).map_err(unusable)?;
    let handshake = TlsConnector::from(Arc::clone(tls)).connect(name, socket);
    let stream = match timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(of_handshake(&error)),
        Err(_) => return Err(Failure::Tls("net/http: TLS handshake timeout".to_owned())),
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2);
    Ok((Wire::Tls(Box::new(stream)), is_http2))
}

async fn connect(address: &str, peers: Peers, within: Duration) -> Result<TcpStream, Failure> {
    let connecting = async {
        let addresses = addresses(address).await?;
        // One bad address of a name refuses them all, as in Kubernetes.
        if !addresses.iter().all(|address| peers.include(address.ip())) {
            return Err(Failure::NotAllowed);
        }
        let mut failure = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    prepare(&socket);
                    return Ok(socket);
                }
                Err(error) => {
                    let why = reason(&error);
                    let text = format!("dial tcp {address}: connect: {why}");
                    failure.get_or_insert(Failure::Dial(text));
                }
            }
        }
        Err(failure.unwrap_or_else(|| no_such_host(address)))
    };
    let late = |_| Failure::Dial(format!("dial tcp {address}: i/o timeout"));
    timeout(within, connecting).await.map_err(late)?
}

/// Sets the options of a socket. Each is only an improvement.
fn prepare(socket: &TcpStream) {
    // It only delays small requests.
    let _ = socket.set_nodelay(true);
    // A server whose machine is gone is noticed, however long its connection stays quiet.
    let _ = sockopt::set_socket_keepalive(socket, true)
        .and_then(|()| sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE))
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES));
}

async fn addresses(address: &str) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let found = tokio::net::lookup_host(address).await;
    found
        .map(Iterator::collect)
        .map_err(|_| no_such_host(address))
}

fn no_such_host(address: &str) -> Failure {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Failure::Dial(format!("dial tcp: lookup {host}: no such host"))
}

/// Why a system call has failed, as Go prints it.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

fn of_handshake(error: &io::Error) -> Failure {
    let inner = error.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return Failure::Tls(trust::text(error));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Failure::Closed,
        _ => Failure::Tls(format!("read tcp: read: {}", reason(error))),
    }
}

/// Why the body of an answer ended early.
pub(super) fn of_body(error: &hyper::Error) -> String {
    match of_exchange(error) {
        Failure::Closed => "unexpected EOF".to_owned(),
        failure => failure.to_string(),
    }
}

/// Why an answer has not come, or not as a whole.
pub(super) fn of_exchange(error: &hyper::Error) -> Failure {
    let mut source = std::error::Error::source(error);
    while let Some(why) = source {
        if let Some(why) = why.downcast_ref::<io::Error>() {
            if let Some(why) = why
                .get_ref()
                .and_then(|why| why.downcast_ref::<rustls::Error>())
            {
                return Failure::Tls(trust::text(why));
            }
            return match why.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => Failure::Closed,
                _ => Failure::Transport(format!("read tcp: read: {}", reason(why))),
            };
        }
        source = why.source();
    }
    match () {
        () if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
            Failure::Closed
        }
        () if error.is_parse() => Failure::Transport(
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned(),
        ),
        () => Failure::Transport(error.to_string()),
    }
}
