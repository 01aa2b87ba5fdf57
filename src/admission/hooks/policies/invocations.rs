//! The policies whose rules are for a request, with their bindings (HK-51, HK-52).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::definition::{Binding, MatchResources};
use super::metrics::ErrorType;
use super::policy::Policy;
use super::{PolicySources, may_have_policies};
use crate::admission::Attributes;
use crate::admission::hooks::Hooks;
use crate::admission::hooks::by_request::{self, ByRequest, Candidates};
use crate::admission::hooks::failure_lines::FailureLines;
use crate::admission::hooks::matching::{AskedAt, RequestLabels, Rule, asked_in};
use crate::admission::hooks::shown::AskedIn;
use crate::api::object::Object;
use crate::api::status::Status;

/// A policy whose rules may be for a request.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub name: Arc<str>,
    pub policy: Arc<Policy>,
    pub bindings: Bindings,
    asked: Asked,
}

/// The bindings of a policy with their names.
type Bindings = Vec<(Arc<str>, Arc<Binding>)>;

/// The policies of one plugin.
pub(super) struct Policies {
    pub(super) sources: PolicySources,
    kept: ByRequest<(u64, u64), Candidate>,
    lines: FailureLines,
}

impl Policies {
    pub(super) fn new(sources: PolicySources) -> Policies {
        Policies {
            sources,
            kept: ByRequest::default(),
            lines: FailureLines::default(),
        }
    }

    /// Logs that a policy can't be obeyed as it is configured.
    pub(super) fn log_unusable(&self, policy: &str, why: &str) {
        if let Some((why, of)) = self.lines.turn((policy, None::<ErrorType>), why) {
            let (untold, within) = (of.count, of.within);
            tracing::warn!(policy, why, untold, within, "a policy can't be evaluated");
        }
    }

    /// Logs that an expression of a policy fails.
    pub(super) fn log_failed(&self, policy: &str, error: ErrorType, why: &str) {
        if let Some((why, of)) = self.lines.turn((policy, Some(error)), why) {
            let (untold, within) = (of.count, of.within);
            tracing::warn!(
                policy,
                why,
                untold,
                within,
                "an expression of a policy failed"
            );
        }
    }

    /// Whether there may be policies for such a request. The first state of the configurations
    /// counts as such until it is known.
    pub(super) fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let policies = || self.sources.policies.newest();
        may_have_policies(attributes)
            && policies().is_none_or(|policies| !policies.by_name.is_empty())
    }

    /// Whether a policy for such a request may ask about permissions, for which a webhook may be
    /// called.
    pub(super) fn may_ask(&self, attributes: &Attributes<'_>) -> bool {
        let known = self
            .sources
            .policies
            .newest()
            .zip(self.sources.bindings.newest());
        let Some((policies, bindings)) = known else {
            return true;
        };
        let state = (policies.generation, bindings.generation);
        let find = || found(&policies, &bindings, attributes);
        let candidates = self.kept.by_rules(state, attributes, find);
        // linear: the policies of one kind of request.
        candidates.all().any(|one| one.policy.compiled().asks)
    }

    /// Returns the policies that may be for a request, in the order of their names.
    ///
    /// # Errors
    /// 403 if the configurations are not known yet.
    pub(super) async fn candidates(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Candidates<Candidate>, Box<Status>> {
        let PolicySources {
            policies, bindings, ..
        } = &self.sources;
        let newest = || policies.newest().zip(bindings.newest());
        let mut known = newest();
        if known.is_none() {
            policies.filled().await;
            bindings.filled().await;
            known = newest();
        }
        let Some((policies, bindings)) = known else {
            return Err(attributes.forbidden(object, "not yet ready to handle request"));
        };
        let state = (policies.generation, bindings.generation);
        let namespaces = &*self.sources.namespaces;
        let find = || found(&policies, &bindings, attributes);
        Ok(self.kept.of(state, attributes, namespaces, find).await)
    }
}

fn found(
    policies: &Hooks<Policy>,
    bindings: &Hooks<Binding>,
    attributes: &Attributes<'_>,
) -> Vec<Candidate> {
    let mut by_policy: HashMap<&str, Bindings> = HashMap::new();
    for (name, binding) in &bindings.by_name {
        let bound = by_policy.entry(&binding.spec.policy_name).or_default();
        bound.push((Arc::from(&**name), Arc::clone(binding)));
    }
    let mut candidates = Vec::new();
    for (name, policy) in &policies.by_name {
        let Some(asked) = Asked::about(&policy.spec.match_constraints, attributes) else {
            continue;
        };
        if let Some(bindings) = by_policy.remove(&**name) {
            candidates.push(Candidate {
                name: Arc::from(&**name),
                policy: Arc::clone(policy),
                bindings,
                asked,
            });
        }
    }
    candidates
}

/// The version in which a policy is asked about requests of one kind.
#[derive(Clone, Copy, Debug)]
enum Asked {
    At(AskedAt),
    /// The rules look at the name of the object.
    ByName,
}

impl Asked {
    /// Returns the version for a request, or `None` if rules are for no request of its kind.
    fn about(resources: &MatchResources, attributes: &Attributes<'_>) -> Option<Asked> {
        if !resources.look_at_names() {
            let asked = resources.asked_in(attributes)?;
            return Some(Asked::At(AskedAt::of(&asked, attributes)));
        }
        let rules = resources.resource_rules.iter().map(|rule| Rule {
            resource_names: Vec::new(),
            ..rule.clone()
        });
        let rules: Vec<Rule> = rules.collect();
        asked_in(&rules, resources.match_policy, attributes).map(|_| Asked::ByName)
    }
}

impl Candidate {
    /// Returns in which version the policy is asked about a request, or `None` if it is not for the
    /// request (HK-52).
    ///
    /// # Errors
    /// The labels of the namespace are not known.
    pub(super) fn matched(
        &self,
        attributes: &Attributes<'_>,
        labels: &RequestLabels<'_>,
    ) -> Result<Option<AskedIn>, Box<Status>> {
        let resources = &self.policy.spec.match_constraints;
        let asked = match self.asked {
            Asked::At(place) => Some(place.in_request(attributes)),
            Asked::ByName => resources.asked_in(attributes),
        };
        match asked {
            Some(asked) => {
                let is_selected = resources.selectors.select(labels);
                Ok(is_selected?.then_some(asked))
            }
            None => Ok(None),
        }
    }
}

impl by_request::Candidate for Candidate {
    fn count(&self) -> usize {
        1 + self.bindings.len()
    }

    fn selects_namespaces(&self) -> bool {
        let bindings = self.bindings.iter();
        let of_bindings = bindings.filter_map(|(_, binding)| binding.spec.match_resources.as_ref());
        let mut all = of_bindings.chain([&self.policy.spec.match_constraints]);
        // linear: a policy has a few bindings.
        all.any(|resources| !resources.selectors.namespace_selector.is_empty())
    }

    fn in_namespace(&self, labels: Option<&Json>) -> Option<Candidate> {
        let is_for = |resources: &MatchResources| {
            let selector = &resources.selectors.namespace_selector;
            selector.selects_labels(labels)
        };
        let spec = &self.policy.spec;
        if !is_for(&spec.match_constraints) {
            return None;
        }
        let mut candidate = self.clone();
        candidate
            .bindings
            .retain(|(_, binding)| binding.spec.match_resources.as_ref().is_none_or(is_for));
        // An unknown kind of parameters is an error without bindings, too.
        (!candidate.bindings.is_empty() || spec.param_kind.is_some()).then_some(candidate)
    }

    fn demanded_label(&self) -> Option<&str> {
        let resources = &self.policy.spec.match_constraints;
        resources.selectors.object_selector.demanded_label()
    }
}

impl MatchResources {
    /// Returns whether the rules look at the names of objects.
    fn look_at_names(&self) -> bool {
        let mut rules = self
            .resource_rules
            .iter()
            .chain(&self.exclude_resource_rules);
        // linear: the rules of one policy.
        rules.any(|rule| !rule.resource_names.is_empty())
    }

    /// Returns in which version the rules are for a request.
    fn asked_in(&self, attributes: &Attributes<'_>) -> Option<AskedIn> {
        let excluded = &self.exclude_resource_rules;
        if asked_in(excluded, self.match_policy, attributes).is_some() {
            return None;
        }
        match self.resource_rules.is_empty() {
            true => Some(AskedIn::Request),
            false => asked_in(&self.resource_rules, self.match_policy, attributes),
        }
    }

    /// Returns whether a binding with these resources is for a request that its policy is for.
    ///
    /// # Errors
    /// The labels of the namespace are not known.
    pub(super) fn are_for(
        &self,
        attributes: &Attributes<'_>,
        labels: &RequestLabels<'_>,
    ) -> Result<bool, Box<Status>> {
        Ok(self.asked_in(attributes).is_some() && self.selectors.select(labels)?)
    }
}
