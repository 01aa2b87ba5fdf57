//! Turns the decision of the Authorizers into a refusal. No other place does this.

use crate::api::status::{Denied, Status};
use crate::auth::{Attributes, Authorizer};

/// Checks that the request is allowed.
///
/// # Errors
/// 403 in the words of API-290, if no Authorizer allows the request, and 500 if one of them failed.
pub async fn authorize(
    authorizer: &dyn Authorizer,
    attributes: &Attributes<'_>,
) -> Result<(), Box<Status>> {
    let answer = authorizer.authorize(attributes).await;
    match (answer.is_allowed(), &answer.error) {
        (true, _) => Ok(()),
        (false, Some(error)) => Err(Box::new(Status::internal(error))),
        (false, None) => Err(forbidden(attributes, &answer.reason)),
    }
}

/// Returns the refusal of a request. `reason` may be empty.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Box<Status> {
    Box::new(Status::forbidden_request(&Denied {
        user: &attributes.user.name,
        verb: attributes.verb,
        path: Some(attributes.path).filter(|_| !attributes.is_resource_request),
        group: attributes.api_group,
        resource: attributes.resource,
        subresource: attributes.subresource,
        namespace: attributes.namespace,
        name: attributes.name,
        reason,
    }))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_util::future::{BoxFuture, FutureExt};
    use http::Method;

    use super::*;
    use crate::api::options::Query;
    use crate::api::request_info::RequestInfo;
    use crate::api::user_info::UserInfo;
    use crate::auth::{Authorization, Decision};

    struct Fixed(Decision, &'static str);

    impl Authorizer for Fixed {
        fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
            let (decision, answer) = (self.0, Authorization::no_opinion(self.1));
            ready(Authorization { decision, ..answer }).boxed()
        }
    }

    fn decided(authorizer: &Fixed, method: Method, path: &str) -> Result<(), String> {
        let info = RequestInfo::parse(&method, path, false, "").unwrap();
        let (user, query) = (UserInfo::anonymous(), Query::default());
        let attributes = Attributes::of(&user, &info, &query);
        let decided = authorize(authorizer, &attributes).now_or_never();
        decided.unwrap().map_err(|status| status.message)
    }

    #[test]
    fn what_nobody_allows_is_refused_with_the_reason_api_286_api_290() {
        let pods = "/api/v1/pods";
        let text = "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in \
                    API group \"\" at the cluster scope";
        for decision in [Decision::Deny, Decision::NoOpinion] {
            let said = decided(&Fixed(decision, ""), Method::GET, pods);
            assert_eq!(said, Err(text.to_owned()));
            let said = decided(&Fixed(decision, "because"), Method::GET, pods);
            assert_eq!(said, Err(format!("{text}: because")));
            let said = decided(&Fixed(decision, "because"), Method::GET, "/metrics");
            let text = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\": because";
            assert_eq!(said, Err(text.to_owned()));
        }
        let allow = Fixed(Decision::Allow, "because");
        assert_eq!(decided(&allow, Method::GET, pods), Ok(()));
    }

    #[test]
    fn refusals_say_who_may_not_do_what_to_what_api_290() {
        for (method, path, message) in [
            (
                Method::GET,
                "/api/v1/namespaces/d/configmaps",
                r#"configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "d""#,
            ),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/d/deployments/w/status",
                r#"deployments.apps "w" is forbidden: User "system:anonymous" cannot update resource "deployments/status" in API group "apps" in the namespace "d""#,
            ),
            (
                Method::GET,
                "/api/v1/nodes/n",
                r#"nodes "n" is forbidden: User "system:anonymous" cannot get resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                Method::POST,
                "/healthz",
                r#"forbidden: User "system:anonymous" cannot post path "/healthz""#,
            ),
        ] {
            let refused = decided(&Fixed(Decision::NoOpinion, ""), method, path);
            assert_eq!(refused, Err(message.to_owned()), "{path}");
        }
    }
}
