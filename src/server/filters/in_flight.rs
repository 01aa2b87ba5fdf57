//! Limits how many requests are answered at the same time (API-18, API-19).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::server::auth::is_public;
use crate::server::request_info::RequestInfo;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Requests that read.
    pub read_only: usize,
    /// Requests that write.
    pub mutating: usize,
}

impl Default for InFlightLimits {
    fn default() -> InFlightLimits {
        InFlightLimits {
            read_only: 400,
            mutating: 200,
        }
    }
}

/// Whether the request is one that probes send. A kubelet would kill the daemon if its probe were
/// told to come back later.
pub fn is_probe(info: &RequestInfo) -> bool {
    !info.is_resource && info.verb == "get" && is_public(&info.path)
}

/// The number of requests being answered, over all threads.
#[derive(Debug, Default)]
pub struct InFlight {
    limits: InFlightLimits,
    limited: Counts,
    exempt: Counts,
}

/// The numbers of reading and writing requests.
#[derive(Debug, Default)]
struct Counts {
    read_only: Arc<AtomicUsize>,
    mutating: Arc<AtomicUsize>,
}

impl Counts {
    fn of(&self, reads_only: bool) -> &Arc<AtomicUsize> {
        if reads_only {
            &self.read_only
        } else {
            &self.mutating
        }
    }
}

/// A counted request. Dropping it ends the count.
#[derive(Debug)]
pub struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InFlight {
    /// Creates the counters with these limits.
    pub fn new(limits: InFlightLimits) -> InFlight {
        InFlight {
            limits,
            ..InFlight::default()
        }
    }

    /// Counts a request. Returns `None` when there are too many. Exempt requests are counted
    /// separately: they are never refused and never cause a refusal.
    pub fn enter(&self, reads_only: bool, exempt: bool) -> Option<Counted> {
        let (counts, limit) = match (exempt, reads_only) {
            (true, _) => (&self.exempt, usize::MAX),
            (false, true) => (&self.limited, self.limits.read_only),
            (false, false) => (&self.limited, self.limits.mutating),
        };
        let count = counts.of(reads_only);
        let counted = Counted(Arc::clone(count));
        let before = count.fetch_add(1, Ordering::Relaxed);
        (before < limit).then_some(counted)
    }

    /// The current numbers of reading and writing requests, including exempt ones.
    pub fn now(&self) -> (usize, usize) {
        let now = |reads_only| {
            let of = |counts: &Counts| counts.of(reads_only).load(Ordering::Relaxed);
            of(&self.limited) + of(&self.exempt)
        };
        (now(true), now(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_for_each_kind_and_not_for_the_exempt_api_18() {
        let in_flight = InFlight::new(InFlightLimits {
            read_only: 1,
            mutating: 1,
        });
        let exempt = in_flight.enter(true, true);
        assert!(exempt.is_some());
        let reading = in_flight.enter(true, false);
        assert!(reading.is_some(), "the exempt one takes nobody's place");
        assert!(in_flight.enter(true, false).is_none());
        assert!(in_flight.enter(true, true).is_some());
        let writing = in_flight.enter(false, false);
        assert!(writing.is_some());
        assert_eq!(in_flight.now(), (2, 1));
        drop((reading, exempt, writing));
        assert_eq!(
            in_flight.now(),
            (0, 0),
            "a refused one leaves no trace either"
        );
        assert!(in_flight.enter(true, false).is_some());
    }
}
