//! Decides whether a user may do what a request asks for (API-286).

use std::borrow::Cow;

use crate::api::options::Query;
use crate::api::request_info::RequestInfo;
use crate::api::user_info::UserInfo;

/// A request as authorizers see it. Attributes that the request does not have are empty.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'r> {
    /// The user who asks.
    pub user: &'r UserInfo,
    /// `get`, `list`, `create`, … For requests that are not about a resource, the method in lower
    /// case.
    pub verb: &'r str,
    /// Whether the request is about a resource.
    pub is_resource_request: bool,
    /// The path of the URL.
    pub path: &'r str,
    /// The API group, empty for the core group.
    pub api_group: &'r str,
    /// The API version.
    pub api_version: &'r str,
    /// The resource's plural.
    pub resource: &'r str,
    /// The subresource.
    pub subresource: &'r str,
    /// The namespace.
    pub namespace: &'r str,
    /// The object's name.
    pub name: &'r str,
    /// The field selector as it was sent, for lists, watches and deletions of collections (API-9).
    pub field_selector: &'r str,
    /// The label selector, in the same cases.
    pub label_selector: &'r str,
}

impl<'r> Attributes<'r> {
    /// The attributes of a request.
    pub fn of(user: &'r UserInfo, info: &'r RequestInfo, query: &'r Query) -> Attributes<'r> {
        let selects = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection");
        let selector = |name| match info.is_resource && selects {
            true => query.first(name).unwrap_or_default(),
            false => "",
        };
        Attributes {
            user,
            verb: &info.verb,
            is_resource_request: info.is_resource,
            path: &info.path,
            api_group: &info.group,
            api_version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            field_selector: selector("fieldSelector"),
            label_selector: selector("labelSelector"),
        }
    }
}

/// The answer of an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request may be carried out, whatever other authorizers say.
    Allow,
    /// The request may not be carried out, whatever other authorizers say.
    Deny,
    /// Other authorizers decide. If none allows the request, it is refused.
    NoOpinion,
}

/// Decides whether requests may be carried out.
pub trait Authorizer: Send + Sync {
    /// The decision and its reason, which may be empty. The client sees the reason.
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>);

    /// What this authorizer allows a user in a namespace, for reviews of rules (API-293).
    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> Rules {
        Rules::default()
    }
}

/// What a user may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// What the user may do with resources.
    pub of_resources: Vec<ResourceRule>,
    /// What the user may do with other paths.
    pub of_paths: Vec<NonResourceRule>,
}

/// Verbs that are allowed on resources. A star stands for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRule {
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// The groups of the resources.
    pub api_groups: &'static [&'static str],
    /// The resources.
    pub resources: &'static [&'static str],
}

/// Verbs that are allowed on paths. A star at the end stands for what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonResourceRule {
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// The paths.
    pub paths: Vec<&'static str>,
}

/// All authorizers, asked in order until one has an opinion.
pub struct Authorizers(Vec<Box<dyn Authorizer>>);

impl Authorizers {
    /// Combines authorizers in this order.
    pub fn new(members: Vec<Box<dyn Authorizer>>) -> Authorizers {
        Authorizers(members)
    }
}

impl Authorizer for Authorizers {
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
        let mut reasons = Vec::new();
        for member in &self.0 {
            match member.authorize(attributes) {
                (Decision::NoOpinion, reason) if reason.is_empty() => {}
                (Decision::NoOpinion, reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        (Decision::NoOpinion, reasons.join("\n").into())
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> Rules {
        let mut all = Rules::default();
        for member in &self.0 {
            let rules = member.rules_for(user, namespace);
            all.of_resources.extend(rules.of_resources);
            all.of_paths.extend(rules.of_paths);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// Gives the same answer to all requests.
    struct Fixed(Decision, &'static str);

    impl Authorizer for Fixed {
        fn authorize(&self, _: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
            (self.0, self.1.into())
        }
    }

    #[test]
    fn the_first_opinion_counts_and_reasons_of_those_without_are_gathered_api_286() {
        let decided = |members: &[(Decision, &'static str)]| {
            let members = members.iter().map(|(decision, reason)| {
                Box::new(Fixed(*decision, reason)) as Box<dyn Authorizer>
            });
            let authorizers = Authorizers::new(members.collect());
            let (user, info) = (UserInfo::anonymous(), RequestInfo::default());
            let query = Query::default();
            let (decision, reason) = authorizers.authorize(&Attributes::of(&user, &info, &query));
            (decision, reason.into_owned())
        };
        let of = |decision, reason: &str| (decision, reason.to_owned());
        use Decision::{Allow, Deny, NoOpinion};
        assert_eq!(decided(&[]), of(NoOpinion, ""));
        let unsure = [(NoOpinion, "a"), (NoOpinion, ""), (NoOpinion, "b")];
        assert_eq!(decided(&unsure), of(NoOpinion, "a\nb"));
        let allowed = [(NoOpinion, "a"), (Allow, "b"), (Deny, "c")];
        assert_eq!(decided(&allowed), of(Allow, "b"));
        assert_eq!(decided(&[(Deny, "c"), (Allow, "b")]), of(Deny, "c"));
    }

    #[test]
    fn selectors_are_attributes_of_what_selects_api_9() {
        let of = |method: Method, path: &str, query: &str| {
            let query = Query::parse(query);
            let info = RequestInfo::parse(&method, path, query.flag("watch"), "").unwrap();
            let user = UserInfo::anonymous();
            let attributes = Attributes::of(&user, &info, &query);
            let selectors = (attributes.field_selector, attributes.label_selector);
            (attributes.verb.to_owned(), format!("{selectors:?}"))
        };
        let (pods, query) = ("/api/v1/pods", "fieldSelector=a%3Db&labelSelector=c");
        let expected = r#"("a=b", "c")"#;
        for (method, query, verb) in [
            (Method::GET, query.to_owned(), "list"),
            (Method::GET, format!("{query}&watch=1"), "watch"),
            (Method::DELETE, query.to_owned(), "deletecollection"),
        ] {
            let got = of(method, pods, &query);
            assert_eq!(got, (verb.to_owned(), expected.to_owned()));
        }
        let none = r#"("", "")"#;
        assert_eq!(of(Method::GET, pods, "").1, none);
        assert_eq!(of(Method::POST, pods, query).1, none);
        assert_eq!(of(Method::GET, "/version", query).1, none);
    }
}
