//! The names of admission plugins, as in the flags of kube-apiserver.

use std::fmt;
use std::str::FromStr;

use super::storage::entries;

/// A plugin of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPluginName {
    /// Its name.
    pub name: &'static str,
    /// Whether it runs in kube-apiserver by default.
    pub is_usual: bool,
    /// Whether it is built here.
    pub is_built: bool,
}

const fn usual(name: &'static str) -> AdmissionPluginName {
    AdmissionPluginName {
        name,
        is_usual: true,
        is_built: true,
    }
}

const fn on_demand(name: &'static str) -> AdmissionPluginName {
    AdmissionPluginName {
        name,
        is_usual: false,
        is_built: true,
    }
}

const fn unbuilt(name: &'static str, is_usual: bool) -> AdmissionPluginName {
    AdmissionPluginName {
        name,
        is_usual,
        is_built: false,
    }
}

/// The plugins of kube-apiserver 1.36, in the order in which they run.
pub const ADMISSION_PLUGINS: [AdmissionPluginName; 41] = [
    unbuilt("AlwaysAdmit", false),
    unbuilt("NamespaceAutoProvision", false),
    usual("NamespaceLifecycle"),
    unbuilt("NamespaceExists", false),
    unbuilt("LimitPodHardAntiAffinityTopology", false),
    usual("LimitRanger"),
    usual(SERVICE_ACCOUNT),
    on_demand("NodeRestriction"),
    usual("TaintNodesByCondition"),
    unbuilt("AlwaysPullImages", false),
    unbuilt("ImagePolicyWebhook", false),
    usual("PodSecurity"),
    unbuilt("PodNodeSelector", false),
    usual("Priority"),
    usual("DefaultTolerationSeconds"),
    unbuilt("PodTolerationRestriction", false),
    unbuilt("EventRateLimit", false),
    unbuilt("ExtendedResourceToleration", false),
    usual("DefaultStorageClass"),
    usual(VOLUME_PROTECTION),
    unbuilt("PodGroupProtection", true),
    unbuilt("OwnerReferencesPermissionEnforcement", false),
    usual("PersistentVolumeClaimResize"),
    usual("RuntimeClass"),
    usual("CertificateApproval"),
    usual("CertificateSigning"),
    unbuilt("ClusterTrustBundleAttest", true),
    usual("CertificateSubjectRestriction"),
    usual("DefaultIngressClass"),
    unbuilt("DenyServiceExternalIPs", false),
    usual("PodTopologyLabels"),
    unbuilt("PodGroupWorkloadExists", true),
    usual("NodeDeclaredFeatureValidator"),
    unbuilt("JobValidation", true),
    usual("PodResizeValidator"),
    usual("MutatingAdmissionPolicy"),
    usual("MutatingAdmissionWebhook"),
    usual("ValidatingAdmissionPolicy"),
    usual("ValidatingAdmissionWebhook"),
    usual("ResourceQuota"),
    unbuilt("AlwaysDeny", false),
];

/// Needs an account in every namespace.
pub const SERVICE_ACCOUNT: &str = "ServiceAccount";

/// Needs controllers that remove its finalizers.
pub const VOLUME_PROTECTION: &str = "StorageObjectInUseProtection";

/// Names of plugins, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionPlugins(pub Vec<AdmissionPluginName>);

impl AdmissionPlugins {
    /// Whether the list has this plugin.
    pub fn names(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.name == name)
    }

    /// The names that both lists have, in the order of Go's sets.
    pub fn overlap(&self, other: &AdmissionPlugins) -> Vec<&'static str> {
        let both = self.0.iter().filter(|known| other.0.contains(known));
        let mut both: Vec<&str> = both.map(|known| known.name).collect();
        both.sort_unstable();
        both.dedup();
        both
    }

    /// The plugins that are listed and not built here.
    pub fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        let unbuilt = self.0.iter().filter(|known| !known.is_built);
        unbuilt.map(|known| known.name)
    }
}

/// The plugins that run, in order: the default ones and those that are enabled, without those that
/// are disabled.
pub fn running_plugins(
    enabled: &AdmissionPlugins,
    disabled: &AdmissionPlugins,
) -> Vec<&'static str> {
    let runs = |known: &&AdmissionPluginName| {
        let is_wanted = known.is_usual || enabled.names(known.name);
        known.is_built && is_wanted && !disabled.names(known.name)
    };
    let running = ADMISSION_PLUGINS.iter().filter(runs);
    running.map(|known| known.name).collect()
}

impl FromStr for AdmissionPlugins {
    type Err = String;

    fn from_str(text: &str) -> Result<AdmissionPlugins, String> {
        let known = |name: &str| {
            let mut all = ADMISSION_PLUGINS.iter();
            let found = all.find(|known| known.name == name).copied();
            found.ok_or_else(|| format!("plugin {name:?} is unknown"))
        };
        entries(text)
            .map(known)
            .collect::<Result<_, String>>()
            .map(AdmissionPlugins)
    }
}

impl fmt::Display for AdmissionPlugins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|known| known.name).collect();
        formatter.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins(text: &str) -> AdmissionPlugins {
        text.parse().unwrap()
    }

    #[test]
    fn lists_are_those_of_kube_apiserver_in_any_order() {
        let some = plugins("Priority, LimitRanger");
        assert_eq!(some.to_string(), "Priority,LimitRanger");
        assert_eq!(plugins(""), AdmissionPlugins::default());
        let unknown = "Priority,Foo".parse::<AdmissionPlugins>();
        assert_eq!(unknown, Err("plugin \"Foo\" is unknown".to_owned()));
        let both = plugins("Priority,ResourceQuota,LimitRanger");
        assert_eq!(
            both.overlap(&plugins("LimitRanger,Priority")),
            ["LimitRanger", "Priority"]
        );
    }

    #[test]
    fn the_usual_plugins_run_and_some_only_when_they_are_asked_for() {
        let (nothing, nodes) = (AdmissionPlugins::default(), plugins("NodeRestriction"));
        let usual = running_plugins(&nothing, &nothing);
        assert!(usual.contains(&"Priority"));
        assert!(usual.contains(&SERVICE_ACCOUNT) && usual.contains(&VOLUME_PROTECTION));
        assert!(!usual.contains(&"NodeRestriction"));
        let asked = running_plugins(&nodes, &plugins("Priority"));
        assert!(!asked.contains(&"Priority") && asked.contains(&"NodeRestriction"));
        let unbuilt = plugins("EventRateLimit,Priority");
        assert!(!running_plugins(&unbuilt, &nothing).contains(&"EventRateLimit"));
        assert_eq!(
            unbuilt.without_effect().collect::<Vec<_>>(),
            ["EventRateLimit"]
        );
    }

    #[test]
    fn each_name_is_there_once() {
        let mut names: Vec<&str> = ADMISSION_PLUGINS.iter().map(|known| known.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ADMISSION_PLUGINS.len());
    }
}
