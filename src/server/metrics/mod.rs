//! Metrics of requests and watches (API-52, API-53, ME-61), and the page that shows them.
//!
//! This folder owns the counters, their labels and the text of the page. Handlers and streams
//! record events, and the folder renders them. It must not know objects, connections or how a
//! request is answered.
//!
//! Requests record into handles that each thread keeps ([`requests`]). Watches count in plain
//! memory of their thread ([`watches`]), and rendering adds up the counts, because an event that
//! goes to thousands of watchers must not cost thousands of histogram entries.

mod requests;
mod sessions;
mod watches;

use std::sync::Arc;

use actors::supervisor::ActorSystem;
use metrics::{describe_counter, describe_gauge, describe_histogram, gauge};
use parking_lot::Mutex;

pub use requests::{RequestLabels, RequestMeters, Running, mark_deprecated};
pub use sessions::{LongRunning, session_ended};
pub use watches::{MeteredWatch, WatchMeters};

use super::filters::in_flight::InFlight;

/// All metrics on the page.
pub struct Measures {
    page: Option<Lines>,
    in_flight: Arc<InFlight>,
    actor_system: Option<ActorSystem>,
    threads: Mutex<Vec<Arc<WatchMeters>>>,
    further: Option<Lines>,
}

/// Returns the lines of a page about health checks, which `/metrics/slis` shows.
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

/// Renders lines of the page for each scrape.
pub type Lines = Box<dyn Fn() -> String + Send + Sync>;

impl Measures {
    /// Creates the metrics of this daemon. Without a page nothing is shown. Without actors their
    /// metrics are absent.
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

    /// Adds further lines to the page.
    pub fn with_lines(self, further: Option<Lines>) -> Measures {
        Measures { further, ..self }
    }

    /// Creates the watch metrics of another thread.
    pub fn thread(&self) -> Arc<WatchMeters> {
        let meters = Arc::new(WatchMeters::default());
        self.threads.lock().push(Arc::clone(&meters));
        meters
    }

    /// Renders the page in the Prometheus text format. Drops the watch counts of resources that are
    /// no longer served.
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
        // Requests over the limit are rejected and never queued.
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
    sessions::describe();
    watches::describe();
    describe_gauge!(
        "apiserver_current_inflight_requests",
        "Running requests except watches, by kind: readOnly or mutating"
    );
    describe_gauge!(
        "taffrail_part_ready",
        "1 if a part of the daemon is ready (its cache is filled, its actor runs), else 0"
    );
    describe_gauge!(
        "apiserver_current_inqueue_requests",
        "Always 0: requests over the limit are rejected, not queued"
    );
    describe_histogram!(
        "authentication_duration_seconds",
        "Duration of authentication, by result"
    );
    describe_histogram!(
        "authorization_duration_seconds",
        "Duration of authorization, by result"
    );
    describe_histogram!(
        "apiserver_request_filter_duration_seconds",
        "Duration of the authentication and authorization filters"
    );
    describe_histogram!(
        "apiserver_client_certificate_expiration_seconds",
        "Remaining lifetime of the client certificates of requests"
    );
    describe_histogram!(
        "apiserver_request_body_size_bytes",
        "Size of request bodies in bytes"
    );
    describe_counter!(
        "apiserver_authorization_decisions_total",
        "Decisions of authorizers, without those about system:masters"
    );
    describe_counter!(
        "authorization_attempts_total",
        "Authorization results of requests"
    );
    describe_counter!(
        "authentication_attempts",
        "Authentication results of requests"
    );
    describe_counter!(
        "authenticated_user_requests",
        "Authenticated requests, by user name"
    );
}

#[cfg(test)]
mod tests;
