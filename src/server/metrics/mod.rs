//! Measurements of requests and watches (API-52, API-53, ME-61), and the page that shows them.
//!
//! This folder owns the counters, their labels and the text of the page. Events from handlers and
//! streams enter, and the metrics page leaves. It must not know objects, connections or how a
//! request is answered.
//!
//! Requests record into handles that each thread keeps ([`requests`]). Watches count in plain
//! memory of their thread ([`watches`]), and the counts are added up when the page is rendered. An
//! event that goes to thousands of watchers must not cost thousands of histogram entries.

mod requests;
mod watches;

use std::sync::Arc;

use actors::supervisor::ActorSystem;
use metrics::{describe_counter, describe_gauge, describe_histogram, gauge};
use parking_lot::Mutex;

pub use requests::{RequestLabels, RequestMeters, Running, mark_deprecated};
pub use watches::{MeteredWatch, WatchMeters};

use super::filters::in_flight::InFlight;

/// All measurements that the page shows.
pub struct Measures {
    page: Option<Lines>,
    in_flight: Arc<InFlight>,
    actor_system: Option<ActorSystem>,
    threads: Mutex<Vec<Arc<WatchMeters>>>,
    further: Option<Lines>,
}

/// The lines of a page that tell what health checks find: what `/metrics/slis` shows.
pub fn health_lines(page: &str) -> String {
    let is_shown = |line: &&str| {
        let name = line
            .strip_prefix("# HELP ")
            .or(line.strip_prefix("# TYPE "));
        name.unwrap_or(line).starts_with("kubernetes_healthcheck")
    };
    let lines = page.lines().filter(is_shown);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Lines of the page, rendered again for every scrape.
pub type Lines = Box<dyn Fn() -> String + Send + Sync>;

impl Measures {
    /// The measurements of this daemon. Without a page nothing is shown. Without actors their
    /// metrics are missing.
    pub fn new(
        page: Option<Lines>,
        in_flight: Arc<InFlight>,
        actor_system: Option<ActorSystem>,
    ) -> Measures {
        describe();
        Measures {
            page,
            in_flight,
            actor_system,
            threads: Mutex::new(Vec::new()),
            further: None,
        }
    }

    /// Adds further lines.
    pub fn with_lines(self, further: Option<Lines>) -> Measures {
        Measures { further, ..self }
    }

    /// Adds the watches of another thread.
    pub fn thread(&self) -> Arc<WatchMeters> {
        let meters = Arc::new(WatchMeters::default());
        self.threads.lock().push(Arc::clone(&meters));
        meters
    }

    /// Renders the page in the text format of Prometheus. Watch counts of resources that are no
    /// longer served are dropped.
    pub fn render(&self, is_served: impl Fn(&str, &str, &str) -> bool) -> String {
        self.collect();
        let sizes = watches::collect(&self.threads.lock(), is_served);
        let further = self.further.as_ref().map(|lines| lines());
        let page = self.page.as_ref().map(|lines| lines());
        let mut page = page.unwrap_or_default();
        page += &sizes;
        page += &further.unwrap_or_default();
        page
    }

    /// Updates the metrics that are counted elsewhere.
    fn collect(&self) {
        let (read_only, mutating) = self.in_flight.now();
        gauge!("apiserver_current_inflight_requests", "request_kind" => "readOnly")
            .set(read_only as f64);
        gauge!("apiserver_current_inflight_requests", "request_kind" => "mutating")
            .set(mutating as f64);
        // Requests are refused and do not queue.
        for kind in ["readOnly", "mutating"] {
            gauge!("apiserver_current_inqueue_requests", "request_kind" => kind).set(0.0);
        }
        let actors = self
            .actor_system
            .as_ref()
            .map(|actor_system| actor_system.state().actors);
        for actor in actors.into_iter().flatten() {
            gauge!("taffrail_part_ready", "part" => actor.name).set(f64::from(actor.ready));
        }
    }
}

fn describe() {
    requests::describe();
    watches::describe();
    describe_gauge!(
        "apiserver_current_inflight_requests",
        "Requests being answered now, watches apart, by whether they read or write"
    );
    describe_gauge!(
        "taffrail_part_ready",
        "Whether a part of the daemon is at work: a cache filled, an actor alive"
    );
    describe_gauge!(
        "apiserver_current_inqueue_requests",
        "Requests that wait for their turn: none, they are refused instead"
    );
    describe_histogram!(
        "authentication_duration_seconds",
        "Time to find out who asks, by whether the credentials were accepted"
    );
    describe_histogram!(
        "apiserver_request_filter_duration_seconds",
        "Time to find out who asks (authentication) and what they may do (authorization)"
    );
    describe_histogram!(
        "apiserver_client_certificate_expiration_seconds",
        "How long the client certificates of requests are still valid"
    );
    describe_histogram!(
        "apiserver_request_body_size_bytes",
        "Bytes of the bodies of requests"
    );
    describe_counter!(
        "apiserver_authorization_decisions_total",
        "Requests that a role allows; members of system:masters do not count"
    );
    describe_gauge!(
        "aggregator_unavailable_apiservice",
        "0 for each group and version that is served"
    );
    describe_counter!(
        "authorization_attempts_total",
        "Requests by whether they were allowed"
    );
    describe_counter!(
        "authentication_attempts",
        "Requests by whether their credentials were accepted"
    );
    describe_counter!(
        "authenticated_user_requests",
        "Requests let in, by the user's name"
    );
}

#[cfg(test)]
mod tests;
