//! Hints for operators whose webhooks have cluster IPs that nothing makes reachable (HK-43).
//! Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ServiceReference;

/// The time between two hints about a Service.
const PERIOD: Duration = Duration::from_secs(60);

/// The most Services that are remembered.
const SERVICES_MAX: usize = 1024;

/// When the last hint about each Service was given.
#[derive(Default)]
pub(super) struct Hints(Mutex<HashMap<(String, String), Instant>>);

impl Hints {
    /// Returns whether a hint about a Service is due, and notes that it is given.
    pub(super) fn is_due(&self, service: &ServiceReference, now: Instant) -> bool {
        let mut given = self.0.lock();
        let key = (service.namespace.clone(), service.name.clone());
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < PERIOD;
        if given.get(&key).is_some_and(is_recent) {
            return false;
        }
        if given.len() >= SERVICES_MAX {
            given.retain(|_, at| is_recent(at));
        }
        // Better no hint than one for each call.
        let has_room = given.len() < SERVICES_MAX || given.contains_key(&key);
        if has_room {
            given.insert(key, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> ServiceReference {
        ServiceReference {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            ..ServiceReference::default()
        }
    }

    #[test]
    fn a_hint_is_given_once_a_minute_for_each_service_hk_43() {
        let (hints, begin) = (Hints::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        for (name, seconds, is_due) in [
            ("a", 0, true),
            ("a", 59, false),
            ("b", 59, true),
            ("a", 60, true),
            ("a", 61, false),
            ("b", 61, false),
        ] {
            assert_eq!(
                hints.is_due(&service(name), at(seconds)),
                is_due,
                "{name} {seconds}"
            );
        }
    }

    #[test]
    fn very_many_services_are_not_remembered() {
        let (hints, now) = (Hints::default(), Instant::now());
        for number in 0..2 * SERVICES_MAX {
            let is_due = hints.is_due(&service(&number.to_string()), now);
            assert_eq!(is_due, number < SERVICES_MAX);
        }
        assert_eq!(hints.0.lock().len(), SERVICES_MAX);
        assert!(hints.is_due(&service("later"), now + PERIOD));
        assert_eq!(hints.0.lock().len(), 1);
    }
}
