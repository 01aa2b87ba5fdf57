//! The checks of the levels of Pod Security, by the newest rules. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_parts::{
    PodParts, Violation, added, containers, containers_named, is_good_seccomp, name, named, plural,
    quoted, seccomp_type, violation, volumes,
};
use super::restricted::{
    allow_privilege_escalation, restricted_capabilities, restricted_seccomp_profile,
    restricted_volumes, run_as_non_root, run_as_user,
};
use crate::api::text::quoting::go_quote;

type Check = fn(PodParts<'_>) -> Option<Violation>;

const BASELINE: [Check; 12] = [
    app_armor_profile,
    capabilities,
    host_namespaces,
    host_path_volumes,
    host_ports,
    host_probes,
    privileged,
    proc_mount,
    se_linux_options,
    seccomp_profile,
    sysctls,
    windows_host_process,
];

const RESTRICTED: [Check; 6] = [
    allow_privilege_escalation,
    restricted_capabilities,
    restricted_volumes,
    run_as_non_root,
    run_as_user,
    restricted_seccomp_profile,
];

/// The violations of the level `baseline`.
pub(super) fn baseline(pod: PodParts<'_>) -> Vec<Violation> {
    BASELINE.iter().filter_map(|check| check(pod)).collect()
}

/// The violations of the level `restricted`. A stricter check replaces its baseline version, so
/// nothing is reported twice.
pub(super) fn restricted(pod: PodParts<'_>) -> Vec<Violation> {
    let replaced: [Check; 3] = [capabilities, host_path_volumes, seccomp_profile];
    let is_kept = |check: &&Check| {
        let mut replaced = replaced.iter();
        // linear: three checks are replaced.
        !replaced.any(|other| std::ptr::fn_addr_eq(*other, **check))
    };
    let baseline = BASELINE.iter().filter(is_kept);
    let all = baseline.chain(&RESTRICTED);
    all.filter_map(|check| check(pod)).collect()
}

fn app_armor_profile(pod: PodParts<'_>) -> Option<Violation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let is_allowed_type = |profile: &Value| {
        let kind = &profile["type"];
        profile.is_null() || kind == "RuntimeDefault" || kind == "Localhost"
    };
    let mut setters = Vec::new();
    let mut values = BTreeSet::new();
    let of_pod = &pod.spec["securityContext"]["appArmorProfile"];
    if !is_allowed_type(of_pod) {
        setters.push("pod".to_owned());
        values.insert(of_pod["type"].as_str().unwrap_or_default().to_owned());
    }
    let bad: Vec<&Value> = containers(pod)
        .filter(|one| !is_allowed_type(&one["securityContext"]["appArmorProfile"]))
        .collect();
    if !bad.is_empty() {
        let names: Vec<&str> = bad.iter().map(|one| name(one)).collect();
        setters.push(containers_named(&names));
        values.extend(bad.iter().map(|one| {
            let kind = &one["securityContext"]["appArmorProfile"]["type"];
            kind.as_str().unwrap_or_default().to_owned()
        }));
    }
    let annotations = pod.annotations.and_then(Value::as_object);
    let mut annotated = Vec::new();
    for (key, value) in annotations.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let is_allowed =
            value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
        if key.starts_with(PREFIX) && !is_allowed {
            annotated.push(format!("{key}={}", go_quote(value)));
        }
    }
    if setters.is_empty() && annotated.is_empty() {
        return None;
    }
    let mut details = Vec::new();
    let reason = match values.len() + annotated.len() {
        1 => "forbidden AppArmor profile",
        _ => "forbidden AppArmor profiles",
    };
    if !setters.is_empty() {
        let values = quoted(values.iter().map(String::as_str));
        details.push(format!(
            "{} must not set AppArmor profile type to {values}",
            setters.join(" and ")
        ));
    }
    if !annotated.is_empty() {
        let word = plural("annotation", annotated.len());
        details.push(format!("{word} {}", annotated.join(", ")));
    }
    violation(reason, details.join("; "))
}

const ALLOWED_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn capabilities(pod: PodParts<'_>) -> Option<Violation> {
    let is_bad = |capability: &&str| !ALLOWED_CAPABILITIES.contains(capability);
    let names = named(pod, |one| added(one).any(|capability| is_bad(&capability)));
    if names.is_empty() {
        return None;
    }
    let all: BTreeSet<&str> = containers(pod).flat_map(added).filter(is_bad).collect();
    let text = format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers_named(&names),
        quoted(all)
    );
    violation("non-default capabilities", text)
}

fn host_namespaces(pod: PodParts<'_>) -> Option<Violation> {
    let members = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let set: Vec<String> = members
        .filter(|member| pod.spec[*member] == true)
        .map(|member| format!("{member}=true"))
        .collect();
    if set.is_empty() {
        return None;
    }
    violation("host namespaces", set.join(", "))
}

fn host_path_volumes(pod: PodParts<'_>) -> Option<Violation> {
    let bad = volumes(pod).filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = bad.map(name).collect();
    if names.is_empty() {
        return None;
    }
    let word = plural("volume", names.len());
    violation("hostPath volumes", format!("{word} {}", quoted(names)))
}

fn host_ports(pod: PodParts<'_>) -> Option<Violation> {
    let ports = |one: &Value| -> Vec<i64> {
        let ports = one["ports"].as_array().into_iter().flatten();
        let ports = ports.filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0).collect()
    };
    let names = named(pod, |one| !ports(one).is_empty());
    if names.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod)
        .flat_map(ports)
        .map(|port| port.to_string())
        .collect();
    let word = plural("hostPort", all.len());
    let all: Vec<String> = all.into_iter().collect();
    let text = format!(
        "{} uses {word} {}",
        containers_named(&names),
        all.join(", ")
    );
    let text = match names.len() {
        1 => text,
        _ => text.replacen(" uses ", " use ", 1),
    };
    violation("hostPort", text)
}

/// Probes and handlers that name a host.
fn host_probes(pod: PodParts<'_>) -> Option<Violation> {
    const HANDLERS: [&str; 5] = [
        "/livenessProbe",
        "/readinessProbe",
        "/startupProbe",
        "/lifecycle/postStart",
        "/lifecycle/preStop",
    ];
    let hosts = |one: &Value| -> Vec<String> {
        let found = HANDLERS.iter().flat_map(|handler| {
            ["httpGet", "tcpSocket"].map(|kind| {
                let host = one.pointer(&format!("{handler}/{kind}/host"));
                host.and_then(Value::as_str).unwrap_or_default().to_owned()
            })
        });
        found.filter(|host| !host.is_empty()).collect()
    };
    let names = named(pod, |one| !hosts(one).is_empty());
    if names.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod).flat_map(hosts).collect();
    let verb = if names.len() == 1 { "uses" } else { "use" };
    let word = plural("host", all.len());
    let text = format!(
        "{} {verb} probe or lifecycle {word} {}",
        containers_named(&names),
        quoted(all.iter().map(String::as_str))
    );
    violation("probe or lifecycle host", text)
}

fn privileged(pod: PodParts<'_>) -> Option<Violation> {
    let names = named(pod, |one| one["securityContext"]["privileged"] == true);
    if names.is_empty() {
        return None;
    }
    let text = format!(
        "{} must not set securityContext.privileged=true",
        containers_named(&names)
    );
    violation("privileged", text)
}

fn proc_mount(pod: PodParts<'_>) -> Option<Violation> {
    if pod.spec["hostUsers"] == false {
        return None;
    }
    let value = |one: &Value| {
        let value = one["securityContext"]["procMount"].as_str();
        value.filter(|value| *value != "Default").map(str::to_owned)
    };
    let names = named(pod, |one| value(one).is_some());
    if names.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod).filter_map(value).collect();
    let text = format!(
        "{} must not set securityContext.procMount to {}",
        containers_named(&names),
        quoted(all.iter().map(String::as_str))
    );
    violation("procMount", text)
}

fn se_linux_options(pod: PodParts<'_>) -> Option<Violation> {
    const TYPES: [&str; 5] = [
        "",
        "container_t",
        "container_init_t",
        "container_kvm_t",
        "container_engine_t",
    ];
    let text =
        |options: &Value, member: &str| options[member].as_str().unwrap_or_default().to_owned();
    let is_bad = |options: &Value| {
        !TYPES.contains(&text(options, "type").as_str())
            || !text(options, "user").is_empty()
            || !text(options, "role").is_empty()
    };
    let of_pod = &pod.spec["securityContext"]["seLinuxOptions"];
    let of = |one: &'_ Value| one["securityContext"]["seLinuxOptions"].clone();
    let names = named(pod, |one| is_bad(&of(one)));
    let mut setters = Vec::new();
    let mut all = Vec::new();
    if is_bad(of_pod) {
        setters.push("pod".to_owned());
        all.push(of_pod.clone());
    }
    if !names.is_empty() {
        setters.push(containers_named(&names));
        all.extend(containers(pod).map(of).filter(|options| is_bad(options)));
    }
    if setters.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = all.iter().map(|options| text(options, "type")).collect();
    let kinds = kinds.iter().map(String::as_str);
    let kinds: Vec<&str> = kinds.filter(|kind| !TYPES.contains(kind)).collect();
    let mut details = Vec::new();
    if !kinds.is_empty() {
        let word = plural("type", kinds.len());
        details.push(format!("{word} {}", quoted(kinds)));
    }
    for member in ["user", "role"] {
        if all.iter().any(|options| !text(options, member).is_empty()) {
            details.push(format!("{member} may not be set"));
        }
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.join(" and "),
        details.join("; ")
    );
    violation("seLinuxOptions", detail)
}

fn seccomp_profile(pod: PodParts<'_>) -> Option<Violation> {
    let is_bad = |one: &Value| seccomp_type(one).is_some_and(|kind| !is_good_seccomp(kind));
    let names = named(pod, is_bad);
    let mut setters = Vec::new();
    let mut kinds = BTreeSet::new();
    if is_bad(pod.spec) {
        setters.push("pod".to_owned());
        kinds.extend(seccomp_type(pod.spec));
    }
    if !names.is_empty() {
        setters.push(containers_named(&names));
        let bad = containers(pod).filter(|one| is_bad(one));
        kinds.extend(bad.filter_map(seccomp_type));
    }
    if setters.is_empty() {
        return None;
    }
    let text = format!(
        "{} must not set securityContext.seccompProfile.type to {}",
        setters.join(" and "),
        quoted(kinds)
    );
    violation("seccompProfile", text)
}

fn sysctls(pod: PodParts<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 12] = [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ];
    let all = pod.spec["securityContext"]["sysctls"].as_array();
    let names = all.into_iter().flatten().map(name);
    let bad: Vec<&str> = names.filter(|name| !ALLOWED.contains(name)).collect();
    if bad.is_empty() {
        return None;
    }
    violation("forbidden sysctls", bad.join(", "))
}

fn windows_host_process(pod: PodParts<'_>) -> Option<Violation> {
    let is_set = |one: &Value| one["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let names = named(pod, is_set);
    let mut setters = Vec::new();
    if is_set(pod.spec) {
        setters.push("pod".to_owned());
    }
    if !names.is_empty() {
        setters.push(containers_named(&names));
    }
    if setters.is_empty() {
        return None;
    }
    let text = format!(
        "{} must not set securityContext.windowsOptions.hostProcess=true",
        setters.join(" and ")
    );
    violation("hostProcess", text)
}
