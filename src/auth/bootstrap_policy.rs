//! The default permissions of Kubernetes without any RBAC objects (http.md 9.5): members of
//! `system:masters` may do everything; others may read discovery, version and health, and create
//! reviews of themselves.

use std::future::ready;

use futures_util::future::{BoxFuture, FutureExt};

use std::sync::Arc;

use super::authorizer::{
    Attributes, Authorization, Authorizer, Authorizers, Member, NonResourceRule, ResourceRule,
    Rules,
};
use crate::api::request_info::covers;
use crate::api::user_info::{
    AUTHENTICATED, MASTERS, MONITORING as MONITORING_GROUP, SERVICE_ACCOUNTS, UNAUTHENTICATED,
    UserInfo,
};

/// Permissions that need no objects, so that they are decided at once.
trait Policy: Send + Sync + 'static {
    /// Whether the policy allows a request.
    fn allows(&self, attributes: &Attributes<'_>) -> bool;

    /// Returns the rules of the policy for a user.
    fn rules(&self, user: &UserInfo) -> Rules;
}

impl<P: Policy> Authorizer for P {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        ready(Authorization::allow_if(self.allows(attributes))).boxed()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, _namespace: &'a str) -> BoxFuture<'a, Rules> {
        ready(self.rules(user)).boxed()
    }
}

/// Returns a rule that lets a user read paths, if it applies to the user.
fn reads(paths: &[&str], applies: bool) -> Rules {
    let rule = applies.then(|| NonResourceRule::new(&["get"], paths));
    Rules {
        of_paths: rule.into_iter().collect(),
        ..Rules::default()
    }
}

/// Lets members of `system:masters` do everything (API-286).
struct PrivilegedGroup;

impl Policy for PrivilegedGroup {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        attributes.user.is_in(MASTERS)
    }

    fn rules(&self, user: &UserInfo) -> Rules {
        if !user.is_in(MASTERS) {
            return Rules::default();
        }
        Rules {
            of_resources: vec![ResourceRule::new(&["*"], "*", &["*"])],
            of_paths: vec![NonResourceRule::new(&["*"], &["*"])],
            ..Rules::default()
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

/// Lets users read the paths of the bootstrap roles `system:discovery` and
/// `system:public-info-viewer`.
struct DiscoveryPolicy;

impl Policy for DiscoveryPolicy {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let Attributes { user, path, .. } = attributes;
        if !attributes.reads_a_path() {
            return false;
        }
        let is_known = user.is_in(AUTHENTICATED);
        if is_public(path) {
            is_known || user.is_in(UNAUTHENTICATED)
        } else {
            is_known && DISCOVERY.iter().any(|pattern| covers(pattern, path))
        }
    }

    fn rules(&self, user: &UserInfo) -> Rules {
        let mut paths = Vec::new();
        if user.is_in(AUTHENTICATED) {
            paths.extend(DISCOVERY);
        }
        if user.is_in(AUTHENTICATED) || user.is_in(UNAUTHENTICATED) {
            paths.extend(PUBLIC_INFO);
        }
        paths.sort_unstable();
        reads(&paths, !paths.is_empty())
    }
}

/// The paths of `system:service-account-issuer-discovery`, which is bound to all service accounts.
const ISSUER: &[&str] = &[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
];

/// Lets service accounts read the paths of the bootstrap role
/// `system:service-account-issuer-discovery`.
struct IssuerDiscoveryPolicy;

impl Policy for IssuerDiscoveryPolicy {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let Attributes { user, path, .. } = attributes;
        attributes.reads_a_path() && user.is_in(SERVICE_ACCOUNTS) && ISSUER.contains(path)
    }

    fn rules(&self, user: &UserInfo) -> Rules {
        reads(ISSUER, user.is_in(SERVICE_ACCOUNTS))
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

/// Lets a group read the paths of the bootstrap role `system:monitoring`.
struct MonitoringPolicy;

impl Policy for MonitoringPolicy {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let Attributes { user, path, .. } = attributes;
        let is_named = || MONITORING.iter().any(|pattern| covers(pattern, path));
        attributes.reads_a_path() && user.is_in(MONITORING_GROUP) && is_named()
    }

    fn rules(&self, user: &UserInfo) -> Rules {
        reads(MONITORING, user.is_in(MONITORING_GROUP))
    }
}

/// The reviews of themselves that `system:basic-user` lets all authenticated users create, by
/// group.
const OWN_REVIEWS: [(&str, &[&str]); 2] = [
    (
        "authorization.k8s.io",
        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    ),
    ("authentication.k8s.io", &["selfsubjectreviews"]),
];

/// Lets users ask who they are and what they may do, as the bootstrap role `system:basic-user`
/// does.
struct BasicUserPolicy;

impl Policy for BasicUserPolicy {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let is_asked = |(group, resources): &(&str, &[&str])| {
            *group == attributes.api_group && resources.contains(&attributes.resource)
        };
        attributes.is_resource_request
            && attributes.verb == "create"
            && attributes.subresource.is_empty()
            && attributes.user.is_in(AUTHENTICATED)
            && OWN_REVIEWS.iter().any(is_asked)
    }

    fn rules(&self, user: &UserInfo) -> Rules {
        let is_known = user.is_in(AUTHENTICATED);
        let rules = OWN_REVIEWS.iter().filter(|_| is_known);
        let rules =
            rules.map(|(group, resources)| ResourceRule::new(&["create"], group, resources));
        Rules {
            of_resources: rules.collect(),
            ..Rules::default()
        }
    }
}

/// Returns the default permissions in the order in which they are evaluated.
pub fn bootstrap() -> Authorizers {
    let members: [Arc<dyn Authorizer>; 5] = [
        Arc::new(PrivilegedGroup),
        Arc::new(BasicUserPolicy),
        Arc::new(DiscoveryPolicy),
        Arc::new(IssuerDiscoveryPolicy),
        Arc::new(MonitoringPolicy),
    ];
    let members = members.into_iter().map(|authorizer| Member {
        kind: "RBAC",
        name: "rbac".to_owned(),
        authorizer,
    });
    Authorizers::new(members.collect())
}

/// Whether everybody may read the path.
pub fn is_public(path: &str) -> bool {
    PUBLIC_INFO.contains(&path)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::authorizer::Decision;
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
        let attributes = Attributes::of(user, &info, &query);
        let answer = authorizer.authorize(&attributes).now_or_never();
        answer.unwrap().decision
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
        assert_eq!(IssuerDiscoveryPolicy.rules(&account).of_paths.len(), 1);
        assert_eq!(
            IssuerDiscoveryPolicy.rules(&member("crew")),
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
