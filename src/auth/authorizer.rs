//! Decides whether a user may do what a request asks for (API-286).

use std::borrow::Cow;
use std::future::ready;

use futures_util::future::{BoxFuture, FutureExt};

use crate::api::options::Query;
use crate::api::request_info::RequestInfo;
use crate::api::user_info::UserInfo;

/// A request as authorizers see it. Attributes that the request does not have are empty.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'r> {
    /// The user who makes the request.
    pub user: &'r UserInfo,
    /// `get`, `list`, `create`, … or the lower-case method of a non-resource request.
    pub verb: &'r str,
    /// Whether this is a resource request.
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
    /// The unparsed field selector of a list, watch or deletion of a collection (API-9).
    pub field_selector: &'r str,
    /// The label selector of the same requests.
    pub label_selector: &'r str,
}

impl<'r> Attributes<'r> {
    /// Returns the attributes of an action on a resource in the whole cluster. Callers that ask
    /// about a namespace, a name or a subresource set those fields.
    pub fn on_resource(
        user: &'r UserInfo,
        verb: &'r str,
        api_group: &'r str,
        resource: &'r str,
    ) -> Attributes<'r> {
        Attributes {
            user,
            verb,
            is_resource_request: true,
            path: "",
            api_group,
            api_version: "*",
            resource,
            subresource: "",
            namespace: "",
            name: "",
            field_selector: "",
            label_selector: "",
        }
    }

    /// Whether this is a non-resource request that reads.
    pub fn reads_a_path(&self) -> bool {
        !self.is_resource_request && self.verb == "get"
    }

    /// Returns the attributes of a request.
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

/// Whether a request may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request may be carried out, whatever other authorizers say.
    Allow,
    /// The request may not be carried out, whatever other authorizers say.
    Deny,
    /// Other authorizers decide. If none allows the request, it is refused.
    NoOpinion,
}

/// The answer of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// Whether the request may be carried out.
    pub decision: Decision,
    /// The reason for the decision, which may be empty. The client sees it.
    pub reason: Cow<'static, str>,
    /// The failure of an authorizer that could not decide as it was meant to. It counts only if
    /// no authorizer allows the request (AC-28).
    pub error: Option<String>,
}

impl Authorization {
    /// Returns `NoOpinion` for this reason, which may be empty.
    pub fn no_opinion(reason: impl Into<Cow<'static, str>>) -> Authorization {
        Authorization {
            decision: Decision::NoOpinion,
            reason: reason.into(),
            error: None,
        }
    }

    /// Returns `Allow` without a reason if the request is allowed, otherwise `NoOpinion`.
    pub fn allow_if(is_allowed: bool) -> Authorization {
        let decision = if is_allowed {
            Decision::Allow
        } else {
            Decision::NoOpinion
        };
        Authorization {
            decision,
            ..Authorization::no_opinion("")
        }
    }

    /// Whether the request may be carried out.
    pub fn is_allowed(&self) -> bool {
        self.decision == Decision::Allow
    }
}

/// Decides whether requests may be carried out. It is asynchronous, because an authorizer may read
/// objects or ask a webhook.
pub trait Authorizer: Send + Sync + 'static {
    /// Decides about a request.
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization>;

    /// Returns the rules by which this authorizer allows a user's requests in a namespace, for
    /// SelfSubjectRulesReviews (API-293).
    fn rules_for<'a>(&'a self, _user: &'a UserInfo, _namespace: &'a str) -> BoxFuture<'a, Rules> {
        ready(Rules::default()).boxed()
    }
}

/// The permissions of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The permissions on resources.
    pub of_resources: Vec<ResourceRule>,
    /// The permissions on other paths.
    pub of_paths: Vec<NonResourceRule>,
    /// Whether an authorizer can't list what it allows.
    pub is_incomplete: bool,
    /// The failures of authorizers, in their words.
    pub errors: Vec<String>,
}

impl Rules {
    /// Returns no permissions, because the authorizer can't list them for this reason (AC-70).
    pub fn unlisted(why: &str) -> Rules {
        Rules {
            is_incomplete: true,
            errors: vec![why.to_owned()],
            ..Rules::default()
        }
    }
}

/// Verbs that are allowed on resources. A star means all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRule {
    /// The verbs.
    pub verbs: Vec<String>,
    /// The groups of the resources.
    pub api_groups: Vec<String>,
    /// The resources.
    pub resources: Vec<String>,
}

impl ResourceRule {
    /// Allows these verbs on these resources of one group.
    pub fn new(verbs: &[&str], api_group: &str, resources: &[&str]) -> ResourceRule {
        ResourceRule {
            verbs: owned(verbs),
            api_groups: vec![api_group.to_owned()],
            resources: owned(resources),
        }
    }
}

/// Verbs that are allowed on paths. A star at the end of a path matches any suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonResourceRule {
    /// The verbs.
    pub verbs: Vec<String>,
    /// The paths.
    pub paths: Vec<String>,
}

impl NonResourceRule {
    /// Allows these verbs on these paths.
    pub fn new(verbs: &[&str], paths: &[&str]) -> NonResourceRule {
        NonResourceRule {
            verbs: owned(verbs),
            paths: owned(paths),
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
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
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        async move {
            let mut reasons = Vec::new();
            for member in &self.0 {
                let answer = member.authorize(attributes).await;
                if answer.decision != Decision::NoOpinion {
                    return answer;
                }
                if !answer.reason.is_empty() {
                    reasons.push(answer.reason);
                }
            }
            Authorization::no_opinion(reasons.join("\n"))
        }
        .boxed()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        async move {
            let mut all = Rules::default();
            for member in &self.0 {
                let rules = member.rules_for(user, namespace).await;
                all.of_resources.extend(rules.of_resources);
                all.of_paths.extend(rules.of_paths);
            }
            all
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// Returns the same decision for all requests.
    struct Fixed(Decision, &'static str);

    impl Authorizer for Fixed {
        fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
            let (decision, answer) = (self.0, Authorization::no_opinion(self.1));
            ready(Authorization { decision, ..answer }).boxed()
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
            let attributes = Attributes::of(&user, &info, &query);
            let answer = authorizers.authorize(&attributes).now_or_never().unwrap();
            (answer.decision, answer.reason.into_owned())
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
