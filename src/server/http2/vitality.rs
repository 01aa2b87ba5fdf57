//! Is a connection idle, is its peer dead? Decided at every inspection, without a clock of its
//! own.

use std::time::Duration;

use crate::server::limits::Limits;

/// What an inspection saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// Bytes that came in so far.
    pub(super) bytes_read: u64,
    /// Requests accepted so far.
    pub(super) requests: u64,
    /// Whether any request is being answered.
    pub(super) busy: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Well,
    /// Ask the peer for a sign of life.
    Ping,
    /// Nobody needs the connection: close it politely.
    Idle,
    /// Nobody is there.
    Dead,
}

/// Remembers what earlier inspections saw.
#[derive(Debug)]
pub(super) struct Vitality {
    interval: Duration,
    ping_after: Duration,
    dead_after: Duration,
    idle_after: Duration,
    last: Sight,
    silent: Duration,
    idle: Duration,
    pinged: bool,
}

impl Vitality {
    pub(super) fn new(limits: &Limits) -> Vitality {
        Vitality {
            interval: limits.inspection_interval,
            ping_after: limits.ping_after,
            dead_after: limits.dead_after,
            idle_after: limits.idle_timeout,
            last: Sight {
                bytes_read: 0,
                requests: 0,
                busy: true,
            },
            silent: Duration::ZERO,
            idle: Duration::ZERO,
            pinged: false,
        }
    }

    /// Judges what is seen one interval after the last inspection.
    pub(super) fn inspect(&mut self, sight: Sight) -> Verdict {
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
            Verdict::Idle
        } else if self.silent >= self.dead_after {
            Verdict::Dead
        } else if self.silent >= self.ping_after && !self.pinged {
            self.pinged = true;
            Verdict::Ping
        } else {
            Verdict::Well
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vitality() -> Vitality {
        Vitality::new(&Limits {
            inspection_interval: Duration::from_secs(1),
            ping_after: Duration::from_secs(3),
            dead_after: Duration::from_secs(6),
            idle_timeout: Duration::from_secs(4),
            ..Limits::default()
        })
    }

    fn see(bytes_read: u64, requests: u64, busy: bool) -> Sight {
        Sight {
            bytes_read,
            requests,
            busy,
        }
    }

    #[test]
    fn a_silent_peer_is_pinged_once_and_then_given_up() {
        let mut vitality = vitality();
        let verdicts: Vec<_> = (0..7).map(|_| vitality.inspect(see(10, 1, true))).collect();
        use Verdict::{Dead, Ping, Well};
        // The first inspection sees the bytes of the handshake.
        assert_eq!(verdicts, [Well, Well, Well, Ping, Well, Well, Dead]);
    }

    #[test]
    fn a_sign_of_life_starts_the_count_anew() {
        let mut vitality = vitality();
        for bytes in [10, 10, 10, 10, 20, 20, 20] {
            assert_ne!(vitality.inspect(see(bytes, 1, true)), Verdict::Dead);
        }
        assert_eq!(vitality.inspect(see(20, 1, true)), Verdict::Ping);
    }

    #[test]
    fn a_connection_without_requests_is_idle_however_much_its_peer_pings() {
        let mut vitality = vitality();
        let verdicts: Vec<_> = (0..6)
            .map(|bytes| vitality.inspect(see(bytes, 0, false)))
            .collect();
        use Verdict::{Idle, Well};
        assert_eq!(verdicts, [Well, Well, Well, Idle, Idle, Idle]);
    }

    #[test]
    fn a_request_between_two_inspections_counts() {
        let mut vitality = vitality();
        for requests in 0..10 {
            assert_ne!(
                vitality.inspect(see(requests, requests + 1, false)),
                Verdict::Idle
            );
        }
    }
}
