//! Metrics of requests by verb and resource: number, duration and size.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use metrics::{
    Counter, Histogram, Label, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use smol_str::SmolStr;

use crate::api::request_info::RequestInfo;
use crate::api::resource::ResourceDefinition;
use crate::auth::{Authorization, Decision};

const DEPRECATED: &str = "apiserver_requested_deprecated_apis";
const BODY_BYTES: &str = "apiserver_request_body_size_bytes";

/// Records the use of a deprecated version of a resource.
pub fn mark_deprecated(definition: &ResourceDefinition) {
    let labels = [
        ("group", definition.group.clone()),
        ("version", definition.version.clone()),
        ("resource", definition.plural.clone()),
        ("subresource", String::new()),
        ("removed_release", String::new()),
    ];
    gauge!(DEPRECATED, &labels).set(1.0);
}

/// The labels of a request. Every value comes from the server's own tables or from a fixed set of
/// words, so that clients cannot create series.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct RequestLabels {
    verb: &'static str,
    group: SmolStr,
    version: SmolStr,
    resource: SmolStr,
    /// The subresource, or the path of a request that is not about a resource.
    subresource: SmolStr,
    scope: &'static str,
    dry_run: bool,
}

impl RequestLabels {
    /// Returns the labels of a request before routing.
    pub fn of(info: &RequestInfo, method: &http::Method) -> RequestLabels {
        RequestLabels {
            verb: verb(info, method),
            scope: scope(info),
            ..RequestLabels::default()
        }
    }

    /// Returns the same labels with a resource.
    #[must_use]
    pub fn about(
        self,
        definition: &ResourceDefinition,
        subresource: Option<&str>,
        dry_run: bool,
    ) -> RequestLabels {
        RequestLabels {
            group: SmolStr::new(&definition.group),
            version: SmolStr::new(&definition.version),
            resource: SmolStr::new(&definition.plural),
            subresource: SmolStr::new(subresource.unwrap_or_default()),
            dry_run,
            ..self
        }
    }

    /// Returns the same labels with a group and version that another server serves. Its resources
    /// are not known, so labels do not have them.
    #[must_use]
    pub fn elsewhere(self, group: &str, version: &str) -> RequestLabels {
        RequestLabels {
            group: SmolStr::new(group),
            version: SmolStr::new(version),
            ..self
        }
    }

    /// Returns the same labels with one of the server's own paths.
    #[must_use]
    pub fn at(self, path: &'static str) -> RequestLabels {
        RequestLabels {
            subresource: SmolStr::new_static(path),
            ..self
        }
    }

    fn is_long_running(&self) -> bool {
        self.verb == "WATCH"
    }

    /// Counts a request that was ended without the server that would have answered it (CN-19).
    pub fn ended_by_aggregator(&self, code: u16) {
        let mut list = self.list();
        list.retain(|label| label.key() != "component");
        list.push(Label::from_static_parts("component", "aggregator"));
        list.push(Label::new("code", code.to_string()));
        counter!("apiserver_request_terminations_total", list).increment(1);
    }

    fn list(&self) -> Vec<Label> {
        vec![
            Label::from_static_parts("verb", self.verb),
            Label::from_static_parts("dry_run", if self.dry_run { "All" } else { "" }),
            Label::new("group", self.group.to_string()),
            Label::new("version", self.version.to_string()),
            Label::new("resource", self.resource.to_string()),
            Label::new("subresource", self.subresource.to_string()),
            Label::from_static_parts("scope", self.scope),
            Label::from_static_parts("component", "apiserver"),
        ]
    }

    /// Returns the labels of the SLI metric. Group and resource are among them so that the series
    /// can be dropped when the resource is removed.
    fn of_objective(&self) -> Vec<Label> {
        vec![
            Label::from_static_parts("verb", self.verb),
            Label::new("group", self.group.to_string()),
            Label::new("resource", self.resource.to_string()),
            Label::from_static_parts("scope", self.scope),
        ]
    }
}

/// Returns the verb label (API-53).
fn verb(info: &RequestInfo, method: &http::Method) -> &'static str {
    if info.is_resource {
        match info.verb.as_str() {
            "list" => return "LIST",
            "watch" => return "WATCH",
            "deletecollection" => return "DELETECOLLECTION",
            _ => {}
        }
    }
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        "CONNECT" => "CONNECT",
        _ => "other",
    }
}

fn scope(info: &RequestInfo) -> &'static str {
    if !info.is_resource {
        ""
    } else if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// The metric handles of one thread. Each is looked up in the recorder once.
#[derive(Default)]
pub struct RequestMeters {
    attempts: RefCell<HashMap<&'static str, Counter>>,
    authentication: RefCell<HashMap<&'static str, Histogram>>,
    authorization: RefCell<HashMap<&'static str, (Counter, Histogram)>>,
    users: RefCell<HashMap<&'static str, Counter>>,
    filters: RefCell<HashMap<&'static str, Histogram>>,
    certificates: OnceCell<Histogram>,
    bodies: RefCell<HashMap<RequestLabels, Histogram>>,
    totals: RefCell<HashMap<(RequestLabels, u16), Counter>>,
    measured: RefCell<HashMap<RequestLabels, Measured>>,
    sizes: RefCell<HashMap<RequestLabels, Histogram>>,
}

/// The metrics of every finished request. Metrics of rare events are created when those happen,
/// because each histogram takes a dozen lines of the page.
#[derive(Clone)]
struct Measured {
    seconds: Histogram,
    /// The same duration, under the name that service level objectives use.
    objective: Histogram,
}

impl RequestMeters {
    /// Drops the handles of resources that are not served as before.
    pub fn retain(&self, is_served: impl Fn(&str, &str, &str) -> bool) {
        let is_kept = |labels: &RequestLabels| {
            let RequestLabels {
                group,
                version,
                resource,
                ..
            } = labels;
            resource.is_empty() || is_served(group, version, resource)
        };
        self.totals
            .borrow_mut()
            .retain(|(labels, _), _| is_kept(labels));
        self.measured
            .borrow_mut()
            .retain(|labels, _| is_kept(labels));
        self.sizes.borrow_mut().retain(|labels, _| is_kept(labels));
        self.bodies.borrow_mut().retain(|labels, _| is_kept(labels));
    }

    /// Records the result of authentication (AC-74): the name of the user, or whether credentials
    /// were refused. Requests that lack credentials fail without an error.
    pub fn authenticated(&self, user: Result<&str, bool>, took: Duration) {
        let result = match user {
            Ok(_) => "success",
            Err(true) => "error",
            Err(false) => "failure",
        };
        let mut durations = self.authentication.borrow_mut();
        durations
            .entry(result)
            .or_insert_with(|| histogram!("authentication_duration_seconds", "result" => result))
            .record(took.as_secs_f64());
        self.filter("authentication", took);
        let mut attempts = self.attempts.borrow_mut();
        let attempts = attempts.entry(result);
        attempts
            .or_insert_with(|| counter!("authentication_attempts", "result" => result))
            .increment(1);
        let Ok(user) = user.map(compressed) else {
            return;
        };
        let mut users = self.users.borrow_mut();
        let requests = users.entry(user);
        requests
            .or_insert_with(|| counter!("authenticated_user_requests", "username" => user))
            .increment(1);
    }

    /// Records the duration of a filter.
    fn filter(&self, name: &'static str, took: Duration) {
        let mut filters = self.filters.borrow_mut();
        filters
            .entry(name)
            .or_insert_with(
                || histogram!("apiserver_request_filter_duration_seconds", "filter" => name),
            )
            .record(took.as_secs_f64());
    }

    /// Records the remaining lifetime in seconds of an accepted client certificate.
    pub fn certificate(&self, left: i64) {
        let name = "apiserver_client_certificate_expiration_seconds";
        let certificates = self.certificates.get_or_init(|| histogram!(name));
        certificates.record(left as f64);
    }

    /// Records the size of a request body.
    pub fn body(&self, labels: &RequestLabels, bytes: usize) {
        let mut bodies = self.bodies.borrow_mut();
        let sizes = bodies.entry(labels.clone()).or_insert_with(|| {
            let resource = match labels.group.as_str() {
                "" => labels.resource.to_string(),
                group => format!("{}.{group}", labels.resource),
            };
            let verb = match labels.verb {
                "POST" => "create",
                "PUT" => "update",
                "PATCH" => "patch",
                "DELETE" => "delete",
                "DELETECOLLECTION" => "delete_collection",
                other => other,
            };
            histogram!(BODY_BYTES, "resource" => resource, "verb" => verb)
        });
        sizes.record(bytes as f64);
    }

    /// Records the result of authorization (AC-75).
    pub fn authorized(&self, answer: &Authorization, took: Duration) {
        self.filter("authorization", took);
        let result = match (answer.decision, &answer.error) {
            (Decision::Allow, _) => "allowed",
            (_, Some(_)) => "error",
            (Decision::Deny, None) => "denied",
            (Decision::NoOpinion, None) => "no-opinion",
        };
        let mut results = self.authorization.borrow_mut();
        let (attempts, seconds) = results.entry(result).or_insert_with(|| {
            (
                counter!("authorization_attempts_total", "result" => result),
                histogram!("authorization_duration_seconds", "result" => result),
            )
        });
        attempts.increment(1);
        seconds.record(took.as_secs_f64());
    }

    /// Starts a request. If it is dropped before it is finished, it counts as aborted by its
    /// client.
    pub fn start(&self, labels: RequestLabels) -> Running<'_> {
        Running {
            meters: self,
            labels,
            started: Instant::now(),
            is_finished: false,
        }
    }

    /// Returns the histogram of response sizes.
    pub fn sizes(&self, labels: &RequestLabels) -> Histogram {
        let mut known = self.sizes.borrow_mut();
        let sizes = known.entry(labels.clone());
        sizes
            .or_insert_with(|| histogram!("apiserver_response_sizes", labels.list()))
            .clone()
    }

    fn measured(&self, labels: &RequestLabels) -> Measured {
        let mut known = self.measured.borrow_mut();
        let measured = known.entry(labels.clone()).or_insert_with(|| Measured {
            seconds: histogram!("apiserver_request_duration_seconds", labels.list()),
            objective: histogram!(
                "apiserver_request_sli_duration_seconds",
                labels.of_objective()
            ),
        });
        measured.clone()
    }

    fn count(&self, labels: &RequestLabels, code: u16) {
        let mut known = self.totals.borrow_mut();
        let total = known.entry((labels.clone(), code)).or_insert_with(|| {
            let mut list = labels.list();
            list.push(Label::new("code", code.to_string()));
            counter!("apiserver_request_total", list)
        });
        total.increment(1);
        if matches!(code, 429 | 504) {
            let mut list = labels.list();
            list.push(Label::new("code", code.to_string()));
            counter!("apiserver_request_terminations_total", list).increment(1);
        }
    }
}

/// A running request.
pub struct Running<'m> {
    meters: &'m RequestMeters,
    /// The labels, which become more specific while the request runs.
    pub labels: RequestLabels,
    started: Instant,
    is_finished: bool,
}

impl Running<'_> {
    /// Records the status code and the duration. A watch has only begun at this time, so it gets no
    /// duration.
    pub fn finish(mut self, code: u16) {
        self.is_finished = true;
        self.meters.count(&self.labels, code);
        if !self.labels.is_long_running() {
            let seconds = self.started.elapsed().as_secs_f64();
            let measured = self.meters.measured(&self.labels);
            measured.seconds.record(seconds);
            measured.objective.record(seconds);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            counter!("apiserver_request_aborts_total", self.labels.list()).increment(1);
        }
    }
}

pub(super) fn describe() {
    describe_gauge!(DEPRECATED, "Deprecated API versions that were requested");
    describe_counter!(
        "apiserver_request_total",
        "Finished requests, by verb, resource, scope and code"
    );
    describe_histogram!(
        "apiserver_request_duration_seconds",
        "Duration of requests except watches; of a long list, until its first bytes"
    );
    describe_histogram!(
        "apiserver_request_sli_duration_seconds",
        "Duration of requests without webhook time; here the same as \
         apiserver_request_duration_seconds"
    );
    describe_histogram!(
        "apiserver_response_sizes",
        "Size of responses to gets and lists in bytes"
    );
    describe_counter!(
        "apiserver_request_aborts_total",
        "Requests that their clients aborted before the response"
    );
    describe_counter!(
        "apiserver_request_terminations_total",
        "Requests that were rejected or ended to protect the server"
    );
}

/// Returns the label for a user name. It distinguishes well-known users and combines all others, so
/// that users cannot create series (AC-74).
fn compressed(user: &str) -> &'static str {
    match user {
        "admin" => "admin",
        "client" => "client",
        "kube_proxy" => "kube_proxy",
        "kubelet" => "kubelet",
        "system:serviceaccount:kube-system:default" => "system:serviceaccount:kube-system:default",
        user if user.contains('@') => "email_id",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_share_a_few_labels_ac_74() {
        for (user, label) in [
            ("admin", "admin"),
            ("kubelet", "kubelet"),
            (
                "system:serviceaccount:kube-system:default",
                "system:serviceaccount:kube-system:default",
            ),
            ("ada@example.com", "email_id"),
            ("system:anonymous", "other"),
            ("ada", "other"),
        ] {
            assert_eq!(compressed(user), label);
        }
    }
}
