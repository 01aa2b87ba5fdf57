//! Decides whether a user may do what a request asks for (API-286).

use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, OnceLock};

use futures_util::future::{BoxFuture, FutureExt};
use metrics::{Counter, counter};
use smol_str::SmolStr;

use crate::api::options::Query;
use crate::api::request_info::RequestInfo;
use crate::api::user_info::{MASTERS, UserInfo};

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
    pub reason: SmolStr,
    /// The failure of an authorizer that could not decide as it was meant to. It counts only if
    /// no authorizer allows the request (AC-28).
    pub error: Option<String>,
}

impl Authorization {
    /// Returns `NoOpinion` for this reason, which may be empty.
    pub fn no_opinion(reason: impl Into<SmolStr>) -> Authorization {
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

    /// Decides about a request, as [`Authorizer::authorize`] does. `None` if that has to wait, or
    /// is not known yet.
    fn authorize_at_once(&self, _attributes: &Attributes<'_>) -> Option<Authorization> {
        None
    }

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
    /// Returns the permission to do everything.
    pub fn everything() -> Rules {
        Rules {
            of_resources: vec![ResourceRule::new(&["*"], "*", &["*"])],
            of_paths: vec![NonResourceRule::new(&["*"], &["*"])],
            ..Rules::default()
        }
    }

    /// Returns no permissions, because the authorizer can't list them for this reason (AC-70).
    pub fn unlisted(why: &str) -> Rules {
        Rules {
            is_incomplete: true,
            errors: vec![why.to_owned()],
            ..Rules::default()
        }
    }

    /// Adds the permissions of a further authorizer.
    pub fn extend(&mut self, other: Rules) {
        self.of_resources.extend(other.of_resources);
        self.of_paths.extend(other.of_paths);
        self.is_incomplete |= other.is_incomplete;
        self.errors.extend(other.errors);
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
    /// The names of the objects. An empty list stands for all objects.
    pub resource_names: Vec<String>,
}

impl ResourceRule {
    /// Allows these verbs on these resources of one group.
    pub fn new(verbs: &[&str], api_group: &str, resources: &[&str]) -> ResourceRule {
        ResourceRule {
            verbs: owned(verbs),
            api_groups: vec![api_group.to_owned()],
            resources: owned(resources),
            resource_names: Vec::new(),
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

/// One of several authorizers, with the names that metrics have for it.
pub struct Member {
    /// Its type: `RBAC`, `Node`, `Webhook`, …
    pub kind: &'static str,
    /// Its name: that of its type in lower case, or that of a webhook.
    pub name: String,
    /// The authorizer.
    pub authorizer: Arc<dyn Authorizer>,
}

/// All authorizers, asked in order until one has an opinion. Members of `system:masters` may do
/// everything, and no authorizer is asked about them (AC-28).
pub struct Authorizers(Vec<Counted>);

/// A member that counts its decisions (AC-75).
struct Counted {
    member: Member,
    allowed: OnceLock<Counter>,
    denied: OnceLock<Counter>,
}

impl Authorizers {
    /// Combines authorizers in this order.
    pub fn new(members: Vec<Member>) -> Authorizers {
        let members = members.into_iter().map(|member| Counted {
            member,
            allowed: OnceLock::new(),
            denied: OnceLock::new(),
        });
        Authorizers(members.collect())
    }
}

impl Counted {
    fn count(&self, decision: Decision) {
        let (counter, decision) = match decision {
            Decision::Allow => (&self.allowed, "allowed"),
            Decision::Deny => (&self.denied, "denied"),
            Decision::NoOpinion => return,
        };
        let counter = counter.get_or_init(|| {
            counter!(
                "apiserver_authorization_decisions_total",
                "type" => self.member.kind, "name" => self.member.name.clone(),
                "decision" => decision,
            )
        });
        counter.increment(1);
    }
}

impl Authorizer for Authorizers {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        if attributes.user.is_in(MASTERS) {
            return ready(Authorization::allow_if(true)).boxed();
        }
        async move {
            let (mut reasons, mut errors) = (Vec::new(), Vec::new());
            let mut decision = Decision::NoOpinion;
            for counted in &self.0 {
                let authorizer = &counted.member.authorizer;
                let answer = match authorizer.authorize_at_once(attributes) {
                    Some(answer) => answer,
                    None => authorizer.authorize(attributes).await,
                };
                counted.count(answer.decision);
                if answer.decision == Decision::Allow {
                    return answer;
                }
                errors.extend(answer.error);
                if answer.decision == Decision::Deny {
                    (decision, reasons) = (Decision::Deny, vec![answer.reason]);
                    break;
                }
                if !answer.reason.is_empty() {
                    reasons.push(answer.reason);
                }
            }
            Authorization {
                decision,
                reason: joined(reasons),
                error: aggregate(&errors),
            }
        }
        .boxed()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        async move {
            let mut all = Rules::default();
            for counted in &self.0 {
                let authorizer = &counted.member.authorizer;
                all.extend(authorizer.rules_for(user, namespace).await);
            }
            all
        }
        .boxed()
    }
}

fn joined(mut reasons: Vec<SmolStr>) -> SmolStr {
    match reasons.len() {
        0 | 1 => reasons.pop().unwrap_or_default(),
        _ => reasons.join("\n").into(),
    }
}

/// Joins errors as Kubernetes prints several: each once, in brackets. `None` for an empty list.
pub fn aggregate(errors: &[String]) -> Option<String> {
    let mut known = HashSet::new();
    let errors = errors.iter().filter(|error| known.insert(error.as_str()));
    let errors: Vec<&str> = errors.map(String::as_str).collect();
    match errors.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
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
            let members = members.iter().map(|(decision, reason)| Member {
                kind: "Fixed",
                name: "fixed".to_owned(),
                authorizer: Arc::new(Fixed(*decision, reason)),
            });
            let authorizers = Authorizers::new(members.collect());
            let (user, info) = (UserInfo::anonymous(), RequestInfo::default());
            let query = Query::default();
            let attributes = Attributes::of(&user, &info, &query);
            let answer = authorizers.authorize(&attributes).now_or_never().unwrap();
            (answer.decision, answer.reason.to_string())
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
