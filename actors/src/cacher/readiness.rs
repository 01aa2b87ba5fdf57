//! Whether a cache can be read: a value with generations, not a flag (WC-40).

use std::time::{Duration, Instant};

/// Pending ⇄ Ready → Stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The cache is filling, or could not be filled.
    Pending {
        /// Since when.
        since: Instant,
        /// Why the last attempt to fill it failed.
        last_error: Option<String>,
    },
    /// The cache serves.
    Ready {
        /// How often it has become ready so far; watches do not outlive a generation.
        generation: u64,
    },
    /// The daemon is going down, or the resource was removed.
    Stopped,
}

impl Readiness {
    /// Whether the cache serves.
    pub fn is_ready(&self) -> bool {
        matches!(self, Readiness::Ready { .. })
    }

    /// Seconds after which a refused client should try again: the longer it has been pending,
    /// the longer, from 1 to 30 (WC-41).
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

/// A cache that can't be read now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the cache of {resource} is not ready: {}", .readiness.describe())]
pub struct NotReady {
    /// Whose cache.
    pub resource: String,
    /// What it is instead.
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
