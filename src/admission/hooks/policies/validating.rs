//! Policies that may refuse a write after its validation (HK-51 to HK-63).

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use futures_util::FutureExt;
use serde::Serialize;

use super::definition::{BindingSpec, ValidationAction};
use super::facts::{Common, Forms};
use super::invocations::{Candidate, Policies};
use super::metrics::{Checked, ErrorType, validated_as};
use super::params::{self, Collected, ParamObjects};
use super::refusal::Refusal;
use super::validation::{Annotation, Decision, Validated, validate};
use super::{Binding, PolicySources};
use crate::admission::hooks::answers::OfUser;
use crate::admission::hooks::matching::RequestLabels;
use crate::admission::hooks::measured_conditions::{ConditionLabels, HookKind};
use crate::admission::hooks::namespace_of;
use crate::admission::hooks::scope::Turns;
use crate::admission::hooks::settings::FailurePolicy;
use crate::admission::hooks::shown::AskedIn;
use crate::admission::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::go_json;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::telemetry::expressions;

/// The most bytes of the value of an audit annotation (HK-59).
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// The most bytes of all values of one annotation. Further ones are left out.
const MAX_JOINED_BYTES: usize = 256 * 1024;

/// The annotation of the first validation that fails (HK-97).
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The plugin ValidatingAdmissionPolicy.
pub struct ValidatingPolicies(Policies);

impl ValidatingPolicies {
    /// Creates the plugin.
    pub fn new(sources: PolicySources) -> ValidatingPolicies {
        ValidatingPolicies(Policies::new(sources))
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let candidates = self.0.candidates(attributes, object).await?;
        if candidates.list.is_empty() {
            return Ok(());
        }
        let labels = RequestLabels::of(attributes, object, &candidates.namespace);
        let mut candidates = candidates.list.for_labels(&labels).peekable();
        if candidates.peek().is_none() {
            return Ok(());
        }
        let mut check = Check {
            policies: &self.0,
            sources: &self.0.sources,
            attributes,
            labels,
            forms: Forms::new(attributes, object),
            common: Common::new(attributes),
            collected: Collected::default(),
            turns: Turns::default(),
            asker: OfUser {
                authorizer: &*self.0.sources.authorizer,
                user: attributes.user,
            },
            refusal: None,
            has_noted: false,
        };
        for candidate in candidates {
            check.policy(candidate).await?;
        }
        match check.refusal {
            Some(refusal) => Err(refusal.into_status(attributes, object)),
            None => Ok(()),
        }
    }
}

/// A check of one request by all policies.
struct Check<'a> {
    policies: &'a Policies,
    sources: &'a PolicySources,
    attributes: &'a Attributes<'a>,
    labels: RequestLabels<'a>,
    forms: Forms<'a>,
    common: Common,
    collected: Collected,
    turns: Turns,
    asker: OfUser<'a>,
    /// The first refusal. The client sees no other one.
    refusal: Option<Refusal>,
    /// Whether the first validation that fails was noted for the audit events.
    has_noted: bool,
}

/// The values of a policy's audit annotations, by key.
type Values = BTreeMap<String, Joined>;

/// The different values of an annotation.
#[derive(Default)]
struct Joined {
    text: String,
    known: HashSet<String>,
}

impl Joined {
    /// Adds a value, unless it is known or the text is too long already.
    fn add(&mut self, mut value: String) {
        value.truncate(value.floor_char_boundary(MAX_ANNOTATION_BYTES));
        if self.text.len() + value.len() > MAX_JOINED_BYTES || self.known.contains(&value) {
            return;
        }
        if !self.known.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(&value);
        self.known.insert(value);
    }
}

impl<'a> Check<'a> {
    async fn policy(&mut self, candidate: &Candidate) -> Result<(), Box<Status>> {
        let spec = &candidate.policy.spec;
        let matched = candidate.matched(self.attributes, &self.labels);
        let asked_in = match matched {
            Ok(Some(asked_in)) => asked_in,
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(candidate, None, &status.message);
                return Ok(());
            }
        };
        let parameters = &*self.sources.parameters;
        let objects = match params::find(parameters, spec.param_kind.as_ref()) {
            Ok(objects) => objects,
            Err(why) => {
                self.misconfigured(candidate, None, &why);
                return Ok(());
            }
        };
        let mut values = Values::new();
        for (name, binding) in &candidate.bindings {
            let bound = Bound {
                candidate,
                name,
                binding: &binding.spec,
                objects: objects.as_ref(),
                asked_in: &asked_in,
            };
            self.binding(&bound, binding, &mut values).await?;
        }
        for (key, values) in values {
            let name = format!("{}/{key}", candidate.name);
            self.attributes.annotate_by_hook(name, || values.text);
        }
        Ok(())
    }

    async fn binding(
        &mut self,
        bound: &Bound<'_>,
        binding: &Binding,
        values: &mut Values,
    ) -> Result<(), Box<Status>> {
        let Bound {
            candidate, name, ..
        } = *bound;
        let (attributes, namespaces) = (self.attributes, &*self.sources.namespaces);
        if let Some(resources) = &binding.spec.match_resources {
            match resources.are_for(attributes, &self.labels) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(status) => {
                    self.misconfigured(candidate, Some(name), &status.message);
                    return Ok(());
                }
            }
        }
        let param_ref = binding.spec.param_ref.as_ref();
        let namespace = namespace_of(attributes);
        let kind = candidate.policy.spec.param_kind.as_ref();
        let collecting = self.collected.of(bound.objects, kind, param_ref, namespace);
        let parameters = match collecting.await {
            Ok(parameters) => parameters,
            Err(why) => {
                self.misconfigured(candidate, Some(name), &why);
                return Ok(());
            }
        };
        let compiled = candidate.policy.compiled();
        if compiled.names_namespace {
            self.common.read_namespace(attributes, namespaces).await?;
        }
        let labels = ConditionLabels {
            name: &candidate.name,
            kind: HookKind::Policy,
            operation: attributes.operation.name(),
        };
        let fields = compiled.names_managed_fields;
        let form = match self.forms.of(bound.asked_in, fields).await {
            Ok(form) => form,
            Err(why) => {
                let why = format!("failed to convert object version: {why}");
                self.misconfigured(candidate, Some(name), &why);
                return Ok(());
            }
        };
        for parameter in &parameters {
            self.turns.next().await;
            let began = Instant::now();
            let facts = self.common.facts(
                form.object.as_deref(),
                form.old_object.as_deref(),
                &form.request,
                parameter,
            );
            let (spec, asker) = (&candidate.policy.spec, &self.asker);
            let validated = validate(spec, compiled, facts, asker, &labels).await;
            expressions::evaluated(began.elapsed());
            self.obey(bound, validated, values);
        }
        Ok(())
    }

    /// Carries out what a binding says about failed validations (HK-56).
    fn obey(&mut self, bound: &Bound<'_>, validated: Validated, values: &mut Values) {
        let checked = bound.checked();
        for decision in validated.decisions {
            if decision.error != ErrorType::NoError {
                let policy = &bound.candidate.name;
                self.policies
                    .log_failed(policy, decision.error, &decision.message);
            }
            if !decision.is_denied {
                validated_as(checked, "allow", decision.error, decision.took);
                continue;
            }
            // kube-apiserver gives also ordinary refusals this type.
            let error = match decision.error {
                ErrorType::NoError => ErrorType::Invalid,
                other => other,
            };
            for action in &bound.binding.validation_actions {
                let name = match action {
                    ValidationAction::Deny => {
                        self.refuse(bound, &decision.message, &decision.reason);
                        "deny"
                    }
                    ValidationAction::Audit => {
                        self.note(bound, &decision);
                        "audit"
                    }
                    ValidationAction::Warn => {
                        self.warn(bound, &decision.message);
                        "warn"
                    }
                };
                validated_as(checked, name, error, decision.took);
            }
        }
        for annotation in validated.annotations {
            match annotation {
                Annotation::Publish { key, value } => values.entry(key).or_default().add(value),
                Annotation::Failed { message, error } => {
                    self.refuse(bound, &message, "");
                    validated_as(checked, "deny", error, std::time::Duration::ZERO);
                }
            }
        }
    }

    /// Refuses the request because of a configuration that can't be obeyed, unless its policy
    /// ignores that (HK-57).
    fn misconfigured(&mut self, candidate: &Candidate, binding: Option<&str>, why: &str) {
        if candidate.policy.spec.failure_policy == FailurePolicy::Ignore {
            return;
        }
        let what = match binding {
            None => "policy",
            Some(_) => "binding",
        };
        self.policies.log_unusable(&candidate.name, why);
        self.refusal.get_or_insert_with(|| Refusal {
            policy: candidate.name.to_string(),
            binding: binding.map(str::to_owned),
            message: format!("failed to configure {what}: {why}"),
            reason: String::new(),
        });
    }

    fn refuse(&mut self, bound: &Bound<'_>, message: &str, reason: &str) {
        self.refusal.get_or_insert_with(|| Refusal {
            policy: bound.candidate.name.to_string(),
            binding: Some(bound.name.to_owned()),
            message: message.to_owned(),
            reason: reason.to_owned(),
        });
    }

    fn warn(&self, bound: &Bound<'_>, message: &str) {
        // Headers can't have control characters.
        if !message.chars().any(char::is_control) {
            self.attributes.warnings.add(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                bound.candidate.name, bound.name
            ));
        }
    }

    /// Notes the first validation that fails for the audit events.
    fn note(&mut self, bound: &Bound<'_>, decision: &Decision) {
        if self.has_noted || self.attributes.annotations.is_none() {
            return;
        }
        self.has_noted = true;
        let actions = bound.binding.validation_actions.iter();
        let failure = Failure {
            message: &decision.message,
            policy: &bound.candidate.name,
            binding: bound.name,
            expression_index: decision.place,
            validation_actions: actions.map(|action| action.name()).collect(),
        };
        self.attributes.annotate(VALIDATION_FAILURE, || {
            let mut text = Vec::new();
            go_json::write_json(&mut text, &[failure]);
            String::from_utf8(text).unwrap_or_default()
        });
    }
}

/// A validation that fails, as audit events show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure<'f> {
    message: &'f str,
    policy: &'f str,
    binding: &'f str,
    expression_index: usize,
    validation_actions: Vec<&'static str>,
}

/// A policy with one of its bindings.
struct Bound<'b> {
    candidate: &'b Candidate,
    name: &'b str,
    binding: &'b BindingSpec,
    objects: Option<&'b ParamObjects>,
    asked_in: &'b AskedIn,
}

impl<'b> Bound<'b> {
    fn checked(&self) -> Checked<'b> {
        Checked {
            policy: &self.candidate.name,
            binding: self.name,
        }
    }
}

impl Plugin for ValidatingPolicies {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        self.0.handles(attributes)
    }

    fn waits(&self, attributes: &Attributes<'_>) -> bool {
        self.0.may_ask(attributes)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for ValidatingPolicies {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        self.check(attributes, object).boxed()
    }
}
