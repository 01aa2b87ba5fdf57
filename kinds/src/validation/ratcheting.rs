//! Ratcheting: errors that an update may keep because the stored object has them (http.md 6.2).
//!
//! Rules became stricter over time, and stored objects may still violate them. Kubernetes checks
//! whether the stored object violates such a rule, and if so does not enforce it on the update.
//! Here, a rule is recognized by the errors that it adds.

use api::error_list::Ratchet;
use api::field_error::{FieldError, FieldErrorKind};

const DELETION_COST: &str = "annotations[controller.kubernetes.io/pod-deletion-cost]";
const REQUIRED_TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[";

/// For pods and pod templates.
pub const PODS: &[Ratchet] = &[
    Ratchet::any(|error| is_selector_value(error) && error.path.contains("ffinity.")),
    Ratchet::any(|error| is_value(error) && error.path.contains(REQUIRED_TERMS)),
    Ratchet::any(|error| is_of_constraint(error, ".labelSelector")),
    Ratchet::any(|error| is_of_constraint(error, ".matchLabelKeys")),
    Ratchet::any(|error| {
        error
            .detail
            .contains(" is not positive integer multiple of ")
    }),
    Ratchet::any(|error| {
        // Kubernetes reports the path of a token at its volume.
        let is_path = error.path.ends_with(".projected.path");
        is_path && error.detail.starts_with("must ")
    }),
    Ratchet::any(|error| {
        let is_of_host = error.detail.starts_with("may not be specified when 'host");
        is_of_host && error.path.contains(".sysctls[")
    }),
    Ratchet::any(|error| error.path.ends_with(DELETION_COST)),
];

/// For kinds with label selectors: PersistentVolumeClaims, PodDisruptionBudgets and
/// NetworkPolicies.
pub const SELECTORS: &[Ratchet] = &[Ratchet::any(is_selector_value)];

/// For PersistentVolumes.
pub const VOLUMES: &[Ratchet] = &[Ratchet::any(|error| {
    is_value(error) && error.path.starts_with("spec.nodeAffinity.required.")
})];

/// For HorizontalPodAutoscalers.
pub const AUTOSCALERS: &[Ratchet] = &[Ratchet::any(|error| {
    error.path.ends_with(".describedObject.apiVersion")
})];

/// For webhook configurations.
pub const WEBHOOKS: &[Ratchet] = &[
    Ratchet::any(is_selector_value),
    Ratchet::any(|error| error.path.ends_with(".admissionReviewVersions")),
    Ratchet::any(|error| {
        let is_name = error.path.ends_with("].name");
        is_name && error.kind == FieldErrorKind::Duplicate
    }),
    Ratchet::same(|error| error.path.contains(".matchConditions[")),
];

/// For admission policies.
pub const POLICIES: &[Ratchet] = &[
    Ratchet::any(is_selector_value),
    Ratchet::same(|error| {
        error.path.ends_with("xpression") || error.path.contains(".matchConditions[")
    }),
];

/// For CertificateSigningRequests. An issued certificate never changes.
pub const CERTIFICATE_REQUESTS: &[Ratchet] = &[
    Ratchet::any(|error| is_usage(error) && error.kind == FieldErrorKind::NotSupported),
    Ratchet::any(|error| is_usage(error) && error.kind == FieldErrorKind::Duplicate),
    Ratchet::any(|error| is_condition_type(error) && error.kind == FieldErrorKind::Required),
    Ratchet::any(|error| is_condition_type(error) && error.kind == FieldErrorKind::Duplicate),
    Ratchet::any(|error| {
        let is_of_list = error.path == "status.conditions";
        is_of_list && error.kind == FieldErrorKind::Invalid
    }),
    Ratchet::any(|error| {
        let is_certificate = error.path == "status.certificate";
        is_certificate && error.kind == FieldErrorKind::Invalid
    }),
];

fn is_usage(error: &FieldError) -> bool {
    error.path.starts_with("spec.usages[")
}

fn is_condition_type(error: &FieldError) -> bool {
    error.path.starts_with("status.conditions[") && error.path.ends_with("].type")
}

/// Reports whether an error is about a value in a list of requirements.
fn is_value(error: &FieldError) -> bool {
    let last = error.path.rsplit('.').next();
    let is_item = last.is_some_and(|last| last.starts_with("values["));
    is_item && error.path.contains(".matchExpressions[")
}

fn is_selector_value(error: &FieldError) -> bool {
    is_value(error) && error.path.contains("elector.matchExpressions[")
}

fn is_of_constraint(error: &FieldError, part: &str) -> bool {
    let constraint = error.path.split_once(".topologySpreadConstraints[");
    constraint.is_some_and(|(_, below)| below.contains(part))
}

#[cfg(test)]
mod tests {
    use api::error_list::ErrorList;
    use api::object::Object;
    use api::resource::ResourceDefinition;
    use serde_json::{Value, json};

    use crate::definitions::built_in;

    fn object(value: &Value, of: &ResourceDefinition) -> Object {
        let mut object = Object::of(value.as_object().unwrap().clone());
        of.behaviour.set_defaults(&mut object);
        object
    }

    /// Returns the errors of an update that ratcheting does not drop.
    fn errors(of: &str, stored: &Value, changed: &Value) -> Vec<String> {
        let mut rows = built_in().into_iter();
        let row = rows.find(|row| row.object_type().name() == of).unwrap();
        let (stored, changed) = (object(stored, &row), object(changed, &row));
        let kind = &row.behaviour;
        let errors = ErrorList::ratcheted(
            kind.ratchets(),
            |errors| kind.validate_update("", &changed, &stored, errors),
            |errors| kind.validate(&stored, errors),
        );
        errors.iter().map(ToString::to_string).collect()
    }

    fn template(spec: Value) -> Value {
        let mut template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let members = template["spec"].as_object_mut().unwrap();
        members.extend(spec.as_object().unwrap().clone());
        template
    }

    fn requirement(value: &str) -> Value {
        json!([{"key": "k", "operator": "In", "values": [value]}])
    }

    /// Returns pairs of parts of a Deployment: one that is valid, and one that is invalid today.
    fn parts() -> Vec<(Value, Value)> {
        let affinity = |value: &str| {
            let selector = json!({"matchExpressions": requirement(value)});
            let term = json!({"labelSelector": selector, "topologyKey": "t"});
            let terms = json!([{"weight": 1, "podAffinityTerm": term}]);
            let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": terms});
            json!({"affinity": {"podAntiAffinity": preferred}})
        };
        let nodes = |value: &str| {
            let terms = json!([{"matchExpressions": requirement(value)}]);
            let required = json!({"nodeSelectorTerms": terms});
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            json!({"affinity": {"nodeAffinity": affinity}})
        };
        let spread = |label: &str| {
            json!({"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": label}},
            }]})
        };
        let pages = |amount: &str| {
            let amounts = json!({"cpu": "1", "hugepages-2Mi": amount});
            let resources = json!({"requests": amounts, "limits": amounts});
            json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
        };
        let token = |path: &str| {
            let token = json!({"path": path, "expirationSeconds": 3600});
            let sources = json!([{"serviceAccountToken": token}]);
            json!({"volumes": [{"name": "v", "projected": {"sources": sources}}]})
        };
        let sysctl = |name: &str| {
            let sysctls = json!([{"name": name, "value": "1"}]);
            json!({"hostNetwork": true, "securityContext": {"sysctls": sysctls}})
        };
        vec![
            (affinity("v"), affinity("-v-")),
            (nodes("v"), nodes("-v-")),
            (spread("b"), spread("-b-")),
            (pages("2Mi"), pages("3Mi")),
            (token("t"), token("../t")),
            (sysctl("kernel.msgmax"), sysctl("net.core.somaxconn")),
        ]
    }

    /// API-146: an update of a template may keep values that are invalid today.
    #[test]
    fn templates_keep_formerly_valid_values() {
        let deployment = |spec: &Value, replicas: u32| {
            json!({"metadata": {"name": "d"}, "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"a": "b"}},
                "template": template(spec.clone()),
            }})
        };
        for (good, bad) in parts() {
            let errors = |stored: &Value, changed: &Value| {
                let (stored, changed) = (deployment(stored, 1), deployment(changed, 2));
                errors("apps.v1.Deployment", &stored, &changed)
            };
            assert_eq!(errors(&bad, &bad), [""; 0], "{bad}");
            assert_eq!(errors(&good, &good), [""; 0], "{good}");
            assert_ne!(errors(&good, &bad), [""; 0], "{bad}");
            let mut worse = bad.clone();
            worse["restartPolicy"] = "Sometimes".into();
            assert_eq!(errors(&bad, &worse).len(), 2, "{bad}");
        }
    }

    /// API-146: a request keeps usages and conditions that were valid once, through each endpoint.
    #[test]
    fn requests_for_certificates_keep_formerly_valid_values() {
        let mut rows = built_in().into_iter();
        let of = "certificates.v1.CertificateSigningRequest";
        let row = rows.find(|row| row.object_type().name() == of).unwrap();
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let request = |usages: Value, conditions: Value| {
            let spec = json!({"signerName": "e.com/s", "usages": usages, "request": "eA=="});
            let document = json!({"spec": spec, "status": {"conditions": conditions}});
            object(&document, &row)
        };
        let good = request(json!(["client auth"]), json!([]));
        let kind = &row.behaviour;
        let beginning = ErrorList::of(|errors| kind.validate(&good, errors));
        let beginning = beginning.kept();
        assert_eq!(beginning.len(), 1, "only its PEM is wrong: {beginning:?}");
        let mut endpoints = vec![""];
        endpoints.extend(row.subresources.iter().map(|part| part.name.as_str()));
        assert_eq!(endpoints, ["", "approval", "status"]);
        for bad in [
            request(json!(["surfing"]), json!([])),
            request(json!(["client auth", "client auth"]), json!([])),
            request(json!(["any"]), json!([condition("A"), condition("A")])),
            request(json!(["any"]), json!([condition("")])),
            request(
                json!(["any"]),
                json!([condition("Approved"), condition("Denied")]),
            ),
        ] {
            for endpoint in &endpoints {
                let change = |errors: &mut ErrorList| {
                    kind.validate_update(endpoint, &bad, &bad, errors);
                };
                let of_bad = |errors: &mut ErrorList| kind.validate(&bad, errors);
                let of_good = |errors: &mut ErrorList| kind.validate(&good, errors);
                let ratchets = kind.ratchets();
                assert_eq!(ErrorList::of(change).kept().len(), 2);
                assert_eq!(
                    ErrorList::ratcheted(ratchets, change, of_bad).kept(),
                    beginning
                );
                assert_eq!(
                    ErrorList::ratcheted(ratchets, of_bad, of_good).kept().len(),
                    2
                );
            }
        }
    }

    /// API-146: an update of a selector may keep invalid label values.
    #[test]
    fn selectors_keep_formerly_valid_values() {
        let selector = |value: &str| json!({"matchExpressions": requirement(value)});
        let budget = |value: &str| {
            json!({"metadata": {"name": "b"}, "spec": {"selector": selector(value),
                "minAvailable": 1}})
        };
        let policy = |value: &str| {
            json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{
                "from": [{"namespaceSelector": selector(value)}]}]}})
        };
        let hooks = |value: &str| {
            json!({"metadata": {"name": "h"}, "webhooks": [{
                "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://a.example.com"},
                "objectSelector": selector(value),
            }]})
        };
        let of_hooks = "admissionregistration.v1.ValidatingWebhookConfiguration";
        type Body<'b> = &'b dyn Fn(&str) -> Value;
        let kinds = [
            ("policy.v1.PodDisruptionBudget", &budget as Body<'_>),
            ("networking.v1.NetworkPolicy", &policy),
            (of_hooks, &hooks),
        ];
        for (of, body) in kinds {
            assert_eq!(errors(of, &body("-v-"), &body("-w-")), [""; 0], "{of}");
            assert_eq!(errors(of, &body("v"), &body("-v-")).len(), 1, "{of}");
        }
    }

    /// API-146: an update of webhooks may keep unknown review versions and duplicate names.
    #[test]
    fn webhooks_keep_the_versions_and_the_names_that_they_have() {
        let hooks = |name: &str, version: &str| {
            let hook = |name: &str| {
                json!({
                    "name": name, "sideEffects": "None", "admissionReviewVersions": [version],
                    "clientConfig": {"url": "https://a.example.com"},
                })
            };
            json!({"metadata": {"name": "h"}, "webhooks": [hook("a.example.com"), hook(name)]})
        };
        let errors = |stored: &Value, changed: &Value| {
            errors(
                "admissionregistration.v1.MutatingWebhookConfiguration",
                stored,
                changed,
            )
        };
        let (good, twice) = (hooks("b.example.com", "v1"), hooks("a.example.com", "v1"));
        let unknown = hooks("b.example.com", "v0");
        assert_eq!(errors(&twice, &twice), [""; 0]);
        assert_eq!(errors(&good, &twice).len(), 1);
        assert_eq!(errors(&unknown, &unknown), [""; 0]);
        assert_eq!(errors(&good, &unknown).len(), 2);
    }

    /// API-146: an update of a claim may keep groups of data sources that were not validated in the
    /// past.
    #[test]
    fn claims_keep_groups_whose_form_was_not_looked_at() {
        let claim = |group: &str| {
            let source = json!({"apiGroup": group, "kind": "K", "name": "n"});
            json!({"metadata": {"name": "c"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "dataSource": source, "dataSourceRef": source,
                "resources": {"requests": {"storage": "1Gi"}},
            }})
        };
        let of = "core.v1.PersistentVolumeClaim";
        assert_eq!(errors(of, &claim("-a-"), &claim("-a-")), [""; 0]);
    }
}
