//! The controllers that run in the daemon, in the notation of kube-controller-manager.

use std::fmt;
use std::str::FromStr;

use super::storage::{entries, joined};

/// A controller of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerName {
    /// It deletes the contents of deleted namespaces.
    Namespace,
    /// It deletes objects whose owners are gone.
    GarbageCollector,
    /// It gives aggregated ClusterRoles their rules.
    ClusterRoleAggregation,
    /// It creates the account `default` in each namespace.
    ServiceAccount,
    /// It creates the ConfigMap `kube-root-ca.crt` in each namespace.
    RootCaCertificatePublisher,
    /// It removes the finalizer of deleted claims that no pod uses.
    PersistentVolumeClaimProtection,
    /// It removes the finalizer of deleted volumes that are not bound.
    PersistentVolumeProtection,
    /// It removes the finalizer of deleted VolumeAttributesClasses that nothing names.
    VolumeAttributesClassProtection,
    /// It checks the expressions of ValidatingAdmissionPolicies by types.
    ValidatingAdmissionPolicyStatus,
}

impl ControllerName {
    /// The controller with this name. Kubernetes has a long and an older, short name for each.
    fn of(name: &str) -> Option<ControllerName> {
        match name {
            "namespace-controller" | "namespace" => Some(ControllerName::Namespace),
            "garbage-collector-controller" | "garbage-collector" | "garbagecollector" => {
                Some(ControllerName::GarbageCollector)
            }
            "clusterrole-aggregation-controller" | "clusterrole-aggregation" => {
                Some(ControllerName::ClusterRoleAggregation)
            }
            "serviceaccount-controller" | "serviceaccount" => Some(ControllerName::ServiceAccount),
            "root-ca-certificate-publisher-controller" | "root-ca-cert-publisher" => {
                Some(ControllerName::RootCaCertificatePublisher)
            }
            "persistentvolumeclaim-protection-controller" | "pvc-protection" => {
                Some(ControllerName::PersistentVolumeClaimProtection)
            }
            "persistentvolume-protection-controller" | "pv-protection" => {
                Some(ControllerName::PersistentVolumeProtection)
            }
            "volumeattributesclass-protection-controller" => {
                Some(ControllerName::VolumeAttributesClassProtection)
            }
            "validatingadmissionpolicy-status-controller" => {
                Some(ControllerName::ValidatingAdmissionPolicyStatus)
            }
            _ => None,
        }
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ControllerName::Namespace => "namespace-controller",
            ControllerName::GarbageCollector => "garbage-collector-controller",
            ControllerName::ClusterRoleAggregation => "clusterrole-aggregation-controller",
            ControllerName::ServiceAccount => "serviceaccount-controller",
            ControllerName::RootCaCertificatePublisher => {
                "root-ca-certificate-publisher-controller"
            }
            ControllerName::PersistentVolumeClaimProtection => {
                "persistentvolumeclaim-protection-controller"
            }
            ControllerName::PersistentVolumeProtection => "persistentvolume-protection-controller",
            ControllerName::VolumeAttributesClassProtection => {
                "volumeattributesclass-protection-controller"
            }
            ControllerName::ValidatingAdmissionPolicyStatus => {
                "validatingadmissionpolicy-status-controller"
            }
        })
    }
}

/// One entry of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// `*`
    All,
    /// `name`
    On(ControllerName),
    /// `-name`
    Off(ControllerName),
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::All => formatter.write_str("*"),
            Choice::On(name) => write!(formatter, "{name}"),
            Choice::Off(name) => write!(formatter, "-{name}"),
        }
    }
}

/// `*`, `name` and `-name`, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<Choice>);

impl Controllers {
    /// Whether a controller runs. Its first entry decides, and `*` if it has none.
    pub fn runs(&self, name: ControllerName) -> bool {
        let own = self.0.iter().find_map(|choice| match choice {
            Choice::On(own) if *own == name => Some(true),
            Choice::Off(own) if *own == name => Some(false),
            _ => None,
        });
        own.unwrap_or_else(|| self.0.contains(&Choice::All))
    }
}

impl Default for Controllers {
    fn default() -> Controllers {
        Controllers(vec![Choice::All])
    }
}

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Controllers, String> {
        let choices = entries(text).map(|entry| {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            if entry == "*" {
                return Ok(Choice::All);
            }
            let known = ControllerName::of(name);
            let known = known.ok_or_else(|| {
                format!(
                    "{name:?} is not in the list of known controllers: namespace-controller, \
                     garbage-collector-controller, clusterrole-aggregation-controller, \
                     serviceaccount-controller, \
                     root-ca-certificate-publisher-controller, \
                     persistentvolumeclaim-protection-controller, \
                     persistentvolume-protection-controller, \
                     volumeattributesclass-protection-controller, \
                     validatingadmissionpolicy-status-controller"
                )
            })?;
            Ok(match entry.starts_with('-') {
                true => Choice::Off(known),
                false => Choice::On(known),
            })
        });
        choices.collect::<Result<_, String>>().map(Controllers)
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(&self.0, Choice::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(text: &str) -> (bool, bool) {
        let controllers: Controllers = text.parse().unwrap();
        let again: Controllers = controllers.to_string().parse().unwrap();
        assert_eq!(again, controllers);
        (
            controllers.runs(ControllerName::Namespace),
            controllers.runs(ControllerName::GarbageCollector),
        )
    }

    #[test]
    fn the_first_word_about_a_controller_counts_and_the_star_stands_for_the_others() {
        assert_eq!(running("*"), (true, true));
        assert_eq!(running("*,-garbage-collector"), (true, false));
        assert_eq!(running("-namespace,*"), (false, true));
        assert_eq!(running("-namespace,-garbage-collector"), (false, false));
        assert_eq!(running("garbagecollector"), (false, true));
        assert_eq!(running("-namespace-controller"), (false, false));
        assert_eq!(
            running("garbage-collector-controller,-garbage-collector"),
            (false, true)
        );
        assert_eq!(running(""), (false, false));
        assert_eq!(Controllers::default().to_string(), "*");
        let unknown = "*,-nodes".parse::<Controllers>().unwrap_err();
        assert!(
            unknown.starts_with("\"nodes\" is not in the list"),
            "{unknown}"
        );
    }
}
