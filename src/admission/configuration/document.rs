//! The documents of a configuration: their kinds, and how they are decoded (HK-98). Pure.

use std::sync::LazyLock;

use serde_json::Value;

use crate::api::field_validation::strict_decoding_error;
use crate::api::text::quoting::go_quote;
use crate::documents::{KindAndVersion, Tree, types};
use crate::schema::{ObjectType, SharedSchema};

static TYPES: LazyLock<SharedSchema> = LazyLock::new(|| types(include_str!("types.txt")));

/// A kind of document.
pub(super) struct DocumentKind {
    /// Its names, each with the versions in which it has it. The first one is the usual one.
    names: &'static [(&'static str, &'static [&'static str])],
    /// Its type.
    of: &'static str,
}

const V1: &[&str] = &["apiserver.config.k8s.io/v1"];

/// The file as a whole.
pub(super) static ADMISSION: DocumentKind = DocumentKind {
    names: &[(
        "AdmissionConfiguration",
        &["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"],
    )],
    of: "AdmissionConfiguration",
};

/// The configuration of both plugins for webhooks.
pub(super) static WEBHOOKS: DocumentKind = DocumentKind {
    names: &[("WebhookAdmissionConfiguration", V1)],
    of: "WebhookAdmission",
};

/// The configuration of ValidatingAdmissionPolicy.
pub(super) static VALIDATING_POLICIES: DocumentKind = DocumentKind {
    names: &[("ValidatingAdmissionPolicyConfiguration", V1)],
    of: "ValidatingAdmissionPolicyConfiguration",
};

/// The configuration of MutatingAdmissionPolicy.
pub(super) static MUTATING_POLICIES: DocumentKind = DocumentKind {
    names: &[("MutatingAdmissionPolicyConfiguration", V1)],
    of: "MutatingAdmissionPolicyConfiguration",
};

/// The configuration of PodSecurity.
pub(super) static POD_SECURITY: DocumentKind = DocumentKind {
    names: &[(
        "PodSecurityConfiguration",
        &[
            "pod-security.admission.config.k8s.io/v1",
            "pod-security.admission.config.k8s.io/v1beta1",
            "pod-security.admission.config.k8s.io/v1alpha1",
        ],
    )],
    of: "PodSecurityConfiguration",
};

/// The configuration of ResourceQuota.
pub(super) static RESOURCE_QUOTA: DocumentKind = DocumentKind {
    names: &[
        ("ResourceQuotaConfiguration", V1),
        (
            "Configuration",
            &[
                "resourcequota.admission.k8s.io/v1beta1",
                "resourcequota.admission.k8s.io/v1alpha1",
            ],
        ),
    ],
    of: "Configuration",
};

impl DocumentKind {
    /// Reads a text strictly.
    ///
    /// # Errors
    /// The fault.
    pub(super) fn read(&self, text: &[u8]) -> Result<Value, String> {
        let tree = Tree::of_file(text);
        self.typed(tree.map_err(|why| format!("it is neither YAML nor JSON: {why}"))?)
    }

    /// Reads a tree strictly.
    ///
    /// # Errors
    /// The fault.
    pub(super) fn typed(&self, tree: Tree) -> Result<Value, String> {
        self.check(&tree.kind_and_version()?)?;
        let document = tree.typed(&self.object_type())?;
        match document.faults.is_empty() {
            true => Ok(document.value),
            false => Err(strict_decoding_error(&document.faults)),
        }
    }

    fn check(&self, KindAndVersion { kind, api_version }: &KindAndVersion) -> Result<(), String> {
        let mut names = self.names.iter();
        // linear: a document has two names at most.
        let is_known =
            names.any(|(name, versions)| name == kind && versions.contains(&api_version.as_str()));
        if is_known {
            return Ok(());
        }
        let expected = self.names.first().map(|(name, versions)| {
            let version = versions.first().copied().unwrap_or_default();
            format!("; it must be of kind {name} and apiVersion {version}")
        });
        let problem = match (kind.is_empty(), api_version.is_empty()) {
            (true, _) => "Object 'Kind' is missing".to_owned(),
            (_, true) => "Object 'apiVersion' is missing".to_owned(),
            _ => format!(
                "no kind {} is registered for version {}",
                go_quote(kind),
                go_quote(api_version)
            ),
        };
        Err(problem + &expected.unwrap_or_default())
    }

    fn object_type(&self) -> ObjectType {
        TYPES.object_type(&format!("apiserver.v1.{}", self.of))
    }

    #[cfg(test)]
    pub(super) fn is_found(&self) -> bool {
        self.object_type().found().is_some()
    }
}
