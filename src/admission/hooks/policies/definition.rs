//! Policies and bindings as they are stored. Pure.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::admission::hooks::conditions::ConditionText;
use crate::admission::hooks::matching::{HookSelectors, MatchPolicy, Rule};
use crate::admission::hooks::settings::{FailurePolicy, ReinvocationPolicy};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub failure_policy: FailurePolicy,
    pub match_constraints: MatchResources,
    pub param_kind: Option<ParamKind>,
    pub match_conditions: Vec<ConditionText>,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
    pub audit_annotations: Vec<AuditAnnotation>,
    pub mutations: Vec<Mutation>,
    pub reinvocation_policy: ReinvocationPolicy,
}

/// The requests that a policy or a binding is for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MatchResources {
    #[serde(flatten)]
    pub selectors: HookSelectors,
    pub resource_rules: Vec<Rule>,
    pub exclude_resource_rules: Vec<Rule>,
    pub match_policy: MatchPolicy,
}

/// The kind of the parameters of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

impl ParamKind {
    /// Reads the kind of a policy that is being written.
    pub(super) fn of(given: &Json) -> ParamKind {
        let text = |name: &str| given.get(name).and_then(Json::as_str);
        ParamKind {
            api_version: text("apiVersion").unwrap_or_default().to_owned(),
            kind: text("kind").unwrap_or_default().to_owned(),
        }
    }

    /// Returns the group and the version.
    pub(super) fn parts(&self) -> (&str, &str) {
        let split = self.api_version.split_once('/');
        split.unwrap_or(("", &self.api_version))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Variable {
    pub name: String,
    pub expression: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Validation {
    pub expression: Arc<str>,
    pub message: String,
    pub message_expression: Arc<str>,
    pub reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AuditAnnotation {
    pub key: String,
    pub value_expression: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Mutation {
    pub patch_type: String,
    pub apply_configuration: Patch,
    pub json_patch: Patch,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Patch {
    pub expression: Arc<str>,
}

/// A binding of a policy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Binding {
    pub(super) spec: BindingSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BindingSpec {
    pub policy_name: String,
    pub param_ref: Option<ParamRef>,
    pub match_resources: Option<MatchResources>,
    pub validation_actions: Vec<ValidationAction>,
}

/// The effect of a validation that does not hold (HK-56).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) enum ValidationAction {
    Deny,
    Warn,
    Audit,
}

impl ValidationAction {
    pub(super) fn name(self) -> &'static str {
        match self {
            ValidationAction::Deny => "Deny",
            ValidationAction::Warn => "Warn",
            ValidationAction::Audit => "Audit",
        }
    }
}

/// The parameters that a binding refers to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamRef {
    /// The name of one parameter. Empty with a selector.
    pub name: String,
    /// The namespace of the parameters. Empty for that of the request.
    pub namespace: String,
    /// Selects parameters by their labels.
    pub selector: Option<Json>,
    /// `Allow` or `Deny`.
    pub parameter_not_found_action: String,
}

impl Binding {
    /// Reads a stored binding.
    ///
    /// # Errors
    /// The text is not a binding.
    pub fn read(text: &[u8]) -> Result<Binding, serde_json::Error> {
        serde_json::from_slice(text)
    }
}
