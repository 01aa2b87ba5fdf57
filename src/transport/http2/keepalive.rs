//! Decides at each inspection whether a connection is idle or its peer is dead. It has no clock of
//! its own.

use std::time::Duration;

use crate::transport::limits::Limits;

/// The facts seen by one inspection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// Bytes received so far.
    pub(super) bytes_read: u64,
    /// Requests accepted so far.
    pub(super) requests: u64,
    /// Whether any request is being answered.
    pub(super) busy: bool,
}

/// The action to take on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepaliveAction {
    /// Do nothing.
    Well,
    /// Ask the peer to show that it is alive.
    Ping,
    /// The connection is unused: close it gracefully.
    Idle,
    /// The peer is gone.
    Dead,
}

/// The state kept between inspections.
#[derive(Debug)]
pub(super) struct Keepalive {
    interval: Duration,
    ping_after: Duration,
    dead_after: Duration,
    idle_after: Duration,
    last: Observation,
    silent: Duration,
    idle: Duration,
    pinged: bool,
}

impl Keepalive {
    pub(super) fn new(limits: &Limits) -> Keepalive {
        Keepalive {
            interval: limits.inspection_interval,
            ping_after: limits.ping_after,
            dead_after: limits.dead_after,
            idle_after: limits.idle_timeout,
            last: Observation {
                bytes_read: 0,
                requests: 0,
                busy: true,
            },
            silent: Duration::ZERO,
            idle: Duration::ZERO,
            pinged: false,
        }
    }

    /// Decides from what was observed one interval after the last inspection.
    pub(super) fn inspect(&mut self, sight: Observation) -> KeepaliveAction {
        if sight.bytes_read == self.last.bytes_read {
            self.silent += self.interval;
        } else {
            self.silent = Duration::ZERO;
            self.pinged = false;
        }
        if sight.busy || sight.requests != self.last.requests {
            self.idle = Duration::ZERO;
        } else {
            self.idle += self.interval;
        }
        self.last = sight;
        if self.idle >= self.idle_after {
            KeepaliveAction::Idle
        } else if self.silent >= self.dead_after {
            KeepaliveAction::Dead
        } else if self.silent >= self.ping_after && !self.pinged {
            self.pinged = true;
            KeepaliveAction::Ping
        } else {
            KeepaliveAction::Well
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keepalive() -> Keepalive {
        Keepalive::new(&Limits {
            inspection_interval: Duration::from_secs(1),
            ping_after: Duration::from_secs(3),
            dead_after: Duration::from_secs(6),
            idle_timeout: Duration::from_secs(4),
            ..Limits::default()
        })
    }

    fn see(bytes_read: u64, requests: u64, busy: bool) -> Observation {
        Observation {
            bytes_read,
            requests,
            busy,
        }
    }

    #[test]
    fn a_silent_peer_is_pinged_once_and_then_given_up() {
        let mut keepalive = keepalive();
        let verdicts: Vec<_> = (0..7)
            .map(|_| keepalive.inspect(see(10, 1, true)))
            .collect();
        use KeepaliveAction::{Dead, Ping, Well};
        // The first inspection sees the bytes of the handshake.
        assert_eq!(verdicts, [Well, Well, Well, Ping, Well, Well, Dead]);
    }

    #[test]
    fn a_sign_of_life_starts_the_count_anew() {
        let mut keepalive = keepalive();
        for bytes in [10, 10, 10, 10, 20, 20, 20] {
            assert_ne!(
                keepalive.inspect(see(bytes, 1, true)),
                KeepaliveAction::Dead
            );
        }
        assert_eq!(keepalive.inspect(see(20, 1, true)), KeepaliveAction::Ping);
    }

    #[test]
    fn a_connection_without_requests_is_idle_however_much_its_peer_pings() {
        let mut keepalive = keepalive();
        let verdicts: Vec<_> = (0..6)
            .map(|bytes| keepalive.inspect(see(bytes, 0, false)))
            .collect();
        use KeepaliveAction::{Idle, Well};
        assert_eq!(verdicts, [Well, Well, Well, Idle, Idle, Idle]);
    }

    #[test]
    fn a_request_between_two_inspections_counts() {
        let mut keepalive = keepalive();
        for requests in 0..10 {
            assert_ne!(
                keepalive.inspect(see(requests, requests + 1, false)),
                KeepaliveAction::Idle
            );
        }
    }
}
