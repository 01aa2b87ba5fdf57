//! Rules that cannot allow a request are passed over without comparing their texts. Pure.

use super::rule::{ALL, PolicyRule};
use crate::auth::Attributes;

/// The verbs, groups and resources of a rule, or those of a request, as bits. Texts may share a
/// bit, so a rule that seems to allow a request is compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleFilter {
    verbs: u64,
    groups: u64,
    resources: u64,
    has_paths: bool,
}

const EVERYTHING: u64 = u64::MAX;

impl RuleFilter {
    /// Returns the bits of a rule.
    pub(super) fn of_rule(rule: &PolicyRule) -> RuleFilter {
        let texts = |list: &[String]| union(list.iter().map(String::as_str));
        // The subresource does not count: `pods/log` has the bit of `pods`, `*/scale` all.
        let plurals = rule.resources.iter();
        let plurals = plurals.filter_map(|resource| resource.split('/').next());
        RuleFilter {
            verbs: texts(&rule.verbs),
            groups: texts(&rule.api_groups),
            resources: union(plurals),
            has_paths: !rule.non_resource_urls.is_empty(),
        }
    }

    /// Returns the bits of a request.
    pub(super) fn of_request(request: &Attributes<'_>) -> RuleFilter {
        RuleFilter {
            verbs: bit(request.verb),
            groups: bit(request.api_group),
            resources: bit(request.resource),
            has_paths: !request.is_resource_request,
        }
    }

    /// Returns whether a rule with these bits may allow a request.
    pub(super) fn may_allow(self, request: RuleFilter) -> bool {
        let has_target = match request.has_paths {
            true => self.has_paths,
            false => self.groups & request.groups != 0 && self.resources & request.resources != 0,
        };
        has_target && self.verbs & request.verbs != 0
    }
}

fn union<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    texts.map(bit).fold(0, |bits, bit| bits | bit)
}

/// Returns the bit of a text, or all bits for the star.
fn bit(text: &str) -> u64 {
    if text == ALL {
        return EVERYTHING;
    }
    let mixed = text.bytes().fold(text.len() as u64, |mixed, byte| {
        (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 << (mixed >> 32 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::user_info::UserInfo;

    /// A request for a star is a request for a verb or resource of this name.
    #[test]
    fn a_rule_that_allows_a_request_is_never_passed_over_api_288() {
        let words = ["*", "", "get", "pods", "a", "apps"];
        let lists: Vec<Vec<String>> = words.map(|word| vec![word.to_owned()]).to_vec();
        let user = UserInfo::anonymous();
        let subresources = ["pods/log", "*/log", "*/*", "pods"].map(|text| vec![text.to_owned()]);
        let mut allowed = 0;
        for verbs in &lists {
            for api_groups in &lists {
                for resources in lists.iter().chain(&subresources) {
                    let rule = PolicyRule {
                        verbs: verbs.clone(),
                        api_groups: api_groups.clone(),
                        resources: resources.clone(),
                        ..PolicyRule::default()
                    };
                    for (verb, group) in words.iter().flat_map(|a| words.map(|b| (*a, b))) {
                        for subresource in ["", "log"] {
                            let request = Attributes {
                                subresource,
                                ..Attributes::on_resource(&user, verb, group, "pods")
                            };
                            let filter = RuleFilter::of_rule(&rule);
                            let may = filter.may_allow(RuleFilter::of_request(&request));
                            assert!(may || !rule.allows(&request), "{rule:?} {request:?}");
                            allowed += usize::from(rule.allows(&request));
                        }
                    }
                }
            }
        }
        assert!(allowed > 100);
    }

    #[test]
    fn most_other_rules_are_passed_over() {
        let user = UserInfo::anonymous();
        let request = Attributes::on_resource(&user, "get", "", "configmaps");
        let request = RuleFilter::of_request(&request);
        let rule = |number: usize| PolicyRule {
            verbs: vec!["get".to_owned()],
            api_groups: vec!["example.com".to_owned()],
            resources: vec![format!("resources{number}")],
            ..PolicyRule::default()
        };
        let rules = (0..1000).map(|number| RuleFilter::of_rule(&rule(number)));
        assert!(rules.filter(|rule| rule.may_allow(request)).count() < 100);
    }
}
