//! Validation of pods for an operating system, and of pods with their own user namespace.

use api::field::Field;

use super::visit_containers;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

const WINDOWS: &str = "cannot be set for a windows pod";

/// Fields of a pod that Windows does not support, in the order of validation.
const NOT_IN_WINDOWS: [(&str, &str); 15] = [
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
];

/// Fields of a container's security context that Windows does not support.
const NOT_IN_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates that a pod has no fields that its operating system does not support.
pub fn validate_os(spec: &Field<'_>, errors: &mut ErrorList) {
    let os = spec.member("os");
    if !os.is_set() {
        return;
    }
    let name = os.member("name");
    if !require_text(&name, errors) {
        return;
    }
    match name.text() {
        "linux" => validate_linux(spec, errors),
        "windows" => validate_windows(spec, errors),
        other => {
            let shown = serde_json::Value::from(other);
            errors.push(os.with_value(&shown).not_supported(&["linux", "windows"]));
        }
    }
}

fn validate_linux(spec: &Field<'_>, errors: &mut ErrorList) {
    let mut check = |context: &Field<'_>| {
        let options = context.member("windowsOptions");
        if options.is_set() {
            errors.push(options.forbidden("windows options cannot be set for a linux pod"));
        }
    };
    check(&spec.member("securityContext"));
    visit_containers(spec, &mut |container| {
        check(&container.member("securityContext"))
    });
}

fn validate_windows(spec: &Field<'_>, errors: &mut ErrorList) {
    let context = spec.member("securityContext");
    for (of, name) in NOT_IN_WINDOWS {
        let parent = if of.is_empty() { spec } else { &context };
        let field = parent.member(name);
        if field.is_set() {
            errors.push(field.forbidden(WINDOWS));
        }
    }
    visit_containers(spec, &mut |container| {
        let context = container.member("securityContext");
        for name in NOT_IN_WINDOWS_CONTAINERS {
            let field = context.member(name);
            if field.is_set() {
                errors.push(field.forbidden(WINDOWS));
            }
        }
    });
}

/// Validates that either all or none of the containers of a Windows pod are host processes.
pub fn validate_host_process(spec: &Field<'_>, errors: &mut ErrorList) {
    let host_process = |of: &Field<'_>| {
        let context = of.member("securityContext");
        let options = context.member("windowsOptions");
        options.member("hostProcess").bool()
    };
    let of_pod = host_process(spec);
    let (mut all, mut with) = (0, 0);
    visit_containers(spec, &mut |container| {
        let own = host_process(container);
        all += 1;
        if own.or(of_pod) == Some(true) {
            with += 1;
        }
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let context = container.member("securityContext");
            let options = context.member("windowsOptions");
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(options.member("hostProcess").invalid(detail));
        }
    });
    if with == 0 {
        return;
    }
    if with != all {
        errors.push(spec.invalid_value(
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess \
             containers",
        ));
    }
    let network = spec.member("hostNetwork");
    if !network.is_true() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(network.invalid_value(false, detail));
    }
}

/// Validates that a pod with its own user namespace shares no other namespace with the host.
pub fn validate_host_users(spec: &Field<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.member("hostUsers").bool() != Some(false) {
        return;
    }
    for (name, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.member(name).is_true() {
            errors.push(spec.member(shown).forbidden(DETAIL));
        }
    }
    visit_containers(spec, &mut |container| {
        let devices = container.member("volumeDevices");
        if !devices.is_empty() {
            errors.push(devices.forbidden(DETAIL));
        }
    });
}
