//! The checks that only the level `restricted` has. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_parts::{
    PodParts, Violation, added, containers, containers_named, is_good_seccomp, is_windows, name,
    named, plural, quoted, seccomp_type, violation, volumes,
};

pub(super) fn allow_privilege_escalation(pod: PodParts<'_>) -> Option<Violation> {
    if is_windows(pod) {
        return None;
    }
    let names = named(pod, |one| {
        one["securityContext"]["allowPrivilegeEscalation"] != false
    });
    if names.is_empty() {
        return None;
    }
    let text = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        containers_named(&names)
    );
    violation("allowPrivilegeEscalation != false", text)
}

pub(super) fn restricted_capabilities(pod: PodParts<'_>) -> Option<Violation> {
    if is_windows(pod) {
        return None;
    }
    let drops_all = |one: &Value| {
        let dropped = one["securityContext"]["capabilities"]["drop"].as_array();
        // linear: these are those of the one container.
        dropped.is_some_and(|dropped| dropped.iter().any(|one| one == "ALL"))
    };
    let is_bad = |capability: &&str| *capability != "NET_BIND_SERVICE";
    let undropped = named(pod, |one| !drops_all(one));
    let adding = named(pod, |one| added(one).any(|capability| is_bad(&capability)));
    let mut details = Vec::new();
    if !undropped.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            containers_named(&undropped)
        ));
    }
    if !adding.is_empty() {
        let all: BTreeSet<&str> = containers(pod).flat_map(added).filter(is_bad).collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers_named(&adding),
            quoted(all)
        ));
    }
    if details.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", details.join("; "))
}

pub(super) fn restricted_volumes(pod: PodParts<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let kind = |volume: &Value| {
        let members = volume.as_object().into_iter().flatten();
        let mut kinds = members.filter(|(member, value)| *member != "name" && !value.is_null());
        kinds.next().map(|(member, _)| member.clone())
    };
    let bad_kind = |volume: &Value| kind(volume).filter(|kind| !ALLOWED.contains(&kind.as_str()));
    let bad = volumes(pod).filter(|volume| bad_kind(volume).is_some());
    let names: Vec<&str> = bad.map(name).collect();
    if names.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = volumes(pod).filter_map(bad_kind).collect();
    let (verb, word) = (
        if names.len() == 1 { "uses" } else { "use" },
        plural("volume type", kinds.len()),
    );
    let text = format!(
        "{} {} {verb} restricted {word} {}",
        plural("volume", names.len()),
        quoted(names),
        quoted(kinds.iter().map(String::as_str))
    );
    violation("restricted volume types", text)
}

pub(super) fn run_as_non_root(pod: PodParts<'_>) -> Option<Violation> {
    if pod.spec["hostUsers"] == false {
        return None;
    }
    let set = |one: &Value| one["securityContext"]["runAsNonRoot"].as_bool();
    let is_pod_good = set(pod.spec) == Some(true);
    let explicit = named(pod, |one| set(one) == Some(false));
    let implicit = named(pod, |one| set(one).is_none() && !is_pod_good);
    let mut setters = Vec::new();
    if set(pod.spec) == Some(false) {
        setters.push("pod".to_owned());
    }
    if !explicit.is_empty() {
        setters.push(containers_named(&explicit));
    }
    if !setters.is_empty() {
        let text = format!(
            "{} must not set securityContext.runAsNonRoot=false",
            setters.join(" and ")
        );
        return violation("runAsNonRoot != true", text);
    }
    if implicit.is_empty() {
        return None;
    }
    let text = format!(
        "pod or {} must set securityContext.runAsNonRoot=true",
        containers_named(&implicit)
    );
    violation("runAsNonRoot != true", text)
}

pub(super) fn run_as_user(pod: PodParts<'_>) -> Option<Violation> {
    if pod.spec["hostUsers"] == false {
        return None;
    }
    let is_root = |one: &Value| one["securityContext"]["runAsUser"] == 0;
    let names = named(pod, is_root);
    let mut setters = Vec::new();
    if is_root(pod.spec) {
        setters.push("pod".to_owned());
    }
    if !names.is_empty() {
        setters.push(containers_named(&names));
    }
    if setters.is_empty() {
        return None;
    }
    let text = format!("{} must not set runAsUser=0", setters.join(" and "));
    violation("runAsUser=0", text)
}

pub(super) fn restricted_seccomp_profile(pod: PodParts<'_>) -> Option<Violation> {
    if is_windows(pod) {
        return None;
    }
    let of_pod = seccomp_type(pod.spec);
    let is_pod_good = of_pod.is_some_and(is_good_seccomp);
    let is_bad = |one: &Value| seccomp_type(one).is_some_and(|kind| !is_good_seccomp(kind));
    let explicit = named(pod, is_bad);
    let implicit = named(pod, |one| seccomp_type(one).is_none() && !is_pod_good);
    let mut setters = Vec::new();
    let mut kinds = BTreeSet::new();
    if let Some(kind) = of_pod.filter(|_| !is_pod_good) {
        setters.push("pod".to_owned());
        kinds.insert(kind);
    }
    if !explicit.is_empty() {
        setters.push(containers_named(&explicit));
        let bad = containers(pod).filter(|one| is_bad(one));
        kinds.extend(bad.filter_map(seccomp_type));
    }
    if !setters.is_empty() {
        let text = format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters.join(" and "),
            quoted(kinds)
        );
        return violation("seccompProfile", text);
    }
    if implicit.is_empty() {
        return None;
    }
    let text = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\"",
        containers_named(&implicit)
    );
    violation("seccompProfile", text)
}
