//! Decisions of RBAC about any roles and bindings equal those of an evaluation that scans all of
//! them, as they are written, without an index and without the code of the product (API-288).

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};

use super::super::{Binding, RbacIndex, RoleKind, Verdict, decide, read_rules};
use crate::api::user_info::UserInfo;
use crate::auth::Attributes;

const NAMESPACES: [&str; 3] = ["", "a", "b"];
const NAMES: [&str; 3] = ["p", "q", "r"];

/// A role or binding with its namespace, which is empty for those of the cluster, and its name.
#[derive(Clone, Debug)]
struct Stored {
    namespace: String,
    name: String,
    object: Value,
}

/// One change of the store.
#[derive(Clone, Debug)]
enum Change {
    SetRole(Stored),
    SetBinding(Stored),
    RemoveRole(Index),
    RemoveBinding(Index),
    ClearRoles(RoleKind),
    ClearBindings(bool),
}

/// A request, and who sends it.
#[derive(Clone, Debug)]
struct Asked {
    user: UserInfo,
    verb: &'static str,
    /// The path of a request for no resource. Otherwise it is empty.
    path: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    namespace: &'static str,
    name: &'static str,
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    select(values)
}

/// Some of the values, in order. A list may also be absent or null.
fn some_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => subsequence(values, 0..=values.len().min(3)).prop_map(|list| json!(list)),
        1 => Just(Value::Null),
    ]
}

fn rule() -> impl Strategy<Value = Value> {
    let lists = (
        some_of(&["get", "list", "create", "impersonate", "*"]),
        some_of(&["", "apps", "*"]),
        some_of(&["pods", "pods/log", "nodes", "*", "*/scale", "*/*", "pods/*"]),
        prop_oneof![Just(Value::Null), some_of(&["p", "q", ""])],
        prop_oneof![
            Just(Value::Null),
            some_of(&["/a", "/a/*", "/a/b*", "/a/**", "*", "", "/"])
        ],
    );
    lists.prop_map(|(verbs, groups, resources, names, paths)| {
        let mut rule = json!({
            "verbs": verbs, "apiGroups": groups, "resources": resources,
            "resourceNames": names, "nonResourceURLs": paths,
        });
        let members = rule.as_object_mut().unwrap();
        members.retain(|_, list| !list.is_null());
        rule
    })
}

fn stored(object: impl Strategy<Value = Value>) -> impl Strategy<Value = Stored> {
    (one_of(&NAMESPACES), one_of(&NAMES), object).prop_map(|(namespace, name, object)| Stored {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        object,
    })
}

fn subject() -> impl Strategy<Value = Value> {
    let kind = one_of(&["User", "Group", "ServiceAccount", "Robot", ""]);
    // The name of a user may be that of an account, and an account has its own namespace or none.
    let name = one_of(&["p", "q", "r", "system:serviceaccount:a:p"]);
    let namespace = one_of(&["", "a", "b"]);
    (kind, name, namespace).prop_map(
        |(kind, name, namespace)| json!({ "kind": kind, "name": name, "namespace": namespace }),
    )
}

fn binding() -> impl Strategy<Value = Value> {
    let kind = one_of(&["Role", "ClusterRole", "Else"]);
    let subjects = prop::collection::vec(subject(), 0..4);
    (kind, one_of(&NAMES), subjects).prop_map(|(kind, name, subjects)| {
        json!({ "roleRef": { "kind": kind, "name": name }, "subjects": subjects })
    })
}

fn change() -> impl Strategy<Value = Change> {
    let rules = prop::collection::vec(rule(), 0..3).prop_map(|rules| json!({ "rules": rules }));
    prop_oneof![
        8 => stored(rules).prop_map(Change::SetRole),
        8 => stored(binding()).prop_map(Change::SetBinding),
        1 => any::<Index>().prop_map(Change::RemoveRole),
        1 => any::<Index>().prop_map(Change::RemoveBinding),
        1 => select(vec![RoleKind::Role, RoleKind::ClusterRole]).prop_map(Change::ClearRoles),
        1 => any::<bool>().prop_map(Change::ClearBindings),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let user = one_of(&[
        "p",
        "none",
        "system:serviceaccount:a:p",
        "system:serviceaccount:b:q",
        "system:serviceaccount::r",
    ]);
    let groups = subsequence(&["p", "q", "system:serviceaccount:a:p"][..], 0..3);
    let what = (
        one_of(&["get", "list", "create", "watch"]),
        one_of(&["", "", "", "/a", "/a/", "/a/b", "/a/bc/d", "/", "/b"]),
        one_of(&["", "apps", "batch"]),
        one_of(&["pods", "nodes", "deployments"]),
        one_of(&["", "log", "scale", "*"]),
    );
    let place = (one_of(&NAMESPACES), one_of(&["", "p", "s"]));
    (user, groups, what, place).prop_map(|(user, groups, what, place)| Asked {
        user: UserInfo {
            name: user.to_owned(),
            groups: groups.into_iter().map(str::to_owned).collect(),
            ..UserInfo::default()
        },
        verb: what.0,
        path: what.1,
        group: what.2,
        resource: what.3,
        subresource: what.4,
        namespace: place.0,
        name: place.1,
    })
}

impl Asked {
    fn attributes(&self) -> Attributes<'_> {
        let of = Attributes::on_resource(&self.user, self.verb, self.group, self.resource);
        match self.path.is_empty() {
            true => Attributes {
                subresource: self.subresource,
                namespace: self.namespace,
                name: self.name,
                ..of
            },
            false => Attributes {
                is_resource_request: false,
                path: self.path,
                api_group: "",
                api_version: "",
                resource: "",
                ..of
            },
        }
    }

    /// The namespace of the request. Empty for a path.
    fn place(&self) -> &str {
        if self.path.is_empty() {
            self.namespace
        } else {
            ""
        }
    }
}

/// All roles and bindings as they are written.
#[derive(Default)]
struct Scanned {
    roles: Vec<Stored>,
    bindings: Vec<Stored>,
}

fn texts<'v>(of: &'v Value, member: &str) -> Vec<&'v str> {
    let list = of[member].as_array();
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.collect()
}

impl Scanned {
    /// Looks at each subject of each binding, and at each rule of its role.
    fn allows(&self, asked: &Asked) -> bool {
        self.bindings.iter().any(|binding| {
            let is_here = binding.namespace.is_empty() || binding.namespace == asked.place();
            let subjects = binding.object["subjects"].as_array().unwrap();
            let is_of = subjects
                .iter()
                .any(|subject| Scanned::is(subject, binding, asked));
            is_here && is_of && self.role_allows(binding, asked)
        })
    }

    fn is(subject: &Value, binding: &Stored, asked: &Asked) -> bool {
        let text = |member: &str| subject[member].as_str().unwrap();
        match text("kind") {
            "User" => asked.user.name == text("name"),
            "Group" => asked.user.groups.iter().any(|group| group == text("name")),
            "ServiceAccount" => {
                let own = text("namespace");
                let of = if own.is_empty() {
                    &*binding.namespace
                } else {
                    own
                };
                let user = format!("system:serviceaccount:{of}:{}", text("name"));
                !of.is_empty() && asked.user.name == user
            }
            _ => false,
        }
    }

    fn role_allows(&self, binding: &Stored, asked: &Asked) -> bool {
        let named = &binding.object["roleRef"];
        let namespace = match named["kind"].as_str().unwrap() {
            "ClusterRole" => "",
            "Role" if !binding.namespace.is_empty() => &*binding.namespace,
            _ => return false,
        };
        let is = |role: &&Stored| role.namespace == namespace && named["name"] == *role.name;
        let role = self.roles.iter().find(is);
        let rules = role.and_then(|role| role.object["rules"].as_array());
        let mut rules = rules.into_iter().flatten();
        rules.any(|rule| Scanned::rule_allows(rule, asked))
    }

    fn rule_allows(rule: &Value, asked: &Asked) -> bool {
        let has = |member: &str, wanted: &str| {
            let list = texts(rule, member);
            list.contains(&"*") || list.contains(&wanted)
        };
        if !has("verbs", asked.verb) {
            return false;
        }
        if !asked.path.is_empty() {
            return texts(rule, "nonResourceURLs").into_iter().any(|known| {
                let start = known.trim_end_matches('*');
                known == asked.path || (start != known && asked.path.starts_with(start))
            });
        }
        let resources = texts(rule, "resources");
        let full = match asked.subresource {
            "" => asked.resource.to_owned(),
            subresource => format!("{}/{subresource}", asked.resource),
        };
        let of_all = format!("*/{}", asked.subresource);
        let is_resource = resources.contains(&"*")
            || resources.contains(&&*full)
            || (!asked.subresource.is_empty() && resources.contains(&&*of_all));
        let names = texts(rule, "resourceNames");
        let is_name = names.is_empty() || names.contains(&asked.name);
        has("apiGroups", asked.group) && is_resource && is_name
    }

    /// Changes the lists and the index.
    fn apply(&mut self, index: &mut RbacIndex, change: &Change) {
        let is_at = |one: &Stored, other: &Stored| {
            (&one.namespace, &one.name) == (&other.namespace, &other.name)
        };
        match change {
            Change::SetRole(role) => {
                self.roles.retain(|known| !is_at(known, role));
                self.roles.push(role.clone());
                let rules = read_rules(role.object.to_string().as_bytes()).unwrap();
                index.set_role(&role.namespace, &role.name, rules);
            }
            Change::SetBinding(binding) => {
                self.bindings.retain(|known| !is_at(known, binding));
                self.bindings.push(binding.clone());
                let text = binding.object.to_string();
                let read = Binding::read(&binding.namespace, &binding.name, text.as_bytes());
                index.set_binding(read.unwrap());
            }
            Change::RemoveRole(which) if !self.roles.is_empty() => {
                let gone = self.roles.remove(which.index(self.roles.len()));
                index.remove_role(&gone.namespace, &gone.name);
            }
            Change::RemoveBinding(which) if !self.bindings.is_empty() => {
                let gone = self.bindings.remove(which.index(self.bindings.len()));
                index.remove_binding(&gone.namespace, &gone.name);
            }
            Change::RemoveRole(_) | Change::RemoveBinding(_) => {}
            Change::ClearRoles(kind) => {
                let of_cluster = *kind == RoleKind::ClusterRole;
                self.roles
                    .retain(|role| role.namespace.is_empty() != of_cluster);
                index.clear_roles(*kind);
            }
            Change::ClearBindings(of_cluster) => {
                let is_left = |binding: &Stored| binding.namespace.is_empty() != *of_cluster;
                self.bindings.retain(is_left);
                index.clear_bindings(*of_cluster);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn decisions_equal_those_of_a_scan_api_288(
        changes in prop::collection::vec(change(), 0..40),
        requests in prop::collection::vec(asked(), 20),
    ) {
        let (mut index, mut scanned) = (RbacIndex::default(), Scanned::default());
        for change in &changes {
            scanned.apply(&mut index, change);
        }
        for asked in &requests {
            let request = asked.attributes();
            let verdict = decide(&index.grants(&asked.user, request.namespace), &request);
            let is_allowed = matches!(verdict, Verdict::Allowed(_));
            prop_assert_eq!(is_allowed, scanned.allows(asked), "{:?}", asked);
        }
    }
}
