//! What strangers on the network may take: connections, streams, bytes of headers, time.

use std::time::Duration;

use crate::config::Config;

/// Bounds of the transport. Those an operator may set are settings; the others have reasons that
/// don't change from one installation to the next.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time, over all threads.
    pub connections: usize,
    /// Connections at a time by which no request with good credentials came yet; half of them from
    /// one address. Never more than half of all connections.
    pub unauthenticated_connections: usize,
    /// For TLS, and for the preface of HTTP/2.
    pub handshake_timeout: Duration,
    /// For the header of an HTTP/1.1 request, from its first byte.
    pub header_timeout: Duration,
    /// For a connection without a request.
    pub idle_timeout: Duration,
    /// Streams at a time on one HTTP/2 connection.
    pub streams: u32,
    /// The same while the connection is unauthenticated.
    pub unauthenticated_streams: usize,
    /// Bytes that an authenticated connection may make the daemon hold: requests that wait, and
    /// answers that the client has not taken. No further answer is found while there are as many;
    /// with twice as many, requests are refused.
    pub held_bytes: usize,
    /// The same of an unauthenticated connection.
    pub unauthenticated_held_bytes: usize,
    /// Bytes that all authenticated connections may make the daemon hold before each of them may
    /// hold no more than an unauthenticated one.
    pub held_bytes_in_all: usize,
    /// Bytes of a request's header. Selectors in a query may be long; tokens are a few KiB.
    pub header_bytes: u32,
    /// How often an HTTP/2 connection looks at itself: idle, dead, stalled.
    pub inspection_interval: Duration,
    /// After so long without a byte from the peer of an HTTP/2 connection it is sent a ping. TCP's
    /// own keep-alive finds a dead host on a quiet connection within a minute; the ping is for
    /// peers behind a proxy that answers in their place.
    pub ping_after: Duration,
    /// After so long without a byte the peer counts as dead; over HTTP/1.1, where nobody can be
    /// asked for a sign of life, after so long without taking a byte of a watch. A client that was
    /// merely stopped for some minutes finds its watches as it left them.
    pub dead_after: Duration,
    /// After so long without room for a byte of it, a response that is no watch is given up; with
    /// HTTP/1.1 its connection. A watch that stalls costs nothing and waits until the peer counts
    /// as dead.
    pub stalled_after: Duration,
}

impl Limits {
    /// The limits that a configuration asks for.
    pub fn of(config: &Config) -> Limits {
        Limits {
            connections: config.max_connections.most(),
            unauthenticated_connections: config.max_unauthenticated_connections,
            handshake_timeout: config.handshake_timeout.0,
            header_timeout: config.header_timeout.0,
            idle_timeout: config.idle_timeout.0,
            streams: config.http2_max_streams_per_connection,
            unauthenticated_streams: 16,
            held_bytes: 8 << 20,
            unauthenticated_held_bytes: 64 << 10,
            held_bytes_in_all: 128 << 20,
            header_bytes: 64 * 1024,
            inspection_interval: Duration::from_secs(30).min(config.idle_timeout.0),
            ping_after: Duration::from_secs(5 * 60),
            dead_after: Duration::from_secs(10 * 60),
            stalled_after: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// How many inspections in a row a response may be found stalled.
    pub(super) fn stalled_inspections(&self) -> u32 {
        let interval = self.inspection_interval.as_millis().max(1);
        u32::try_from(self.stalled_after.as_millis().div_ceil(interval)).unwrap_or(u32::MAX)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of(&Config::default())
    }
}
