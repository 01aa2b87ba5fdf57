//! PodSecurity (API-270): restricts pods in a namespace, by its labels or by the defaults of the
//! configuration, which may also exempt users, namespaces and runtime classes (HK-98).

mod checks;
mod pod_parts;
mod policy;
mod restricted;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::client::ResourceClient;
use super::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::field_error::FieldError;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use pod_parts::PodParts;
use policy::{Level, LevelVersion, Policy};
pub use settings::Settings;

/// The path of the pod template in each kind that has one.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    (
        "batch",
        "cronjobs",
        &["spec", "jobTemplate", "spec", "template"],
    ),
];

/// The most pods of a namespace that are checked when its level is raised.
const MAX_PODS: usize = 3000;
/// The prefix of annotations about AppArmor.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The annotations of audit events: the level that a pod had to meet, how it violates that of the
/// mode `audit`, the errors of the labels, and why a pod is not checked.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const ERROR: &str = "pod-security.kubernetes.io/error";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";

/// The plugin.
pub(super) struct PodSecurity {
    namespaces: Arc<dyn ResourceClient>,
    pods: Arc<dyn ResourceClient>,
    settings: Arc<Settings>,
}

impl PodSecurity {
    /// Creates the plugin with these sources of namespaces and of pods.
    pub(super) fn new(
        namespaces: Arc<dyn ResourceClient>,
        pods: Arc<dyn ResourceClient>,
        settings: Arc<Settings>,
    ) -> PodSecurity {
        PodSecurity {
            namespaces,
            pods,
            settings,
        }
    }

    /// The policy of the namespace, and the errors of its labels.
    async fn policy_of(
        &self,
        attributes: &Attributes<'_>,
    ) -> Result<(Policy, Vec<FieldError>), Box<Status>> {
        let name = attributes.namespace.unwrap_or_default();
        let namespace = self.namespaces.get(None, name).await?;
        let labels = namespace.as_ref().and_then(labels_of);
        Ok(Policy::of(labels, &self.settings.defaults))
    }

    /// Whether the namespace or the user of a request is exempt, which is noted.
    fn is_exempt(&self, attributes: &Attributes<'_>) -> bool {
        let namespace = attributes.namespace.unwrap_or_default();
        let why = if self.settings.namespaces.contains(namespace) {
            "namespace"
        } else if self.settings.users.contains(&attributes.user.name) {
            "user"
        } else {
            return false;
        };
        attributes.annotate(EXEMPT, || why.to_owned());
        true
    }

    fn is_of_exempt_class(&self, spec: &Value) -> bool {
        let class = spec["runtimeClassName"].as_str();
        class.is_some_and(|class| self.settings.runtime_classes.contains(class))
    }

    async fn check_pod(
        &self,
        attributes: &Attributes<'_>,
        pod: &Object,
    ) -> Result<(), Box<Status>> {
        if self.is_exempt(attributes) {
            return Ok(());
        }
        let (policy, faults) = self.policy_of(attributes).await?;
        if faults.is_empty() && policy.is_privileged() {
            attributes.annotate(ENFORCED, || "privileged:latest".to_owned());
            return Ok(());
        }
        if attributes
            .old_object
            .is_some_and(|stored| !is_significant(pod, stored))
        {
            return Ok(());
        }
        let Some(parts) = parts_of(pod.0.get("metadata"), pod.0.get("spec")) else {
            return Ok(());
        };
        if self.is_of_exempt_class(parts.spec) {
            attributes.annotate(EXEMPT, || "runtimeClass".to_owned());
            return Ok(());
        }
        attributes.annotate(ENFORCED, || policy.enforce.to_string());
        audit(attributes, &policy, &faults, parts);
        if let Some(detail) = violated(&policy.enforce, parts) {
            let why = format!(
                "violates PodSecurity {}: {detail}",
                go_quote(&policy.enforce.to_string())
            );
            return Err(attributes.forbidden(Some(pod), &why));
        }
        warn(attributes, &policy, parts);
        Ok(())
    }

    /// Warns of the pods of a template, and notes them.
    async fn check_template(
        &self,
        attributes: &Attributes<'_>,
        parts: PodParts<'_>,
    ) -> Result<(), Box<Status>> {
        if self.is_exempt(attributes) {
            return Ok(());
        }
        let (policy, faults) = self.policy_of(attributes).await?;
        if faults.is_empty() && policy.is_silent() {
            return Ok(());
        }
        if self.is_of_exempt_class(parts.spec) {
            attributes.annotate(EXEMPT, || "runtimeClass".to_owned());
            return Ok(());
        }
        audit(attributes, &policy, &faults, parts);
        warn(attributes, &policy, parts);
        Ok(())
    }

    async fn check_namespace(
        &self,
        attributes: &Attributes<'_>,
        namespace: &Object,
    ) -> Result<(), Box<Status>> {
        let defaults = &self.settings.defaults;
        let (policy, mut faults) = Policy::of(labels_of(namespace), defaults);
        let before = attributes.old_object;
        let before = before.map(|old| Policy::of(labels_of(old), defaults));
        if let Some((_, old)) = &before {
            // A namespace with invalid labels may be changed in other ways.
            // linear: a policy is in six labels.
            let is_new = |fault: &FieldError| !old.contains(fault);
            if !faults.iter().any(is_new) {
                faults.clear();
            }
        }
        if !faults.is_empty() {
            let name = attributes.shown_name(Some(namespace));
            let definition = attributes.definition;
            return Err(Box::new(Status::invalid_object(definition, name, &faults)));
        }
        if let Some((before, _)) = &before {
            let (enforce, before) = (&policy.enforce, &before.enforce);
            let is_relaxed = enforce.has_version_of(before) && enforce.level <= before.level;
            if enforce == before || enforce.level == Level::Privileged || is_relaxed {
                return Ok(());
            }
        }
        let name = namespace.name();
        if self.settings.namespaces.contains(name) {
            if let Some(shown) = policy.shown(labels_of(namespace), defaults) {
                attributes.warnings.add(format!(
                    "namespace {} is exempt from Pod Security, and the policy ({shown}) will be \
                     ignored",
                    go_quote(name)
                ));
            }
        } else if before.is_some() && !namespace.is_being_deleted() {
            self.warn_of_pods(attributes, name, &policy.enforce).await?;
        }
        Ok(())
    }

    /// Warns of existing pods that would not be admitted now. They are not removed.
    async fn warn_of_pods(
        &self,
        attributes: &Attributes<'_>,
        namespace: &str,
        level: &LevelVersion,
    ) -> Result<(), Box<Status>> {
        let pods = self.pods.list(Some(namespace)).await?;
        let is_checked = |pod: &&Object| {
            let spec = pod.0.get("spec");
            spec.is_none_or(|spec| !self.is_of_exempt_class(spec))
        };
        let warnings = pod_warnings(pods.iter().filter(is_checked).take(MAX_PODS), level);
        if !warnings.is_empty() {
            attributes.warnings.add(format!(
                "existing pods in namespace {} violate the new PodSecurity enforce level {}",
                go_quote(namespace),
                go_quote(&level.to_string())
            ));
            warnings
                .into_iter()
                .for_each(|text| attributes.warnings.add(text));
        }
        Ok(())
    }
}

/// Returns a warning for each way to violate a level, with the first pod that does.
fn pod_warnings<'p>(pods: impl Iterator<Item = &'p Object>, level: &LevelVersion) -> Vec<String> {
    let mut by_detail: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in pods {
        let parts = parts_of(pod.0.get("metadata"), pod.0.get("spec"));
        if let Some(reasons) = parts.and_then(|parts| reasons(level, parts)) {
            by_detail.entry(reasons).or_default().push(pod.name());
        }
    }
    let mut warnings: Vec<(&str, String)> = by_detail
        .iter()
        .filter_map(|(reasons, names)| {
            let mut names = names.clone();
            names.sort_unstable();
            let (first, others) = names.split_first()?;
            let others = match others.len() {
                0 => String::new(),
                1 => " (and 1 other pod)".to_owned(),
                more => format!(" (and {more} other pods)"),
            };
            Some((*first, format!("{first}{others}: {reasons}")))
        })
        .collect();
    warnings.sort_unstable();
    warnings.into_iter().map(|(_, text)| text).collect()
}

fn labels_of(object: &Object) -> Option<&serde_json::Map<String, Value>> {
    object.at(&["metadata", "labels"])?.as_object()
}

fn parts_of<'p>(metadata: Option<&'p Value>, spec: Option<&'p Value>) -> Option<PodParts<'p>> {
    Some(PodParts {
        annotations: metadata.and_then(|metadata| metadata.get("annotations")),
        spec: spec?,
    })
}

/// How a pod violates a level, if it does.
fn violated(level: &LevelVersion, pod: PodParts<'_>) -> Option<String> {
    let violations = level.violations(pod);
    let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn reasons(level: &LevelVersion, pod: PodParts<'_>) -> Option<String> {
    let violations = level.violations(pod);
    let texts: Vec<&str> = violations.iter().map(|one| one.reason()).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Adds the errors of a policy to the audit events, and how a pod violates the level of the mode
/// `audit`.
fn audit(attributes: &Attributes<'_>, policy: &Policy, faults: &[FieldError], pod: PodParts<'_>) {
    if attributes.annotations.is_none() {
        return;
    }
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => {}
        [one] => attributes.annotate(ERROR, || format!("Failed to parse policy: {one}")),
        more => {
            let more = more.join(", ");
            attributes.annotate(ERROR, || format!("Failed to parse policy: [{more}]"));
        }
    }
    if let Some(detail) = violated(&policy.audit, pod) {
        let level = go_quote(&policy.audit.to_string());
        attributes.annotate(VIOLATIONS, || {
            format!("would violate PodSecurity {level}: {detail}")
        });
    }
}

fn warn(attributes: &Attributes<'_>, policy: &Policy, pod: PodParts<'_>) {
    if let Some(detail) = violated(&policy.warn, pod) {
        let level = go_quote(&policy.warn.to_string());
        let text = format!("would violate PodSecurity {level}: {detail}");
        attributes.warnings.add(text);
    }
}

/// Whether an update changes anything that the checks read: images, added containers, or the
/// annotations of AppArmor.
fn is_significant(pod: &Object, stored: &Object) -> bool {
    let images = |pod: &Object| -> Vec<(String, Value)> {
        let lists = ["containers", "initContainers", "ephemeralContainers"].into_iter();
        let lists = lists.filter_map(|list| pod.at(&["spec", list])?.as_array());
        let all = lists.flatten();
        all.map(|one| (one["name"].to_string(), one["image"].clone()))
            .collect()
    };
    let annotations = |pod: &Object| -> Vec<(String, Value)> {
        let all = pod
            .at(&["metadata", "annotations"])
            .and_then(Value::as_object);
        let all = all.into_iter().flatten();
        let of_app_armor = all.filter(|(key, _)| key.starts_with(APPARMOR));
        of_app_armor
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    images(pod) != images(stored) || annotations(pod) != annotations(stored)
}

/// The path of the pod template in the written object.
fn template(attributes: &Attributes<'_>) -> Option<&'static [&'static str]> {
    let mut rows = TEMPLATES.iter();
    let row = rows.find(|(group, plural, _)| attributes.definition.is(group, plural))?;
    attributes.subresource.is_none().then_some(row.2)
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_write = matches!(
            attributes.operation,
            Operation::Create(_) | Operation::Update(_)
        );
        let part = attributes.subresource;
        let is_pod = attributes.definition.is("", "pods")
            && matches!(part, None | Some("ephemeralcontainers" | "resize"));
        let is_namespace = attributes.definition.is("", "namespaces") && part.is_none();
        is_write && (is_pod || is_namespace || template(attributes).is_some())
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for PodSecurity {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(object) = object else {
                return Ok(());
            };
            if attributes.definition.is("", "pods") {
                return self.check_pod(attributes, object).await;
            }
            if attributes.definition.is("", "namespaces") {
                return self.check_namespace(attributes, object).await;
            }
            let found = template(attributes).and_then(|path| object.at(path));
            let parts = found.and_then(|one| parts_of(one.get("metadata"), one.get("spec")));
            match parts {
                Some(parts) => self.check_template(attributes, parts).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(labels: Value) -> (Policy, Vec<FieldError>) {
        let labels = labels.as_object().unwrap().iter();
        let labels = labels.map(|(name, value)| {
            let name = format!("pod-security.kubernetes.io/{name}");
            (name, value.clone())
        });
        Policy::of(Some(&labels.collect()), &Policy::default())
    }

    /// API-270.
    #[test]
    fn wrong_labels_forbid_the_most_and_warn_of_nothing() {
        let (wrong, faults) = policy(json!({"enforce": "x", "audit": "y", "warn-version": "v1.9"}));
        assert_eq!(wrong.enforce.to_string(), "restricted:latest");
        assert_eq!(wrong.audit.to_string(), "privileged:latest");
        assert_eq!(wrong.warn.to_string(), "privileged:v1.9");
        assert_eq!(faults.len(), 2);
        let (own, _) = policy(json!({"enforce": "baseline", "warn-version": "v1.9"}));
        assert_eq!(own.warn.to_string(), "baseline:v1.9");
    }

    #[test]
    fn labels_win_over_the_defaults_of_the_configuration_hk_98() {
        let defaults = json!({"defaults": {
            "enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted",
        }});
        let defaults = Settings::read(&defaults).unwrap().defaults;
        let labels = |labels: Value| labels.as_object().cloned();
        let of = |given: Value| Policy::of(labels(given).as_ref(), &defaults).0;
        assert_eq!(of(json!({})), defaults);
        let own = of(json!({"pod-security.kubernetes.io/enforce": "privileged"}));
        assert_eq!(own.enforce.to_string(), "privileged:v1.30");
        assert_eq!(own.warn.to_string(), "restricted:latest");
        let shown = |given: Value| {
            let given = labels(given);
            Policy::of(given.as_ref(), &defaults)
                .0
                .shown(given.as_ref(), &defaults)
        };
        assert_eq!(shown(json!({})), None);
        assert_eq!(
            shown(json!({
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/audit": "privileged",
            })),
            Some("enforce=restricted:v1.30".to_owned())
        );
    }

    fn told(labels: Value, spec: &Value) -> Option<String> {
        violated(&policy(labels).0.enforce, parts_of(None, Some(spec))?)
    }

    /// API-270.
    #[test]
    fn labels_say_what_is_refused_and_what_is_warned_of() {
        let (own, faults) = policy(json!({"enforce": "baseline", "enforce-version": "v1.30"}));
        assert_eq!(own.enforce.to_string(), "baseline:v1.30");
        assert_eq!(own.warn, own.enforce);
        assert!(faults.is_empty());
        let (wrong, faults) = policy(json!({"warn": "x", "audit-version": "1.2"}));
        assert_eq!(wrong.enforce.to_string(), "privileged:latest");
        assert_eq!(faults.len(), 2);
    }

    /// API-270.
    #[test]
    fn a_plain_pod_is_good_enough_for_baseline_and_not_for_restricted() {
        let spec = json!({"containers": [{"name": "c"}]});
        assert_eq!(told(json!({"enforce": "baseline"}), &spec), None);
        assert_eq!(
            told(json!({"enforce": "restricted"}), &spec).unwrap(),
            "allowPrivilegeEscalation != false (container \"c\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities \
             (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot \
             != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
             seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type \
             to \"RuntimeDefault\" or \"Localhost\")"
        );
    }
}
