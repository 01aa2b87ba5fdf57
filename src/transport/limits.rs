//! Limits on what clients may use: connections, streams, bytes of headers, time.

use std::time::Duration;

use crate::config::Config;

/// The limits of the transport. Operators can set some of them. The others are fixed, because their
/// reasons are the same in every installation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most connections over all threads.
    pub connections: usize,
    /// The most unauthenticated connections that have started TLS, three quarters of them from one
    /// address. It is never more than half of all connections.
    pub unauthenticated_connections: usize,
    /// The time for TLS, and for the preface of HTTP/2.
    pub handshake_timeout: Duration,
    /// The time for the headers of an HTTP/1.1 request, from the first byte.
    pub header_timeout: Duration,
    /// The time that a connection may stay without a request.
    pub idle_timeout: Duration,
    /// The most concurrent streams of one HTTP/2 connection.
    pub streams: u32,
    /// The same limit for an unauthenticated connection.
    pub unauthenticated_streams: usize,
    /// The bytes that the daemon may hold for an authenticated connection: waiting requests, and
    /// responses that the client has not taken. At the limit no further response is computed. At
    /// twice the limit, requests are refused.
    pub held_bytes: usize,
    /// The same limit for an unauthenticated connection.
    pub unauthenticated_held_bytes: usize,
    /// The bytes that the daemon may hold for all authenticated connections. Above it, the limit of
    /// an unauthenticated connection applies to each of them.
    pub held_bytes_in_all: usize,
    /// The most bytes of the headers of a request. Selectors in a query may be long, and tokens
    /// take a few KiB.
    pub header_bytes: u32,
    /// How often an HTTP/2 connection checks whether it is idle, dead or stalled.
    pub inspection_interval: Duration,
    /// How long the peer of an HTTP/2 connection may be silent before the server sends a ping. TCP
    /// keep-alive finds a dead host on a quiet connection within a minute. The ping finds peers
    /// that are dead while a proxy still answers for them.
    pub ping_after: Duration,
    /// How long a peer may be silent before it counts as dead. HTTP/1.1 has no ping, so there it is
    /// how long the client may read no byte of a watch. A client that was stopped for a few minutes
    /// keeps its watches.
    pub dead_after: Duration,
    /// How long a response other than a watch may wait for the client to read a byte. After that
    /// the server drops the response, and over HTTP/1.1 its connection. A stalled watch costs
    /// nothing and waits until the peer counts as dead.
    pub stalled_after: Duration,
}

impl Limits {
    /// Returns the limits of a configuration.
    pub fn of(config: &Config) -> Limits {
        Limits {
            connections: config.max_connections.most(),
            unauthenticated_connections: config.max_unauthenticated_connections,
            handshake_timeout: config.handshake_timeout.0,
            header_timeout: config.header_timeout.0,
            idle_timeout: config.idle_timeout.0,
            streams: match config.http2_max_streams_per_connection {
                0 => Config::default().http2_max_streams_per_connection,
                streams => streams,
            },
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
    /// Returns the number of inspections in a row for which a response may be stalled.
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
