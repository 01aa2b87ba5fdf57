//! Policies that may change an object before its validation (HK-29, HK-65 to HK-72).

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use serde_json::Value as Json;

use super::facts::{Common, document};
use super::invocations::{Candidate, Policies};
use super::metrics::{Checked, ErrorType, mutated_with};
use super::mutation::{Failed, mutate};
use super::params::{self, Collected};
use super::refusal::{PolicyError, failed};
use super::{PolicySources, has_object};
use crate::admission::hooks::answers::OfUser;
use crate::admission::hooks::conditions::Met;
use crate::admission::hooks::matching::RequestLabels;
use crate::admission::hooks::measured_conditions::{ConditionLabels, HookKind, evaluate};
use crate::admission::hooks::namespace_of;
use crate::admission::hooks::request::request;
use crate::admission::hooks::scope::Turns;
use crate::admission::hooks::settings::{FailurePolicy, ReinvocationPolicy};
use crate::admission::hooks::shown::{AskedIn, Form};
use crate::admission::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::Object;
use crate::api::status::Status;

const NAME: &str = "MutatingAdmissionPolicy";

/// The plugin MutatingAdmissionPolicy.
pub struct MutatingPolicies(Policies);

/// A policy with one of its bindings and one parameter.
struct Invocation<'i> {
    candidate: &'i Candidate,
    binding: &'i str,
    parameter: Arc<Json>,
    asked_in: AskedIn,
}

impl Invocation<'_> {
    /// Returns a name that no other invocation of a request has.
    fn unique_name(&self) -> String {
        let text = |name: &str| {
            let found = self.parameter.get("metadata").and_then(|of| of.get(name));
            found.and_then(Json::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        format!(
            "{}/{}/{namespace}/{name}",
            self.candidate.name, self.binding
        )
    }

    fn error(&self, message: String) -> PolicyError {
        PolicyError {
            policy: self.candidate.name.to_string(),
            binding: Some(self.binding.to_owned()),
            message,
            is_invalid: true,
        }
    }

    /// Returns the error of an object that can't be converted for the policy.
    fn unconverted(&self, why: &str) -> PolicyError {
        PolicyError {
            policy: self.candidate.name.to_string(),
            binding: None,
            message: format!("failed to configure policy: {why}"),
            is_invalid: false,
        }
    }
}

impl MutatingPolicies {
    /// Creates the plugin.
    pub fn new(sources: PolicySources) -> MutatingPolicies {
        MutatingPolicies(Policies::new(sources))
    }

    async fn mutate_all(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Box<Status>> {
        let candidates = self.0.candidates(attributes, Some(object)).await?;
        if candidates.list.is_empty() {
            return Ok(());
        }
        let labels = RequestLabels::of(attributes, Some(object), &candidates.namespace);
        let mut errors = Vec::new();
        let mut invocations = Vec::new();
        let mut collected = Collected::default();
        for candidate in candidates.list.for_labels(&labels) {
            let found =
                self.invocations(attributes, &labels, candidate, &mut collected, &mut errors);
            invocations.extend(found.await);
        }
        if invocations.is_empty() && errors.is_empty() {
            return Ok(());
        }
        if attributes.rounds.is_again() {
            let mut notes = attributes.rounds.reinvocations();
            notes.of(NAME).begin_again(object);
        }
        let mut run = Run {
            policies: &self.0,
            sources: &self.0.sources,
            attributes,
            common: Common::new(attributes),
            asker: OfUser {
                authorizer: &*self.0.sources.authorizer,
                user: attributes.user,
            },
            has_changed: false,
        };
        let mut turns = Turns::default();
        for invocation in &invocations {
            turns.next().await;
            let of_invocation = run.invoke(invocation, object).await?;
            if invocation.candidate.policy.spec.failure_policy == FailurePolicy::Fail {
                errors.extend(of_invocation);
            }
        }
        let mut notes = attributes.rounds.reinvocations();
        if run.has_changed {
            // Also the policy that has made the last change runs again, unlike a webhook.
            notes.of(NAME).changed();
        }
        notes.of(NAME).leave(object);
        drop(notes);
        match failed(&errors, attributes, Some(object)) {
            Some(status) => Err(status),
            None => Ok(()),
        }
    }

    /// Returns the bindings and parameters with which a policy is invoked. Errors of the
    /// configuration go into the list, unless the policy ignores them.
    async fn invocations<'i>(
        &self,
        attributes: &Attributes<'_>,
        labels: &RequestLabels<'_>,
        candidate: &'i Candidate,
        collected: &mut Collected,
        errors: &mut Vec<PolicyError>,
    ) -> Vec<Invocation<'i>> {
        let spec = &candidate.policy.spec;
        let mut misconfigured = |binding: Option<&str>, why: &str| {
            if spec.failure_policy == FailurePolicy::Ignore {
                return;
            }
            let what = if binding.is_some() {
                "binding"
            } else {
                "policy"
            };
            self.0.log_unusable(&candidate.name, why);
            errors.push(PolicyError {
                policy: candidate.name.to_string(),
                binding: binding.map(str::to_owned),
                message: format!("failed to configure {what}: {why}"),
                is_invalid: false,
            });
        };
        let mut invocations = Vec::new();
        let asked_in = match candidate.matched(attributes, labels) {
            Ok(Some(asked_in)) => asked_in,
            Ok(None) => return invocations,
            Err(status) => {
                misconfigured(None, &status.message);
                return invocations;
            }
        };
        let parameters = &*self.0.sources.parameters;
        let objects = match params::find(parameters, spec.param_kind.as_ref()) {
            Ok(objects) => objects,
            Err(why) => {
                misconfigured(None, &why);
                return invocations;
            }
        };
        for (name, binding) in &candidate.bindings {
            if let Some(resources) = &binding.spec.match_resources {
                match resources.are_for(attributes, labels) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(status) => {
                        misconfigured(Some(name), &status.message);
                        continue;
                    }
                }
            }
            let param_ref = binding.spec.param_ref.as_ref();
            let namespace = namespace_of(attributes);
            let kind = spec.param_kind.as_ref();
            let parameters = collected.of(objects.as_ref(), kind, param_ref, namespace);
            match parameters.await {
                Err(why) => misconfigured(Some(name), &why),
                Ok(parameters) => {
                    invocations.extend(parameters.into_iter().map(|parameter| Invocation {
                        candidate,
                        binding: name,
                        parameter,
                        asked_in: asked_in.clone(),
                    }));
                }
            }
        }
        invocations
    }
}

/// The invocations of one request.
struct Run<'a> {
    policies: &'a Policies,
    sources: &'a PolicySources,
    attributes: &'a Attributes<'a>,
    common: Common,
    asker: OfUser<'a>,
    /// Whether a policy has changed the object.
    has_changed: bool,
}

impl Run<'_> {
    /// Carries out the mutations of a policy in their order. Returns the errors of the policy.
    ///
    /// # Errors
    /// The request can't be carried out.
    async fn invoke(
        &mut self,
        invocation: &Invocation<'_>,
        object: &mut Object,
    ) -> Result<Vec<PolicyError>, Box<Status>> {
        let attributes = self.attributes;
        let spec = &invocation.candidate.policy.spec;
        let compiled = invocation.candidate.policy.compiled();
        if compiled.names_namespace {
            let namespaces = &*self.sources.namespaces;
            self.common.read_namespace(attributes, namespaces).await?;
        }
        let form = Form::new(attributes, &invocation.asked_in);
        let has_fields = compiled.names_managed_fields;
        let before = form.show(object).await;
        let old_object = form.show_any(attributes.old_object).await;
        let (before, old_object) = match (before, old_object) {
            (Ok(before), Ok(old_object)) => (before, old_object),
            (Err(why), _) | (_, Err(why)) => return Ok(vec![invocation.unconverted(&why)]),
        };
        let old_object = old_object.map(|old| document(old, has_fields));
        let request = Json::Object(request(attributes, &form));
        let whole = has_fields.then(|| before.clone().into_document());
        let facts = self.common.facts(
            Some(whole.as_ref().unwrap_or(&before.0)),
            old_object.as_ref(),
            &request,
            &invocation.parameter,
        );
        let of_policy = &compiled.conditions;
        let variables = &compiled.variables;
        let labels = ConditionLabels {
            name: &invocation.candidate.name,
            kind: HookKind::Policy,
            operation: attributes.operation.name(),
        };
        match evaluate(&labels, of_policy, variables, &facts, &self.asker).await {
            Met::All => {}
            Met::NotAll => return Ok(Vec::new()),
            Met::Failed(why) => return Ok(vec![invocation.error(why)]),
        }
        let unique_name = invocation.unique_name();
        let rounds = &attributes.rounds;
        if rounds.is_again() && !rounds.reinvocations().of(NAME).runs_again(&unique_name) {
            return Ok(Vec::new());
        }
        let mut errors = Vec::new();
        let mut current: Option<Object> = None;
        for mutation in &compiled.mutations {
            let began = Instant::now();
            let now = current.as_ref().unwrap_or(&before);
            let whole = has_fields.then(|| now.clone().into_document());
            let facts = self.common.facts(
                Some(whole.as_ref().unwrap_or(&now.0)),
                old_object.as_ref(),
                &request,
                &invocation.parameter,
            );
            let mutated = mutate(mutation, compiled, facts, now, &form, &self.asker).await;
            let checked = Checked {
                policy: &invocation.candidate.name,
                binding: invocation.binding,
            };
            let count = |error| mutated_with(checked, error, began.elapsed());
            match mutated {
                Ok(mutated) => {
                    count(ErrorType::NoError);
                    current = mutated.or(current);
                }
                Err(Failed::Policy(why, error)) => {
                    count(error);
                    let policy = &invocation.candidate.name;
                    self.policies.log_failed(policy, error, &why);
                    errors.push(invocation.error(why));
                }
                Err(Failed::Request(status)) => {
                    count(ErrorType::Invalid);
                    return Err(status);
                }
            }
        }
        let changed = current.filter(|now| *now != before);
        self.note(&unique_name, spec.reinvocation_policy, changed.is_some());
        if let Some(changed) = changed {
            let taken = form.take(changed, object).await;
            taken.map_err(|why| Box::new(Status::internal(why)))?;
        }
        Ok(errors)
    }

    /// Notes that an invocation has run, for the second round.
    fn note(&mut self, unique_name: &str, policy: ReinvocationPolicy, has_changed: bool) {
        let rounds = &self.attributes.rounds;
        let mut notes = rounds.reinvocations();
        if has_changed {
            notes.of(NAME).changed();
            rounds.changed();
            self.has_changed = true;
        }
        if policy == ReinvocationPolicy::IfNeeded {
            notes.of(NAME).has_run(unique_name);
        }
    }
}

impl Plugin for MutatingPolicies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        has_object(&attributes.operation) && self.0.handles(attributes)
    }

    fn waits(&self, attributes: &Attributes<'_>) -> bool {
        self.0.may_ask(attributes)
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for MutatingPolicies {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(object) => self.mutate_all(attributes, object).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    /// Changes are noted in the rounds.
    fn changes(&self) -> bool {
        false
    }
}
