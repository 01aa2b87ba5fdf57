//! Any rules and requests: the version in which a hook is asked equals that of an evaluation that
//! spells out every combination that a rule names (HK-7 to HK-10).

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tokio::time::Instant;

use super::matching::{MatchPolicy, Rule, asked_in};
use super::shown::AskedIn;
use crate::admission::{Attributes, Operation, Rounds};
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;
use crate::kinds::definitions::core::configmaps;

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
const PARTS: [&str; 3] = ["", "status", "scale"];

fn texts(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    subsequence(of, 1..=of.len().min(3))
        .prop_map(|list| list.into_iter().map(str::to_owned).collect())
}

fn rule() -> impl Strategy<Value = Rule> {
    let lists = (
        texts(&["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]),
        texts(&["", "apps", "example.com", "*"]),
        texts(&["v1", "v2", "*"]),
        texts(&[
            "a", "b", "a/status", "a/*", "*", "*/scale", "*/*", "b/scale",
        ]),
        select(&["*", "Cluster", "Namespaced", ""][..]),
        select(vec![vec![], vec!["n"], vec!["m", "n"]]),
    );
    lists.prop_map(
        |(operations, groups, versions, resources, scope, names)| Rule {
            operations,
            api_groups: groups,
            api_versions: versions,
            resources,
            scope: scope.to_owned(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        },
    )
}

/// A version of a resource: group, version and plural.
type Version = (&'static str, &'static str, &'static str);

fn version() -> impl Strategy<Value = Version> {
    (
        select(&["", "apps", "example.com"][..]),
        select(&["v1", "v2"][..]),
        select(&["a", "b", "c"][..]),
    )
}

#[derive(Clone, Debug)]
struct Asked {
    operation: &'static str,
    own: Version,
    others: Vec<Version>,
    part: &'static str,
    namespace: Option<&'static str>,
    name: &'static str,
}

fn asked() -> impl Strategy<Value = Asked> {
    let parts = (
        select(&OPERATIONS[..]),
        version(),
        prop::collection::vec(version(), 0..3),
        select(&PARTS[..]),
        select(&[None, Some("d")][..]),
        select(&["", "n", "x"][..]),
    );
    parts.prop_map(|(operation, own, others, part, namespace, name)| Asked {
        operation,
        own,
        others,
        part,
        namespace,
        name,
    })
}

fn definition((group, version, plural): Version) -> ResourceDefinition {
    ResourceDefinition {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        ..configmaps()
    }
}

/// Whether a rule names a request in this version, by all the combinations that it stands for.
fn names(rule: &Rule, asked: &Asked, (group, version, plural): Version) -> bool {
    let mut combinations = Vec::new();
    for operation in OPERATIONS {
        for part in PARTS {
            for (pattern, resource) in rule
                .resources
                .iter()
                .flat_map(|pattern| ["a", "b", "c"].map(|resource| (pattern.as_str(), resource)))
            {
                let whole = if part.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{resource}/{part}")
                };
                let fits = match pattern {
                    "*/*" => true,
                    "*" => part.is_empty(),
                    "*/scale" => part == "scale",
                    "a/*" => resource == "a",
                    other => other == whole,
                };
                if fits {
                    combinations.push((operation, resource, part));
                }
            }
        }
    }
    let listed = |list: &[String], wanted: &str| {
        list.contains(&"*".to_owned()) || list.contains(&wanted.to_owned())
    };
    combinations.contains(&(asked.operation, plural, asked.part))
        && listed(&rule.operations, asked.operation)
        && listed(&rule.api_groups, group)
        && listed(&rule.api_versions, version)
        && (rule.resource_names.is_empty() || rule.resource_names.contains(&asked.name.to_owned()))
        && match (&*rule.scope, asked.namespace) {
            ("Cluster", namespace) => namespace.is_none(),
            ("Namespaced", namespace) => namespace.is_some(),
            _ => true,
        }
}

proptest! {
    #[test]
    fn any_rules_match_as_all_their_combinations_hk_7_hk_8_hk_9_hk_10(
        rules in prop::collection::vec(rule(), 0..4),
        asked in asked(),
        is_exact in any::<bool>(),
    ) {
        let own = definition(asked.own);
        let others: Vec<Arc<ResourceDefinition>> =
            asked.others.iter().map(|one| Arc::new(definition(*one))).collect();
        let (write, delete) = (WriteOptions::default(), DeleteOptions::default());
        let (user, warnings) = (UserInfo::default(), Warnings::default());
        let attributes = Attributes {
            operation: match asked.operation {
                "CREATE" => Operation::Create(&write),
                "UPDATE" => Operation::Update(&write),
                "DELETE" => Operation::Delete(&delete),
                _ => Operation::Connect,
            },
            definition: &own,
            kind: &own,
            stored: &own,
            subresource: Some(asked.part).filter(|part| !part.is_empty()),
            namespace: asked.namespace,
            name: asked.name,
            old_object: None,
            user: &user,
            warnings: &warnings,
            annotations: None,
            versions: &others,
            converter: None,
            deadline: Instant::now(),
            rounds: Rounds::default(),
        };
        let policy = if is_exact { MatchPolicy::Exact } else { MatchPolicy::Equivalent };
        let got = asked_in(&rules, policy, &attributes).map(|found| match found {
            AskedIn::Request => asked.own,
            AskedIn::Other(version) => {
                let place = others.iter().position(|one| Arc::ptr_eq(one, &version));
                asked.others[place.expect("a version of the resource")]
            }
        });
        let direct = rules.iter().any(|rule| names(rule, &asked, asked.own));
        let equivalent = rules.iter().find_map(|rule| {
            asked.others.iter().find(|other| names(rule, &asked, **other)).copied()
        });
        let wanted = match (direct, is_exact) {
            (true, _) => Some(asked.own),
            (false, true) => None,
            (false, false) => equivalent,
        };
        prop_assert_eq!(got, wanted);
    }
}
