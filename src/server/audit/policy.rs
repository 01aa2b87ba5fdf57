//! The policy of `--audit-policy-file`: which requests are recorded, and in how much detail. Pure.
//!
//! The file is Kubernetes' `audit.k8s.io/v1` Policy. The first rule that matches a request decides;
//! a request that no rule matches is not recorded.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::api::field_error::FieldError;
use crate::api::names::dns_subdomain;
use crate::api::request_info::{RequestInfo, covers};
use crate::api::user_info::UserInfo;
use crate::documents::{KindAndVersion, Tree, types};
use crate::schema::ObjectType;

static TYPE: LazyLock<ObjectType> =
    LazyLock::new(|| types(include_str!("types.txt")).object_type("audit.v1.Policy"));

/// The level of detail at which a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Level {
    /// The request is not recorded.
    #[default]
    None,
    /// The user, the request metadata and the outcome.
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the body of the response.
    RequestResponse,
}

impl Level {
    const ALL: [Level; 4] = [
        Level::None,
        Level::Metadata,
        Level::Request,
        Level::RequestResponse,
    ];

    /// Returns the name in policies and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// The stage of a request at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The request was authenticated, and no handler has it yet.
    RequestReceived,
    /// The headers of a long-running response, such as a watch, are sent.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The handler panicked.
    Panic,
}

impl Stage {
    const ALL: [Stage; 4] = [
        Stage::RequestReceived,
        Stage::ResponseStarted,
        Stage::ResponseComplete,
        Stage::Panic,
    ];

    fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// The decision of a policy about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// The level of detail.
    pub level: Level,
    /// The stages that are not recorded.
    pub omitted: Vec<Stage>,
    /// Whether `metadata.managedFields` is removed from objects.
    pub omits_managed_fields: bool,
}

/// A policy.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// A policy as it is written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Written {
    rules: Vec<WrittenRule>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenRule {
    level: String,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
    #[serde(flatten)]
    requests: Requests,
}

#[derive(Clone, Debug)]
struct Rule {
    level: Level,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
    requests: Requests,
}

/// The requests that a rule is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Requests {
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Policy {
    /// Parses a policy.
    ///
    /// # Errors
    /// A description of the problem, in one line.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let unreadable = |why: String| format!("it is not a valid audit policy: {why}");
        let tree = Tree::of_file(text.as_bytes()).map_err(unreadable)?;
        let KindAndVersion { kind, api_version } = tree.kind_and_version().map_err(unreadable)?;
        if (api_version.as_str(), kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!(
                "it has apiVersion {api_version:?} and kind {kind:?}, but must have audit.k8s.io/v1 and Policy"
            ));
        }
        let document = tree.typed(&TYPE).map_err(unreadable)?;
        let policy = Written::deserialize(document.strict().map_err(unreadable)?);
        let policy = policy.map_err(|error| unreadable(error.to_string()))?;
        if policy.rules.is_empty() {
            return Err("it has no rules, so nothing would be recorded".to_owned());
        }
        let rules = policy.rules.into_iter().enumerate();
        let rules = rules.map(|(number, rule)| Rule::parse(rule, &format!("rules[{number}]")));
        Ok(Policy {
            rules: rules.collect::<Result<_, _>>()?,
            omit_stages: stages(&policy.omit_stages, "omitStages")?,
            omit_managed_fields: policy.omit_managed_fields,
        })
    }

    /// Decides what to record of a request. `user` is its sender, if known.
    pub fn decide(&self, user: Option<&UserInfo>, info: &RequestInfo) -> Decided {
        let mut rules = self.rules.iter();
        let Some(rule) = rules.find(|rule| rule.requests.include(user, info)) else {
            return Decided::default();
        };
        Decided {
            level: rule.level,
            omitted: [&*self.omit_stages, &*rule.omit_stages].concat(),
            omits_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

impl Rule {
    fn parse(rule: WrittenRule, path: &str) -> Result<Rule, String> {
        let at = format!("{path}.level");
        let names = Level::ALL.map(Level::name);
        if rule.level.is_empty() {
            let detail = format!("one of {}", names.join(", "));
            return Err(FieldError::required(at, detail).to_string());
        }
        let level = Level::ALL
            .into_iter()
            .find(|level| level.name() == rule.level)
            .ok_or_else(|| FieldError::not_supported(at, &*rule.level, &names).to_string())?;
        let requests = rule.requests;
        requests
            .check()
            .map_err(|problem| format!("{path}: {problem}"))?;
        Ok(Rule {
            level,
            omit_stages: stages(&rule.omit_stages, &format!("{path}.omitStages"))?,
            omit_managed_fields: rule.omit_managed_fields,
            requests,
        })
    }
}

/// Returns the stages with these names, which are at this path.
fn stages(names: &[String], path: &str) -> Result<Vec<Stage>, String> {
    let stages = names.iter().enumerate().map(|(number, name)| {
        let mut all = Stage::ALL.into_iter();
        // linear: there are four stages.
        all.find(|stage| stage.name() == name).ok_or_else(|| {
            let at = format!("{path}[{number}]");
            FieldError::not_supported(at, &**name, &Stage::ALL.map(Stage::name)).to_string()
        })
    });
    stages.collect()
}

impl Requests {
    fn check(&self) -> Result<(), String> {
        let (urls, resources) = (&self.non_resource_urls, &self.resources);
        let is_of_resources = !resources.is_empty() || !self.namespaces.is_empty();
        if is_of_resources && !urls.is_empty() {
            return Err(
                "it has both resources and nonResourceURLs; split it into two rules".to_owned(),
            );
        }
        for url in urls {
            let stars = url.matches('*').count();
            let is_valid = url == "*"
                || url.starts_with('/') && (stars == 0 || stars == 1 && url.ends_with('*'));
            if !is_valid {
                return Err(format!(
                    "nonResourceURLs: {url:?} must begin with \"/\", with \"*\" at most at its end"
                ));
            }
        }
        let groups = resources.iter().map(|one| one.group.as_str());
        if let Some(group) = groups.into_iter().find(|group| !is_group(group)) {
            return Err(format!(
                "resources: group {group:?} must be a DNS subdomain without a version, or \"*\""
            ));
        }
        let mut resources = resources.iter();
        let nameless =
            resources.any(|one| one.resources.is_empty() && !one.resource_names.is_empty());
        match nameless {
            true => Err("resourceNames need resources".to_owned()),
            false => Ok(()),
        }
    }

    fn include(&self, user: Option<&UserInfo>, info: &RequestInfo) -> bool {
        let holds = |list: &[String], is_in: &dyn Fn(&String) -> bool| {
            list.is_empty() || list.iter().any(is_in)
        };
        let of_resources = [self.resources.is_empty(), self.namespaces.is_empty()];
        holds(&self.users, &|name| {
            user.is_some_and(|user| user.name == *name)
        }) && holds(&self.user_groups, &|group| {
            user.is_some_and(|user| user.is_in(group))
        }) && holds(&self.verbs, &|verb| *verb == info.verb)
            && match of_resources {
                [true, true] => {
                    let urls = &self.non_resource_urls;
                    urls.is_empty()
                        || !info.is_resource && urls.iter().any(|url| covers(url, &info.path))
                }
                _ => {
                    info.is_resource
                        && holds(&self.namespaces, &|namespace| *namespace == info.namespace)
                        && self.has_resource(info)
                }
            }
    }

    fn has_resource(&self, info: &RequestInfo) -> bool {
        let groups = &self.resources;
        groups.is_empty() || groups.iter().any(|group| group.has(info))
    }
}

impl GroupResources {
    fn has(&self, info: &RequestInfo) -> bool {
        let (resources, names) = (&self.resources, &self.resource_names);
        (self.group == "*" || self.group == info.group)
            && (resources.is_empty()
                || (names.is_empty() || names.contains(&info.name))
                    && resources.iter().any(|pattern| is_named(pattern, info)))
    }
}

/// Whether a text is a group name. The empty one is the core group, and `*` matches all groups.
fn is_group(text: &str) -> bool {
    matches!(text, "" | "*") || dns_subdomain(text).is_empty()
}

/// Whether a pattern matches the resource: `pods`, `pods/log`, `pods/*`, `*/scale`, `*`.
fn is_named(pattern: &str, info: &RequestInfo) -> bool {
    let (resource, subresource) = (info.resource.as_str(), info.subresource.as_str());
    match pattern.split_once('/') {
        _ if pattern == "*" => true,
        None => subresource.is_empty() && pattern == resource,
        Some(("*", wanted)) => wanted == subresource,
        Some((wanted, "*")) => wanted == resource,
        Some(wanted) => wanted == (resource, subresource),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: ours}
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, users: ["system:kube-proxy"], verbs: [watch]}
- {level: None, nonResourceURLs: ["/healthz*", /version]}
- {level: Request, userGroups: [auditors], omitStages: [ResponseStarted]}
- level: Metadata
  resources:
  - {group: "", resources: [secrets, "*/token", "services/*"]}
  - {group: apps}
- level: RequestResponse
  omitManagedFields: false
  namespaces: [default]
  resources:
  - {group: "", resources: [configmaps], resourceNames: [one]}
- {level: Request, resources: [{group: "", resources: ["*"]}], namespaces: [kube-system]}
- {level: Request, resources: [{group: "*", resources: [jobs, pods]}], namespaces: [jobs]}
"#;

    fn decided(user: &str, groups: &[&str], method: Method, path: &str) -> Decided {
        let policy = Policy::parse(POLICY).unwrap();
        let groups = groups.iter().map(ToString::to_string).collect();
        let user = UserInfo::authenticated(user, groups);
        let info = RequestInfo::parse(&method, path, path.contains("watch"), "").unwrap();
        policy.decide(Some(&user), &info)
    }

    fn level(path: &str) -> Level {
        decided("ada", &[], Method::GET, path).level
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use Level::*;
        for (path, wanted) in [
            ("/apis/batch/v1/namespaces/jobs/jobs", Request),
            ("/api/v1/namespaces/jobs/pods", Request),
            ("/healthz/ping", None),
            ("/version", None),
            ("/version/x", None),
            ("/api/v1/secrets", Metadata),
            ("/api/v1/namespaces/a/secrets/b", Metadata),
            ("/api/v1/namespaces/a/secrets/b/status", None),
            ("/api/v1/namespaces/a/serviceaccounts/b/token", Metadata),
            ("/api/v1/namespaces/a/services/b", Metadata),
            ("/api/v1/namespaces/a/services/b/status", Metadata),
            ("/apis/apps/v1/deployments", Metadata),
            ("/api/v1/namespaces/default/configmaps/one", RequestResponse),
            ("/api/v1/namespaces/default/configmaps/two", None),
            ("/api/v1/namespaces/other/configmaps/one", None),
            ("/api/v1/namespaces/kube-system/pods/x/log", Request),
            ("/apis/batch/v1/namespaces/kube-system/jobs", None),
        ] {
            assert_eq!(level(path), wanted, "{path}");
        }
        let proxy = |path| decided("system:kube-proxy", &[], Method::GET, path).level;
        assert_eq!(proxy("/api/v1/watch/secrets"), None);
        assert_eq!(proxy("/api/v1/secrets"), Metadata);
        assert_eq!(
            decided("a", &["auditors"], Method::GET, "/x").level,
            Request
        );
    }

    #[test]
    fn stages_add_up_and_the_rule_has_the_last_word_on_managed_fields() {
        let of_rule = decided("a", &["auditors"], Method::GET, "/x");
        let stages = [Stage::RequestReceived, Stage::ResponseStarted];
        assert_eq!(of_rule.omitted, stages);
        assert!(of_rule.omits_managed_fields);
        let one = "/api/v1/namespaces/default/configmaps/one";
        assert!(!decided("a", &[], Method::GET, one).omits_managed_fields);
    }

    #[test]
    fn who_is_not_known_is_in_no_rule_about_users() {
        let policy = Policy::parse(POLICY).unwrap();
        let info = RequestInfo::parse(&Method::GET, "/api/v1/secrets", false, "").unwrap();
        assert_eq!(policy.decide(Option::None, &info).level, Level::Metadata);
    }

    #[test]
    fn a_policy_is_yaml_of_any_style_or_json() {
        for text in [
            "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Request}]}",
            r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Request"}]}"#,
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Request\n  users: null\n",
        ] {
            assert_eq!(Policy::parse(text).unwrap().rules.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_policy_that_can_not_be_meant_is_refused_in_one_line() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, part) in [
            ("kind: Policy", "it has apiVersion \"\" and kind \"Policy\""),
            (&format!("{head}rules: []"), "it has no rules"),
            (
                &format!("{head}rules: [{{level: Loud}}]"),
                "rules[0].level: Unsupported value: \"Loud\": supported values: \"None\", ",
            ),
            (
                &format!("{head}rules: [{{level: None, omitStages: [Panic, Foo]}}]"),
                "rules[0].omitStages[1]: Unsupported value: \"Foo\": supported values: \"Req",
            ),
            (
                &format!("{head}omitStages: [Foo]\nrules: [{{level: None}}]"),
                "omitStages[0]: Unsupported value: \"Foo\"",
            ),
            (
                &format!("{head}rules: [{{level: None, nonResourceURLs: [a]}}]"),
                "rules[0]: nonResourceURLs: \"a\" must begin",
            ),
            (
                &format!("{head}rules: [{{level: None, nonResourceURLs: [/], namespaces: [a]}}]"),
                "rules[0]: it has both resources and nonResourceURLs",
            ),
            (
                &format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]"),
                "rules[0]: resourceNames need resources",
            ),
            (
                &format!("{head}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]"),
                "rules[0]: resources: group \"apps/v1\" must be",
            ),
            (
                &format!("{head}rules: [{{level: None, resources: [{{group: Apps}}]}}]"),
                "group \"Apps\"",
            ),
            (
                &format!("{head}rules: [{{level: None, resources: [{{group: \"*.io\"}}]}}]"),
                "group \"*.io\"",
            ),
            ("- a", "it is not an object"),
            ("", "must have audit.k8s.io/v1 and Policy"),
            ("rules: [", "it is not a valid audit policy"),
            (
                &format!("{head}rules: [{{levle: None}}]"),
                "unknown field \"rules[0].levle\"",
            ),
            (
                &format!("{head}rules: [{{users: [a]}}]"),
                "rules[0].level: Required value: one of None, Metadata",
            ),
            (
                &format!("{head}rules: {{}}"),
                "Policy.rules of type []v1.PolicyRule",
            ),
            (
                &format!("{head}rules: []\nrules: []"),
                "key \"rules\" already set",
            ),
        ] {
            let refusal = Policy::parse(text).unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
            assert!(!refusal.contains('\n'), "{refusal}");
        }
    }
}
