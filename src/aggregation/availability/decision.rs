//! The content of the condition `Available` of an APIService (CN-14). Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admission::hooks::client::ServiceEndpoints;
use crate::api::object::Object;
use crate::egress::{ServiceBackend, ServiceView};

/// The type of the condition.
pub const AVAILABLE: &str = "Available";

/// The reason if the server has not answered as it must.
const DISCOVERY: &str = "FailedDiscoveryCheck";

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason for people.
    pub message: String,
}

impl Verdict {
    /// All is well.
    pub fn passed() -> Verdict {
        Verdict {
            status: "True",
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    /// This server serves the group itself.
    pub fn local() -> Verdict {
        Verdict {
            status: "True",
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }

    /// Whether the check is repeated soon, and not only when an object changes.
    pub fn is_retried(&self) -> bool {
        self.reason == DISCOVERY
    }

    /// The server has not answered its discovery.
    pub fn failed_discovery(message: String) -> Verdict {
        Verdict::unavailable(DISCOVERY, message)
    }

    fn unavailable(reason: &'static str, message: String) -> Verdict {
        Verdict {
            status: "False",
            reason,
            message,
        }
    }

    fn unknown(reason: &'static str, message: String) -> Verdict {
        Verdict {
            status: "Unknown",
            reason,
            message,
        }
    }
}

/// The name of the Service of an APIService, and its port.
#[derive(Clone, Copy, Debug)]
pub struct Named<'n> {
    /// The namespace.
    pub namespace: &'n str,
    /// The name.
    pub name: &'n str,
    /// The port.
    pub port: u16,
}

impl Named<'_> {
    fn text(&self) -> String {
        format!("service/{} in \"{}\"", self.name, self.namespace)
    }
}

/// Decides what the objects say. `None` if the server itself is to be asked. Failures to read them
/// are texts.
pub fn by_objects(
    named: Named<'_>,
    service: &Result<Option<ServiceView>, String>,
    endpoints: &Result<ServiceEndpoints, String>,
) -> Option<Verdict> {
    let of = named.text();
    let service = match service {
        Ok(Some(service)) => service,
        Ok(None) => {
            let message = format!("{of} is not present");
            return Some(Verdict::unavailable("ServiceNotFound", message));
        }
        Err(error) => {
            let message = format!("{of} cannot be checked due to: {error}");
            return Some(Verdict::unknown("ServiceAccessError", message));
        }
    };
    if !matches!(&*service.kind, "" | "ClusterIP") {
        return None;
    }
    // linear: a Service has a few ports.
    let port = service.ports.iter().find(|one| one.port == named.port);
    let Some(port) = port else {
        let message = format!("{of} is not listening on port {}", named.port);
        return Some(Verdict::unavailable("ServicePortError", message));
    };
    let endpoints = match endpoints {
        Ok(endpoints) => endpoints,
        Err(error) => {
            let message = format!("{of} cannot be checked due to: {error}");
            return Some(Verdict::unknown("EndpointsAccessError", message));
        }
    };
    if endpoints.slices == 0 {
        let message = format!("cannot find endpointslices for {of}");
        return Some(Verdict::unavailable("EndpointsNotFound", message));
    }
    let has_port = |backend: &ServiceBackend| {
        // linear: an endpoint has a few ports.
        backend.ports.iter().any(|one| one.name == port.name)
    };
    // linear: the endpoints of one Service.
    if endpoints.ready.iter().any(has_port) {
        return None;
    }
    let name = &port.name;
    let message = format!("endpointslices for {of} have no addresses with port name \"{name}\"");
    Some(Verdict::unavailable("MissingEndpoints", message))
}

/// Returns the conditions with a verdict, or `None` if they say so already. The time changes with
/// the status alone.
pub fn with_verdict(apiservice: &Object, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let conditions = apiservice.items(&["status", "conditions"]);
    let text = |condition: &Value, name: &str| {
        let text = condition.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    // linear: an object has a few conditions.
    let place = conditions
        .iter()
        .position(|one| text(one, "type") == AVAILABLE);
    let before = place.and_then(|place| conditions.get(place));
    let is_same = |name: &str, value: &str| before.is_some_and(|one| text(one, name) == value);
    let has_status = is_same("status", verdict.status);
    if has_status && is_same("reason", verdict.reason) && is_same("message", &verdict.message) {
        return None;
    }
    let time = before.filter(|_| has_status);
    let time = time.and_then(|before| before.get("lastTransitionTime"));
    let time = time.filter(|time| time.is_string()).cloned();
    let condition = json!({
        "lastTransitionTime": time.unwrap_or_else(|| now.strftime("%FT%TZ").to_string().into()),
        "message": verdict.message,
        "reason": verdict.reason,
        "status": verdict.status,
        "type": AVAILABLE,
    });
    let mut conditions = conditions.to_vec();
    match place.and_then(|place| conditions.get_mut(place)) {
        Some(one) => *one = condition,
        None => conditions.push(condition),
    }
    Some(conditions.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::ServicePort;

    const NAMED: Named<'static> = Named {
        namespace: "n",
        name: "s",
        port: 443,
    };

    fn port(name: &str, port: u16) -> ServicePort {
        let name = name.to_owned();
        ServicePort { name, port }
    }

    fn service(kind: &str, number: u16) -> ServiceView {
        ServiceView {
            name: "s".to_owned(),
            kind: kind.to_owned(),
            cluster_ip: "None".to_owned(),
            ports: vec![port("http", 80), port("https", number)],
            ..ServiceView::default()
        }
    }

    fn endpoints(slices: usize, names: &[&str]) -> ServiceEndpoints {
        let ready = names.iter().map(|name| ServiceBackend {
            address: "10.0.0.1".to_owned(),
            ports: vec![port(name, 8443)],
            ..ServiceBackend::default()
        });
        ServiceEndpoints {
            slices,
            ready: ready.collect(),
        }
    }

    #[test]
    fn the_first_failure_decides_cn_14() {
        let error = || Err("boom".to_owned());
        for (service, endpoints, expected) in [
            (
                Ok(None),
                error_endpoints(),
                "False ServiceNotFound service/s in \"n\" is not present",
            ),
            (
                error(),
                error_endpoints(),
                "Unknown ServiceAccessError service/s in \"n\" cannot be checked due to: boom",
            ),
            (
                Ok(Some(service("ClusterIP", 444))),
                error_endpoints(),
                "False ServicePortError service/s in \"n\" is not listening on port 443",
            ),
            (
                Ok(Some(service("", 443))),
                error_endpoints(),
                "Unknown EndpointsAccessError service/s in \"n\" cannot be checked due to: boom",
            ),
            (
                Ok(Some(service("ClusterIP", 443))),
                Ok(endpoints(0, &[])),
                "False EndpointsNotFound cannot find endpointslices for service/s in \"n\"",
            ),
            (
                Ok(Some(service("ClusterIP", 443))),
                Ok(endpoints(2, &["http"])),
                "False MissingEndpoints endpointslices for service/s in \"n\" have no addresses \
                 with port name \"https\"",
            ),
            (
                Ok(Some(service("ClusterIP", 443))),
                Ok(endpoints(1, &["http", "https"])),
                "asked",
            ),
            (
                Ok(Some(service("NodePort", 444))),
                error_endpoints(),
                "asked",
            ),
            (
                Ok(Some(service("LoadBalancer", 444))),
                error_endpoints(),
                "asked",
            ),
            (
                Ok(Some(service("ExternalName", 444))),
                error_endpoints(),
                "asked",
            ),
        ] {
            let verdict = by_objects(NAMED, &service, &endpoints);
            let said = verdict.map(|one| format!("{} {} {}", one.status, one.reason, one.message));
            assert_eq!(said.unwrap_or_else(|| "asked".to_owned()), expected);
        }
    }

    fn error_endpoints() -> Result<ServiceEndpoints, String> {
        Err("boom".to_owned())
    }

    fn object(conditions: Value) -> Object {
        let document = json!({"status": {"conditions": conditions}});
        match document {
            Value::Object(members) => Object::of(members),
            _ => unreachable!("it is an object"),
        }
    }

    #[test]
    fn the_time_changes_with_the_status_alone_cn_14() {
        let now: Timestamp = "2026-05-06T07:08:09.5Z".parse().unwrap();
        let (now_text, then) = ("2026-05-06T07:08:09Z", "2026-01-01T00:00:00Z");
        let passed = |time: &str| {
            json!({"lastTransitionTime": time, "message": "all checks passed",
                "reason": "Passed", "status": "True", "type": "Available"})
        };
        let written =
            |before: Value, verdict: &Verdict| with_verdict(&object(before), verdict, now);
        let verdict = Verdict::passed();
        assert_eq!(
            written(json!([]), &verdict),
            Some(json!([passed(now_text)]))
        );
        assert_eq!(written(json!([passed(then)]), &verdict), None);
        let mut other = passed(then);
        other["message"] = "else".into();
        assert_eq!(
            written(json!([other]), &verdict),
            Some(json!([passed(then)]))
        );
        let failed = Verdict::failed_discovery("no".to_owned());
        let written = written(json!([{"type": "Own"}, passed(then)]), &failed).unwrap();
        assert_eq!(written[0], json!({"type": "Own"}));
        assert_eq!(written[1]["lastTransitionTime"], now_text);
        assert_eq!(written[1]["status"], "False");
    }
}
