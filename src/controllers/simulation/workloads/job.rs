//! Pure. Jobs: pods until enough have succeeded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Kind, count, dependents, is_ready};
use crate::api::object::{Object, push, put, whole_seconds};
use crate::controllers::simulation::objects::Objects;
use crate::controllers::simulation::plan::{
    Condition, Plan, Step, holds, number, pod_of, time, with_conditions,
};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The controller of Jobs that name none.
const CONTROLLER: &str = "kubernetes.io/job-controller";
/// Pods that are created before the next look.
const AT_A_TIME: i64 = 100;

/// The pods of a Job.
struct Pods {
    active: Vec<Arc<Object>>,
    succeeded: i64,
    failed: i64,
    terminating: i64,
    /// The indexes that have succeeded.
    completed: BTreeSet<i64>,
}

/// The writes for a Job.
pub(super) fn plan(objects: &Objects, job: &Object, now: Timestamp) -> Plan {
    if !matches!(job.text(&["spec", "managedBy"]), "" | CONTROLLER) {
        return Plan::default();
    }
    if holds(job, "Complete") || holds(job, "Failed") {
        return expired(job, now);
    }
    let found = dependents(objects, Kind::Job, job, Kind::Pod);
    if !found.steps.is_empty() {
        // The pods are known only afterwards.
        return Plan::of(found.steps);
    }
    let pods = Pods::of(job, found.owned);
    let mut plan = Plan::default();
    let is_suspended = job.at(&["spec", "suspend"]) == Some(&Value::Bool(true));
    let verdict = verdict(job, &pods, &mut plan, now);
    let wants_none = is_suspended || verdict.is_some();
    let missing = if wants_none { 0 } else { missing(job, &pods) };
    if wants_none {
        let active = pods.active.iter();
        plan.steps
            .extend(active.map(|pod| Step::delete(Kind::Pod, pod)));
    } else if missing > 0 {
        plan.steps.extend(made(job, &pods, missing));
    }
    let surplus = count(&pods.active) - parallelism(job);
    if surplus > 0 && !wants_none {
        let last = pods
            .active
            .iter()
            .rev()
            .take(usize::try_from(surplus).unwrap_or_default());
        plan.steps
            .extend(last.map(|pod| Step::delete(Kind::Pod, pod)));
    }
    // A Job has finished only when none of its pods runs or ends.
    let is_quiet = pods.active.is_empty() && pods.terminating == 0;
    let verdict = verdict.filter(|_| is_quiet);
    let status = status(job, &pods, verdict, is_suspended, now);
    plan.steps.extend(Step::status(Kind::Job, job, status));
    plan
}

/// Why a Job has finished: it is complete, or it has failed for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Complete,
    Failed(&'static str),
}

fn verdict(job: &Object, pods: &Pods, plan: &mut Plan, now: Timestamp) -> Option<Verdict> {
    let completions = job.at(&["spec", "completions"]).and_then(Value::as_i64);
    let is_complete = match completions {
        Some(completions) if is_indexed(job) => count_of(pods.completed.len()) >= completions,
        Some(completions) => pods.succeeded >= completions,
        // A queue of work: one has seen its end, and the others end by themselves.
        None => pods.succeeded > 0 && pods.active.is_empty(),
    };
    if is_complete {
        return Some(Verdict::Complete);
    }
    let limit = job.at(&["spec", "backoffLimit"]).and_then(Value::as_i64);
    if pods.failed > limit.unwrap_or(6) {
        return Some(Verdict::Failed("BackoffLimitExceeded"));
    }
    let seconds = job
        .at(&["spec", "activeDeadlineSeconds"])
        .and_then(Value::as_u64);
    let start = time(job.at(&["status", "startTime"]));
    if let (Some(seconds), Some(start)) = (seconds, start) {
        let end = start + Duration::from_secs(seconds.min(1 << 32));
        if now >= end {
            return Some(Verdict::Failed("DeadlineExceeded"));
        }
        plan.again_at(end, now);
    }
    None
}

fn count_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn is_indexed(job: &Object) -> bool {
    job.text(&["spec", "completionMode"]) == "Indexed"
}

fn parallelism(job: &Object) -> i64 {
    let parallelism = job.at(&["spec", "parallelism"]).and_then(Value::as_i64);
    parallelism.unwrap_or(1)
}

impl Pods {
    fn of(job: &Object, owned: Vec<Arc<Object>>) -> Pods {
        let mut pods = Pods {
            active: Vec::new(),
            succeeded: 0,
            failed: 0,
            terminating: 0,
            completed: BTreeSet::new(),
        };
        for pod in owned {
            match pod.text(&["status", "phase"]) {
                "Succeeded" => {
                    pods.succeeded += 1;
                    pods.completed.extend(index_of(&pod));
                }
                "Failed" => pods.failed += 1,
                _ if pod.is_being_deleted() => pods.terminating += 1,
                _ => pods.active.push(pod),
            }
        }
        // Pods that somebody has deleted since still count.
        pods.succeeded = pods.succeeded.max(number(job, &["status", "succeeded"]));
        pods.failed = pods.failed.max(number(job, &["status", "failed"]));
        pods
    }
}

fn index_of(pod: &Object) -> Option<i64> {
    pod.text(&["metadata", "annotations", INDEX]).parse().ok()
}

/// How many pods are to be created.
fn missing(job: &Object, pods: &Pods) -> i64 {
    let active = count(&pods.active);
    let completions = job.at(&["spec", "completions"]).and_then(Value::as_i64);
    let wanted = match completions {
        Some(completions) => parallelism(job).min(completions - pods.succeeded),
        None if pods.succeeded > 0 => active,
        None => parallelism(job),
    };
    (wanted - active).clamp(0, AT_A_TIME)
}

fn made(job: &Object, pods: &Pods, missing: i64) -> Vec<Step> {
    let mut pod = pod_of(Kind::Job, job);
    pod.set_meta("generateName", &format!("{}-", job.name()));
    if !is_indexed(job) {
        return (0..missing)
            .map(|_| Step::Create(Kind::Pod, pod.clone()))
            .collect();
    }
    let completions = number(job, &["spec", "completions"]);
    let active: BTreeSet<i64> = pods.active.iter().filter_map(|pod| index_of(pod)).collect();
    let free =
        (0..completions).filter(|index| !active.contains(index) && !pods.completed.contains(index));
    let free = free.take(usize::try_from(missing).unwrap_or_default());
    free.map(|index| Step::Create(Kind::Pod, indexed(job, &pod, index)))
        .collect()
}

/// The pod of an index, which its containers see in a variable.
fn indexed(job: &Object, model: &Object, index: i64) -> Object {
    let mut pod = model.clone();
    let text = index.to_string();
    pod.set_meta("generateName", &format!("{}-{index}-", job.name()));
    for part in ["annotations", "labels"] {
        put(&mut pod, &["metadata", part, INDEX], text.as_str().into());
    }
    put(
        &mut pod,
        &["spec", "hostname"],
        format!("{}-{index}", job.name()).into(),
    );
    for list in ["initContainers", "containers"] {
        let mut containers = pod.items(&["spec", list]).to_vec();
        for container in &mut containers {
            let members = container.as_object().cloned().unwrap_or_default();
            let mut container_object = Object::of(members);
            let path = format!("metadata.annotations['{INDEX}']");
            let variable = json!({"name": "JOB_COMPLETION_INDEX",
                "valueFrom": {"fieldRef": {"fieldPath": path}}});
            push(&mut container_object, &["env"], variable);
            *container = container_object.0.into();
        }
        if !containers.is_empty() {
            put(&mut pod, &["spec", list], containers.into());
        }
    }
    pod
}

fn status(
    job: &Object,
    pods: &Pods,
    verdict: Option<Verdict>,
    is_suspended: bool,
    now: Timestamp,
) -> Value {
    let active = count(&pods.active);
    let ready = count(pods.active.iter().filter(|pod| is_ready(pod)));
    let mut conditions = Vec::new();
    let has_suspended = holds(job, "Suspended");
    match (is_suspended, has_suspended) {
        (true, _) => conditions
            .push(Condition::new("Suspended", true, "JobSuspended").saying("Job suspended")),
        (false, true) => {
            conditions.push(Condition::new("Suspended", false, "JobResumed").saying("Job resumed"))
        }
        (false, false) => {}
    }
    match verdict {
        Some(Verdict::Complete) => {
            let message = "Reached expected number of succeeded pods";
            for kind in ["SuccessCriteriaMet", "Complete"] {
                let condition = Condition::new(kind, true, "CompletionsReached");
                conditions.push(condition.saying(message));
            }
        }
        Some(Verdict::Failed(reason)) => {
            let message = "Job has reached the limit that its reason names";
            for kind in ["FailureTarget", "Failed"] {
                conditions.push(Condition::new(kind, true, reason).saying(message));
            }
        }
        None => {}
    }
    let mut status = json!({
        "active": active, "ready": ready, "succeeded": pods.succeeded, "failed": pods.failed,
        "terminating": pods.terminating, "uncountedTerminatedPods": {},
        "conditions": with_conditions(job, &conditions, now),
    });
    let mut set = |name: &str, value: Value| {
        if let Some(status) = status.as_object_mut() {
            status.insert(name.to_owned(), value);
        }
    };
    if is_indexed(job) {
        set("completedIndexes", intervals(&pods.completed).into());
    }
    if is_suspended {
        set("startTime", Value::Null);
    } else if job.text(&["status", "startTime"]).is_empty() {
        set("startTime", whole_seconds(now).into());
    }
    if verdict == Some(Verdict::Complete) {
        set("completionTime", whole_seconds(now).into());
    }
    status
}

/// Indexes as text: `1,3-5`.
fn intervals(indexes: &BTreeSet<i64>) -> String {
    let mut intervals: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match intervals.last_mut() {
            Some((_, end)) if *end + 1 == *index => *end = *index,
            _ => intervals.push((*index, *index)),
        }
    }
    let texts = intervals.into_iter().map(|(start, end)| match end - start {
        0 => start.to_string(),
        1 => format!("{start},{end}"),
        _ => format!("{start}-{end}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Deletes a finished Job when its time is over.
fn expired(job: &Object, now: Timestamp) -> Plan {
    let seconds = job
        .at(&["spec", "ttlSecondsAfterFinished"])
        .and_then(Value::as_u64);
    let mut conditions = job.items(&["status", "conditions"]).iter();
    let finished = conditions.find_map(|one| {
        let kind = one.get("type")?.as_str()?;
        let is_end = matches!(kind, "Complete" | "Failed") && one.get("status")? == "True";
        is_end.then(|| time(one.get("lastTransitionTime")))?
    });
    let (Some(seconds), Some(finished)) = (seconds, finished) else {
        return Plan::default();
    };
    let end = finished + Duration::from_secs(seconds.min(1 << 32));
    let mut plan = Plan::default();
    match now >= end {
        true => plan.steps.push(Step::delete(Kind::Job, job)),
        false => plan.again_at(end, now),
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::simulation::objects::Id;
    use crate::controllers::simulation::plan::tests::object;

    fn job(spec: &Value, status: &Value) -> Object {
        let mut job = object(&json!({
            "metadata": {"name": "j", "namespace": "n", "uid": "u"},
            "spec": {"completions": 3, "parallelism": 2, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c"}]}}},
            "status": status,
        }));
        for (name, value) in spec.as_object().unwrap() {
            put(&mut job, &["spec", name.as_str()], value.clone());
        }
        job
    }

    fn with_pods(job: &Object, phases: &[&str]) -> Objects {
        let mut objects = Objects::default();
        for (number, phase) in phases.iter().enumerate() {
            let mut pod = indexed(job, &pod_of(Kind::Job, job), number as i64);
            pod.set_meta("name", &format!("j-{number}"));
            put(&mut pod, &["status", "phase"], (*phase).into());
            objects.put(Id::of(Kind::Pod, &pod), pod);
        }
        objects
    }

    fn looked(job: &Object, phases: &[&str]) -> (usize, usize, Value) {
        let plan = plan(&with_pods(job, phases), job, Timestamp::UNIX_EPOCH);
        let of = |is: fn(&Step) -> bool| plan.steps.iter().filter(|step| is(step)).count();
        let status = plan.steps.iter().find_map(|step| match step {
            Step::Patch { patch, .. } => patch.get("status").cloned(),
            _ => None,
        });
        let created = of(|step| matches!(step, Step::Create(..)));
        let deleted = of(|step| matches!(step, Step::Delete { .. }));
        (created, deleted, status.unwrap_or_default())
    }

    #[test]
    fn pods_run_until_enough_have_succeeded() {
        let plain = job(&json!({}), &json!({}));
        assert_eq!(looked(&plain, &[]).0, 2);
        assert_eq!(looked(&plain, &["Succeeded", "Running"]).0, 1);
        assert_eq!(looked(&plain, &["Succeeded", "Succeeded", "Running"]).0, 0);
        let (_, _, status) = looked(&plain, &["Succeeded"; 3]);
        assert_eq!(status["conditions"][1]["type"], "Complete");
        assert_eq!(status["completionTime"], "1970-01-01T00:00:00Z");
        let queue = job(&json!({"completions": null}), &json!({}));
        assert_eq!(looked(&queue, &["Succeeded", "Running"]).0, 0);
    }

    #[test]
    fn too_many_failures_end_a_job() {
        let one = job(&json!({"backoffLimit": 0}), &json!({}));
        let (created, deleted, status) = looked(&one, &["Failed", "Running"]);
        assert_eq!((created, deleted), (0, 1));
        assert_eq!(status["conditions"], json!([]));
        let (_, _, status) = looked(&one, &["Failed"]);
        assert_eq!(status["conditions"][1]["reason"], "BackoffLimitExceeded");
    }

    #[test]
    fn a_suspended_job_has_no_pods() {
        let one = job(&json!({"suspend": true}), &json!({}));
        let (created, deleted, status) = looked(&one, &["Running"]);
        assert_eq!((created, deleted), (0, 1));
        assert_eq!(status["conditions"][0]["type"], "Suspended");
    }

    #[test]
    fn indexes_are_worked_on_once() {
        let one = job(&json!({"completionMode": "Indexed"}), &json!({}));
        let (created, _, status) = looked(&one, &["Succeeded", "Succeeded", "Failed"]);
        assert_eq!((created, &status["completedIndexes"]), (1, &json!("0,1")));
        assert_eq!(intervals(&[1, 3, 4, 5].into()), "1,3-5");
    }
}
