//! The columns of pods (API-218).

use api::keyed::Keyed;
use api::object::Object;
use api::resource::{Column, OfField};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, computed, is_true, list, member, number, text_or};

/// Returns the columns of Pods.
pub fn pods() -> Vec<Column> {
    let ready = computed(|pod, _| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.total).into()
    });
    let status = computed(|pod, _| Summary::of(pod).reason.into());
    let restarts = computed(|pod, now| Summary::of(pod).restarts(now).into());
    let address = computed(|pod, _| text_or(address(pod), NONE).into());
    let node = computed(|pod, _| text_or(pod.text(&["spec", "nodeName"]), NONE).into());
    let nominated = computed(|pod, _| {
        let node = pod.text(&["status", "nominatedNodeName"]);
        text_or(node, NONE).into()
    });
    let gates = computed(|pod, _| readiness_gates(pod).into());
    vec![
        Column::name(),
        Column::text("Ready", "Ready containers and all containers.", ready),
        Column::text("Status", "Summary of the pod's state.", status),
        Column::text(
            "Restarts",
            "Number of restarts of its containers.",
            restarts,
        ),
        Column::age(),
        Column::text("IP", OfField("core.v1.PodStatus.podIP"), address).wide(),
        Column::text("Node", OfField("core.v1.PodSpec.nodeName"), node).wide(),
        Column::text(
            "Nominated Node",
            OfField("core.v1.PodStatus.nominatedNodeName"),
            nominated,
        )
        .wide(),
        Column::text(
            "Readiness Gates",
            OfField("core.v1.PodSpec.readinessGates"),
            gates,
        )
        .wide(),
    ]
}

/// Returns the row conditions of a finished pod, by which kubectl can hide or grey it (API-76).
pub fn row_conditions(pod: &Object) -> Option<Value> {
    let (reason, message) = match pod.text(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([
        {"type": "Completed", "status": "True", "reason": reason, "message": message},
    ]))
}

fn address(pod: &Object) -> &str {
    let first = list(pod, &["status", "podIPs"]).first();
    let first = first.map(|address| member(address, "ip"));
    first.unwrap_or_else(|| pod.text(&["status", "podIP"]))
}

fn readiness_gates(pod: &Object) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let conditions = list(pod, &["status", "conditions"]);
    let conditions = Keyed::by(conditions, |condition| member(condition, "type"));
    let passed = gates.iter().filter(|gate| {
        let of_gate = conditions.first(member(gate, "conditionType"));
        of_gate.is_some_and(|condition| member(condition, "status") == "True")
    });
    format!("{}/{}", passed.count(), gates.len())
}

/// The summary of a pod's container statuses.
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Object) -> Summary {
        let (phase, reason) = (
            pod.text(&["status", "phase"]),
            pod.text(&["status", "reason"]),
        );
        let conditions = list(pod, &["status", "conditions"]);
        let is_gated = conditions.iter().any(|condition| {
            member(condition, "type") == "PodScheduled"
                && member(condition, "reason") == "SchedulingGated"
        });
        let mut summary = Summary {
            ready: 0,
            total: list(pod, &["spec", "containers"]).len(),
            reason: match is_gated {
                true => "SchedulingGated".to_owned(),
                false => text_or(reason, phase).to_owned(),
            },
            restarts: 0,
            last_restart: None,
        };
        let is_initializing = summary.add_init_containers(pod);
        if !is_initializing || is_true(conditions, "Initialized") {
            summary.add_containers(pod);
        }
        if pod.is_being_deleted() {
            if reason == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Reads init containers up to the first unfinished one. Returns whether there is one; if so,
    /// only the restarts of sidecars are counted up to here.
    fn add_init_containers(&mut self, pod: &Object) -> bool {
        let containers = list(pod, &["spec", "initContainers"]);
        let is_sidecar = |container: &Value| member(container, "restartPolicy") == "Always";
        self.total += containers.iter().filter(|one| is_sidecar(one)).count();
        let (mut of_sidecars, mut last_of_sidecars) = (0, None);
        let statuses = list(pod, &["status", "initContainerStatuses"]);
        let named = Keyed::by(containers, |container| member(container, "name"));
        for (index, status) in statuses.iter().enumerate() {
            self.add_restarts(status);
            let container = named.last(member(status, "name"));
            let is_sidecar = container.is_some_and(|container| is_sidecar(container));
            if is_sidecar {
                of_sidecars += number(status, "restartCount");
                last_of_sidecars = last_of_sidecars.max(last_end(status));
            }
            let terminated = state(status, "terminated");
            if terminated.is_some_and(|terminated| number(terminated, "exitCode") == 0) {
                continue;
            }
            if is_sidecar && flag(status, "started") {
                self.ready += usize::from(flag(status, "ready"));
                continue;
            }
            let waiting = state(status, "waiting").map(|waiting| member(waiting, "reason"));
            self.reason = match (terminated, waiting.unwrap_or_default()) {
                (Some(terminated), _) => format!("Init:{}", end(terminated)),
                (None, "" | "PodInitializing") => format!("Init:{index}/{}", containers.len()),
                (None, reason) => format!("Init:{reason}"),
            };
            if is_true(list(pod, &["status", "conditions"]), "Initialized") {
                (self.restarts, self.last_restart) = (of_sidecars, last_of_sidecars);
            }
            return true;
        }
        (self.restarts, self.last_restart) = (of_sidecars, last_of_sidecars);
        false
    }

    /// Reads containers from last to first, so that the reason of the first one wins.
    fn add_containers(&mut self, pod: &Object) {
        let (mut has_running, mut failure) = (false, None);
        for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
            self.add_restarts(status);
            let waiting = state(status, "waiting").map(|waiting| member(waiting, "reason"));
            let waiting = waiting.unwrap_or_default();
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = state(status, "terminated") {
                self.reason = end(terminated);
                if number(terminated, "exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if flag(status, "ready") && state(status, "running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        // One completed container does not describe a pod whose other containers may still run.
        let is_ready = is_true(list(pod, &["status", "conditions"]), "Ready");
        if has_running && is_ready {
            "Running".clone_into(&mut self.reason);
        } else if let Some(failure) = failure {
            self.reason = failure;
        } else if has_running {
            "NotReady".clone_into(&mut self.reason);
        }
    }

    fn add_restarts(&mut self, status: &Value) {
        self.restarts += number(status, "restartCount");
        self.last_restart = self.last_restart.max(last_end(status));
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(last) if self.restarts != 0 => {
                let ago = api::text::human_duration::age(Some(last), now);
                format!("{} ({ago} ago)", self.restarts)
            }
            _ => self.restarts.to_string(),
        }
    }
}

fn flag(status: &Value, name: &str) -> bool {
    status
        .get(name)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

/// Returns the details of the container's state if it is the one with this name.
fn state<'v>(status: &'v Value, name: &str) -> Option<&'v Value> {
    status.get("state")?.get(name).filter(|one| !one.is_null())
}

/// Returns the time at which the container ended before its last restart.
fn last_end(status: &Value) -> Option<Timestamp> {
    let terminated = status.get("lastState")?.get("terminated")?;
    member(terminated, "finishedAt").parse().ok()
}

/// Returns the reason for which a container ended, or else its signal or exit code.
fn end(terminated: &Value) -> String {
    let signal = number(terminated, "signal");
    match member(terminated, "reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", number(terminated, "exitCode")),
        reason => reason.to_owned(),
    }
}
