//! Nobody grants rights that they do not have (AC-60, AC-61). Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::rule::{ALL, PolicyRule};
use crate::api::text::quoting::go_quote;

/// The number of comparisons of a right with a rule, or with a path of one, that one check makes.
/// The lists of a rule multiply, so a small body can name billions of rights.
const COMPARISONS_MAX: usize = 4_000_000;

/// The number of rules of an author that one check compares. Each takes some hundred bytes.
const HELD_MAX: usize = 50_000;

/// The number of lines that a refusal has about missing rights.
const LINES_MAX: usize = 1000;

/// One right of a rule: a verb on a resource, perhaps of one object, or on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Right<'r> {
    verb: &'r str,
    on: Target<'r>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target<'r> {
    Resource {
        group: &'r str,
        resource: &'r str,
        name: Option<&'r str>,
    },
    Path(&'r str),
}

/// The rights that the author of a role or binding lacks.
#[derive(Debug, PartialEq, Eq)]
pub enum Lacking {
    /// A line for each target.
    Rights(Vec<String>),
    /// The rules have more rights than are compared.
    TooMany,
}

/// Checks that the rules of an author cover all rights of other rules.
///
/// # Errors
/// The rights that they do not cover.
pub fn covers<'r>(
    held: impl IntoIterator<Item = &'r PolicyRule>,
    wanted: impl IntoIterator<Item = &'r PolicyRule>,
) -> Result<(), Lacking> {
    let held: Vec<&PolicyRule> = held.into_iter().take(HELD_MAX + 1).collect();
    if held.len() > HELD_MAX {
        return Err(Lacking::TooMany);
    }
    let held: Vec<Held<'_>> = held.into_iter().map(Held::of).collect();
    let paths: usize = held.iter().map(|held| held.paths.len()).sum();
    let cost = (held.len() + paths).max(1);
    let mut comparisons = COMPARISONS_MAX;
    let mut missing = Vec::new();
    for rule in wanted {
        let needed = number_of_rights(rule).checked_mul(cost);
        comparisons = needed
            .and_then(|needed| comparisons.checked_sub(needed))
            .ok_or(Lacking::TooMany)?;
        for right in rights_of(rule) {
            // linear: bounded by the number of comparisons.
            if !held.iter().any(|held| right.is_covered_by(held)) {
                missing.push(right);
            }
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Lacking::Rights(lines(&missing))),
    }
}

/// Returns the rights of some rules that others do not cover, as a rule each. The rules are those
/// of this program, so their number is known.
pub fn missing_rules(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let held: Vec<Held<'_>> = held.iter().map(Held::of).collect();
    let rights = wanted.iter().flat_map(rights_of);
    // linear: the rules of one role.
    let missing = rights.filter(|right| !held.iter().any(|held| right.is_covered_by(held)));
    missing.map(|right| right.rule()).collect()
}

/// Returns the number of rights that a rule names.
fn number_of_rights(rule: &PolicyRule) -> usize {
    let names = rule.resource_names.len().max(1);
    let resources = [rule.api_groups.len(), rule.resources.len(), names];
    let targets = resources.into_iter().fold(1, usize::saturating_mul);
    let targets = targets.saturating_add(rule.non_resource_urls.len());
    targets.saturating_mul(rule.verbs.len())
}

fn rights_of(rule: &PolicyRule) -> Vec<Right<'_>> {
    let mut all = Vec::new();
    let names: Vec<Option<&str>> = match rule.resource_names.as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                all.extend(names.iter().map(|&name| Right {
                    verb,
                    on: Target::Resource {
                        group,
                        resource,
                        name,
                    },
                }));
            }
        }
    }
    for path in &rule.non_resource_urls {
        let on = Target::Path(path);
        all.extend(rule.verbs.iter().map(|verb| Right { verb, on }));
    }
    all
}

/// A rule that an author has, as sets: authors may give themselves lists of any length.
struct Held<'r> {
    verbs: HashSet<&'r str>,
    groups: HashSet<&'r str>,
    resources: HashSet<&'r str>,
    /// The subresources that it names for all resources: `scale` of `*/scale`.
    parts: HashSet<&'r str>,
    names: HashSet<&'r str>,
    paths: &'r [String],
}

impl<'r> Held<'r> {
    fn of(rule: &'r PolicyRule) -> Held<'r> {
        fn set(list: &[String]) -> HashSet<&str> {
            list.iter().map(String::as_str).collect()
        }
        Held {
            verbs: set(&rule.verbs),
            groups: set(&rule.api_groups),
            resources: set(&rule.resources),
            parts: rule
                .resources
                .iter()
                .filter_map(|resource| resource.strip_prefix("*/"))
                .collect(),
            names: set(&rule.resource_names),
            paths: &rule.non_resource_urls,
        }
    }
}

/// Returns whether a set has a text or the star.
fn has(set: &HashSet<&str>, wanted: &str) -> bool {
    set.contains(ALL) || set.contains(wanted)
}

impl Right<'_> {
    /// Returns the rule that gives this right alone.
    fn rule(&self) -> PolicyRule {
        let one = |text: &str| vec![text.to_owned()];
        let verbs = one(self.verb);
        match self.on {
            Target::Resource {
                group,
                resource,
                name,
            } => PolicyRule {
                verbs,
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                ..PolicyRule::default()
            },
            Target::Path(path) => PolicyRule {
                verbs,
                non_resource_urls: one(path),
                ..PolicyRule::default()
            },
        }
    }

    fn is_covered_by(&self, held: &Held<'_>) -> bool {
        match self.on {
            Target::Resource {
                group,
                resource,
                name,
            } => {
                let part = resource.split_once('/').map(|(_, part)| part);
                let has_part = || part.is_some_and(|part| held.parts.contains(part));
                has(&held.verbs, self.verb)
                    && has(&held.groups, group)
                    && (has(&held.resources, resource) || has_part())
                    && (held.names.is_empty() || name.is_some_and(|name| held.names.contains(name)))
            }
            Target::Path(path) => {
                let is_path = |known: &String| match known.strip_suffix(ALL) {
                    Some(start) => path.starts_with(start),
                    None => known == path,
                };
                // linear: counted as comparisons.
                has(&held.verbs, self.verb) && held.paths.iter().any(is_path)
            }
        }
    }
}

/// Puts the verbs of each group, resource and name together, and sorts the lines. Each path has a
/// line for each verb.
fn lines(missing: &[Right<'_>]) -> Vec<String> {
    let mut targets: Vec<(Target<'_>, Vec<&str>)> = Vec::new();
    let mut places: HashMap<Target<'_>, usize> = HashMap::new();
    for Right { verb, on } in missing {
        let is_joined = matches!(on, Target::Resource { .. });
        let place = places.get(on).copied().filter(|_| is_joined);
        match place.and_then(|place| targets.get_mut(place)) {
            Some((_, verbs)) => verbs.push(verb),
            None => {
                places.insert(*on, targets.len());
                targets.push((*on, vec![verb]));
            }
        }
    }
    let more = targets.len().saturating_sub(LINES_MAX);
    let targets = targets.iter().take(LINES_MAX);
    let lines: BTreeSet<String> = targets.map(|(on, verbs)| line(on, verbs)).collect();
    let more = (more > 0).then(|| format!("and {more} more"));
    lines.into_iter().chain(more).collect()
}

fn line(on: &Target<'_>, verbs: &[&str]) -> String {
    let verbs = quoted(verbs);
    match on {
        Target::Resource {
            group,
            resource,
            name,
        } => {
            let names = name.map(|name| format!(", ResourceNames:[{}]", go_quote(name)));
            format!(
                "{{APIGroups:[{}], Resources:[{}]{}, Verbs:[{verbs}]}}",
                go_quote(group),
                go_quote(resource),
                names.unwrap_or_default()
            )
        }
        Target::Path(path) => {
            format!("{{NonResourceURLs:[{}], Verbs:[{verbs}]}}", go_quote(path))
        }
    }
}

/// Returns texts as Go prints a list of them with `%q`, without its brackets.
pub fn quoted(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::objects::read_rules;
    use super::*;

    fn missing(held: &serde_json::Value, wanted: &serde_json::Value) -> Result<(), Lacking> {
        let read = |rules| read_rules(json!({ "rules": rules }).to_string().as_bytes()).unwrap();
        let (held, wanted) = (read(held), read(wanted));
        covers(held.iter(), wanted.iter())
    }

    fn resources(groups: &[&str], resources: &[&str], verbs: &[&str]) -> serde_json::Value {
        json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
    }

    #[test]
    fn each_right_is_covered_by_one_rule_ac_60() {
        let reader = resources(&[""], &["pods"], &["get", "list"]);
        let named = json!({
            "apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a", "b"],
        });
        for (held, wanted, is_covered) in [
            (
                json!([reader]),
                json!([resources(&[""], &["pods"], &["get"])]),
                true,
            ),
            (
                json!([reader]),
                json!([resources(&[""], &["pods"], &["*"])]),
                false,
            ),
            (
                json!([reader]),
                json!([resources(&["apps"], &["pods"], &["get"])]),
                false,
            ),
            (json!([reader]), json!([named]), true),
            (
                json!([named]),
                json!([resources(&[""], &["pods"], &["get"])]),
                false,
            ),
            // Parts of a rule may be covered by different rules.
            (
                json!([
                    resources(&[""], &["pods"], &["get"]),
                    resources(&[""], &["pods"], &["list"])
                ]),
                json!([reader]),
                true,
            ),
            (
                json!([resources(&["*"], &["*/scale"], &["get"])]),
                json!([resources(&["apps"], &["deployments/scale"], &["get"])]),
                true,
            ),
            (
                json!([resources(&[""], &["pods/*"], &["get"])]),
                json!([resources(&[""], &["pods/log"], &["get"])]),
                false,
            ),
            (
                json!([{ "nonResourceURLs": ["/a/*"], "verbs": ["get"] }]),
                json!([{ "nonResourceURLs": ["/a/b", "/a/*"], "verbs": ["get"] }]),
                true,
            ),
            (
                json!([{ "nonResourceURLs": ["/a/b"], "verbs": ["get"] }]),
                json!([{ "nonResourceURLs": ["/a/*"], "verbs": ["get"] }]),
                false,
            ),
            // A rule without verbs or resources grants nothing.
            (json!([]), json!([resources(&[""], &["pods"], &[])]), true),
        ] {
            let result = missing(&held, &wanted);
            assert_eq!(result.is_ok(), is_covered, "{held} {wanted}: {result:?}");
        }
    }

    #[test]
    fn missing_rights_are_lines_with_their_verbs_together_ac_61() {
        let wanted = json!([
            resources(&["", "apps"], &["secrets", "pods"], &["get", "list"]),
            { "nonResourceURLs": ["/x"], "verbs": ["get", "put"] },
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"] },
        ]);
        let Err(Lacking::Rights(lines)) = missing(&json!([]), &wanted) else {
            panic!("nothing is covered");
        };
        assert_eq!(
            lines,
            [
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["put"]}"#,
            ]
        );
    }

    /// The lists of a rule multiply: 3,000 words name 10^9 rights.
    #[test]
    fn rules_with_too_many_rights_are_not_compared_ac_60() {
        let words: Vec<String> = (0..1000).map(|number| format!("w{number}")).collect();
        let many = json!([{ "apiGroups": words, "resources": words, "verbs": words }]);
        assert_eq!(missing(&json!([]), &many), Err(Lacking::TooMany));
        let paths = json!([{ "nonResourceURLs": words, "verbs": ["get"] , "resources": ["a"]}]);
        assert!(matches!(
            missing(&json!([]), &paths),
            Err(Lacking::Rights(_))
        ));
    }
}
