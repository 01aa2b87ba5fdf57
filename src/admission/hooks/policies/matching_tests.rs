//! Any match resources of policies and bindings, and any requests: the policies and bindings that
//! apply equal those of an evaluation that spells everything out (HK-7 to HK-12, HK-51, HK-52).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::{Binding, ParamObjects, Parameters, Policy, PolicySources, ValidatingPolicies};
use crate::admission::client::{Answering, Change, ResourceClient};
use crate::admission::hooks::{HookSource, Hooks};
use crate::admission::{Attributes, Operation, Rounds, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;
use crate::auth::AlwaysAllow;
use crate::kinds::definitions::core::{configmaps, namespaces};

const PLURALS: [&str; 3] = ["a", "b", "namespaces"];
const PARTS: [&str; 3] = ["", "status", "scale"];

type Labels = BTreeMap<&'static str, &'static str>;

fn texts(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(of, 1..=of.len().min(3))
}

#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<&'static str>,
    groups: Vec<&'static str>,
    versions: Vec<&'static str>,
    resources: Vec<&'static str>,
    scope: &'static str,
    names: Vec<&'static str>,
}

fn rule() -> impl Strategy<Value = Rule> {
    let lists = (
        texts(&["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]),
        texts(&["", "apps", "*"]),
        texts(&["v1", "v2", "*"]),
        texts(&[
            "a",
            "b",
            "namespaces",
            "a/status",
            "a/*",
            "*",
            "*/scale",
            "*/*",
        ]),
        select(&["*", "*", "Cluster", "Namespaced"][..]),
        select(vec![vec![], vec![], vec!["n"], vec!["d", "n"]]),
    );
    let some = lists.prop_map(
        |(operations, groups, versions, resources, scope, names)| Rule {
            operations,
            groups,
            versions,
            resources,
            scope,
            names,
        },
    );
    // Many rules are for everything, so that many policies apply.
    let everything = select(&["*", "Namespaced", "Cluster"][..]).prop_map(|scope| Rule {
        operations: vec!["*"],
        groups: vec!["*"],
        versions: vec!["*"],
        resources: vec!["*/*"],
        scope,
        names: vec![],
    });
    prop_oneof![1 => some, 1 => everything]
}

impl Rule {
    fn json(&self) -> Json {
        json!({"operations": self.operations, "apiGroups": self.groups,
            "apiVersions": self.versions, "resources": self.resources, "scope": self.scope,
            "resourceNames": self.names})
    }

    /// Whether it names a request in a version, by all that its patterns stand for.
    fn names(&self, asked: &Asked, (group, version): Version) -> bool {
        let mut stands_for = BTreeSet::new();
        for pattern in &self.resources {
            for plural in PLURALS {
                for part in PARTS {
                    let whole = match part {
                        "" => plural.to_owned(),
                        part => format!("{plural}/{part}"),
                    };
                    let of = if part.is_empty() { "*" } else { "*/scale" };
                    let is_meant = *pattern == whole
                        || *pattern == "*/*"
                        || *pattern == of && matches!(part, "" | "scale")
                        || *pattern == format!("{plural}/*");
                    if is_meant {
                        stands_for.insert(whole);
                    }
                }
            }
        }
        let has = |list: &[&str], wanted: &str| list.contains(&wanted) || list.contains(&"*");
        let is_of_namespace = asked.namespace.is_some() && asked.plural != "namespaces";
        has(&self.operations, asked.operation)
            && has(&self.groups, group)
            && has(&self.versions, version)
            && stands_for.contains(&asked.whole())
            && match self.scope {
                "Cluster" => !is_of_namespace,
                "Namespaced" => is_of_namespace,
                _ => true,
            }
            && (self.names.is_empty() || self.names.contains(&asked.name))
    }
}

#[derive(Clone, Debug)]
enum Need {
    Is(&'static str, &'static str),
    In(&'static str, Vec<&'static str>),
    NotIn(&'static str, Vec<&'static str>),
    Exists(&'static str),
    DoesNotExist(&'static str),
}

#[derive(Clone, Debug, Default)]
struct Selector(Vec<Need>);

fn selector() -> impl Strategy<Value = Selector> {
    let key = || select(&["k", "l"][..]);
    let values = || subsequence(&["x", "y"][..], 1..=2);
    let need = prop_oneof![
        (key(), select(&["x", "y"][..])).prop_map(|(key, value)| Need::Is(key, value)),
        (key(), values()).prop_map(|(key, values)| Need::In(key, values)),
        (key(), values()).prop_map(|(key, values)| Need::NotIn(key, values)),
        key().prop_map(Need::Exists),
        key().prop_map(Need::DoesNotExist),
    ];
    // Most are empty, so that many policies apply.
    let needs = prop::collection::vec(need, 0..3);
    prop_oneof![3 => Just(Selector::default()), 1 => needs.prop_map(Selector)]
}

impl Selector {
    fn json(&self) -> Json {
        let (mut labels, mut expressions) = (BTreeMap::new(), Vec::new());
        for need in &self.0 {
            let (key, operator, values) = match need {
                Need::Is(key, value) => {
                    // A key that is there already is a requirement of another form.
                    if labels.contains_key(key) {
                        (key, "In", vec![*value])
                    } else {
                        labels.insert(key, *value);
                        continue;
                    }
                }
                Need::In(key, values) => (key, "In", values.clone()),
                Need::NotIn(key, values) => (key, "NotIn", values.clone()),
                Need::Exists(key) => (key, "Exists", vec![]),
                Need::DoesNotExist(key) => (key, "DoesNotExist", vec![]),
            };
            let mut expression = json!({"key": key, "operator": operator});
            if !values.is_empty() {
                expression["values"] = json!(values);
            }
            expressions.push(expression);
        }
        let mut selector = json!({});
        if !labels.is_empty() {
            selector["matchLabels"] = json!(labels);
        }
        if !expressions.is_empty() {
            selector["matchExpressions"] = json!(expressions);
        }
        selector
    }

    fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|need| match need {
            Need::Is(key, value) => labels.get(key) == Some(value),
            Need::In(key, values) => labels.get(key).is_some_and(|one| values.contains(one)),
            Need::NotIn(key, values) => !labels.get(key).is_some_and(|one| values.contains(one)),
            Need::Exists(key) => labels.contains_key(key),
            Need::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

#[derive(Clone, Debug)]
struct Resources {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Selector,
    objects: Selector,
    is_exact: bool,
}

fn resources(rules: std::ops::Range<usize>) -> impl Strategy<Value = Resources> {
    let parts = (
        prop::collection::vec(rule(), rules),
        prop_oneof![4 => Just(vec![]), 1 => prop::collection::vec(rule(), 1..2)],
        selector(),
        selector(),
        any::<bool>(),
    );
    parts.prop_map(
        |(rules, excluded, namespaces, objects, is_exact)| Resources {
            rules,
            excluded,
            namespaces,
            objects,
            is_exact,
        },
    )
}

impl Resources {
    fn json(&self) -> Json {
        let rules = |rules: &[Rule]| rules.iter().map(Rule::json).collect::<Vec<_>>();
        json!({"resourceRules": rules(&self.rules), "excludeResourceRules": rules(&self.excluded),
            "namespaceSelector": self.namespaces.json(), "objectSelector": self.objects.json(),
            "matchPolicy": if self.is_exact { "Exact" } else { "Equivalent" }})
    }

    fn any_names(&self, rules: &[Rule], asked: &Asked) -> bool {
        let versions = match self.is_exact {
            true => &asked.versions[..1],
            false => &asked.versions[..],
        };
        let mut versions = versions.iter();
        versions.any(|version| rules.iter().any(|rule| rule.names(asked, *version)))
    }

    fn apply(&self, asked: &Asked, may_have_no_rules: bool) -> bool {
        let is_free = may_have_no_rules && self.rules.is_empty();
        !self.any_names(&self.excluded, asked)
            && (is_free || self.any_names(&self.rules, asked))
            && self.select_object(asked)
            && self.select_namespace(asked)
    }

    fn select_object(&self, asked: &Asked) -> bool {
        if self.objects.0.is_empty() {
            return true;
        }
        let mut known = asked.objects().into_iter().flatten();
        known.any(|labels| self.objects.selects(labels))
    }

    fn select_namespace(&self, asked: &Asked) -> bool {
        let is_namespace = asked.plural == "namespaces";
        if self.namespaces.0.is_empty() || !is_namespace && asked.namespace.is_none() {
            return true;
        }
        let is_written = matches!(asked.operation, "CREATE" | "UPDATE") && asked.part.is_empty();
        let labels = match (is_namespace, is_written) {
            (true, true) => Some(&asked.labels),
            // An absent namespace is an error, which failurePolicy ignores.
            _ => asked.labels_of_namespace.as_ref(),
        };
        labels.is_some_and(|labels| self.namespaces.selects(labels))
    }
}

/// Group and version.
type Version = (&'static str, &'static str);

#[derive(Clone, Debug)]
struct Asked {
    operation: &'static str,
    plural: &'static str,
    part: &'static str,
    /// The version of the request, and further ones.
    versions: Vec<Version>,
    namespace: Option<&'static str>,
    name: &'static str,
    labels: Labels,
    old_labels: Labels,
    /// Those of the stored namespace, if it is there.
    labels_of_namespace: Option<Labels>,
}

fn labels() -> impl Strategy<Value = Labels> {
    let value = || select(&[None, Some("x"), Some("y")][..]);
    (value(), value()).prop_map(|(k, l)| {
        let pairs = [("k", k), ("l", l)].into_iter();
        pairs
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    let version = || (select(&["", "apps"][..]), select(&["v1", "v2"][..]));
    let parts = (
        select(&["CREATE", "UPDATE", "DELETE", "CONNECT"][..]),
        select(&PLURALS[..]),
        select(&["", "", "status", "scale"][..]),
        prop::collection::vec(version(), 1..3),
        select(&[None, Some("d")][..]),
        select(&["", "n", "x"][..]),
        (labels(), labels(), prop::option::weighted(0.9, labels())),
    );
    parts.prop_map(
        |(operation, plural, part, mut versions, namespace, name, labels)| {
            let is_namespace = plural == "namespaces";
            if is_namespace {
                versions = vec![("", "v1")];
            }
            Asked {
                operation,
                plural,
                part,
                versions,
                namespace: namespace.filter(|_| !is_namespace),
                name: if is_namespace { "d" } else { name },
                labels: labels.0,
                old_labels: labels.1,
                labels_of_namespace: labels.2,
            }
        },
    )
}

impl Asked {
    fn whole(&self) -> String {
        match self.part {
            "" => self.plural.to_owned(),
            part => format!("{}/{part}", self.plural),
        }
    }

    /// The labels of the new object and of the old one. The options of a connection have none.
    fn objects(&self) -> [Option<&Labels>; 2] {
        match self.operation {
            "CREATE" => [Some(&self.labels), None],
            "UPDATE" => [Some(&self.labels), Some(&self.old_labels)],
            "DELETE" => [None, Some(&self.old_labels)],
            _ => [None, None],
        }
    }

    fn definitions(&self) -> Vec<Arc<ResourceDefinition>> {
        let base = match self.plural {
            "namespaces" => namespaces(),
            _ => configmaps(),
        };
        let versions = self.versions.iter();
        let versions = versions.map(|(group, version)| {
            Arc::new(ResourceDefinition {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                plural: self.plural.to_owned(),
                ..base.clone()
            })
        });
        versions.collect()
    }
}

/// A fixed set of configurations.
struct Fixed<V>(Arc<Hooks<V>>);

impl<V: Send + Sync + 'static> HookSource<V> for Fixed<V> {
    fn newest(&self) -> Option<Arc<Hooks<V>>> {
        Some(Arc::clone(&self.0))
    }

    fn filled(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// The namespace `d`, if it is there.
struct Namespaces(Option<Labels>);

impl ResourceClient for Namespaces {
    fn get<'c>(&'c self, _: Option<&'c str>, name: &'c str) -> Answering<'c, Option<Object>> {
        let found = self.0.as_ref().filter(|_| name == "d");
        let found = found.map(|namespace| {
            let mut namespace = object(namespace);
            namespace.set_meta("resourceVersion", "7");
            namespace
        });
        std::future::ready(Ok(found)).boxed()
    }

    fn known_version(&self, _: Option<&str>, name: &str) -> Option<u64> {
        self.0.as_ref().filter(|_| name == "d").map(|_| 7)
    }

    fn list<'c>(&'c self, _: Option<&'c str>) -> Answering<'c, Vec<Object>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn change_status<'c>(
        &'c self,
        _: Option<&'c str>,
        _: &'c str,
        _: Change<'c>,
    ) -> Answering<'c, ()> {
        std::future::ready(Ok(())).boxed()
    }
}

struct NoParameters;

impl Parameters for NoParameters {
    fn find(&self, _: &str, _: &str, _: &str) -> Option<ParamObjects> {
        None
    }
}

fn object(labels: &Labels) -> Object {
    let object = json!({"metadata": {"labels": labels}});
    Object::of(object.as_object().cloned().unwrap())
}

fn hooks<V>(objects: impl Iterator<Item = (String, V)>) -> Arc<Hooks<V>> {
    Arc::new(Hooks {
        generation: 1,
        by_name: objects
            .map(|(name, value)| (name, Arc::new(value)))
            .collect(),
    })
}

/// Evaluates policies that warn. Returns the names of policies and bindings that did.
fn warned(
    policies: &[Resources],
    bindings: &[(usize, Option<Resources>)],
    asked: &Asked,
) -> BTreeSet<String> {
    let made = policies.iter().enumerate().map(|(number, resources)| {
        let policy = json!({"spec": {"failurePolicy": "Ignore",
            "matchConstraints": resources.json(), "validations": [{"expression": "false"}]}});
        (
            format!("p{number}"),
            Policy::read(policy.to_string().as_bytes()).unwrap(),
        )
    });
    let bound = bindings
        .iter()
        .enumerate()
        .map(|(number, (policy, resources))| {
            let mut binding = json!({"spec": {"policyName": format!("p{policy}"),
            "validationActions": ["Warn"]}});
            if let Some(resources) = resources {
                binding["spec"]["matchResources"] = resources.json();
            }
            (
                format!("b{number}"),
                Binding::read(binding.to_string().as_bytes()).unwrap(),
            )
        });
    let plugin = ValidatingPolicies::new(PolicySources {
        policies: Arc::new(Fixed(hooks(made))),
        bindings: Arc::new(Fixed(hooks(bound))),
        namespaces: Arc::new(Namespaces(asked.labels_of_namespace.clone())),
        parameters: Arc::new(NoParameters),
        authorizer: Arc::new(AlwaysAllow),
    });
    let definitions = asked.definitions();
    let (write, delete) = (WriteOptions::default(), DeleteOptions::default());
    let (user, warnings) = (UserInfo::default(), Warnings::default());
    let [new, old] = asked.objects();
    let old = old.map(object);
    let new = match asked.operation {
        "CONNECT" => Some(Object::default()),
        _ => new.map(object),
    };
    let attributes = Attributes {
        operation: match asked.operation {
            "CREATE" => Operation::Create(&write),
            "UPDATE" => Operation::Update(&write),
            "DELETE" => Operation::Delete(&delete),
            _ => Operation::Connect,
        },
        definition: &definitions[0],
        kind: &definitions[0],
        stored: &definitions[0],
        subresource: Some(asked.part).filter(|part| !part.is_empty()),
        namespace: asked.namespace,
        name: asked.name,
        old_object: old.as_ref(),
        user: &user,
        warnings: &warnings,
        annotations: None,
        versions: &definitions[1..],
        converter: None,
        deadline: Instant::now(),
        rounds: Rounds::default(),
    };
    // Each request is asked about twice: kinds of requests are remembered.
    for _ in 0..2 {
        let validating = plugin.validate(&attributes, new.as_ref());
        validating.now_or_never().unwrap().unwrap();
    }
    let texts = warnings.take().into_iter();
    let names = texts.map(|text| {
        let mut names = text.split('\'').skip(1).step_by(2);
        format!("{} by {}", names.next().unwrap(), names.next().unwrap())
    });
    names.collect()
}

proptest! {
    #[test]
    fn any_policies_and_bindings_apply_as_spelled_out_hk_51_hk_52(
        policies in prop::collection::vec(resources(1..4), 1..4),
        bindings in prop::collection::vec((0..4_usize, prop::option::of(resources(0..3))), 0..5),
        asked in asked(),
    ) {
        let mut wanted = BTreeSet::new();
        for (number, (policy, resources)) in bindings.iter().enumerate() {
            let Some(constraints) = policies.get(*policy) else { continue };
            let is_bound = resources.as_ref().is_none_or(|resources| resources.apply(&asked, true));
            if constraints.apply(&asked, false) && is_bound {
                wanted.insert(format!("p{policy} by b{number}"));
            }
        }
        prop_assert_eq!(warned(&policies, &bindings, &asked), wanted);
    }
}
