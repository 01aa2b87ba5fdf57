//! Whether a cache can be read, and in which generation (WC-40). Pure.

use std::time::{Duration, Instant};

/// Pending ⇄ Ready → Stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The cache is being filled, or could not be filled.
    Pending {
        /// Since when.
        since: Instant,
        /// Why the last attempt to fill it failed.
        last_error: Option<String>,
    },
    /// The cache can be read.
    Ready {
        /// Counts the fills. Watches end with their generation.
        generation: u64,
    },
    /// The daemon is going down, or the resource was removed.
    Stopped,
}

impl Readiness {
    /// Whether the cache can be read.
    pub fn is_ready(&self) -> bool {
        matches!(self, Readiness::Ready { .. })
    }

    /// Seconds after which a refused client should try again, from 1 to 30. The longer the cache
    /// has been pending, the longer is the wait (WC-41).
    pub fn retry_after(&self, now: Instant) -> u32 {
        match self {
            Readiness::Ready { .. } => 0,
            Readiness::Stopped => retry_after(Duration::ZERO),
            Readiness::Pending { since, .. } => retry_after(now.saturating_duration_since(*since)),
        }
    }
}

/// floor(min(30, max(1, e^(0.06 s)))).
fn retry_after(pending: Duration) -> u32 {
    (0.06 * pending.as_secs_f64()).exp().clamp(1.0, 30.0) as u32
}

/// The error of a cache that can't be read now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the cache of {resource} is not ready: {}", .readiness.describe())]
pub struct NotReady {
    /// The resource of the cache.
    pub resource: String,
    /// Its readiness.
    pub readiness: Readiness,
}

impl Readiness {
    /// One phrase for errors and state dumps.
    pub fn describe(&self) -> String {
        match self {
            Readiness::Ready { generation } => format!("ready, generation {generation}"),
            Readiness::Stopped => "stopped".to_owned(),
            Readiness::Pending {
                last_error: None, ..
            } => "filling".to_owned(),
            Readiness::Pending {
                last_error: Some(error),
                ..
            } => format!("filling, after an error: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_client_waits_longer_the_longer_the_cache_fills_wc_41_ts_90() {
        let since = Instant::now();
        let pending = Readiness::Pending {
            since,
            last_error: None,
        };
        let after = |seconds| pending.retry_after(since + Duration::from_secs(seconds));
        assert_eq!([after(0), after(14), after(57), after(600)], [1, 2, 30, 30]);
        assert_eq!(Readiness::Ready { generation: 1 }.retry_after(since), 0);
    }
}
