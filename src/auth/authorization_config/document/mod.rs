//! The file of `--authorization-config`: its types and its checks (AC-33 to AC-36). It reads no
//! file but asks whether kubeconfigs are there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::webhook::{FailurePolicy, MatchConditions, ReviewVersion, WebhookSettings};
use crate::api::error_list::ErrorList;
use crate::api::field_error::{FieldError, FieldErrorKind, joined};
use crate::api::field_validation::strict_decoding_error;
use crate::api::names::dns_subdomain;
use crate::api::text::go_duration;
use crate::api::text::quoting::go_quote;
use crate::documents::{KindAndVersion, Tree, types};
use crate::schema::ObjectType;

const GROUP: &str = "apiserver.config.k8s.io/";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "AuthorizationConfiguration";
/// Other kinds of the same group.
const OTHER_KINDS: [&str; 4] = [
    "AdmissionConfiguration",
    "AuthenticationConfiguration",
    "EgressSelectorConfiguration",
    "TracingConfiguration",
];

const DEFAULT_AUTHORIZED_TTL: Duration = Duration::from_secs(5 * 60);
const DEFAULT_UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// The most time that a call of a webhook may be given.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

pub(super) static CONFIGURATION: LazyLock<ObjectType> = LazyLock::new(|| {
    types(include_str!("../types.txt")).object_type("apiserver.v1.AuthorizationConfiguration")
});

/// A kind of authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AuthorizerType {
    /// By policies of a file.
    Abac,
    /// Allows everything.
    AlwaysAllow,
    /// Has no opinion about anything.
    AlwaysDeny,
    /// By the objects that nodes need.
    Node,
    /// By roles and bindings.
    Rbac,
    /// By a webhook.
    Webhook,
}

/// All types, sorted by name.
pub const AUTHORIZER_TYPES: [AuthorizerType; 6] = [
    AuthorizerType::Abac,
    AuthorizerType::AlwaysAllow,
    AuthorizerType::AlwaysDeny,
    AuthorizerType::Node,
    AuthorizerType::Rbac,
    AuthorizerType::Webhook,
];

impl AuthorizerType {
    /// Returns its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            AuthorizerType::Abac => "ABAC",
            AuthorizerType::AlwaysAllow => "AlwaysAllow",
            AuthorizerType::AlwaysDeny => "AlwaysDeny",
            AuthorizerType::Node => "Node",
            AuthorizerType::Rbac => "RBAC",
            AuthorizerType::Webhook => "Webhook",
        }
    }

    /// Returns the type of this name.
    pub fn of(name: &str) -> Option<AuthorizerType> {
        AUTHORIZER_TYPES.into_iter().find(|of| of.name() == name)
    }
}

/// An authorizer of the file.
#[derive(Debug)]
pub struct Entry {
    /// Its type.
    pub kind: AuthorizerType,
    /// Its name.
    pub name: String,
    /// The settings of a webhook, if it is one.
    pub webhook: Option<WebhookEntry>,
}

/// A webhook of the file.
#[derive(Debug)]
pub struct WebhookEntry {
    /// How it decides.
    pub settings: WebhookSettings,
    /// How long a call may take.
    pub timeout: Duration,
    /// Where it is.
    pub kubeconfig: PathBuf,
}

/// Reads the text of a file. `required` are the types that the file had at the start, which a
/// reload may not take away.
///
/// # Errors
/// The faults, in the words of kube-apiserver.
pub fn parse(text: &[u8], required: &[AuthorizerType]) -> Result<Vec<Entry>, String> {
    let failed =
        |why: String| format!("failed to load AuthorizationConfiguration from file: {why}");
    let value = decoded(text).map_err(failed)?;
    let mut errors = ErrorList::new();
    let entries = entries(&value, &mut errors);
    match errors.kept() {
        [] => {}
        kept => return Err(joined(kept)),
    }
    let mut faults = Vec::new();
    for entry in &entries {
        let (kind, name) = (entry.kind.name(), &entry.name);
        let expected = kind.to_ascii_lowercase();
        if entry.kind != AuthorizerType::Webhook && *name != expected {
            faults.push(format!(
                "expected name {expected} for authorizer {kind} instead of {name}"
            ));
        }
    }
    let present: HashSet<AuthorizerType> = entries.iter().map(|entry| entry.kind).collect();
    let missing = required.iter().filter(|kind| !present.contains(kind));
    let missing: Vec<&str> = missing.map(|kind| kind.name()).collect();
    if !missing.is_empty() {
        faults.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    match &faults[..] {
        [] => Ok(entries),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Decodes the text strictly.
fn decoded(text: &[u8]) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let unknown = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let tree = Tree::of_file(text).map_err(unknown)?;
    let KindAndVersion { kind, api_version } = tree.kind_and_version().map_err(unknown)?;
    let version = api_version.strip_prefix(GROUP);
    match (
        &*kind,
        version.is_some_and(|version| VERSIONS.contains(&version)),
    ) {
        ("", _) => return Err("Object 'Kind' is missing".to_owned()),
        _ if api_version.is_empty() => return Err("Object 'apiVersion' is missing".to_owned()),
        (KIND, true) => {}
        (kind, true) if OTHER_KINDS.contains(&kind) => {
            return Err(format!("expected {KIND}, got *apiserver.{kind}"));
        }
        _ => {
            return Err(format!(
                "no kind {} is registered for version {}",
                go_quote(&kind),
                go_quote(&api_version)
            ));
        }
    }
    let document = tree.typed(&CONFIGURATION)?;
    match document.faults.is_empty() {
        true => Ok(document.value),
        false => Err(strict_decoding_error(&document.faults)),
    }
}

fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Reads the authorizers. Those with errors may be left out.
fn entries(configuration: &Value, errors: &mut ErrorList) -> Vec<Entry> {
    let list = configuration.get("authorizers").and_then(Value::as_array);
    let list = list.map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        let detail = "at least one authorization mode must be defined";
        errors.push(FieldError::required("authorizers", detail));
    }
    let (mut kinds, mut names) = (HashSet::new(), HashSet::new());
    let mut entries = Vec::new();
    for (place, authorizer) in list.iter().enumerate() {
        let path = format!("authorizers[{place}]");
        let Some(kind) = kind_of(authorizer, &path, &mut kinds, errors) else {
            continue;
        };
        let name = text(authorizer, "name");
        check_name(name, format!("{path}.name"), &mut names, errors);
        let given = authorizer.get("webhook").filter(|of| !of.is_null());
        let webhook = match (kind, given) {
            (AuthorizerType::Webhook, Some(webhook)) => webhook_of(webhook, name, &path, errors),
            (AuthorizerType::Webhook, None) => {
                let path = format!("{path}.webhook");
                errors.push(FieldError::required(path, "required when type=Webhook"));
                None
            }
            (_, Some(_)) => {
                let detail = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(
                    format!("{path}.webhook"),
                    "non-null",
                    detail,
                ));
                None
            }
            (_, None) => None,
        };
        entries.push(Entry {
            kind,
            name: name.to_owned(),
            webhook,
        });
    }
    entries
}

/// Returns the type of an authorizer. Only webhooks may occur more than once.
fn kind_of(
    authorizer: &Value,
    path: &str,
    kinds: &mut HashSet<AuthorizerType>,
    errors: &mut ErrorList,
) -> Option<AuthorizerType> {
    let name = text(authorizer, "type");
    let path = format!("{path}.type");
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return None;
    }
    let Some(kind) = AuthorizerType::of(name) else {
        let known = AUTHORIZER_TYPES.map(AuthorizerType::name);
        errors.push(FieldError::not_supported(path, name, &known));
        return None;
    };
    if !kinds.insert(kind) && kind != AuthorizerType::Webhook {
        let error = FieldError::new(FieldErrorKind::Duplicate, path, &name.into(), "");
        errors.push(error);
        return None;
    }
    Some(kind)
}

fn check_name<'v>(
    name: &'v str,
    path: String,
    names: &mut HashSet<&'v str>,
    errors: &mut ErrorList,
) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !names.insert(name) {
        let error = FieldError::new(FieldErrorKind::Duplicate, path, &name.into(), "");
        errors.push(error);
    } else {
        let faults = dns_subdomain(name);
        if !faults.is_empty() {
            let detail = format!("authorizer name is invalid: {}", faults.join(", "));
            errors.push(FieldError::invalid(path, name, detail));
        }
    }
}

/// Reads a webhook. The paths of its errors lack `webhook`, as in kube-apiserver.
fn webhook_of(
    webhook: &Value,
    name: &str,
    path: &str,
    errors: &mut ErrorList,
) -> Option<WebhookEntry> {
    let at = |member: &str| format!("{path}.{member}");
    let timeout = duration(webhook, "timeout");
    match timeout {
        None => errors.push(FieldError::required(at("timeout"), "")),
        Some(nanos) if !(0..=go_duration::nanos(TIMEOUT_MAX)).contains(&nanos) => {
            let detail = "must be > 0s and <= 30s";
            let shown = go_duration::printed(nanos);
            errors.push(FieldError::invalid(at("timeout"), shown, detail));
        }
        Some(_) => {}
    }
    let ttl = |member: &str, switch: &str, default, errors: &mut ErrorList| {
        let nanos = duration(webhook, member);
        if let Some(nanos) = nanos.filter(|nanos| *nanos < 0) {
            let shown = go_duration::printed(nanos);
            errors.push(FieldError::invalid(at(member), shown, "must be > 0s"));
        }
        match webhook.get(switch) {
            Some(Value::Bool(false)) => Duration::ZERO,
            _ => nanos.map_or(default, time_of),
        }
    };
    let authorized_ttl = ttl(
        "authorizedTTL",
        "cacheAuthorizedRequests",
        DEFAULT_AUTHORIZED_TTL,
        errors,
    );
    let unauthorized_ttl = ttl(
        "unauthorizedTTL",
        "cacheUnauthorizedRequests",
        DEFAULT_UNAUTHORIZED_TTL,
        errors,
    );
    let version = chosen(
        webhook,
        at("subjectAccessReviewVersion"),
        &["v1", "v1beta1"],
        errors,
    );
    let conditions = conditions_of(webhook, path, errors);
    let policy = chosen(webhook, at("failurePolicy"), &["NoOpinion", "Deny"], errors);
    let kubeconfig = kubeconfig_of(webhook, path, errors);
    Some(WebhookEntry {
        settings: WebhookSettings {
            name: name.to_owned(),
            version: ReviewVersion::of(version?)?,
            authorized_ttl,
            unauthorized_ttl,
            failure_policy: match policy? {
                "Deny" => FailurePolicy::Deny,
                _ => FailurePolicy::NoOpinion,
            },
            conditions,
        },
        timeout: timeout.map(time_of)?,
        kubeconfig: kubeconfig?,
    })
}

/// A duration in nanoseconds; `None` if it is absent or zero.
fn duration(webhook: &Value, member: &str) -> Option<i64> {
    let nanos = go_duration::parse(webhook.get(member)?.as_str()?).ok()?;
    (nanos != 0).then_some(nanos)
}

fn time_of(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// Returns the value of a required member that has one of these values. Its name is the last step
/// of the path.
fn chosen<'v>(
    webhook: &'v Value,
    path: String,
    values: &[&str],
    errors: &mut ErrorList,
) -> Option<&'v str> {
    let member = path.rsplit('.').next().unwrap_or_default();
    let value = text(webhook, member);
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
        return None;
    }
    if !values.contains(&value) {
        errors.push(FieldError::not_supported(path, value, values));
        return None;
    }
    Some(value)
}

fn conditions_of(webhook: &Value, path: &str, errors: &mut ErrorList) -> MatchConditions {
    let list = webhook.get("matchConditions").and_then(Value::as_array);
    let list = list.map(Vec::as_slice).unwrap_or_default();
    let version = format!("{path}.matchConditionSubjectAccessReviewVersion");
    match text(webhook, "matchConditionSubjectAccessReviewVersion") {
        "" if list.is_empty() => {}
        "" => {
            let detail = "required if match conditions are specified";
            errors.push(FieldError::required(version, detail));
        }
        "v1" => {}
        other => errors.push(FieldError::not_supported(version, other, &["v1"])),
    }
    let expressions = list.iter().map(|condition| text(condition, "expression"));
    let expressions: Vec<&str> = expressions.collect();
    MatchConditions::compile(&format!("{path}.matchConditions"), &expressions, errors)
}

/// Returns the kubeconfig of a webhook.
fn kubeconfig_of(webhook: &Value, path: &str, errors: &mut ErrorList) -> Option<PathBuf> {
    let none = json!({});
    let info = webhook.get("connectionInfo").unwrap_or(&none);
    let (kind, file) = (
        format!("{path}.connectionInfo.type"),
        format!("{path}.connectionInfo.kubeConfigFile"),
    );
    let given = text(info, "kubeConfigFile");
    let known = ["InClusterConfig", "KubeConfigFile"];
    match text(info, "type") {
        "" => errors.push(FieldError::required(kind, "")),
        "KubeConfigFile" if given.is_empty() => errors.push(FieldError::required(file, "")),
        "KubeConfigFile" if !Path::new(given).is_absolute() => {
            errors.push(FieldError::invalid(file, given, "must be an absolute path"));
        }
        "KubeConfigFile" => match std::fs::metadata(given) {
            Ok(found) if found.is_file() => return Some(PathBuf::from(given)),
            Ok(_) => errors.push(FieldError::invalid(file, given, "must be a regular file")),
            Err(error) => {
                let detail = format!("error loading file: {error}");
                errors.push(FieldError::invalid(file, given, detail));
            }
        },
        "InClusterConfig" => {
            if info
                .get("kubeConfigFile")
                .is_some_and(|file| !file.is_null())
            {
                let detail = "can only be set when type=KubeConfigFile";
                errors.push(FieldError::invalid(file, given, detail));
            }
            let detail = "is for servers inside a cluster, which this one is not";
            errors.push(FieldError::invalid(kind, "InClusterConfig", detail));
        }
        other => errors.push(FieldError::not_supported(kind, other, &known)),
    }
    None
}

#[cfg(test)]
mod tests;
