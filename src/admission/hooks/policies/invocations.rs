//! The policies whose rules are for a request, with their bindings (HK-51, HK-52).

use std::collections::HashMap;
use std::sync::Arc;

use super::definition::{Binding, MatchResources};
use super::metrics::ErrorType;
use super::policy::Policy;
use super::{PolicySources, may_have_policies};
use crate::admission::Attributes;
use crate::admission::client::ResourceClient;
use crate::admission::hooks::Hooks;
use crate::admission::hooks::by_request::{ByRequest, Kept};
use crate::admission::hooks::failure_lines::FailureLines;
use crate::admission::hooks::matching::{MatchPolicy, Rule, asked_in};
use crate::admission::hooks::shown::{AskedIn, Form};
use crate::api::object::Object;
use crate::api::status::Status;

/// A policy whose rules may be for a request.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub name: Arc<str>,
    pub policy: Arc<Policy>,
    pub bindings: Bindings,
}

impl Kept for Candidate {
    fn count(&self) -> usize {
        1 + self.bindings.len()
    }
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
        let candidates = self.of(&policies, &bindings, attributes);
        candidates.iter().any(|one| one.policy.compiled().asks)
    }

    /// Returns the policies whose rules may be for a request, in the order of their names.
    ///
    /// # Errors
    /// 403 if the configurations are not known yet.
    pub(super) async fn candidates(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Arc<[Candidate]>, Box<Status>> {
        let PolicySources {
            policies, bindings, ..
        } = &self.sources;
        if let Some((policies, bindings)) = policies.newest().zip(bindings.newest()) {
            return Ok(self.of(&policies, &bindings, attributes));
        }
        policies.filled().await;
        bindings.filled().await;
        match policies.newest().zip(bindings.newest()) {
            Some((policies, bindings)) => Ok(self.of(&policies, &bindings, attributes)),
            None => Err(attributes.forbidden(object, "not yet ready to handle request")),
        }
    }

    fn of(
        &self,
        policies: &Hooks<Policy>,
        bindings: &Hooks<Binding>,
        attributes: &Attributes<'_>,
    ) -> Arc<[Candidate]> {
        let state = (policies.generation, bindings.generation);
        self.kept
            .get_or_find(state, attributes, || found(policies, bindings, attributes))
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
        let constraints = &policy.spec.match_constraints;
        if let Some(bindings) = by_policy.remove(&**name)
            && may_match(
                &constraints.resource_rules,
                constraints.match_policy,
                attributes,
            )
        {
            candidates.push(Candidate {
                name: Arc::from(&**name),
                policy: Arc::clone(policy),
                bindings,
            });
        }
    }
    candidates
}

/// Returns whether rules match a request whatever the name of its object is.
fn may_match(rules: &[Rule], policy: MatchPolicy, attributes: &Attributes<'_>) -> bool {
    let rules = rules.iter().map(|rule| Rule {
        resource_names: Vec::new(),
        ..rule.clone()
    });
    let rules: Vec<Rule> = rules.collect();
    asked_in(&rules, policy, attributes).is_some()
}

/// Returns in which version a policy or a binding is asked about a request, or `None` if it is not
/// for the request (HK-52).
///
/// # Errors
/// The namespace of the request can't be read.
pub(super) async fn matched(
    resources: &MatchResources,
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    namespaces: &dyn ResourceClient,
) -> Result<Option<AskedIn>, Box<Status>> {
    let MatchResources {
        selectors,
        resource_rules,
        exclude_resource_rules,
        match_policy,
    } = resources;
    if asked_in(exclude_resource_rules, *match_policy, attributes).is_some() {
        return Ok(None);
    }
    let asked = match resource_rules.is_empty() {
        true => Some(AskedIn::Request),
        false => asked_in(resource_rules, *match_policy, attributes),
    };
    let own = AskedIn::Request;
    let form = Form::new(attributes, &own);
    let Some(asked) = asked.filter(|_| selectors.select_object(&form, object)) else {
        return Ok(None);
    };
    let selecting = selectors.select_namespace(attributes, object, namespaces);
    Ok(selecting.await?.then_some(asked))
}
