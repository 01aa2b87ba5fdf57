//! The default permissions of Kubernetes, before anything is granted (http.md 9.5):
//! `system:masters` may do everything, others may read discovery, version and health, and ask what
//! they may do.

use std::borrow::Cow;

use super::authorizer::{
    Attributes, Authorizer, Authorizers, Decision, NonResourceRule, ResourceRule, Rules,
};
use crate::api::request_info::covers;
use crate::api::user_info::{
    AUTHENTICATED, MASTERS, MONITORING as MONITORING_GROUP, SERVICE_ACCOUNTS, UNAUTHENTICATED,
    UserInfo,
};

/// Lets members of `system:masters` do everything (API-286).
pub struct PrivilegedGroup;

impl Authorizer for PrivilegedGroup {
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
        decide(attributes.user.is_in(MASTERS))
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> Rules {
        if !user.is_in(MASTERS) {
            return Rules::default();
        }
        Rules {
            of_resources: vec![ResourceRule {
                verbs: &["*"],
                api_groups: &["*"],
                resources: &["*"],
            }],
            of_paths: vec![NonResourceRule {
                verbs: &["*"],
                paths: vec!["*"],
            }],
        }
    }
}

/// The paths of `system:public-info-viewer`, which is bound to all users (API-38, API-47).
const PUBLIC_INFO: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The additional paths of `system:discovery`, which is bound to `system:authenticated` (API-27). A
/// star at the end matches any suffix.
const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
];

/// Lets users read what the bootstrap roles `system:discovery` and `system:public-info-viewer`
/// name.
pub struct DiscoveryPolicy;

impl Authorizer for DiscoveryPolicy {
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
        let Attributes { user, path, .. } = attributes;
        let is_known = || user.is_in(AUTHENTICATED);
        let reads = !attributes.is_resource_request && attributes.verb == "get";
        let is_allowed = reads
            && match is_public(path) {
                true => is_known() || user.is_in(UNAUTHENTICATED),
                false => is_known() && DISCOVERY.iter().any(|pattern| covers(pattern, path)),
            };
        decide(is_allowed)
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> Rules {
        let mut paths = Vec::new();
        if user.is_in(AUTHENTICATED) {
            paths.extend(DISCOVERY);
        }
        if user.is_in(AUTHENTICATED) || user.is_in(UNAUTHENTICATED) {
            paths.extend(PUBLIC_INFO);
        }
        paths.sort_unstable();
        let rule = NonResourceRule {
            verbs: &["get"],
            paths,
        };
        Rules {
            of_resources: Vec::new(),
            of_paths: Some(rule)
                .filter(|rule| !rule.paths.is_empty())
                .into_iter()
                .collect(),
        }
    }
}

/// The paths of `system:service-account-issuer-discovery`, which is bound to all service accounts.
const ISSUER: &[&str] = &[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
];

/// Lets service accounts read of their issuer what the bootstrap role
/// `system:service-account-issuer-discovery` names.
pub struct IssuerDiscoveryPolicy;

impl Authorizer for IssuerDiscoveryPolicy {
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
        let Attributes { user, path, .. } = attributes;
        let reads = !attributes.is_resource_request && attributes.verb == "get";
        decide(reads && user.is_in(SERVICE_ACCOUNTS) && ISSUER.contains(path))
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> Rules {
        let rule = NonResourceRule {
            verbs: &["get"],
            paths: ISSUER.to_vec(),
        };
        let rule = Some(rule).filter(|_| user.is_in(SERVICE_ACCOUNTS));
        Rules {
            of_resources: Vec::new(),
            of_paths: rule.into_iter().collect(),
        }
    }
}

/// The paths of `system:monitoring`, which is bound to the group of that name.
const MONITORING: &[&str] = &[
    "/flagz",
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/readyz/*",
    "/statusz",
];

/// Lets a group read what the bootstrap role `system:monitoring` names.
pub struct MonitoringPolicy;

impl Authorizer for MonitoringPolicy {
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
        let Attributes { user, path, .. } = attributes;
        let reads = !attributes.is_resource_request && attributes.verb == "get";
        let is_named = || MONITORING.iter().any(|pattern| covers(pattern, path));
        decide(reads && user.is_in(MONITORING_GROUP) && is_named())
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> Rules {
        let rule = NonResourceRule {
            verbs: &["get"],
            paths: MONITORING.to_vec(),
        };
        let rule = Some(rule).filter(|_| user.is_in(MONITORING_GROUP));
        Rules {
            of_resources: Vec::new(),
            of_paths: rule.into_iter().collect(),
        }
    }
}

/// What `system:basic-user` lets all known users create: reviews about themselves.
const OWN_REVIEWS: [ResourceRule; 2] = [
    ResourceRule {
        verbs: &["create"],
        api_groups: &["authorization.k8s.io"],
        resources: &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    ResourceRule {
        verbs: &["create"],
        api_groups: &["authentication.k8s.io"],
        resources: &["selfsubjectreviews"],
    },
];

/// Lets users ask who they are and what they may do, as the bootstrap role `system:basic-user`.
pub struct BasicUserPolicy;

impl Authorizer for BasicUserPolicy {
    fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
        let Attributes {
            verb,
            api_group,
            resource,
            ..
        } = attributes;
        let covers = |rule: &ResourceRule| {
            rule.verbs.contains(verb)
                && rule.api_groups.contains(api_group)
                && rule.resources.contains(resource)
        };
        decide(
            attributes.is_resource_request
                && attributes.subresource.is_empty()
                && attributes.user.is_in(AUTHENTICATED)
                && OWN_REVIEWS.iter().any(covers),
        )
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> Rules {
        let is_known = user.is_in(AUTHENTICATED);
        let rules = OWN_REVIEWS.into_iter().filter(|_| is_known);
        Rules {
            of_resources: rules.collect(),
            of_paths: Vec::new(),
        }
    }
}

/// The default permissions, in the order in which they are asked.
pub fn bootstrap() -> Authorizers {
    Authorizers::new(vec![
        Box::new(PrivilegedGroup),
        Box::new(BasicUserPolicy),
        Box::new(DiscoveryPolicy),
        Box::new(IssuerDiscoveryPolicy),
        Box::new(MonitoringPolicy),
    ])
}

fn decide(is_allowed: bool) -> (Decision, Cow<'static, str>) {
    match is_allowed {
        true => (Decision::Allow, Cow::default()),
        false => (Decision::NoOpinion, Cow::default()),
    }
}

/// Whether everybody may read the path.
pub fn is_public(path: &str) -> bool {
    PUBLIC_INFO.contains(&path)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::api::options::Query;
    use crate::api::request_info::RequestInfo;

    fn decided(
        authorizer: &dyn Authorizer,
        user: &UserInfo,
        method: Method,
        path: &str,
    ) -> Decision {
        let info = RequestInfo::parse(&method, path, false, "").unwrap();
        let query = Query::default();
        authorizer.authorize(&Attributes::of(user, &info, &query)).0
    }

    fn member(group: &str) -> UserInfo {
        UserInfo::authenticated("u", vec![group.to_owned()])
    }

    #[test]
    fn masters_may_do_everything_by_their_group_alone_api_286() {
        for path in ["/", "/api/v1/secrets", "/metrics", "/nonsense"] {
            let decided = |user| decided(&PrivilegedGroup, &user, Method::DELETE, path);
            assert_eq!(decided(member(MASTERS)), Decision::Allow, "{path}");
            for group in ["system:master", "crew"] {
                assert_eq!(decided(member(group)), Decision::NoOpinion, "{path}");
            }
        }
    }

    #[test]
    fn service_accounts_read_of_their_issuer_what_others_need_to_know_api_227() {
        let account = UserInfo::authenticated("a", vec![SERVICE_ACCOUNTS.to_owned()]);
        for path in ISSUER {
            let decided = |user, method| decided(&IssuerDiscoveryPolicy, user, method, path);
            assert_eq!(decided(&account, Method::GET), Decision::Allow, "{path}");
            assert_eq!(decided(&account, Method::POST), Decision::NoOpinion);
            assert_eq!(decided(&member("crew"), Method::GET), Decision::NoOpinion);
        }
        let other = decided(&IssuerDiscoveryPolicy, &account, Method::GET, "/openid");
        assert_eq!(other, Decision::NoOpinion);
        assert_eq!(
            IssuerDiscoveryPolicy
                .rules_for(&account, "d")
                .of_paths
                .len(),
            1
        );
        assert_eq!(
            IssuerDiscoveryPolicy.rules_for(&member("crew"), "d"),
            Rules::default()
        );
    }

    #[test]
    fn everybody_reads_health_and_version_and_users_discovery_api_27_38_47() {
        let nobody = UserInfo::anonymous();
        let somebody = member("crew");
        let without_groups = UserInfo::default();
        let decided = |user: &UserInfo, method, path: &str| {
            decided(&DiscoveryPolicy, user, method, path) == Decision::Allow
        };
        for path in PUBLIC_INFO {
            assert!(decided(&nobody, Method::GET, path), "{path}");
            assert!(decided(&somebody, Method::GET, path), "{path}");
            assert!(!decided(&without_groups, Method::GET, path), "{path}");
            assert!(!decided(&somebody, Method::HEAD, path), "{path}");
            assert!(!decided(&somebody, Method::POST, path), "{path}");
        }
        for path in [
            "/api",
            "/api/",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/apis/nonsense",
            "/openapi",
            "/openapi/v2",
            "/openapi/v3/apis/apps/v1",
        ] {
            assert!(decided(&somebody, Method::GET, path), "{path}");
            assert!(!decided(&nobody, Method::GET, path), "{path}");
            assert!(!decided(&without_groups, Method::GET, path), "{path}");
            assert!(!decided(&somebody, Method::POST, path), "{path}");
        }
        for path in [
            "/",
            "/apiserver",
            "/metrics",
            "/readyz/ping",
            "/taffrail/v1/compact",
            "/api/v1/namespaces",
            "/apis/apps/v1/deployments",
        ] {
            assert!(!decided(&somebody, Method::GET, path), "{path}");
        }
    }
}
