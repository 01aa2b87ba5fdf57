//! The metrics of requests to others, under the names of Kubernetes' clients.

use std::collections::HashSet;
use std::time::Duration;

use http::{Method, StatusCode};
use parking_lot::Mutex;

const REQUESTS: &str = "rest_client_requests_total";
const DURATION: &str = "rest_client_request_duration_seconds";

/// The most hosts with series of their own. Further ones share one, because users name hosts in
/// their objects.
const HOSTS_MAX: usize = 256;
const OTHER: &str = "other";

/// The hosts with series.
#[derive(Default)]
pub(super) struct Hosts(Mutex<HashSet<String>>);

impl Hosts {
    /// Counts a request. `None` is one without an answer.
    pub(super) fn count(
        &self,
        host: &str,
        method: &Method,
        status: Option<StatusCode>,
        took: Duration,
    ) {
        let host = self.label(host);
        let code = status.map_or("<error>".to_owned(), |status| status.as_str().to_owned());
        let method = method.as_str().to_owned();
        metrics::counter!(
            REQUESTS, "code" => code, "host" => host.clone(), "method" => method.clone()
        )
        .increment(1);
        metrics::histogram!(DURATION, "host" => host, "verb" => method).record(took);
    }

    fn label(&self, host: &str) -> String {
        let mut hosts = self.0.lock();
        if hosts.contains(host) || hosts.len() < HOSTS_MAX && hosts.insert(host.to_owned()) {
            return host.to_owned();
        }
        OTHER.to_owned()
    }
}

/// Describes the metrics.
pub(super) fn describe() {
    metrics::describe_counter!(
        REQUESTS,
        "Requests to other servers, by status code, method and host"
    );
    metrics::describe_histogram!(
        DURATION,
        metrics::Unit::Seconds,
        "Time of requests to other servers, by verb and host"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_the_bound_share_a_label() {
        let hosts = Hosts::default();
        for number in 0..HOSTS_MAX {
            assert_eq!(hosts.label(&number.to_string()), number.to_string());
        }
        assert_eq!(hosts.label("more"), OTHER);
        assert_eq!(hosts.label("0"), "0");
    }
}
