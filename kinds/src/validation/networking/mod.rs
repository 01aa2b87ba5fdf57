//! Validation of the kinds of `networking.k8s.io`: NetworkPolicies, Ingresses, IngressClasses,
//! IPAddresses and ServiceCIDRs.

mod classes;
mod ingresses;
mod policies;
mod ranges;

pub use classes::{validate_ingressclass, validate_ingressclass_update};
pub use ingresses::{validate_ingress, validate_ingress_status_update, validate_ingress_update};
pub use policies::{validate_networkpolicy, validate_networkpolicy_update};
pub use ranges::{
    validate_ipaddress, validate_ipaddress_update, validate_servicecidr,
    validate_servicecidr_update,
};

#[cfg(test)]
mod tests {
    use api::error_list::ErrorList;
    use api::object::Object;
    use api::schema::Empty;
    use serde_json::{Value, json};

    use super::*;
    use crate::defaults::networking::{ingressclass, networkpolicy};
    use crate::recorded::{Functions, check};

    /// As in kube-apiserver 1.36, the error shows an empty list as it was sent.
    #[test]
    fn an_error_shows_empty_rules_as_sent() {
        let row = crate::definitions::networking::ingresses();
        for (rules, shown) in [(json!([]), "[]"), (Value::Null, "null")] {
            let ingress = json!({"metadata": {"name": "i"}, "spec": {"rules": rules}});
            let mut object = Object::of(ingress.as_object().expect("an object").clone());
            row.canonicalize_with(&mut object, Empty::Distinguished);
            let errors: Vec<_> = ErrorList::of(|errors| validate_ingress(&object, errors))
                .iter()
                .map(ToString::to_string)
                .collect();
            let why = "either `defaultBackend` or `rules` must be specified";
            assert_eq!(errors, [format!("spec: Invalid value: {shown}: {why}")]);
        }
    }

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(
            include_str!("../../../recorded/networking.json"),
            |path| match path.rsplit('/').next() {
                Some("networkpolicies") => Functions {
                    defaults: Some(networkpolicy),
                    create: validate_networkpolicy,
                    update: Some(validate_networkpolicy_update),
                },
                Some("ingressclasses") => Functions {
                    defaults: Some(ingressclass),
                    create: validate_ingressclass,
                    update: Some(validate_ingressclass_update),
                },
                Some("ingresses") => Functions {
                    defaults: None,
                    create: validate_ingress,
                    update: Some(validate_ingress_update),
                },
                Some("status") => Functions {
                    defaults: None,
                    create: validate_ingress,
                    update: Some(validate_ingress_status_update),
                },
                Some("ipaddresses") => Functions {
                    defaults: None,
                    create: validate_ipaddress,
                    update: Some(validate_ipaddress_update),
                },
                _ => Functions {
                    defaults: None,
                    create: validate_servicecidr,
                    update: Some(validate_servicecidr_update),
                },
            },
        );
    }
}
