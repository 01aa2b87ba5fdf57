//! Ratcheting: what an object may keep that is refused of new ones (http.md 6.2).
//!
//! Rules became stricter over time, and values that were stored before are still there. An object
//! with such a value can be updated. Kubernetes asks each stored object whether it breaks a rule,
//! and if it does, doesn't apply the rule to the changed object. So a rule is known here by its
//! faults.

use api::error_list::Ratchet;
use api::field_error::{FieldError, FieldErrorKind};

const DELETION_COST: &str = "annotations[controller.kubernetes.io/pod-deletion-cost]";
const REQUIRED_TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[";

/// Of pods, and of what has a template for pods.
pub const PODS: &[Ratchet] = &[
    Ratchet::any(|fault| is_selector_value(fault) && fault.path.contains("ffinity.")),
    Ratchet::any(|fault| is_value(fault) && fault.path.contains(REQUIRED_TERMS)),
    Ratchet::any(|fault| is_of_constraint(fault, ".labelSelector")),
    Ratchet::any(|fault| is_of_constraint(fault, ".matchLabelKeys")),
    Ratchet::any(|fault| {
        fault
            .detail
            .contains(" is not positive integer multiple of ")
    }),
    Ratchet::any(|fault| {
        // The path of a token is reported as that of its volume.
        let is_path = fault.path.ends_with(".projected.path");
        is_path && fault.detail.starts_with("must ")
    }),
    Ratchet::any(|fault| {
        let is_of_host = fault.detail.starts_with("may not be specified when 'host");
        is_of_host && fault.path.contains(".sysctls[")
    }),
    Ratchet::any(|fault| fault.path.ends_with(DELETION_COST)),
];

/// Of what has label selectors of its own: claims, budgets, policies of networks.
pub const SELECTORS: &[Ratchet] = &[Ratchet::any(is_selector_value)];

/// Of volumes.
pub const VOLUMES: &[Ratchet] = &[Ratchet::any(|fault| {
    is_value(fault) && fault.path.starts_with("spec.nodeAffinity.required.")
})];

/// Of autoscalers.
pub const AUTOSCALERS: &[Ratchet] = &[Ratchet::any(|fault| {
    fault.path.ends_with(".describedObject.apiVersion")
})];

/// Of configurations of webhooks.
pub const WEBHOOKS: &[Ratchet] = &[
    Ratchet::any(is_selector_value),
    Ratchet::any(|fault| fault.path.ends_with(".admissionReviewVersions")),
    Ratchet::any(|fault| {
        let is_name = fault.path.ends_with("].name");
        is_name && fault.kind == FieldErrorKind::Duplicate
    }),
    Ratchet::same(|fault| fault.path.contains(".matchConditions[")),
];

/// Of policies of admission.
pub const POLICIES: &[Ratchet] = &[
    Ratchet::any(is_selector_value),
    Ratchet::same(|fault| {
        fault.path.ends_with("xpression") || fault.path.contains(".matchConditions[")
    }),
];

/// Of requests for certificates. A certificate that was issued is never changed.
pub const CERTIFICATE_REQUESTS: &[Ratchet] = &[
    Ratchet::any(|fault| is_usage(fault) && fault.kind == FieldErrorKind::NotSupported),
    Ratchet::any(|fault| is_usage(fault) && fault.kind == FieldErrorKind::Duplicate),
    Ratchet::any(|fault| is_condition_type(fault) && fault.kind == FieldErrorKind::Required),
    Ratchet::any(|fault| is_condition_type(fault) && fault.kind == FieldErrorKind::Duplicate),
    Ratchet::any(|fault| {
        let is_of_list = fault.path == "status.conditions";
        is_of_list && fault.kind == FieldErrorKind::Invalid
    }),
    Ratchet::any(|fault| {
        let is_certificate = fault.path == "status.certificate";
        is_certificate && fault.kind == FieldErrorKind::Invalid
    }),
];

fn is_usage(fault: &FieldError) -> bool {
    fault.path.starts_with("spec.usages[")
}

fn is_condition_type(fault: &FieldError) -> bool {
    fault.path.starts_with("status.conditions[") && fault.path.ends_with("].type")
}

/// Whether the fault is that of a value in a list of requirements.
fn is_value(fault: &FieldError) -> bool {
    let last = fault.path.rsplit('.').next();
    let is_item = last.is_some_and(|last| last.starts_with("values["));
    is_item && fault.path.contains(".matchExpressions[")
}

fn is_selector_value(fault: &FieldError) -> bool {
    is_value(fault) && fault.path.contains("elector.matchExpressions[")
}

fn is_of_constraint(fault: &FieldError, part: &str) -> bool {
    let constraint = fault.path.split_once(".topologySpreadConstraints[");
    constraint.is_some_and(|(_, below)| below.contains(part))
}

#[cfg(test)]
mod tests {
    use api::error_list::ErrorList;
    use api::object::Object;
    use serde_json::{Value, json};

    use crate::definitions::built_in;

    fn object(value: &Value, defaults: Option<fn(&mut Object)>) -> Object {
        let mut object = Object::of(value.as_object().unwrap().clone());
        if let Some(defaults) = defaults {
            defaults(&mut object);
        }
        object
    }

    /// Adds the errors of a change, without those that may stay.
    fn errors(of: &str, stored: &Value, changed: &Value) -> Vec<String> {
        let mut rows = built_in().into_iter();
        let row = rows.find(|row| row.object_type.name == of).unwrap();
        let (stored, changed) = (object(stored, row.defaults), object(changed, row.defaults));
        let (update, create) = (row.update.validate.unwrap(), row.create.validate.unwrap());
        let errors = row.update.ratcheted(
            |errors| update(&changed, &stored, errors),
            |errors| create(&stored, errors),
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

    /// What a deployment has and keeps: a valid part, and one that is invalid today.
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

    /// API-146.
    #[test]
    fn templates_keep_what_was_valid_once() {
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

    /// API-146: a request keeps usages and conditions that were valid once, at each endpoint.
    #[test]
    fn requests_for_certificates_keep_what_was_valid_once() {
        let mut rows = built_in().into_iter();
        let of = "certificates.v1.CertificateSigningRequest";
        let row = rows.find(|row| row.object_type.name == of).unwrap();
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let request = |usages: Value, conditions: Value| {
            let spec = json!({"signerName": "e.com/s", "usages": usages, "request": "eA=="});
            let document = json!({"spec": spec, "status": {"conditions": conditions}});
            object(&document, None)
        };
        let good = request(json!(["client auth"]), json!([]));
        let create = row.create.validate.unwrap();
        let beginning = ErrorList::of(|errors| create(&good, errors));
        let beginning = beginning.kept();
        assert_eq!(beginning.len(), 1, "only its PEM is wrong: {beginning:?}");
        let mut strategies = vec![&row.update];
        strategies.extend(row.subresources.iter().map(|part| &part.update));
        assert_eq!(strategies.len(), 3);
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
            for strategy in &strategies {
                let update = strategy.validate.unwrap();
                let change = |errors: &mut ErrorList| update(&bad, &bad, errors);
                let of_bad = |errors: &mut ErrorList| create(&bad, errors);
                let of_good = |errors: &mut ErrorList| create(&good, errors);
                assert_eq!(ErrorList::of(change).kept().len(), 2);
                assert_eq!(strategy.ratcheted(change, of_bad).kept(), beginning);
                assert_eq!(strategy.ratcheted(of_bad, of_good).kept().len(), 2);
            }
        }
    }

    /// API-146.
    #[test]
    fn selectors_keep_what_was_valid_once() {
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

    /// API-146.
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

    /// API-146.
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
