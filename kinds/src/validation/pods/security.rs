//! Validation of security contexts.

use std::collections::HashSet;

use api::field::{Detail, Field, LazyError};
use api::field_error::FieldError;
use api::names;

use super::volumes::files::validate_descending_path;
use crate::types::internal::{any_json, internal_json, invalid_struct};
use crate::validation::enums::validate_one_of;
use crate::validation::numbers::user_id;
use crate::validation::report;
use crate::validation::required::require_text;
use api::error_list::{ClusterPolicies, ErrorList};

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_PROFILE: usize = 4095;
/// Sysctls of the IPC namespace.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.sem",
    "kernel.shm",
    "kernel.shmmax",
    "kernel.shmall",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
];
const MAX_SYSCTL: usize = 253;
const MAX_CREDENTIALS_KIB: usize = 64;
const MAX_WINDOWS_DOMAIN: usize = 256;
const MAX_WINDOWS_USER: usize = 104;

/// Validates the security context of a pod spec.
pub fn validate_pod_security_context(spec: &Field<'_>, errors: &mut ErrorList) {
    let context = spec.member("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(&context.member(name), errors);
    }
    for group in context.member("supplementalGroups").items() {
        validate_id(&group, errors);
    }
    let shared = spec.member("shareProcessNamespace");
    if shared.is_true() && spec.member("hostPID").is_true() {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(
            context
                .member("shareProcessNamespace")
                .invalid_value(true, detail),
        );
    }
    validate_sysctls(spec, &context.member("sysctls"), errors);
    validate_choice(
        &context,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
        errors,
    );
    validate_seccomp_profile(&context.member("seccompProfile"), errors);
    validate_windows_options(&context.member("windowsOptions"), errors);
    validate_app_armor_profile(&context.member("appArmorProfile"), errors);
    validate_choice(
        &context,
        "supplementalGroupsPolicy",
        &["Merge", "Strict"],
        errors,
    );
    // Another policy requires the feature gate SELinuxMount, which is disabled.
    validate_choice(&context, "seLinuxChangePolicy", &["Recursive"], errors);
}

fn validate_id(id: &Field<'_>, errors: &mut ErrorList) {
    if let Some(number) = id.int() {
        report(id, user_id(number), errors);
    }
}

/// Validates that a text, if present, is one of these.
fn validate_choice(context: &Field<'_>, name: &str, supported: &[&str], errors: &mut ErrorList) {
    let choice = context.member(name);
    validate_one_of(&choice, supported, errors);
}

fn validate_sysctls(spec: &Field<'_>, sysctls: &Field<'_>, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.member("name");
        let text = name.text();
        if !require_text(&name, errors) {
            continue;
        }
        if !is_sysctl(text) {
            let detail = format!(
                "must have at most {MAX_SYSCTL} characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.push(name.invalid(detail));
        } else if names.contains(text) {
            errors.push(name.duplicate());
        }
        names.insert(text.to_owned());
        let host = match namespace(text) {
            Some("net") => "hostNetwork",
            Some(_) => "hostIPC",
            None => continue,
        };
        if spec.member(host).is_true() {
            let detail = format!("may not be specified when '{host}' is true");
            errors.push(name.invalid(detail));
        }
    }
}

fn is_sysctl(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let mut bytes = part.bytes();
        bytes.all(|byte| is_word(byte) || matches!(byte, b'-' | b'_'))
            && part.bytes().next().is_some_and(is_word)
            && part.bytes().last().is_some_and(is_word)
    };
    text.len() <= MAX_SYSCTL && text.split(['.', '/']).all(is_part)
}

/// Returns the kernel namespace of a sysctl: `net` or `ipc`. Names are separated by dots, or by
/// slashes if a slash comes first.
fn namespace(sysctl: &str) -> Option<&'static str> {
    let first = sysctl.find(['.', '/']);
    let has_slashes = first.is_some_and(|at| sysctl.get(at..).is_some_and(|s| s.starts_with('/')));
    let name: String = match has_slashes {
        true => sysctl
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        false => sysctl.to_owned(),
    };
    match name.as_str() {
        name if IPC_SYSCTLS.contains(&name) || name.starts_with("fs.mqueue.") => Some("ipc"),
        name if name.starts_with("net.") => Some("net"),
        _ => None,
    }
}

/// The policy of a cluster that forbids privileged containers (`--allow-privileged=false`).
pub const NO_PRIVILEGED_CONTAINERS: ClusterPolicies = ClusterPolicies::of(0);

/// Validates the security context of a container, if any.
pub fn validate_security_context(
    context: &Field<'_>,
    has_host_users: bool,
    errors: &mut ErrorList,
) {
    if !context.is_set() {
        return;
    }
    let privileged = context.member("privileged");
    if privileged.is_true() && errors.policies().include(NO_PRIVILEGED_CONTAINERS) {
        errors.push(privileged.forbidden("disallowed by cluster policy"));
    }
    for name in ["runAsUser", "runAsGroup"] {
        validate_id(&context.member(name), errors);
    }
    validate_choice(context, "procMount", &["Default", "Unmasked"], errors);
    let mount = context.member("procMount");
    if has_host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    validate_seccomp_profile(&context.member("seccompProfile"), errors);
    if context.member("allowPrivilegeEscalation").bool() == Some(false) {
        validate_no_escalation(context, errors);
    }
    validate_windows_options(&context.member("windowsOptions"), errors);
    validate_app_armor_profile(&context.member("appArmorProfile"), errors);
}

/// Validates a container with `allowPrivilegeEscalation: false`: it must neither be privileged nor
/// add `CAP_SYS_ADMIN`, which both allow the escalation.
fn validate_no_escalation(context: &Field<'_>, errors: &mut ErrorList) {
    const TYPE: &str = "core.v1.SecurityContext";
    if context.member("privileged").is_true() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(invalid_struct(context, TYPE, detail));
    }
    let capabilities = context.member("capabilities");
    for capability in capabilities.member("add").items() {
        if capability.text() == "CAP_SYS_ADMIN" {
            let detail = "cannot set `allowPrivilegeEscalation` to false and \
                          `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(invalid_struct(context, TYPE, detail));
        }
    }
}

/// Validates a seccomp profile, if any.
pub fn validate_seccomp_profile(profile: &Field<'_>, errors: &mut ErrorList) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.member("type");
    if kind.text().is_empty() {
        errors.push(kind.required("type is required when seccompProfile is set"));
    } else {
        validate_one_of(&kind, &PROFILES, errors);
    }
    let path = profile.member("localhostProfile");
    match (kind.text() == "Localhost", path.is_set()) {
        (true, true) => validate_descending_path(&path, errors),
        (true, false) => {
            errors.push(path.required("must be set when seccomp type is Localhost"));
        }
        (false, true) => {
            let json = internal_json("core.v1.SeccompProfile", profile.value());
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid_document(path.path(), &json, detail));
        }
        (false, false) => {}
    }
}

/// Validates an AppArmor profile, if any.
pub fn validate_app_armor_profile(profile: &Field<'_>, errors: &mut ErrorList) {
    if !profile.is_set() {
        return;
    }
    let (kind, path) = (profile.member("type"), profile.member("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            let trimmed = path.text().trim();
            if trimmed != path.text() {
                errors.push(path.invalid("must not be padded with whitespace"));
            } else if trimmed.is_empty() {
                errors.push(path.required("must be set when AppArmor type is Localhost"));
            }
            if path.text().len() > MAX_PROFILE {
                errors.push(path.too_long(MAX_PROFILE));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if path.is_set() {
                let detail = "can only be set when AppArmor type is Localhost";
                errors.push(invalid_pointer(&path, detail));
            }
        }
        "" => errors.push(kind.required("type is required when appArmorProfile is set")),
        _ => validate_one_of(&kind, &PROFILES, errors),
    }
}

/// Returns an error that shows the text as JSON, as Go prints a pointer.
fn invalid_pointer<'f>(field: &Field<'f>, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
    let value = field.value();
    field.invalid(detail).showing_json(move || any_json(value))
}

/// Validates the Windows options.
fn validate_windows_options(options: &Field<'_>, errors: &mut ErrorList) {
    let name = options.member("gmsaCredentialSpecName");
    if name.is_set() {
        let wrong = names::dns_subdomain(name.text());
        errors.extend(wrong.iter().map(|what| invalid_pointer(&name, what)));
    }
    let credentials = options.member("gmsaCredentialSpec");
    if credentials.is_set() {
        let size = credentials.text().len();
        if size == 0 {
            errors.push(invalid_pointer(
                &credentials,
                "gmsaCredentialSpec cannot be an empty string",
            ));
        } else if size > MAX_CREDENTIALS_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {MAX_CREDENTIALS_KIB} KiB");
            errors.push(invalid_pointer(&credentials, &detail));
        }
    }
    let user = options.member("runAsUserName");
    if user.is_set() {
        let wrong = windows_user(user.text()).into_iter();
        errors.extend(wrong.map(|what| invalid_pointer(&user, format!("runAsUserName{what}"))));
    }
}

/// Checks a Windows user name, which may have a domain before it.
fn windows_user(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec![" cannot be an empty string".to_owned()];
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return vec![" cannot contain control characters".to_owned()];
    }
    let (domain, user) = match text.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    if user.contains('\\') {
        return vec![" cannot contain more than one backslash".to_owned()];
    }
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= MAX_WINDOWS_DOMAIN {
            wrong.push(format!(
                "'s Domain length must be under {MAX_WINDOWS_DOMAIN} characters"
            ));
        }
        if !is_net_bios_domain(domain) && !domain.split('.').all(is_windows_label) {
            wrong.push("'s Domain doesn't match the NetBios nor the DNS format".to_owned());
        }
    }
    if user.is_empty() {
        wrong.push("'s User cannot be empty".to_owned());
    } else if user.len() > MAX_WINDOWS_USER {
        wrong.push(format!(
            "'s User length must not be longer than {MAX_WINDOWS_USER} characters"
        ));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong.push("'s User cannot contain only periods or spaces".to_owned());
    }
    const FORBIDDEN: &str = "\"/\\:;|=,+*?<>@[]";
    if user.contains(|c| FORBIDDEN.contains(c)) {
        wrong.push(format!(
            "'s User cannot contain the following characters: {FORBIDDEN}"
        ));
    }
    wrong
}

fn is_net_bios_domain(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_windows_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&label.len())
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(context: serde_json::Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let context = Field::named("securityContext", Some(&context));
        validate_security_context(&context, true, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Not in the recordings, because the recorded server forbids privileged containers.
    #[test]
    fn privileged_containers_may_gain_privileges() {
        assert!(errors(json!({"privileged": true})).is_empty());
        let errors = errors(json!({"privileged": true, "allowPrivilegeEscalation": false}));
        let expected = "securityContext: Invalid value: {\"Capabilities\":null,\"Privileged\":true,\
             \"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\
             \"RunAsGroup\":null,\"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\
             \"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":null,\
             \"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and \
             `privileged` to true";
        assert_eq!(errors, [expected]);
    }

    #[test]
    fn credentials_of_windows_are_bounded() {
        let of = |size| json!({"windowsOptions": {"gmsaCredentialSpec": "x".repeat(size)}});
        assert!(errors(of(64 * 1024)).is_empty());
        assert_eq!(errors(of(64 * 1024 + 1)).len(), 1);
    }
}
