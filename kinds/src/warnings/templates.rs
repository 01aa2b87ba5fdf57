//! Kinds that make pods from a template.

use api::field::Field;
use api::names::dns_label;
use api::object::Object;
use api::warnings::Warnings;

use super::is_new_generation;
use super::pods::warn_of_template;
use super::storage::warn_of_claim;

/// The numbers of an indexed Job above which it may not be tracked.
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_AT_ONCE: i64 = 10_000;

/// What writers of Deployments are warned of.
pub fn of_deployment(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    if is_new_generation(object, stored) {
        warn_of_template(&Field::of(object, "spec").member("template"), &warnings);
    }
    warnings.take()
}

/// What writers of ReplicaSets are warned of.
pub fn of_replicaset(object: &Object, stored: Option<&Object>) -> Vec<String> {
    of_deployment(object, stored)
}

/// What writers of ReplicationControllers are warned of. On update it is the template before it
/// that kube-apiserver looks at.
pub fn of_replicationcontroller(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    if is_new_generation(object, stored) {
        let of = stored.unwrap_or(object);
        warn_of_template(&Field::of(of, "spec").member("template"), &warnings);
    }
    warnings.take()
}

/// What writers of DaemonSets are warned of.
pub fn of_daemonset(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let path = ["spec", "template"];
    if stored.is_none_or(|stored| stored.at(&path) != object.at(&path)) {
        warn_of_template(&Field::of(object, "spec").member("template"), &warnings);
    }
    warnings.take()
}

/// What writers of StatefulSets are warned of.
pub fn of_statefulset(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    if is_new_generation(object, stored) {
        warn_of_template(&spec.member("template"), &warnings);
    }
    for claim in spec.member("volumeClaimTemplates").items() {
        let value = claim.member("spec");
        // kube-apiserver names the field so.
        let shown = match stored {
            None => claim,
            Some(_) => claim.member("Spec"),
        };
        if let Some(value) = value.value() {
            warn_of_claim(&shown.with_value(value), &warnings);
        }
    }
    let history = spec.member("revisionHistoryLimit");
    if history.int().is_some_and(|limit| limit < 0) {
        warnings.add(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a \
             value >= 0 is recommended",
        );
    }
    warnings.take()
}

/// What writers of PodTemplates are warned of.
pub fn of_podtemplate(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    if is_new_generation(object, stored) {
        warn_of_template(&Field::of(object, "template"), &warnings);
    }
    warnings.take()
}

/// What writers of Jobs are warned of.
pub fn of_job(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    if is_new_generation(object, stored) {
        warn_of_job(&Field::of(object, "spec"), &warnings);
    }
    warnings.take()
}

/// What writers of CronJobs are warned of.
pub fn of_cronjob(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    let spec = Field::of(object, "spec");
    if is_new_generation(object, stored) {
        warn_of_job(&spec.member("jobTemplate").member("spec"), &warnings);
    }
    // New ones are refused.
    if stored.is_some() && spec.member("schedule").text().contains("TZ") {
        warnings.add(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
        );
    }
    warnings.take()
}

fn warn_of_job(spec: &Field<'_>, warnings: &Warnings) {
    let above = |name: &str, limit: i64| spec.member(name).int().is_some_and(|n| n > limit);
    let is_large = above("completions", MANY_COMPLETIONS) && above("parallelism", MANY_AT_ONCE);
    if is_large && spec.member("completionMode").text() == "Indexed" {
        let text = "In Indexed Jobs with a number of completions higher than 10^5 and a \
                    parallelism higher than 10^4, Kubernetes might not be able to track \
                    completedIndexes when a big number of indexes fail";
        super::warn(spec, text, warnings);
    }
    warn_of_template(&spec.member("template"), warnings);
}

/// The name of a new object, from which its pods have theirs.
fn warn_of_name(object: &Object, stored: Option<&Object>, warnings: &Warnings) {
    let wrong = dns_label(object.name());
    if stored.is_none() && !wrong.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in \
             surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}
