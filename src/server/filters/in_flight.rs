//! Limits the number of concurrent requests (API-18, API-19).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::seats::{Seat, Seats};
use crate::api::request_info::RequestInfo;
use crate::storage::Stats;

/// The number of objects for which a list takes one seat.
const OBJECTS_PER_SEAT: u64 = 500;

/// The number of bytes for which a list takes one seat.
const BYTES_PER_SEAT: u64 = 1 << 20;

/// The limits on concurrent requests and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// The limit on requests that read.
    pub read_only: usize,
    /// The limit on requests that write.
    pub mutating: usize,
    /// The limit on watches, which count separately (API-16).
    pub watches: usize,
}

impl Default for InFlightLimits {
    fn default() -> InFlightLimits {
        InFlightLimits {
            read_only: 400,
            mutating: 200,
            watches: 131_072,
        }
    }
}

/// The paths of probes.
const PROBED: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Whether the request is one that probes send. Probes are exempt, because a kubelet would kill the
/// daemon if its probe got a 429.
pub fn is_probe(info: &RequestInfo) -> bool {
    !info.is_resource && info.verb == "get" && PROBED.contains(&info.path.as_str())
}

/// Returns the seats that a list takes, by the number and the bytes of the objects that it examines
/// (RG-14).
pub fn seats_of_list(stats: Stats, limit: usize) -> usize {
    let objects = match limit as u64 {
        0 => stats.object_count,
        limit => stats.object_count.min(limit),
    };
    let bytes = objects.saturating_mul(stats.average_object_bytes);
    let seats = (objects / OBJECTS_PER_SEAT).max(bytes / BYTES_PER_SEAT);
    usize::try_from(seats).unwrap_or(usize::MAX).max(1)
}

/// The running requests of all threads. Reads and writes have separate seats, so neither blocks the
/// other.
#[derive(Debug)]
pub struct InFlight {
    reading: Pool,
    writing: Pool,
}

#[derive(Debug)]
struct Pool {
    seats: Arc<Seats>,
    /// The number of all requests, exempt ones included.
    requests: Arc<AtomicUsize>,
}

impl Pool {
    fn new(limit: usize) -> Pool {
        Pool {
            seats: Seats::new(limit),
            requests: Arc::default(),
        }
    }
}

/// A counted request, until this is dropped.
#[derive(Debug)]
pub struct Counted {
    requests: Arc<AtomicUsize>,
    /// `None` for an exempt request.
    seat: Option<Seat>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counted {
    /// Widens the request to this many seats. Returns false if its user cannot have them. An exempt
    /// request takes none.
    pub fn widen(&self, seats: usize) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.widen(seats))
    }
}

impl InFlight {
    /// Creates the counters with these limits.
    pub fn new(limits: InFlightLimits) -> InFlight {
        InFlight {
            reading: Pool::new(limits.read_only),
            writing: Pool::new(limits.mutating),
        }
    }

    /// Counts a request of a user. Returns `None` if it exceeds the limit.
    pub fn enter(&self, reads_only: bool, user: &str) -> Option<Counted> {
        let pool = self.pool(reads_only);
        let seat = pool.seats.take(user)?;
        Some(self.counted(reads_only, Some(seat)))
    }

    /// Counts an exempt request, which is never refused and takes no seat.
    pub fn enter_exempt(&self, reads_only: bool) -> Counted {
        self.counted(reads_only, None)
    }

    fn counted(&self, reads_only: bool, seat: Option<Seat>) -> Counted {
        let requests = Arc::clone(&self.pool(reads_only).requests);
        requests.fetch_add(1, Ordering::Relaxed);
        Counted { requests, seat }
    }

    fn pool(&self, reads_only: bool) -> &Pool {
        match reads_only {
            true => &self.reading,
            false => &self.writing,
        }
    }

    /// Returns the current numbers of reading and writing requests, including exempt ones.
    pub fn now(&self) -> (usize, usize) {
        let now = |pool: &Pool| pool.requests.load(Ordering::Relaxed);
        (now(&self.reading), now(&self.writing))
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
            watches: 1,
        });
        let exempt = in_flight.enter_exempt(true);
        let reading = in_flight.enter(true, "ann");
        assert!(reading.is_some(), "the exempt one takes nobody's place");
        assert!(in_flight.enter(true, "ann").is_none());
        assert!(in_flight.enter_exempt(true).widen(1000));
        let writing = in_flight.enter(false, "ann");
        assert!(writing.is_some());
        assert_eq!(in_flight.now(), (2, 1));
        drop((reading, exempt, writing));
        assert_eq!(
            in_flight.now(),
            (0, 0),
            "a refused one leaves no trace either"
        );
        assert!(in_flight.enter(true, "ann").is_some());
    }

    #[test]
    fn lists_are_charged_by_objects_and_bytes_rg_14() {
        let stats = |object_count, average_object_bytes| Stats {
            object_count,
            average_object_bytes,
        };
        assert_eq!(seats_of_list(Stats::default(), 0), 1);
        assert_eq!(seats_of_list(stats(499, 100), 0), 1);
        assert_eq!(seats_of_list(stats(5_000, 100), 0), 10);
        assert_eq!(seats_of_list(stats(5_000, 100), 500), 1);
        assert_eq!(seats_of_list(stats(400, 20 << 10), 0), 7, "few large ones");
        assert!(seats_of_list(stats(u64::MAX, u64::MAX), 0) > 1_000_000);
    }
}
